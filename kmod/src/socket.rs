// SPDX-License-Identifier: GPL-2.0
//! What a namespace keeps for a socket.

use crate::buffer::Buffer;
use crate::incoming::{Incoming, Kept, Slot, Where};
use crate::keys::Choice;
use crate::memory::atomic;
use crate::outgoing::{Open, OVERHEAD};
use crate::promotable::Marked;
use crate::room::{Part, Peers, Pools, Room, Share, Wanted};
use crate::waiting::Waiter;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use knet_transport::{now, SockAddress, SockRef};
use turnstile_core::transport::budget::Place;
use turnstile_core::transport::host::{Address, InId, OutId, Sender};
use turnstile_core::transport::room::{self, left};

/// A send buffer is never taken to be smaller.
const LEAST_SEND: u32 = 16 << 10;

/// Messages of no more than such a part of the send buffer are short. Such a part of it is beside
/// it for them, and as much for longer ones; for these as much as the buffer itself, unless the
/// program has said how large that is to be.
const SHORT_PART: u32 = 32;
const SPARE_PART: u32 = 4;

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
    /// What is kept beside the send buffer; apart, as the receive buffer is.
    pub(crate) pools: KBox<Pools>,
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

    /// The receive buffer; apart, as it has no place on a stack where sockets are made.
    pub(crate) buffer: KBox<Buffer>,
    /// The messages that come in or were not read, by number.
    pub(crate) messages: RBTree<u64, Where>,
    /// Those that are complete, in the order in which they can be read.
    pub(crate) done: RBTree<u64, Option<Kept>>,
    /// The one that is being read.
    pub(crate) reading: Option<u64>,
    /// The only one that is to be read.
    pub(crate) only: Option<u64>,
    /// The errno of one that failed when a part of it was read.
    pub(crate) failed_reading: Option<u32>,
    /// The next message to come has this number.
    pub(crate) next_incoming: u64,
    next_order: u64,
    /// Memory of entries that were taken out last: mostly the next message needs it again.
    spare: Spare,
    /// Its place among those of which a message may be given room.
    pub(crate) promotable: Option<Marked>,
}

/// Memory for entries of a socket's trees, one of each at most.
#[derive(Default)]
struct Spare {
    sending: Option<RBTreeNodeReservation<u32, OutId>>,
    message: Option<RBTreeNodeReservation<u64, Where>>,
    slot: Option<Slot>,
}

