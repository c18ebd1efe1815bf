// SPDX-License-Identifier: GPL-2.0
//! Which sockets have which ports. The transport's ports are its own, for each network namespace.
//! How they are found is in `turnstile_core::transport::ports`; here are the kernel's trees for it.

use core::ops::RangeInclusive;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use knet_transport::{SockAddress, View};
use turnstile_core::transport::ports::{self as index, Maps, Name, Owner, Peer, Sorted};

/// The sockets that have ports.
pub(crate) type Ports = index::Ports<Trees>;
/// The memory that one of them takes.
pub(crate) type Rooms = index::Rooms<Trees>;

/// The kernel's trees.
pub(crate) struct Trees;

impl Maps for Trees {
    type Of<K: Ord + Copy, V: Copy> = Tree<K, V>;

    fn map<K: Ord + Copy, V: Copy>() -> Tree<K, V> {
        Tree(RBTree::new())
    }

    /// Sleeps. Counts to the memory cgroup of who calls.
    fn room<K: Ord + Copy, V: Copy>() -> Option<RBTreeNodeReservation<K, V>> {
        RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT).ok()
    }
}

/// One of them.
pub(crate) struct Tree<K, V>(RBTree<K, V>);

impl<K: Ord + Copy, V: Copy> Sorted<K, V> for Tree<K, V> {
    type Room = RBTreeNodeReservation<K, V>;

    fn at_least(&self, key: &K) -> Option<(K, V)> {
        let cursor = self.0.cursor_lower_bound(key)?;
        let (key, value) = cursor.current();
        Some((*key, *value))
    }

    fn at_most(&self, key: &K) -> Option<(K, V)> {
        let Some(cursor) = self.0.cursor_lower_bound(key) else {
            let cursor = self.0.cursor_back()?;
            let (key, value) = cursor.current();
            return Some((*key, *value));
        };
        let (at, value) = match cursor.current() {
            (at, value) if at == key => (at, value),
            _ => cursor.peek_prev()?,
        };
        Some((*at, *value))
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    fn put(&mut self, room: Self::Room, key: K, value: V) -> Option<Self::Room> {
        let before = self.0.insert(room.into_node(key, value))?;
        Some(before.into_reservation())
    }

    fn take(&mut self, key: &K) -> Option<(Self::Room, V)> {
        let value = *self.0.get(key)?;
        let room = self.0.remove_node(key)?.into_reservation();
        Some((room, value))
    }
}

/// What a socket is found by once it has this port, and with whom it shares it.
pub(crate) fn name(port: u16, view: &View) -> (Name, Owner) {
    let peer = view.peer.as_ref().map(peer);
    let name = Name::new(port, view.local.ip, view.v6only, view.device, peer);
    let owner = match view.shares {
        Some(user) => Owner::Shares(user),
        None => Owner::Alone,
    };
    (name, owner)
}

/// A sender, as sockets are connected to it.
pub(crate) fn peer(address: &SockAddress) -> Peer {
    Peer {
        ip: address.ip,
        port: address.port,
        scope: address.scope,
    }
}

/// The ports that a socket without one may have, of these, in the order in which to try them: from
/// one that is drawn to the last, and then from the first.
pub(crate) fn chosen(of: RangeInclusive<u16>, random: u64) -> impl Iterator<Item = u16> {
    let (first, last) = (u32::from((*of.start()).max(1)), u32::from(*of.end()));
    let count = last.saturating_add(1).saturating_sub(first);
    let drawn = random.checked_rem(count.into()).unwrap_or(0) as u32;
    // The kernel's prelude has a `chain` of its own.
    let again = move |at: u32| at.checked_rem(count).unwrap_or(0);
    (0..count).map(move |n| first.saturating_add(again(drawn.saturating_add(n))) as u16)
}
