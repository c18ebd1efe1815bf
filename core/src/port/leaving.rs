// SPDX-License-Identifier: GPL-2.0
//! What leaves next.
//!
//! [`Port::dequeue`] says it for any port. Its parts are public, for who counts instructions:
//! - [`Port::dequeue_first`] is the usual way: the head of the first queue goes. It changes either
//!   all that there is to change or nothing.
//! - [`Port::dequeue_fresh`] is its like for a packet that has just come, and needs no clock.
//! - [`Port::dequeue_found`] is its like for ports where the first queue is not what goes first.
//! - [`Port::start_dequeue`] and [`Port::end_dequeue`] are the other, in two halves: the child's
//!   turn is between them.

use super::line::{Busy, Slot, State};
use super::{Dequeue, Port};
use crate::port::band::Band;
use crate::port::config::Order;
use crate::queue::{DropCause, Leaf, Meta, Packet, Queue, Sink};
use crate::units::{Nanos, Rate};

/// What [`Port::start_dequeue`] came to.
#[derive(Debug)]
pub enum Step<P> {
    /// This is the answer.
    Done(Dequeue<P>),
    /// It is the child's turn: take a packet from it, and go on with [`Port::end_dequeue`].
    Ask(Question),
}

/// A dequeue that waits for what the child gives.
#[derive(Debug)]
#[must_use]
pub struct Question {
    now: Nanos,
    /// What may go now.
    ready: Busy,
}

/// What goes first.
enum Choice<P> {
    /// This packet, which was taken from its queue.
    Packet(P, Slot),
    /// The child's next packet, if it gives one; this is what may go.
    Leaf(Busy),
    Nothing,
}

impl<Q: Queue> Port<Q> {
    /// Is nothing queued, neither here nor in the child (`leaf`: it has packets)? Then
    /// [`Port::dequeue`] has nothing to give, whatever the time.
    #[inline]
    pub fn rests(&mut self, leaf: bool) -> bool {
        if self.busy.any() || leaf {
            return false;
        }
        self.idle = true;
        true
    }

    /// What leaves now, if anything. `leaf` is the data band's child, or
    /// [`NoLeaf`](crate::queue::NoLeaf).
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Nanos,
        leaf: &mut impl Leaf<Q::Packet>,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Dequeue<Q::Packet> {
        // As the kernel module does it.
        let first = match self.state() {
            _ if !leaf.is_empty() => None,
            State::Rest => return Dequeue::Empty,
            State::Fresh => self.dequeue_fresh::<false>(),
            State::Plain => self.dequeue_first::<false>(now),
            State::ShapedFresh => self.dequeue_fresh::<true>(),
            State::ShapedRest => None,
            State::Shaped => self.dequeue_first::<true>(now),
            State::Other if self.goes_straight() => self.dequeue_fresh::<true>(),
            State::Other => None,
        };
        let first = match first {
            None if leaf.is_empty() => self.dequeue_found(now),
            first => first,
        };
        if let Some((packet, slot, _)) = first {
            return Dequeue::Packet(packet, slot.band());
        }
        match self.start_dequeue(now, leaf.queued(), sink) {
            Step::Done(dequeued) => dequeued,
            Step::Ask(question) => {
                let packet = leaf.dequeue();
                self.end_dequeue(question, packet, leaf.queued(), sink)
            }
        }
    }

    /// How a dequeue begins.
    #[inline]
    pub fn state(&self) -> State {
        self.busy.state()
    }

    /// Is there a fresh packet, and nobody but the shapers to ask? What goes first makes no
    /// difference to one that is alone.
    #[inline]
    pub fn goes_straight(&self) -> bool {
        self.is_fresh() && !self.passed && !self.grafted && !self.markers.any()
    }

