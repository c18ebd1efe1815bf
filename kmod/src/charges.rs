// SPDX-License-Identifier: GPL-2.0
//! What each sender has of a socket's receive buffer, so that none takes what is for others.

use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{Has, Place, Turns};
use turnstile_core::transport::net::Net;

/// An address, or that of a network, and its scope.
pub(crate) type Key = (u128, u32);

#[derive(Default)]
struct Sum {
    messages: u32,
    bytes: u32,
    /// The turns of those that wait to be reserved, and of those that stream.
    waiting: Turns,
    streaming: Turns,
    /// One of the messages was given up because it did not go on.
    stalled: bool,
}

/// A network.
struct OfNet {
    peers: u32,
    /// What its messages are charged that have a part of what is spare.
    spare: u32,
}

/// The senders of messages whose addresses are proved.
pub(crate) struct Charges {
    /// What their messages are charged.
    peers: RBTree<Key, Sum>,
    /// The networks of these.
    nets: RBTree<Key, OfNet>,
    /// What all messages are charged that have a part of what is spare.
    spare: u32,
    /// The latest peer without messages: it may soon have some again.
    empty: Option<Key>,
}

pub(crate) fn peer(from: &SockAddress) -> Key {
    (u128::from_be_bytes(from.ip), from.scope)
}

fn net(from: &SockAddress) -> Key {
    net_of(peer(from))
}

/// The network of a peer.
fn net_of((ip, scope): Key) -> Key {
    (Net::of_ip(ip.to_be_bytes(), 24, 48).number(), scope)
}

impl Charges {
    pub(crate) fn new() -> Self {
        Self {
            peers: RBTree::new(),
            nets: RBTree::new(),
            spare: 0,
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
            self.join_net(net(from))?;
            let joined = self.peers.try_create_and_insert(key, sum, atomic());
            joined.inspect_err(|_| self.leave_net(net(from)))?;
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
            self.spare = self.spare.saturating_sub(bytes);
            if let Some(of_net) = self.nets.get_mut(&net(from)) {
                of_net.spare = of_net.spare.saturating_sub(bytes);
            }
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
                self.leave_net(net_of(before));
            }
        }
    }

    /// A sender's turns among those that have this place.
    pub(crate) fn turns(&mut self, from: &SockAddress, place: Place) -> Option<&mut Turns> {
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
        if self.spare == 0 {
            return 0;
        }
        self.nets.get(&net(from)).map_or(0, |of_net| of_net.spare)
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
            self.spare = self.spare.saturating_add(bytes);
            if let Some(of_net) = self.nets.get_mut(&net(from)) {
                of_net.spare = of_net.spare.saturating_add(bytes);
            }
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

    /// A network has another peer. No memory: an error.
    fn join_net(&mut self, key: Key) -> Result {
        match self.nets.get_mut(&key) {
            Some(of_net) => of_net.peers = of_net.peers.saturating_add(1),
            None => {
                let of_net = OfNet { peers: 1, spare: 0 };
                self.nets.try_create_and_insert(key, of_net, atomic())?;
            }
        }
        Ok(())
    }

    /// It has one less.
    fn leave_net(&mut self, key: Key) {
        if let Some(of_net) = self.nets.get_mut(&key) {
            of_net.peers = of_net.peers.saturating_sub(1);
            if of_net.peers == 0 {
                self.nets.remove(&key);
            }
        }
    }
}
