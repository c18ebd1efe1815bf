// SPDX-License-Identifier: GPL-2.0
//! Dequeue: which packet leaves next, and when to come back if none may.
//!
//! [`Port::dequeue`] says it for any port. [`fast`] has the place where the paths part, and the
//! fast one; here is the slow one: [`Port::start_slow`] and [`Port::end_slow`], with the child's
//! turn between them.

mod fast;

pub use self::fast::{leave, Exit};
use super::line::{Backlogged, Slot};
use super::{Dequeue, Port};
use crate::port::band::Band;
use crate::port::config::Order;
use crate::queue::{Child, DropCause, Meta, Packet, Queue, Sink};
use crate::units::{Nanos, Rate};

/// What [`Port::start_slow`] came to.
#[derive(Debug)]
pub enum Step<P> {
    /// This is the answer.
    Done(Dequeue<P>),
    /// It is the child's turn: take a packet from it, and go on with [`Port::end_slow`].
    Ask(Question),
}

/// A dequeue that waits for what the child gives.
#[derive(Debug)]
#[must_use]
pub struct Question {
    now: Nanos,
    /// What may go now.
    ready: Backlogged,
}

/// What goes first.
enum Choice<P> {
    /// This packet, which was taken from its queue.
    Packet(P, Slot),
    /// The child's next packet, if it gives one; this is what may go.
    Child(Backlogged),
    Nothing,
}

/// A dequeue where everything around the port is at hand.
struct Whole<'a, Q: Queue, C, S> {
    port: &'a mut Port<Q>,
    child: &'a mut C,
    sink: &'a mut S,
    now: Nanos,
}

impl<Q: Queue, C: Child<Q::Packet>, S: Sink<Q::Packet>> Exit<Q> for Whole<'_, Q, C, S> {
    type Answer = Dequeue<Q::Packet>;

    fn port(&mut self) -> &mut Port<Q> {
        self.port
    }

    fn child_holds(&mut self) -> bool {
        !self.child.is_empty()
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn empty(self) -> Self::Answer {
        Dequeue::Empty
    }

    fn packet(self, packet: Q::Packet, slot: Slot, _meta: &Meta) -> Self::Answer {
        Dequeue::Packet(packet, slot.band())
    }

    fn train(self, packet: Q::Packet, slot: Slot, meta: &Meta) -> Self::Answer {
        self.packet(packet, slot, meta)
    }

    fn slow(self, _now: Option<Nanos>) -> Self::Answer {
        let Self {
            port,
            child,
            sink,
            now,
        } = self;
        if port.obeys() {
            slow::<true, Q>(port, child, sink, now)
        } else {
            slow::<false, Q>(port, child, sink, now)
        }
    }
}

/// The slow path, both halves.
fn slow<const HOLDS: bool, Q: Queue>(
    port: &mut Port<Q>,
    child: &mut impl Child<Q::Packet>,
    sink: &mut impl Sink<Q::Packet>,
    now: Nanos,
) -> Dequeue<Q::Packet> {
    match port.start_slow::<HOLDS>(now, child.queued(), sink) {
        Step::Done(dequeued) => dequeued,
        Step::Ask(question) => {
            let packet = child.dequeue();
            port.end_slow::<HOLDS>(question, packet, child.queued(), sink)
        }
    }
}

impl<Q: Queue> Port<Q> {
    /// What leaves now, if anything. `child` is the data band's, of a port that
    /// [has one](Port::set_grafted), or [`NoChild`](crate::queue::NoChild).
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Nanos,
        child: &mut impl Child<Q::Packet>,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Dequeue<Q::Packet> {
        leave(Whole {
            port: self,
            child,
            sink,
            now,
        })
    }

    /// Until when an idle link was idle, at least: there is something to send from now on, or since
    /// a token fell due. If that is some time ago, the timer was late, and the link makes up for
    /// it: otherwise a second timer would have to fire between the first of the tokens that are due
    /// and the others.
    #[inline]
    pub(super) fn idle_until(&self, now: Nanos) -> Nanos {
        if self.backlogged.tokens() {
            now.min(self.group.next())
        } else {
            now
        }
    }

    /// The queues that may be served now, if the link is free.
    #[inline]
    fn ready<const HOLDS: bool>(&self, now: Nanos) -> Backlogged {
        let queues = self.free::<HOLDS>();
        if queues.tokens() && !self.group.ready(now) {
            queues.rest()
        } else {
            queues
        }
    }