    /// The [fresh](Port::try_enqueue_fresh) packet leaves, at the time at which it came. `None`,
    /// and nothing has changed, if it is not due or of none of the last two lengths: ask
    /// [`Port::dequeue_found`].
    ///
    /// For a port that is in [`State::Fresh`] or, if `SHAPED`, in [`State::ShapedFresh`], or in
    /// [`State::Other`] if it [goes straight](Port::goes_straight).
    #[inline(always)]
    pub fn dequeue_fresh<const SHAPED: bool>(&mut self) -> Option<(Q::Packet, Slot, Meta)> {
        let slot = self.busy.first_or_none();
        let line = &mut self.lines[slot.index()];
        let head = line.queue.front()?;
        let now = head.enqueued;
        let meta = Meta { segs: 1, ..head };
        let mut link = match &mut self.link {
            // Without a link rate, this is known where it is asked for, but not here.
            Some(link) if SHAPED => {
                // Idle, as nothing was queued.
                let after = link.plan(now, meta.wire_len)?;
                Some((link, after))
            }
            _ => None,
        };
        if slot.is_token() {
            let after = self.group.plan(now, meta.wire_len)?;
            self.group.follow(after);
        }
        if let Some((link, after)) = &mut link {
            link.follow(*after);
        }
        let packet = line.take_head(&meta)?;
        self.busy = self.busy.emptied();
        if SHAPED {
            self.idle = true;
        }
        Some((packet, slot, meta))
    }

    /// What leaves now, where that takes few steps: the packet that is first is due, has not
    /// expired, is no super-packet and, if it is a token, of one of the last two lengths. `None`,
    /// and nothing has changed: ask [`Port::dequeue_found`].
    ///
    /// For a port that is in [`State::Plain`] or, if `SHAPED`, in [`State::Shaped`]. Made to take
    /// no call, and few registers: who calls has none to save.
    #[inline(always)]
    pub fn dequeue_first<const SHAPED: bool>(
        &mut self,
        now: Nanos,
    ) -> Option<(Q::Packet, Slot, Meta)> {
        // `Shaper::arrive` makes no difference to whether it is ready.
        if SHAPED && !self.link.as_ref()?.ready(now) {
            return None;
        }
        let slot = self.busy.first_or_none();
        let line = &mut self.lines[slot.index()];
        let head = line.queue.front()?;
        let waited = Nanos(now.0.checked_sub(head.enqueued.0)?);
        if !line.waits.has_room(waited) {
            return None;
        }
        if head.segs != 1 {
            return None;
        }
        // Said once more, so that it is known and not read again.
        let meta = Meta { segs: 1, ..head };
        // As `Port::idle_until` says, or no business of this way.
        let mut idle_until = now;
        if slot.is_token() {
            if waited > self.expiry {
                return None;
            }
            idle_until = self.group.next();
            self.group.try_charge(now, meta.wire_len)?;
        } else if SHAPED && self.idle && self.busy.tokens() {
            return None;
        }
        let packet = line.take_head(&meta)?;
        line.waits.add(waited);
        if line.queue.is_empty() {
            self.busy = self.busy.but_first();
        }
        if SHAPED {
            let link = self.link.as_mut()?;
            if self.idle {
                link.arrive(idle_until);
            }
            link.charge(now, meta.wire_len);
            self.idle = !self.busy.any();
        }
        Some((packet, slot, meta))
    }

    /// What leaves now, in any port whose child has no packets, if that takes no more than to find
    /// it. `None`, and nothing has changed: ask [`Port::dequeue`].
    #[inline]
    pub fn dequeue_found(&mut self, now: Nanos) -> Option<(Q::Packet, Slot, Meta)> {
        if self.is_fresh() {
            self.settle(now);
        }
        if self.link.as_ref().is_some_and(|link| !link.ready(now)) {
            return None;
        }
        let ready = self.ready(now);
        let slot = self.first(ready)?;
        let idle_until = self.idle_until(now);
        let packet = self.take(now, slot, ready, 0)?;
        let meta = packet.meta();
        if let Some(link) = &mut self.link {
            if self.idle {
                link.arrive(idle_until);
            }
            link.charge(now, meta.wire_len);
            self.idle = !self.busy.any();
        }
        self.note_passed();
        Some((packet, slot, meta))
    }

