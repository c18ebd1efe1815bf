// SPDX-License-Identifier: GPL-2.0
//! Sockets: what the namespace keeps for each.

use crate::incoming::{Incoming, Where};
use crate::keys::{Choice, Held, Keys, Own};
use crate::memory::atomic;
use crate::outgoing::{Open, OVERHEAD};
use crate::ports::Ports;
use crate::promotable::{Marked, Promotable};
use crate::waiting::{Waiter, Waiting};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use knet_transport::{now, random, Sock, SockAddress, SockRef};
use turnstile_core::transport::budget::{self, Budget, Next, Place};
use turnstile_core::transport::host::{Address, InId, OutId, Sealing};
use turnstile_core::transport::seal::Psk;

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
    /// Whether pieces of several messages may alternate.
    pub(crate) alternate: bool,
    /// Whether deliveries are reported.
    pub(crate) completions: bool,
    /// The priority of its messages, unless they say one.
    pub(crate) priority: Option<u8>,
    /// How its messages are sealed.
    pub(crate) choice: Choice,

    /// There was no memory for more while some of it is taken: more waits until some is free, or
    /// until this time, ns. 0: there was.
    pub(crate) scarce: u64,
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
    /// How many messages and bytes there are, so that nobody has to count them.
    pub(crate) counted: Counted,
    /// The message that further calls append to.
    pub(crate) open: Option<Open>,
    /// The last message that failed, and its errno.
    pub(crate) failed: Option<(u32, u32)>,
    /// The next message to send has this number.
    pub(crate) next_outgoing: u32,

    /// How the receive buffer is shared.
    pub(crate) budget: Budget,
    /// The messages that come in or were not read, by number.
    pub(crate) messages: RBTree<u64, Where>,
    /// Those that wait to be reserved, and their lengths.
    waiting: RBTree<u64, (InId, u32)>,
    /// Those that share, in the order in which they become exclusive, and their windows.
    sharing: RBTree<u64, (InId, u32)>,
    /// Those that are complete, in the order in which they can be read.
    pub(crate) done: RBTree<u64, Incoming>,
    /// The one that is being read.
    pub(crate) reading: Option<u64>,
    /// The only one that is to be read.
    pub(crate) only: Option<u64>,
    /// The errno of one that failed when a part of it was read.
    pub(crate) failed_reading: Option<u32>,
    /// The next message to come has this number.
    pub(crate) next_incoming: u64,
    next_order: u64,
    /// Its place among those of which a message may be given room.
    pub(crate) promotable: Option<Marked>,
}

/// Of a socket's messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Messages that go out.
    pub(crate) outgoing: u32,
    /// Messages that still come in.
    pub(crate) incoming: u32,
    /// Messages that are complete, all of them or the rest not read.
    pub(crate) whole: u32,
    /// Bytes of these.
    pub(crate) unread: u64,
}

impl Counted {
    /// Bytes of a message that is complete were read.
    pub(crate) fn read(&mut self, bytes: u32) {
        self.unread = self.unread.saturating_sub(bytes.into());
    }
}

impl Socket {
    fn new(sock: SockRef) -> Self {
        Self {
            sock,
            closed: false,
            info: false,
            alternate: false,
            completions: false,
            priority: None,
            choice: Choice::Namespace,
            scarce: 0,
            queued: 0,
            full: false,
            waiter: None,
            path: None,
            sending: RBTree::new(),
            counted: Counted::default(),
            open: None,
            failed: None,
            next_outgoing: 0,
            budget: Budget::new(),
            messages: RBTree::new(),
            waiting: RBTree::new(),
            sharing: RBTree::new(),
            done: RBTree::new(),
            reading: None,
            only: None,
            failed_reading: None,
            next_incoming: 0,
            next_order: 0,
            promotable: None,
        }
    }

    /// The send buffer's size and how much of it is free. Half of what the kernel counts is for
    /// bytes of messages.
    pub(crate) fn room(&self) -> (u32, u32) {
        let size = (self.sock.send_buffer() / 2).max(LEAST_SEND);
        if self.is_scarce() {
            return (size, 0);
        }
        (size, size.saturating_sub(self.queued))
    }

