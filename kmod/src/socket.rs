// SPDX-License-Identifier: GPL-2.0
//! Sockets: what the namespace keeps for each.

use crate::budget::{Budget, Place};
use crate::incoming::{Incoming, Reading};
use crate::memory::atomic;
use crate::outgoing::Open;
use crate::ports::Ports;
use crate::waiting::{Waiter, Waiting};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use knet_transport::{random, Sock, SockAddress, SockRef};
use turnstile_core::transport::host::{Address, InId, OutId};

/// A send buffer is never taken to be smaller.
const LEAST_SEND: u32 = 16 << 10;

/// A socket.
pub(crate) struct Socket {
    /// The kernel's side of it.
    pub(crate) sock: SockRef,
    /// It is closed, and here only until what it has to send is delivered.
    pub(crate) closed: bool,
    /// Whether `recvmsg` tells of the message.
    pub(crate) info: bool,
    /// Whether deliveries are reported.
    pub(crate) completions: bool,
    /// The priority of its messages, unless they say one.
    pub(crate) priority: Option<u8>,

    /// Bytes of the send buffer that are taken.
    pub(crate) queued: u32,
    /// Somebody waits for room.
    pub(crate) full: bool,
    /// Somebody waits for a place for a message.
    pub(crate) waiter: Option<Waiter>,
    /// Where a message of it went last, or was to go.
    pub(crate) path: Option<(SockAddress, Address)>,
    /// The messages that go out, by number.
    pub(crate) sending: RBTree<u32, OutId>,
    /// The message that further calls append to.
    pub(crate) open: Option<Open>,
    /// The last message that failed, and its errno.
    pub(crate) failed: Option<(u32, u32)>,
    /// The next message to send has this number.
    pub(crate) next_outgoing: u32,

    /// How the receive buffer is shared.
    pub(crate) budget: Budget,
    /// The messages that come in, by number.
    pub(crate) coming: RBTree<u64, InId>,
    /// Those of them that share, in the order in which they become exclusive.
    pub(crate) waiting: RBTree<u64, InId>,
    /// Those that are complete, in the order in which they can be read.
    pub(crate) done: RBTree<u64, Incoming>,
    /// The one that is being read.
    pub(crate) reading: Option<Reading>,
    /// The next message to come has this number.
    pub(crate) next_incoming: u64,
    next_order: u64,
    /// In the list of those of which a message may become exclusive; the next one in it.
    promotable: Option<Option<u64>>,
}

impl Socket {
    fn new(sock: SockRef) -> Self {
        Self {
            sock,
            closed: false,
            info: false,
            completions: false,
            priority: None,
            queued: 0,
            full: false,
            waiter: None,
            path: None,
            sending: RBTree::new(),
            open: None,
            failed: None,
            next_outgoing: 0,
            budget: Budget::new(),
            coming: RBTree::new(),
            waiting: RBTree::new(),
            done: RBTree::new(),
            reading: None,
            next_incoming: 0,
            next_order: 0,
            promotable: None,
        }
    }

    /// The send buffer's size and how much of it is free. Half of what the kernel counts is for
    /// bytes of messages.
    pub(crate) fn room(&self) -> (u32, u32) {
        let size = (self.sock.view().send_buffer / 2).max(LEAST_SEND);
        (size, size.saturating_sub(self.queued))
    }

    /// Bytes of the send buffer are free again.
    pub(crate) fn freed(&mut self, bytes: u32) {
        self.queued = self.queued.saturating_sub(bytes);
        if self.full {
            let (size, free) = self.room();
            if free >= size / 4 {
                self.full = false;
                self.sock.writable();
            }
        }
    }

    fn take_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order = order.wrapping_add(1);
        order
    }

    /// More of a message can be read, perhaps.
    pub(crate) fn notice(&mut self, message: &mut Incoming) {
        if message.place == Place::Exclusive && message.has_more() {
            if message.order.is_none() {
                message.order = Some(self.take_order());
            }
            self.sock.readable();
        }
    }

    /// A message is not under way any more.
    pub(crate) fn forget(&mut self, message: &Incoming) {
        self.coming.remove(&message.number);
        if message.place == Place::Shared {
            self.waiting.remove(&message.number);
        }
    }

    /// A message is complete.
    pub(crate) fn complete(&mut self, mut message: Incoming) {
        self.forget(&message);
        if message.place == Place::Shared {
            let length = message.reserved();
            self.budget.settle(message.window, length);
            message.place = Place::Reserved;
        }
        let being_read = matches!(&self.reading,
            Some(Reading::Coming(_, number)) if *number == message.number);
        if being_read {
            self.reading = Some(Reading::Whole(message));
        } else if let Some(slot) = message.slot.take() {
            let order = match message.order {
                Some(order) => order,
                None => self.take_order(),
            };
            drop(self.done.insert(slot.into_node(order, message)));
        }
        self.sock.readable();
    }

    /// The first of the messages that share, which does so no longer.
    pub(crate) fn take_waiting(&mut self) -> Option<(u64, InId)> {
        let (_, node) = self.waiting.cursor_front_mut()?.remove_current();
        Some(node.to_key_value())
    }

    /// That message becomes exclusive; it may be this far ahead of what was read.
    pub(crate) fn promoted(&mut self, number: u64, message: &mut Incoming) -> u32 {
        let ahead = self.budget.promote(number, message.window);
        message.place = Place::Exclusive;
        self.notice(message);
        ahead
    }
}

/// The sockets of a namespace, by handle. Handles are not used again.
pub(crate) struct Sockets {
    all: RBTree<u64, Socket>,
    /// Their ports.
    pub(crate) ports: Ports,
    /// Those that wait for a place for a message.
    pub(crate) waiting: Waiting,
    next: u64,
    promotable: Option<u64>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            ports: Ports::new(random()),
            waiting: Waiting::default(),
            next: 1,
            promotable: None,
        }
    }

    /// A socket is made, and gets its handle.
    pub(crate) fn add(&mut self, sock: &Sock) -> Result {
        let handle = self.next;
        let place = RBTreeNodeReservation::new(atomic())?;
        drop(
            self.all
                .insert(place.into_node(handle, Socket::new(sock.hold()))),
        );
        self.next = handle.wrapping_add(1);
        sock.set_handle(handle);
        Ok(())
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Socket> {
        self.all.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Socket> {
        self.all.get_mut(&handle)
    }

    pub(crate) fn remove(&mut self, handle: u64) {
        self.no_longer_waits(handle);
        drop(self.all.remove(&handle));
    }

    /// Takes a socket out, for who wants to free it later.
    pub(crate) fn take(&mut self, handle: u64) -> Option<RBTreeNode<u64, Socket>> {
        self.no_longer_waits(handle);
        self.all.remove_node(&handle)
    }

    /// A message of this socket may perhaps become exclusive.
    pub(crate) fn mark_promotable(&mut self, handle: u64) {
        let next = self.promotable;
        if let Some(socket) = self.get_mut(handle) {
            if socket.promotable.is_none() {
                socket.promotable = Some(next);
                self.promotable = Some(handle);
            }
        }
    }

    /// One of the sockets that were marked.
    pub(crate) fn take_promotable(&mut self) -> Option<u64> {
        let handle = self.promotable?;
        // A socket that is gone ends the list: those behind it are looked at when something of
        // theirs is read.
        self.promotable = self
            .get_mut(handle)
            .and_then(|socket| socket.promotable.take())
            .flatten();
        Some(handle)
    }
}
