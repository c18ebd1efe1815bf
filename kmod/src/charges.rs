// SPDX-License-Identifier: GPL-2.0
//! What each sender has of a socket's receive buffer, so that none takes what is for others.

use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{Has, Place};
use turnstile_core::transport::net::Net;

/// An address or a network, its scope, and which of both.
type Key = ([u8; 16], u32, bool);

#[derive(Default)]
struct Sum {
    messages: u32,
    bytes: u32,
    /// One of the messages was given up because it did not go on.
    stalled: bool,
}

/// The senders of messages whose addresses are proved, and their networks: what the messages are
/// charged, of networks those that have a part of what is spare.
pub(crate) struct Charges {
    all: RBTree<Key, Sum>,
    /// The latest address and network without messages: they may soon have some again.
    empty: [Option<Key>; 2],
}

fn keys(from: &SockAddress) -> [Key; 2] {
    let net = Net::of_ip(from.ip, 24, 48).ip();
    [(from.ip, from.scope, false), (net, from.scope, true)]
}

impl Charges {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            empty: [None; 2],
        }
    }

    /// There is a message of a sender. No memory: an error.
    pub(crate) fn join(&mut self, from: &SockAddress) -> Result {
        let [peer, net] = keys(from);
        self.join_one(peer)?;
        self.join_one(net).inspect_err(|_| self.leave_one(peer, 0))
    }

    fn join_one(&mut self, key: Key) -> Result {
        if let Some(sum) = self.all.get_mut(&key) {
            sum.messages = sum.messages.saturating_add(1);
            return Ok(());
        }
        let sum = Sum {
            messages: 1,
            ..Sum::default()
        };
        self.all.try_create_and_insert(key, sum, atomic()).map(drop)
    }

    /// There is one less.
    pub(crate) fn leave(&mut self, from: &SockAddress) {
        for (key, kind) in keys(from).into_iter().zip([0, 1]) {
            self.leave_one(key, kind);
        }
    }

    fn leave_one(&mut self, key: Key, kind: usize) {
        let Some(sum) = self.all.get_mut(&key) else {
            return;
        };
        sum.messages = sum.messages.saturating_sub(1);
        if sum.messages != 0 {
            return;
        }
        // The endpoint remembers it for those to come.
        sum.stalled = false;
        let before = self.empty.get_mut(kind).and_then(|it| it.replace(key));
        let Some(before) = before.filter(|before| *before != key) else {
            return;
        };
        if self.all.get(&before).is_some_and(|sum| sum.messages == 0) {
            self.all.remove(&before);
        }
    }

    /// What a sender has.
    pub(crate) fn has(&self, from: &SockAddress) -> Has {
        let [peer, net] = keys(from).map(|key| self.all.get(&key));
        Has {
            peer: peer.map_or(0, |sum| sum.bytes),
            net: net.map_or(0, |sum| sum.bytes),
            stalled: peer.is_some_and(|sum| sum.stalled),
        }
    }

    /// A message of a sender was given up because it did not go on.
    pub(crate) fn stalled(&mut self, from: &SockAddress) {
        let [peer, _] = keys(from);
        if let Some(sum) = self.all.get_mut(&peer) {
            sum.stalled = true;
        }
    }

    /// A message of a sender is charged so much, in this place.
    pub(crate) fn more(&mut self, from: &SockAddress, place: Place, bytes: u32) {
        self.change(from, place, |has| has.saturating_add(bytes));
    }

    /// And no more.
    pub(crate) fn less(&mut self, from: &SockAddress, place: Place, bytes: u32) {
        self.change(from, place, |has| has.saturating_sub(bytes));
    }

    fn change(&mut self, from: &SockAddress, place: Place, change: impl Fn(u32) -> u32) {
        let [peer, net] = keys(from);
        let net = Some(net).filter(|_| place == Place::Spare);
        for key in [Some(peer), net].into_iter().flatten() {
            if let Some(sum) = self.all.get_mut(&key) {
                sum.bytes = change(sum.bytes);
            }
        }
    }
}