    /// Until when an idle link was idle, at least: there is something to send from now on, or since
    /// a token fell due. If that is some time ago, the timer was late, and the link makes up for
    /// it: otherwise a second timer would have to fire between the first of the tokens that are due
    /// and the others.
    #[inline]
    fn idle_until(&self, now: Nanos) -> Nanos {
        if self.busy.tokens() {
            now.min(self.group.next())
        } else {
            now
        }
    }

    /// The queues that may be served now, if the link is free.
    #[inline]
    fn ready(&self, now: Nanos) -> Busy {
        let queues = self.busy.queues();
        if queues.tokens() && !self.group.ready(now) {
            queues.rest()
        } else {
            queues
        }
    }

    /// [`Port::dequeue`] for a child that must not be asked while the port is borrowed, as it may
    /// enqueue to the port meanwhile: first half. `leaf` says how many packets the child has.
    #[inline]
    pub fn start_dequeue(
        &mut self,
        now: Nanos,
        leaf: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Step<Q::Packet> {
        if self.is_fresh() {
            self.settle(now);
        }
        let idle_until = self.idle_until(now);
        if let Some(link) = &mut self.link {
            if self.idle {
                link.arrive(idle_until);
            }
            if !link.ready(now) {
                let free = link.next();
                return Step::Done(self.wait_for_link(free, leaf));
            }
        }
        let mut ready = self.ready(now);
        if leaf != 0 {
            ready.set(Busy::DATA);
        }
        match self.select(now, ready, leaf, sink) {
            Choice::Packet(packet, slot) => Step::Done(self.send(now, packet, slot, leaf)),
            Choice::Nothing => Step::Done(self.wait_for_tokens()),
            Choice::Leaf(ready) => Step::Ask(Question { now, ready }),
        }
    }

    /// The second half: `packet` is what the child gave, if anything, and `leaf` how many more it
    /// has.
    #[inline]
    pub fn end_dequeue(
        &mut self,
        Question { now, mut ready }: Question,
        packet: Option<Q::Packet>,
        leaf: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Dequeue<Q::Packet> {
        if let Some(mut packet) = packet {
            let meta = packet.meta();
            self.line_mut(Slot::DATA).aside.leaf_sent(&meta);
            self.pass_markers(now, Slot::DATA, &mut packet, &meta, leaf);
            self.passed = ready.tokens();
            return self.send(now, packet, Slot::DATA, leaf);
        }
        // A child that shapes may have packets and give none.
        ready.clear(Busy::DATA);
        match self.select(now, ready, 0, sink) {
            Choice::Packet(packet, slot) => self.send(now, packet, slot, leaf),
            Choice::Nothing | Choice::Leaf(_) => self.wait_for_tokens(),
        }
    }

    /// Somebody has asked for a packet in advance and has it still, and it is `now`. Is it a token
    /// that has waited longer than the expiry? Then it is to be dropped, and counts as expired
    /// instead of sent.
    ///
    /// Its turn is over all the same: what it was charged on the shapers stays charged.
    pub fn recall(&mut self, now: Nanos, band: Band, meta: &Meta) -> bool {
        let slot = Slot::new(band);
        if !slot.is_token() || now - meta.enqueued <= self.expiry {
            return false;
        }
        self.line_mut(slot).aside.recalled(meta, DropCause::Expired);
        true
    }

    /// As in [`Port::reset`], for a packet that somebody has asked for in advance and still has.
    pub fn purge_recalled(&mut self, band: Band, meta: &Meta) {
        let line = self.line_mut(Slot::new(band));
        line.aside.recalled(meta, DropCause::Purged);
    }

    /// The packet goes, and the link is busy with it.
    #[inline]
    fn send(&mut self, now: Nanos, packet: Q::Packet, slot: Slot, leaf: u64) -> Dequeue<Q::Packet> {
        if let Some(link) = &mut self.link {
            link.charge(now, packet.meta().wire_len);
            self.idle = !self.busy.any() && leaf == 0;
        }
        self.note_passed();
        Dequeue::Packet(packet, slot.band())
    }

    /// Nothing may go, if anything is queued at all.
    #[inline(never)]
    fn wait_for_tokens<P>(&mut self) -> Dequeue<P> {
        self.idle = true;
        if !self.busy.tokens() {
            return Dequeue::Empty;
        }
        self.stats.token_waits = self.stats.token_waits.wrapping_add(1);
        Dequeue::Wait(self.group.next())
    }

    /// The link is busy until `free`.
    #[inline(never)]
    fn wait_for_link<P>(&mut self, free: Nanos, leaf: u64) -> Dequeue<P> {
        let rest = self.busy.rest().any() || leaf != 0;
        if !rest && !self.busy.tokens() {
            return Dequeue::Empty;
        }
        // If the link is not what holds them up, do not come back before the tokens are due; once
        // it is free, it is idle.
        let due = self.group.next();
        self.idle = !rest && due > free;
        if self.idle {
            self.stats.token_waits = self.stats.token_waits.wrapping_add(1);
            return Dequeue::Wait(due);
        }
        self.stats.link_waits = self.stats.link_waits.wrapping_add(1);
        Dequeue::Wait(free)
    }

    /// Takes the packet that goes first of what is ready, if the link is free.
    #[inline]
    fn select(
        &mut self,
        now: Nanos,
        ready: Busy,
        leaf: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Choice<Q::Packet> {
        let Some(slot) = self.first(ready) else {
            return Choice::Nothing;
        };
        match self.take(now, slot, ready, leaf) {
            Some(packet) => Choice::Packet(packet, slot),
            None => self.select_on(now, slot, ready, leaf, sink),
        }
    }

    /// Which of what is ready goes first.
    #[inline]
    fn first(&self, ready: Busy) -> Option<Slot> {
        if self.order == Order::DataFirst && !self.passed {
            ready.first_but_data()
        } else {
            ready.first()
        }
    }

    /// The head of a queue, to send it. `None`, and nothing is changed: the queue has none, or a
    /// token that has expired.
    #[inline(always)]
    fn take(&mut self, now: Nanos, slot: Slot, ready: Busy, leaf: u64) -> Option<Q::Packet> {
        let expiry = self.expiry;
        let line = &mut self.lines[slot.index()];
        let meta = line.queue.front()?;
        let waited = now - meta.enqueued;
        if slot.is_token() && waited > expiry {
            return None;
        }
        let mut packet = line.take_head(&meta)?;
        let empty = line.queue.is_empty();
        line.waited(waited, &meta);
        if empty {
            self.busy.clear(slot.bit());
        }
        if slot.is_token() {
            let forfeited = self.group.charge(now, meta.wire_len);
            if forfeited != Nanos::ZERO {
                self.note_forfeit(forfeited);
            }
            self.passed = self.passed && self.busy.tokens() && self.group.ready(now);
        } else if slot == Slot::DATA {
            self.passed = ready.tokens();
        }
        self.pass_markers(now, slot, &mut packet, &meta, leaf);
        Some(packet)
    }

    /// The group was later than its slack, by so much. Without a rate that is nothing lost.
    #[cold]
    #[inline(never)]
    fn note_forfeit(&mut self, forfeited: Nanos) {
        if self.resolved.token_rate == Rate::UNLIMITED {
            return;
        }
        let stats = &mut self.stats;
        stats.slack_forfeits = stats.slack_forfeits.wrapping_add(1);
        stats.slack_forfeited = stats.slack_forfeited.wrapping_add(forfeited.0);
    }

    /// [`Port::select`] where the first that was ready has nothing in its queue that may go.
    #[inline(never)]
    fn select_on(
        &mut self,
        now: Nanos,
        mut slot: Slot,
        mut ready: Busy,
        leaf: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Choice<Q::Packet> {
        loop {
            if slot == Slot::DATA && leaf != 0 {
                return Choice::Leaf(ready);
            }
            if slot.is_token() {
                self.drop_expired(now, slot, sink);
                if let Some(packet) = self.take(now, slot, ready, leaf) {
                    return Choice::Packet(packet, slot);
                }
            }
            ready.clear(slot.bit());
            slot = match self.first(ready) {
                Some(slot) => slot,
                None => return Choice::Nothing,
            };
            if let Some(packet) = self.take(now, slot, ready, leaf) {
                return Choice::Packet(packet, slot);
            }
        }
    }
}