/// What is spare, or else is allocated.
fn spare<K, V>(
    spare: &mut Option<RBTreeNodeReservation<K, V>>,
) -> Result<RBTreeNodeReservation<K, V>> {
    match spare.take() {
        Some(spare) => Ok(spare),
        None => RBTreeNodeReservation::new(atomic()),
    }
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
    pub(crate) fn new(sock: SockRef, buffer: KBox<Buffer>, pools: KBox<Pools>) -> Self {
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
            pools,
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
            buffer,
            messages: RBTree::new(),
            done: RBTree::new(),
            reading: None,
            only: None,
            failed_reading: None,
            next_incoming: 0,
            next_order: 0,
            spare: Spare::default(),
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
        let [peer, host, net] = self.peers.of(to);
        let others = size
            .saturating_mul(2)
            .saturating_sub(self.queued.saturating_sub(peer));
        Room {
            most: left(
                others,
                0,
                host.saturating_sub(peer),
                net.saturating_sub(peer),
            ),
            free: left(self.free_for_all(), peer, host, net),
        }
    }

    /// Of what is spared a message may have so many bytes, all that it has, and so many more: it
    /// need not wait until some of a long one before it has been delivered, whose turn may be late.
    /// [`Part::Buffer`]: of nothing.
    pub(crate) fn spared_for(&self, to: Option<&SockAddress>, len: u32, more: u32) -> Part {
        let (size, _) = self.room();
        let short = len <= size / SHORT_PART;
        let part = match short || self.sock.send_is_set() {
            true => SPARE_PART,
            false => 1,
        };
        let left = self.pools.left_of_spared(short, size / part, to);
        if self.is_scarce() || left < len.saturating_add(more) {
            return Part::Buffer;
        }
        match short {
            true => Part::Short,
            false => Part::Longer,
        }
    }

    /// What a message may have whatever others have, whose receiver has said that it has room for
    /// so many `promised` bytes, and which is `charged` with so many; its peer has so many `free`.
    /// `true`: they are of what is beside the buffer.
    pub(crate) fn promised_room(
        &self,
        share: Option<&SockAddress>,
        promised: u32,
        charged: u32,
        free: u32,
    ) -> (u32, bool) {
        if self.is_scarce() {
            return (0, false);
        }
        let (size, _) = self.room();
        let under_way = charged.saturating_sub(OVERHEAD);
        let beside = self.pools.beside.left(size / room::BESIDE_PART, share);
        room::promised(free, promised, under_way, beside)
    }

    /// Whether more of a message that is open may be written: [`Socket::has_room_for`], or what its
    /// receiver waits for. If not, who waits is woken when it may.
    pub(crate) fn has_room_to_go_on(
        &mut self,
        share: Option<&SockAddress>,
        promised: u32,
        charged: u32,
    ) -> bool {
        if self.has_room_for(share) {
            return true;
        }
        let free = self.room_for(share).free;
        let there = self.promised_room(share, promised, charged, free).0 != 0;
        if !there {
            self.wants_any(promised, charged);
        }
        there
    }

    /// Whoever waits for room looks whether there is some.
    pub(crate) fn look_again(&mut self) {
        if self.wanted.take().is_some() {
            self.short = false;
            self.sock.writable();
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
                    any: false,
                    bytes,
                });
            }
        }
    }

    /// A message whose receiver waits for more of it found no room, and nothing of it is under way:
    /// any room that comes free may be for it.
    pub(crate) fn wants_any(&mut self, promised: u32, charged: u32) {
        if let Some(wanted) = &mut self.wanted {
            wanted.any |= promised != 0 && charged <= OVERHEAD;
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
    pub(crate) fn begin_sending(&mut self, number: u32, share: &Share) -> Result {
        // Its place first, so that nothing can fail afterwards.
        let nobody = OutId {
            index: u32::MAX,
            generation: u32::MAX,
        };
        let to = share.to.as_ref().filter(|_| share.part == Part::Buffer);
        if let Some(to) = to {
            self.peers.prepare(to)?;
        }
        let place = spare(&mut self.spare.sending).inspect_err(|_| {
            if let Some(to) = to {
                self.peers.less(to, 0);
            }
        })?;
        drop(self.sending.insert(place.into_node(number, nobody)));
        self.counted.outgoing = self.counted.outgoing.saturating_add(1);
        Ok(())
    }

    /// A message goes out no more.
    pub(crate) fn end_sending(&mut self, number: u32) {
        if let Some(place) = self.sending.remove_node(&number) {
            self.spare.sending = Some(place.into_reservation());
            self.counted.outgoing = self.counted.outgoing.saturating_sub(1);
        }
    }

    /// Bytes that no receiver has acknowledged.
    pub(crate) fn unacknowledged(&self) -> u32 {
        let overhead = self.counted.outgoing.saturating_mul(OVERHEAD);
        let queued = self.queued.saturating_add(self.pools.taken_of_spared());
        queued
            .saturating_add(self.pools.beside.taken())
            .saturating_sub(overhead)
    }

    /// Bytes of the send buffer are taken, and of the peer's part of it.
    /// No memory to note that they are of what is spared: an error.
    pub(crate) fn take(&mut self, share: &Share, bytes: u32) -> Result {
        if let Some(spared) = self.pools.spared(share.part) {
            spared.take(share.to.as_ref(), bytes)?;
        } else {
            self.queued = self.queued.saturating_add(bytes);
            if let Some(to) = &share.to {
                self.peers.more(to, bytes);
            }
        }
        self.short = false;
        Ok(())
    }

    /// Bytes of what is beside the send buffer are taken. `false`: no memory to note that.
    pub(crate) fn take_beside(&mut self, share: &Share, bytes: u32) -> bool {
        self.pools.beside.take(share.to.as_ref(), bytes).is_ok()
    }

    /// They are free again; of them so many were `beside` the buffer.
    pub(crate) fn freed(&mut self, share: &Share, bytes: u32, beside: u32) {
        if beside != 0 {
            self.pools.beside.give_back(share.to.as_ref(), beside);
        }
        let bytes = bytes.saturating_sub(beside);
        // What it may have at most depends on the others. What is spared is for whoever waits with
        // a short one.
        let drained = if let Some(spared) = self.pools.spared(share.part) {
            spared.give_back(share.to.as_ref(), bytes);
            true
        } else {
            self.queued = self.queued.saturating_sub(bytes);
            let none = share.to.is_some_and(|to| self.peers.less(&to, bytes));
            none || self.queued == 0
        };
        let was_scarce = core::mem::take(&mut self.scarce);
        let there = match &self.wanted {
            Some(wanted) if wanted.any => true,
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

    /// A message begins: its place, and how much of it may come. `None`: no memory.
    pub(crate) fn admit(
        &mut self,
        id: InId,
        from: &SockAddress,
        length: Option<u32>,
        sender: &Sender,
    ) -> Option<(u64, Place, u32)> {
        let number = self.next_incoming;
        let room = spare(&mut self.spare.message).ok()?;
        let Some((place, window)) = self.buffer.admit(number, id, from, length, sender) else {
            self.spare.message = Some(room);
            return None;
        };
        drop(
            self.messages
                .insert(room.into_node(number, Where::Coming(id))),
        );
        self.next_incoming = number.wrapping_add(1);
        self.counted.incoming = self.counted.incoming.saturating_add(1);
        Some((number, place, window))
    }

    /// Memory for a place among the messages that are complete.
    pub(crate) fn slot(&mut self) -> Result<Slot> {
        spare(&mut self.spare.slot)
    }

    /// A message is no longer among those that come in or were not read. `false`: it was not.
    fn leaves(&mut self, number: u64) -> bool {
        let Some(room) = self.messages.remove_node(&number) else {
            return false;
        };
        self.spare.message = Some(room.into_reservation());
        true
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
        let much = message.begun || message.contiguous >= self.buffer.budget.ahead() / 2;
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
        self.buffer.leave(message);
        self.not_read(message.number);
    }

    /// A message that was not complete comes no more.
    pub(crate) fn no_longer_comes(&mut self, number: u64) {
        if self.leaves(number) {
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

    /// Whether the message is being read, before others that are there as a whole: to its end.
    pub(crate) fn is_read_for_others(&self, message: &Incoming) -> bool {
        self.reading == Some(message.number)
            && message.begun
            && !self.alternate
            && !self.done.is_empty()
    }

    /// What is being read so.
    pub(crate) fn read_for_others(&self) -> Option<InId> {
        if self.alternate || self.done.is_empty() {
            return None;
        }
        match self.messages.get(&self.reading?)? {
            Where::Coming(id) => Some(*id),
            _ => None,
        }
    }

    /// A message is complete.
    pub(crate) fn complete(&mut self, mut message: Kept) {
        if message.place == Place::Shared {
            self.buffer.settle(&mut message);
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
            drop(self.done.insert(slot.into_node(order, Some(message))));
        }
        self.sock.readable();
    }

    /// Takes out a message that is complete; its room is free.
    pub(crate) fn take_done(&mut self, number: u64, order: u64) -> Option<Kept> {
        self.leaves(number);
        self.not_read(number);
        let message = self.done.get_mut(&order)?.take();
        if let Some(slot) = self.done.remove_node(&order) {
            self.spare.slot = Some(slot.into_reservation());
        }
        let message = message?;
        let counted = &mut self.counted;
        counted.whole = counted.whole.saturating_sub(1);
        counted.read(message.unread());
        self.buffer.leave(&message);
        Some(message)
    }
}
