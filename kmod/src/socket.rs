// SPDX-License-Identifier: GPL-2.0
//! Sockets: what the namespace keeps for each.

use crate::incoming::{Incoming, Where};
use crate::keys::{Choice, Held, Keys, Own};
use crate::memory::atomic;
use crate::outgoing::{Open, OVERHEAD};
use crate::ports::Ports;
use crate::promotable::{Marked, Promotable};
use crate::room::{Peers, Room, Wanted};
use crate::waiting::{Waiter, Waiting};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use knet_transport::{now, random, Sock, SockAddress, SockRef};
use turnstile_core::transport::budget::{self, Budget, Next, Place};
use turnstile_core::transport::host::{Address, InId, OutId, Sealing};
use turnstile_core::transport::room::left;
use turnstile_core::transport::seal::Psk;

/// A send buffer is never taken to be smaller.
const LEAST_SEND: u32 = 16 << 10;

/// So much room is worth telling of to who may send to any peer.
const WORTH: u32 = 4 << 10;

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
    /// What its peers have of the send buffer, of those that have only a part.
    pub(crate) peers: Peers,
    /// Room that somebody waits for.
    pub(crate) wanted: Option<Wanted>,
    /// A message that nobody could wait for found no room, though there is some: nothing to tell of
    /// before that has come.
    pub(crate) short: bool,
    /// That is tried again when this time has come, ns: another message may find room.
    pub(crate) again: u64,
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
    /// Its size at first and at most, unless the application sets one, and how much of what all
    /// sockets may have it has, bytes in the kernel's way of counting.
    first: u32,
    most: u32,
    grown: u32,
    /// Those that wait to be reserved, and their lengths.
    waiting: RBTree<u64, (InId, u32)>,
    /// The same in the order of their lengths.
    by_length: RBTree<(u32, u64), ()>,
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
    fn new(sock: SockRef, first: u32, most: u32) -> Self {
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
            peers: Peers::new(),
            wanted: None,
            short: false,
            again: 0,
            waiter: None,
            path: None,
            sending: RBTree::new(),
            counted: Counted::default(),
            open: None,
            failed: None,
            next_outgoing: 0,
            budget: Budget::new(),
            messages: RBTree::new(),
            first,
            most,
            grown: 0,
            waiting: RBTree::new(),
            by_length: RBTree::new(),
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

    /// There is no message of this number, and nobody has heard of it: the next one has it, unless
    /// another was begun meanwhile.
    pub(crate) fn not_begun(&mut self, number: u32) {
        if self.next_outgoing == number.wrapping_add(1) {
            self.next_outgoing = number;
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

    /// What a message may have of the send buffer: one that shares it, with which peer.
    pub(crate) fn room_for(&self, share: Option<&SockAddress>) -> Room {
        let (size, free) = self.room();
        let Some(to) = share else {
            return Room { most: size, free };
        };
        let (peer, host) = self.peers.of(to);
        let others = size
            .saturating_mul(2)
            .saturating_sub(self.queued.saturating_sub(peer));
        Room {
            most: left(others, 0, host.saturating_sub(peer)),
            free: left(self.free_for_all(), peer, host),
        }
    }

    /// Whether a peer may have a quarter more of what it may have at most. If not, who waits is
    /// woken when it may.
    pub(crate) fn has_room_for(&mut self, share: Option<&SockAddress>) -> bool {
        let room = self.room_for(share);
        let enough = (room.most / 4).max(1);
        if room.free < enough {
            self.wants(share.copied(), enough);
        }
        room.free >= enough
    }

    /// Whether there is some room for a peer that has nothing. Little is enough: what peers that
    /// take nothing leave to others is half as much for each more of them.
    pub(crate) fn has_room_for_any(&mut self) -> bool {
        let (size, _) = self.room();
        let enough = (size / 8).clamp(1, WORTH);
        let there = self.free_for_all() >= enough;
        if !there {
            self.wants(None, enough);
            if let Some(wanted) = &mut self.wanted {
                wanted.several = true;
            }
        }
        there
    }

    /// What is left for those who share it. All together have twice the size, which is what the
    /// kernel counts, so that a single one has all of it.
    pub(crate) fn free_for_all(&self) -> u32 {
        if self.is_scarce() {
            return 0;
        }
        let (size, _) = self.room();
        size.saturating_mul(2).saturating_sub(self.queued)
    }

    /// Somebody waits for room: who is woken when it is there.
    pub(crate) fn wants(&mut self, share: Option<SockAddress>, bytes: u32) {
        match &mut self.wanted {
            Some(wanted) => {
                wanted.several |= wanted.share != share;
                wanted.bytes = wanted.bytes.min(bytes);
            }
            None => {
                self.wanted = Some(Wanted {
                    share,
                    several: false,
                    bytes,
                });
            }
        }
    }

    /// Whether a message was refused for want of room a moment ago, and none has come.
    pub(crate) fn is_short(&self) -> bool {
        self.short && now() < self.again
    }

    /// Whether there was no memory a moment ago.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce != 0 && now() < self.scarce
    }

    /// A message goes out, or could not be begun with this number: no memory.
    pub(crate) fn begin_sending(&mut self, number: u32, share: Option<&SockAddress>) -> Result {
        // Its place first, so that nothing can fail afterwards.
        let nobody = OutId {
            index: u32::MAX,
            generation: u32::MAX,
        };
        if let Some(to) = share {
            self.peers.prepare(to)?;
        }
        self.sending
            .try_create_and_insert(number, nobody, atomic())
            .inspect_err(|_| {
                if let Some(to) = share {
                    self.peers.less(to, 0);
                }
            })?;
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

    /// Bytes of the send buffer are taken, and of the peer's part of it.
    pub(crate) fn take(&mut self, share: Option<&SockAddress>, bytes: u32) {
        self.queued = self.queued.saturating_add(bytes);
        if let Some(to) = share {
            self.peers.more(to, bytes);
        }
        self.short = false;
    }

    /// They are free again.
    pub(crate) fn freed(&mut self, share: Option<&SockAddress>, bytes: u32) {
        self.queued = self.queued.saturating_sub(bytes);
        // What it may have at most depends on the others.
        let drained = share.is_some_and(|to| self.peers.less(to, bytes)) || self.queued == 0;
        let was_scarce = core::mem::take(&mut self.scarce);
        let there = match &self.wanted {
            Some(wanted) if wanted.several => self.free_for_all() >= wanted.bytes,
            Some(wanted) => self.room_for(wanted.share.as_ref()).free >= wanted.bytes,
            None => false,
        };
        let waits = self.wanted.is_some();
        if there || (waits && drained) || was_scarce != 0 {
            self.wanted = None;
            self.short = false;
            self.sock.writable();
        }
    }

    /// A message begins: its place, and how much of it may come. `None`: no memory. `proved`: so is
    /// its sender's address.
    pub(crate) fn admit(
        &mut self,
        id: InId,
        length: Option<u32>,
        proved: bool,
    ) -> Option<(u64, Place, u32)> {
        let number = self.next_incoming;
        self.messages
            .try_create_and_insert(number, Where::Coming(id), atomic())
            .ok()?;
        let oldest = first(&self.waiting);
        let (place, window) = self.budget.admit(number, length, oldest, proved);
        let waits = if proved {
            self.wait(number, id, place, length, window)
        } else {
            Ok(())
        };
        if waits.is_err() {
            self.budget.leave(place, window, proved);
            self.messages.remove(&number);
            return None;
        }
        self.next_incoming = number.wrapping_add(1);
        self.counted.incoming = self.counted.incoming.saturating_add(1);
        Some((number, place, window))
    }

    /// The sender of a message has proved its address: it may have more room from now on.
    // Not inlined, so that other packets need no stack for it.
    #[inline(never)]
    pub(crate) fn prove(&mut self, id: InId, message: &mut Incoming) -> Result {
        let (number, window) = (message.number, message.window);
        self.wait(number, id, message.place, message.length, window)?;
        self.budget.prove(message.place, message.charged());
        message.proved = true;
        Ok(())
    }

    /// Puts a message into the queue that one with this place is in.
    fn wait(
        &mut self,
        number: u64,
        id: InId,
        place: Place,
        length: Option<u32>,
        window: u32,
    ) -> Result {
        match place {
            Place::Waiting => self.wait_for_room(number, id, length.unwrap_or(0)),
            Place::Shared => self
                .sharing
                .try_create_and_insert(number, (id, window), atomic())
                .map(drop),
            Place::Reserved | Place::Spare | Place::Exclusive => Ok(()),
        }
    }

    fn wait_for_room(&mut self, number: u64, id: InId, length: u32) -> Result {
        self.waiting
            .try_create_and_insert(number, (id, length), atomic())?;
        let ordered = self
            .by_length
            .try_create_and_insert((length, number), (), atomic());
        if ordered.is_err() {
            self.waiting.remove(&number);
        }
        ordered.map(drop)
    }

    /// A message waits for room no more.
    fn waits_no_more(&mut self, number: u64) -> Option<(InId, u32)> {
        let (id, length) = self.waiting.remove_node(&number)?.to_key_value().1;
        self.by_length.remove(&(length, number));
        Some((id, length))
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
            Place::Waiting => drop(self.waits_no_more(message.number)),
            Place::Shared => drop(self.sharing.remove(&message.number)),
            Place::Reserved | Place::Spare | Place::Exclusive => {}
        }
        self.budget
            .leave(message.place, message.charged(), message.proved);
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
            let held = message.segments.truesize();
            message.kept = self.budget.settle(message.window, length, held);
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
            self.budget.leave(it.place, it.charged(), it.proved);
        }
        self.done.remove_node(&order)
    }

    /// Gives room to the message that waits for it, if there is some. Returns the message, its
    /// place, and the bytes ahead of what was read that it may have.
    pub(crate) fn give_room(&mut self) -> Option<(u64, InId, Place, u32)> {
        let oldest = first(&self.waiting);
        let shortest = self.by_length.cursor_front().map(|first| {
            let (bytes, number) = *first.current().0;
            budget::Waiter { number, bytes }
        });
        match self.budget.next(shortest, oldest, first(&self.sharing)) {
            Next::None => None,
            Next::Reserve(it, place) => {
                let (id, length) = self.waits_no_more(it.number)?;
                self.budget.reserve(length, place, oldest == Some(it));
                Some((it.number, id, place, length))
            }
            Next::Stream(it) => {
                let (id, _) = *self.waiting.get(&it.number)?;
                // Without memory it goes on waiting, until somebody asks again.
                self.sharing
                    .try_create_and_insert(it.number, (id, 0), atomic())
                    .ok()?;
                self.waits_no_more(it.number)?;
                self.budget.stream();
                Some((it.number, id, Place::Shared, 0))
            }
            Next::Promote => {
                let (number, (id, window)) = take_first(&mut self.sharing)?;
                let ahead = self.budget.promote(number, window);
                Some((number, id, Place::Exclusive, ahead))
            }
        }
    }
}