    /// Whether there was no memory a moment ago.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce != 0 && now() < self.scarce
    }

    /// A message goes out, or could not be begun with this number: no memory.
    pub(crate) fn begin_sending(&mut self, number: u32) -> Result {
        // Its place first, so that nothing can fail afterwards.
        let nobody = OutId {
            index: u32::MAX,
            generation: u32::MAX,
        };
        self.sending
            .try_create_and_insert(number, nobody, atomic())?;
        self.counted.outgoing = self.counted.outgoing.saturating_add(1);
        Ok(())
    }

    /// A message goes out no more.
    pub(crate) fn end_sending(&mut self, number: u32) {
        if self.sending.remove(&number).is_some() {
            self.counted.outgoing = self.counted.outgoing.saturating_sub(1);
        }
    }

    /// Bytes that no receiver has acknowledged.
    pub(crate) fn unacknowledged(&self) -> u32 {
        let overhead = self.counted.outgoing.saturating_mul(OVERHEAD);
        self.queued.saturating_sub(overhead)
    }

    /// Bytes of the send buffer are free again.
    pub(crate) fn freed(&mut self, bytes: u32) {
        self.queued = self.queued.saturating_sub(bytes);
        let was_scarce = core::mem::take(&mut self.scarce);
        if self.full || was_scarce != 0 {
            let (size, free) = self.room();
            if free >= size / 4 {
                self.full = false;
                self.sock.writable();
            }
        }
    }

    /// A message begins: its place, and how much of it may come. `None`: no memory.
    pub(crate) fn admit(&mut self, id: InId, length: Option<u32>) -> Option<(u64, Place, u32)> {
        let number = self.next_incoming;
        self.messages
            .try_create_and_insert(number, Where::Coming(id), atomic())
            .ok()?;
        let (place, window) = self.budget.admit(number, length);
        let waits = match place {
            Place::Waiting => {
                let length = length.unwrap_or(0);
                self.waiting
                    .try_create_and_insert(number, (id, length), atomic())
            }
            Place::Shared => self
                .sharing
                .try_create_and_insert(number, (id, window), atomic()),
            Place::Reserved | Place::Exclusive => Ok(None),
        };
        if waits.is_err() {
            self.budget.leave(place, window);
            self.messages.remove(&number);
            return None;
        }
        self.next_incoming = number.wrapping_add(1);
        self.counted.incoming = self.counted.incoming.saturating_add(1);
        Some((number, place, window))
    }

    pub(crate) fn take_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order = order.wrapping_add(1);
        order
    }

    /// Whether the message that streams can be read, before all of it is there. An application that
    /// does not ask for the messages' numbers sees pieces of a message only if it is long, and much
    /// of it has come: so that nobody can make it wait for the price of a few packets.
    pub(crate) fn is_ripe(&self, message: &Incoming) -> bool {
        let much = message.begun || message.contiguous >= self.budget.ahead() / 2;
        message.place == Place::Exclusive && message.has_more() && (self.info || much)
    }

    /// More of a message can be read, perhaps.
    pub(crate) fn notice(&mut self, message: &mut Incoming) {
        if self.is_ripe(message) {
            if message.order.is_none() {
                message.order = Some(self.take_order());
            }
            self.sock.readable();
        }
    }

    /// A message is gone, which was not complete.
    pub(crate) fn forget(&mut self, message: &Incoming) {
        self.no_longer_comes(message.number);
        match message.place {
            Place::Waiting => drop(self.waiting.remove(&message.number)),
            Place::Shared => drop(self.sharing.remove(&message.number)),
            Place::Reserved | Place::Exclusive => {}
        }
        self.budget.leave(message.place, message.charged());
        self.not_read(message.number);
    }

    /// A message that was not complete comes no more.
    pub(crate) fn no_longer_comes(&mut self, number: u64) {
        if self.messages.remove(&number).is_some() {
            self.counted.incoming = self.counted.incoming.saturating_sub(1);
        }
    }

    /// A message that is gone is not the one to be read.
    pub(crate) fn not_read(&mut self, number: u64) {
        for at in [&mut self.reading, &mut self.only] {
            if *at == Some(number) {
                *at = None;
            }
        }
    }

    /// A message failed. The application is told if it has read a part of it, or asked for it.
    pub(crate) fn fail(&mut self, message: &Incoming, errno: u32) {
        let told = message.begun || self.only == Some(message.number);
        self.forget(message);
        if told {
            self.failed_reading = Some(errno);
            self.sock.readable();
        }
    }

    /// A message is complete.
    pub(crate) fn complete(&mut self, mut message: Incoming) {
        if message.place == Place::Shared {
            self.sharing.remove(&message.number);
            let length = message.length.unwrap_or(message.contiguous);
            self.budget.settle(message.window, length);
            message.place = Place::Reserved;
        }
        let order = match message.order {
            Some(order) => order,
            None => self.take_order(),
        };
        if let Some(at) = self.messages.get_mut(&message.number) {
            *at = Where::Done(order);
        }
        if let Some(slot) = message.slot.take() {
            let counted = &mut self.counted;
            counted.incoming = counted.incoming.saturating_sub(1);
            counted.whole = counted.whole.saturating_add(1);
            counted.unread = counted.unread.saturating_add(message.unread().into());
            drop(self.done.insert(slot.into_node(order, message)));
        }
        self.sock.readable();
    }

    /// Takes out a message that is complete; its room is free.
    pub(crate) fn take_done(
        &mut self,
        number: u64,
        order: u64,
    ) -> Option<RBTreeNode<u64, Incoming>> {
        self.messages.remove(&number);
        self.not_read(number);
        if let Some(it) = self.done.get(&order) {
            let counted = &mut self.counted;
            counted.whole = counted.whole.saturating_sub(1);
            counted.read(it.unread());
            self.budget.leave(it.place, it.charged());
        }
        self.done.remove_node(&order)
    }

    /// Gives room to the message that waits for it, if there is some. Returns the message, its
    /// place, and the bytes ahead of what was read that it may have.
    pub(crate) fn give_room(&mut self) -> Option<(u64, InId, Place, u32)> {
        fn first(tree: &RBTree<u64, (InId, u32)>) -> Option<budget::Waiter> {
            let first = tree.cursor_front()?;
            let (number, (_, bytes)) = first.current();
            Some(budget::Waiter {
                number: *number,
                bytes: *bytes,
            })
        }
        self.budget.resize(self.sock.receive_buffer());
        let (waiting, sharing) = (first(&self.waiting), first(&self.sharing));
        match self.budget.next(waiting, sharing) {
            Next::None => None,
            Next::Reserve => {
                let (number, (id, length)) = take_first(&mut self.waiting)?;
                self.budget.reserve(length);
                Some((number, id, Place::Reserved, length))
            }
            Next::Promote => {
                let (number, (id, window)) = take_first(&mut self.sharing)?;
                let ahead = self.budget.promote(number, window);
                Some((number, id, Place::Exclusive, ahead))
            }
        }
    }
}

