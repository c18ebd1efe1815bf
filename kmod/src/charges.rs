// SPDX-License-Identifier: GPL-2.0
//! What each sender has of a socket's receive buffer, so that none takes what is for others.

use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{Has, Place};
use turnstile_core::transport::net::Net;

/// An address, or that of a network, and its scope.
type Key = (u128, u32);

#[derive(Default)]
struct Sum {
    messages: u32,
    bytes: u32,
    /// So many of the messages wait to be reserved.
    waiting: u32,
    /// So many stream: they share or are exclusive.
    streaming: u32,
    /// One of the messages was given up because it did not go on.
    stalled: bool,
}

/// The senders of messages whose addresses are proved.
pub(crate) struct Charges {
    /// What their messages are charged.
    peers: RBTree<Key, Sum>,
    /// What those of each network are charged that have a part of what is spare.
    nets: RBTree<Key, u32>,
    /// The latest peer without messages: it may soon have some again.
    empty: Option<Key>,
}

fn peer(from: &SockAddress) -> Key {
    (u128::from_be_bytes(from.ip), from.scope)
}

fn net(from: &SockAddress) -> Key {
    (Net::of_ip(from.ip, 24, 48).number(), from.scope)
}

impl Charges {
    pub(crate) fn new() -> Self {
        Self {
            peers: RBTree::new(),
            nets: RBTree::new(),
            empty: None,
        }
    }

    /// There is a message of a sender. `stalled`: that has stalled before. Returns what he has, or
    /// an error: no memory.
    pub(crate) fn join(&mut self, from: &SockAddress, stalled: bool) -> Result<Has> {
        let key = peer(from);
        let Some(sum) = self.peers.get_mut(&key) else {
            let sum = Sum {
                messages: 1,
                stalled,
                ..Sum::default()
            };
            self.peers.try_create_and_insert(key, sum, atomic())?;
            return Ok(self.has(from));
        };
        sum.messages = sum.messages.saturating_add(1);
        sum.stalled = stalled;
        let (bytes, stalled) = (sum.bytes, sum.stalled);
        Ok(Has {
            peer: bytes,
            net: self.of_net(from),
            stalled,
        })
    }

    /// There is one less, which was charged so much in this place.
    pub(crate) fn leave(&mut self, from: &SockAddress, place: Place, bytes: u32) {
        if place == Place::Spare {
            self.change_net(from, |has| has.saturating_sub(bytes));
        }
        let key = peer(from);
        let Some(sum) = self.peers.get_mut(&key) else {
            return;
        };
        sum.bytes = sum.bytes.saturating_sub(bytes);
        sum.messages = sum.messages.saturating_sub(1);
        if sum.messages != 0 {
            return;
        }
        // The endpoint remembers it for those to come.
        sum.stalled = false;
        let before = self.empty.replace(key).filter(|before| *before != key);
        if let Some(before) = before {
            if self.peers.get(&before).is_some_and(|sum| sum.messages == 0) {
                self.peers.remove(&before);
            }
        }
    }

    /// A message of a sender begins to wait for a reservation, or to stream. Returns how many
    /// others of his do so.
    pub(crate) fn joins_queue(&mut self, from: &SockAddress, place: Place) -> u32 {
        let Some(queued) = self.queued(from, place) else {
            return 0;
        };
        let before = *queued;
        *queued = before.saturating_add(1);
        before
    }

    /// It does so no more.
    pub(crate) fn leaves_queue(&mut self, from: &SockAddress, place: Place) {
        if let Some(queued) = self.queued(from, place) {
            *queued = queued.saturating_sub(1);
        }
    }

    fn queued(&mut self, from: &SockAddress, place: Place) -> Option<&mut u32> {
        let sum = self.peers.get_mut(&peer(from))?;
        match place {
            Place::Waiting => Some(&mut sum.waiting),
            Place::Shared | Place::Exclusive => Some(&mut sum.streaming),
            Place::Reserved | Place::Spare => None,
        }
    }

    /// What a sender has.
    pub(crate) fn has(&self, from: &SockAddress) -> Has {
        let sum = self.peers.get(&peer(from));
        Has {
            peer: sum.map_or(0, |sum| sum.bytes),
            net: self.of_net(from),
            stalled: sum.is_some_and(|sum| sum.stalled),
        }
    }

    fn of_net(&self, from: &SockAddress) -> u32 {
        if self.nets.is_empty() {
            return 0;
        }
        self.nets.get(&net(from)).copied().unwrap_or(0)
    }

    /// A message of a sender was given up because it did not go on.
    pub(crate) fn stalled(&mut self, from: &SockAddress) {
        let sum = self.peers.get_mut(&peer(from));
        if let Some(sum) = sum.filter(|sum| sum.messages != 0) {
            sum.stalled = true;
        }
    }

    /// A message of a sender is charged so much, in this place.
    pub(crate) fn more(&mut self, from: &SockAddress, place: Place, bytes: u32) {
        if bytes == 0 {
            return;
        }
        if place == Place::Spare {
            self.change_net(from, |has| has.saturating_add(bytes));
        }
        if let Some(sum) = self.peers.get_mut(&peer(from)) {
            sum.bytes = sum.bytes.saturating_add(bytes);
        }
    }

    /// And no more; it is there in another place.
    pub(crate) fn less(&mut self, from: &SockAddress, bytes: u32) {
        if let Some(sum) = self.peers.get_mut(&peer(from)) {
            sum.bytes = sum.bytes.saturating_sub(bytes);
        }
    }

    fn change_net(&mut self, from: &SockAddress, change: impl Fn(u32) -> u32) {
        let key = net(from);
        match self.nets.get_mut(&key) {
            Some(has) => {
                *has = change(*has);
                if *has == 0 {
                    self.nets.remove(&key);
                }
            }
            None => {
                let has = change(0);
                if has != 0 {
                    // Without memory it counts to nobody.
                    let noted = self.nets.try_create_and_insert(key, has, atomic());
                    drop(noted);
                }
            }
        }
    }
}