fn first(tree: &RBTree<u64, (InId, u32)>) -> Option<budget::Waiter> {
    let first = tree.cursor_front()?;
    let (number, (_, bytes)) = first.current();
    Some(budget::Waiter {
        number: *number,
        bytes: *bytes,
    })
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
    /// By how much receive buffers have grown, bytes in the kernel's way of counting.
    grown: u32,
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
            grown: 0,
        }
    }

    /// A socket is made, and gets its handle.
    /// Its receive buffer has the size `first`, and may have `most`.
    pub(crate) fn add(&mut self, sock: &Sock, first: u32, most: u32) -> Result {
        let handle = self.next;
        let place = RBTreeNodeReservation::new(atomic())?;
        let socket = Socket::new(sock.hold(), first, most);
        drop(self.all.insert(place.into_node(handle, socket)));
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

    /// Tells a socket's budget how large the receive buffer is, and may be. `all`: what may be
    /// added to those of all sockets.
    pub(crate) fn measure(&mut self, handle: u64, all: u32) {
        let free = all.saturating_sub(self.grown);
        let Some(socket) = self.all.get_mut(&handle) else {
            return;
        };
        let now = socket.sock.receive_buffer();
        if socket.sock.receive_is_set() {
            socket.budget.resize(now);
        } else {
            let free = free.min(socket.sock.may_grow());
            let most = socket.most.min(now.saturating_add(free));
            socket.budget.grows(now, socket.first, most);
        }
    }

    /// Makes a socket's receive buffer as large as its budget wants it.
    pub(crate) fn resize(&mut self, handle: u64) {
        let Some(socket) = self.all.get_mut(&handle).filter(|it| !it.closed) else {
            return;
        };
        let now = socket.sock.receive_buffer();
        let mut grown = 0;
        if !socket.sock.receive_is_set() {
            let wanted = socket.budget.total().saturating_mul(2);
            if wanted != now {
                socket.sock.resize_receive(now, wanted, socket.first);
            }
            grown = wanted.saturating_sub(socket.first);
        } else if socket.grown != 0 {
            // What it had grown by is others', unless it keeps it (`SO_BUF_LOCK`).
            socket.sock.resize_receive(now, now, socket.first);
            grown = socket.grown.min(now.saturating_sub(socket.first));
        }
        if grown != socket.grown {
            self.grown = self
                .grown
                .saturating_sub(socket.grown)
                .saturating_add(grown);
            socket.grown = grown;
        }
    }

    /// What a socket had of what all may have is free.
    pub(crate) fn shrunk(&mut self, handle: u64) {
        if let Some(socket) = self.all.get_mut(&handle) {
            let grown = core::mem::take(&mut socket.grown);
            self.grown = self.grown.saturating_sub(grown);
        }
    }

    pub(crate) fn remove(&mut self, handle: u64) {
        self.shrunk(handle);
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
        self.shrunk(handle);
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