    /// [`Port::dequeue`] for a child that must not be asked while the port is borrowed, as it may
    /// enqueue to the port meanwhile: first half. `child` says how many packets the child has,
    /// `HOLDS` whether the port [obeys pauses](Port::obeys).
    #[inline]
    pub fn start_slow<const HOLDS: bool>(
        &mut self,
        now: Nanos,
        mut child: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Step<Q::Packet> {
        if self.is_fresh() {
            self.settle(now);
        }
        if HOLDS {
            self.note_obeyed();
            self.drop_stormed(sink);
            child = self.note_child(child);
        }
        let idle_until = self.idle_until(now);
        if let Some(link) = &mut self.link {
            if self.idle {
                link.arrive(idle_until);
            }
            if !link.ready(now) {
                let free = link.next();
                return Step::Done(self.wait_for_link(free, child));
            }
        }
        let mut ready = self.ready::<HOLDS>(now);
        if child != 0 {
            ready.set(Backlogged::DATA);
        }
        match self.select(now, ready, child, sink) {
            Choice::Packet(packet, slot) => {
                Step::Done(self.send::<HOLDS>(now, packet, slot, child))
            }
            Choice::Nothing => Step::Done(self.wait_for_tokens()),
            Choice::Child(ready) => Step::Ask(Question { now, ready }),
        }
    }

    /// The second half: `packet` is what the child gave, if anything, and `child` how many more it
    /// has.
    #[inline]
    pub fn end_slow<const HOLDS: bool>(
        &mut self,
        Question { now, mut ready }: Question,
        packet: Option<Q::Packet>,
        child: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Dequeue<Q::Packet> {
        if let Some(mut packet) = packet {
            let meta = packet.meta();
            self.line_mut(Slot::DATA).aside.child_sent(&meta);
            self.pass_markers(now, Slot::DATA, &mut packet, &meta, child);
            self.passed = ready.tokens();
            return self.send::<HOLDS>(now, packet, Slot::DATA, child);
        }
        // A child that shapes may have packets and give none.
        ready.clear(Backlogged::DATA);
        match self.select(now, ready, 0, sink) {
            Choice::Packet(packet, slot) => self.send::<HOLDS>(now, packet, slot, child),
            Choice::Nothing | Choice::Child(_) => self.wait_for_tokens(),
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
    fn send<const HOLDS: bool>(
        &mut self,
        now: Nanos,
        packet: Q::Packet,
        slot: Slot,
        child: u64,
    ) -> Dequeue<Q::Packet> {
        if let Some(link) = &mut self.link {
            link.charge(now, packet.meta().wire_len);
            self.idle = !self.free::<HOLDS>().any() && child == 0;
        }
        if HOLDS {
            self.moved |= slot.bit() & Backlogged::HELD != 0;
        }
        self.note_passed();
        Dequeue::Packet(packet, slot.band())
    }

    /// Nothing may go, if anything is queued at all.
    #[inline(never)]
    fn wait_for_tokens<P>(&mut self) -> Dequeue<P> {
        self.idle = true;
        let held = self.held_until();
        if !self.backlogged.tokens() {
            return held.map_or(Dequeue::Empty, Dequeue::Wait);
        }
        self.stats.token_waits = self.stats.token_waits.wrapping_add(1);
        let due = self.group.next();
        Dequeue::Wait(held.map_or(due, |end| due.min(end)))
    }

    /// The link is busy until `free`.
    #[inline(never)]
    fn wait_for_link<P>(&mut self, free: Nanos, child: u64) -> Dequeue<P> {
        let rest = self.free::<true>().rest().any() || child != 0;
        let held = self.held_until();
        if !rest && !self.backlogged.tokens() {
            self.idle |= held.is_some();
            return held.map_or(Dequeue::Empty, |end| Dequeue::Wait(end.max(free)));
        }
        // If the link is not what holds them up, do not come back before the tokens are due; once
        // it is free, it is idle.
        let due = self.group.next();
        self.idle = !rest && due > free;
        if self.idle {
            self.stats.token_waits = self.stats.token_waits.wrapping_add(1);
            let end = held.map_or(due, |end| end.max(free));
            return Dequeue::Wait(due.min(end));
        }
        self.stats.link_waits = self.stats.link_waits.wrapping_add(1);
        Dequeue::Wait(free)
    }

    /// Takes the packet that goes first of what is ready, if the link is free.
    #[inline]
    fn select(
        &mut self,
        now: Nanos,
        ready: Backlogged,
        child: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Choice<Q::Packet> {
        let Some(slot) = self.first(ready) else {
            return Choice::Nothing;
        };
        match self.take(now, slot, ready, child) {
            Some(packet) => Choice::Packet(packet, slot),
            None => self.select_on(now, slot, ready, child, sink),
        }
    }

    /// Which of what is ready goes first.
    #[inline]
    fn first(&self, ready: Backlogged) -> Option<Slot> {
        if self.order == Order::DataFirst && !self.passed {
            ready.first_but_data()
        } else {
            ready.first()
        }
    }

    /// The head of a queue, to send it. `None`, and nothing is changed: the queue has none, or a
    /// token that has expired.
    #[inline(always)]
    fn take(&mut self, now: Nanos, slot: Slot, ready: Backlogged, child: u64) -> Option<Q::Packet> {
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
            self.backlogged.clear(slot.bit());
        }
        if slot.is_token() {
            let forfeited = match meta.segs {
                1 => self.group.charge(now, meta.wire_len),
                segs => self.group.charge_super(now, meta.wire_len, segs),
            };
            if forfeited != Nanos::ZERO {
                self.note_forfeit(forfeited);
            }
            self.passed = self.passed && self.backlogged.tokens() && self.group.ready(now);
        } else if slot.is_data() {
            self.passed = ready.tokens();
        }
        self.pass_markers(now, slot, &mut packet, &meta, child);
        Some(packet)
    }

    /// The group was later than its slack, by so much. Without a rate that is nothing lost.
    #[cold]
    #[inline(never)]
    pub(super) fn note_forfeit(&mut self, forfeited: Nanos) {
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
        mut ready: Backlogged,
        child: u64,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Choice<Q::Packet> {
        loop {
            if slot == Slot::DATA && child != 0 {
                return Choice::Child(ready);
            }
            if slot.is_token() {
                self.drop_expired(now, slot, sink);
                if let Some(packet) = self.take(now, slot, ready, child) {
                    return Choice::Packet(packet, slot);
                }
            }
            ready.clear(slot.bit());
            slot = match self.first(ready) {
                Some(slot) => slot,
                None => return Choice::Nothing,
            };
            if let Some(packet) = self.take(now, slot, ready, child) {
                return Choice::Packet(packet, slot);
            }
        }
    }
}