fn take_first(tree: &mut RBTree<u64, (InId, u32)>) -> Option<(u64, (InId, u32))> {
    let (_, node) = tree.cursor_front_mut()?.remove_current();
    Some(node.to_key_value())
}

/// The sockets of a namespace, by handle. Handles are not used again.
pub(crate) struct Sockets {
    all: RBTree<u64, Socket>,
    /// Their ports.
    pub(crate) ports: Ports,
    /// Those that wait for a place for a message.
    pub(crate) waiting: Waiting,
    /// The keys of sealed messages.
    pub(crate) keys: Keys,
    next: u64,
    /// Those of which a message may be given room.
    pub(crate) promotable: Promotable,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            ports: Ports::new(random()),
            waiting: Waiting::default(),
            keys: Keys::new(),
            next: 1,
            promotable: Promotable::default(),
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
        self.give_up_keys(handle);
        self.unmark_promotable(handle);
        // The node: the socket itself is too large for the stack.
        drop(self.all.remove_node(&handle));
    }

    /// The first handle of a socket that is at least this.
    pub(crate) fn at_least(&self, handle: u64) -> Option<u64> {
        let cursor = self.all.cursor_lower_bound(&handle)?;
        Some(*cursor.current().0)
    }

    /// Takes a socket out, for who wants to free it later.
    pub(crate) fn take(&mut self, handle: u64) -> Option<RBTreeNode<u64, Socket>> {
        self.no_longer_waits(handle);
        self.unmark_promotable(handle);
        self.give_up_keys(handle);
        self.all.remove_node(&handle)
    }

    /// The key that a socket's messages are sealed with.
    #[inline]
    pub(crate) fn key(&self, handle: u64) -> Option<Psk> {
        if self.keys.sealing() == Sealing::Off {
            return None;
        }
        self.get(handle)?.choice.to_send(&self.keys)
    }

    /// A socket's messages are sealed as its namespace's are.
    // Not inlined: keys take room on the stack.
    #[inline(never)]
    pub(crate) fn give_up_keys(&mut self, handle: u64) {
        if let Some(socket) = self.all.get_mut(&handle) {
            let before = core::mem::replace(&mut socket.choice, Choice::Namespace);
            if let Choice::Own(own) = &before {
                self.keys.leave(own.held.id());
                if let Some(other) = &own.other {
                    self.keys.leave(other.id());
                }
            }
        }
    }

    /// A socket's messages are sealed with a key of its own; they may come with another one, too.
    ///
    /// # Errors
    /// `ENODEV`, `ENOMEM`; `EEXIST`: packets call another key by the same name.
    pub(crate) fn take_keys(&mut self, handle: u64, held: Held, other: Option<Held>) -> Result {
        if self.get(handle).is_none() {
            return Err(ENODEV);
        }
        let own = KBox::new(Own { held, other }, atomic())?;
        self.keys.join(&own.held)?;
        if let Some(other) = &own.other {
            if let Err(error) = self.keys.join(other) {
                self.keys.leave(own.held.id());
                return Err(error);
            }
        }
        self.give_up_keys(handle);
        if let Some(socket) = self.all.get_mut(&handle) {
            socket.choice = Choice::Own(own);
        }
        Ok(())
    }

    /// A socket's messages are not sealed.
    pub(crate) fn take_no_keys(&mut self, handle: u64) {
        self.give_up_keys(handle);
        if let Some(socket) = self.all.get_mut(&handle) {
            socket.choice = Choice::Plain;
        }
    }
}
