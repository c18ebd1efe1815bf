// SPDX-License-Identifier: GPL-2.0
//! The exit: where the fast path and the slow path of a dequeue part.
//!
//! [`leave`] decides, for the kernel module and for [`Port::dequeue`] alike; an [`Exit`] carries
//! out what it decides. Each form of the fast path changes either all that there is to change or
//! nothing, and then the next one is tried, the slow path last.

use super::super::line::{Slot, State};
use super::super::Port;
use crate::queue::{Meta, Packet, Queue};
use crate::units::Nanos;

/// What a dequeue needs of those around the port, and how it ends: each of the last four uses it
/// up.
pub trait Exit<Q: Queue>: Sized {
    /// The answer to who asked for a packet.
    type Answer;

    /// The port.
    fn port(&mut self) -> &mut Port<Q>;
    /// Whether the data band's child holds packets. Only a port that [has
    /// one](Port::set_grafted) asks.
    fn child_holds(&mut self) -> bool;
    /// Reads the clock, which is not for nothing.
    fn now(&mut self) -> Nanos;

    /// Nothing is queued.
    fn empty(self) -> Self::Answer;
    /// This packet goes out now.
    fn packet(self, packet: Q::Packet, slot: Slot, meta: &Meta) -> Self::Answer;
    /// The same of a token that stands for several.
    fn train(self, packet: Q::Packet, slot: Slot, meta: &Meta) -> Self::Answer;
    /// The slow path: [`Port::start_slow`] and [`Port::end_slow`], with the child's turn between
    /// them. `now`: if the clock was read.
    fn slow(self, now: Option<Nanos>) -> Self::Answer;
}

/// Answers who asks for a packet.
///
/// Nothing is queued if
///
/// 1. the port's own queues are empty, and
/// 2. there is no child, or it holds no packets.
///
/// A packet leaves by the fast path if
///
/// 3. as 2: a child must be asked while nothing of the port is borrowed, since it may enqueue to
///    the port meanwhile;
/// 4. the link is free, if it is shaped;
/// 5. the head of the queue that goes first is no token, or it has not expired and the group's
///    shaper is ready: what is dropped, and when to come back, is for the slow path.
///
/// The fast path has three forms, the quickest first:
///
/// - *fresh*, if the one packet that is queued has [come just now](Port::try_enqueue_fresh) and no
///   marker wants to see it. It needs no clock and no order;
/// - *head*, if nothing but the order of the bands says which queue goes first (the port is not
///   data-first, has no child and no marker, and obeys no pauses), and the head of that queue is a
///   single packet;
/// - *search*, for any other port.
///
/// The `State` is one word that says which of them to begin with.
#[inline(always)]
pub fn leave<Q: Queue, E: Exit<Q>>(mut exit: E) -> E::Answer {
    match exit.port().backlogged.state() {
        State::Rest => exit.empty(),
        State::Fresh => fresh::<false, Q, E>(exit),
        State::Plain => head::<false, Q, E>(exit),
        State::ShapedRest => {
            exit.port().rests(false);
            exit.empty()
        }
        State::ShapedFresh => fresh::<true, Q, E>(exit),
        State::Shaped => head::<true, Q, E>(exit),
        // Here, not in `other`: an empty dequeue follows each packet.
        State::Other if !exit.port().grafted && exit.port().rests(false) => exit.empty(),
        State::Other => other(exit),
    }
}

// Functions of their own: `leave`, which is part of its caller, has no register to save when
// nothing is queued, and none of them makes another one longer.

#[inline(never)]
fn fresh<const SHAPED: bool, Q: Queue, E: Exit<Q>>(mut exit: E) -> E::Answer {
    match exit.port().take_fresh::<SHAPED>() {
        Some((packet, slot, meta)) => exit.packet(packet, slot, &meta),
        None => search(exit, None),
    }
}

#[inline(never)]
fn head<const SHAPED: bool, Q: Queue, E: Exit<Q>>(mut exit: E) -> E::Answer {
    let now = exit.now();
    match exit.port().take_first::<SHAPED>(now) {
        Some((packet, slot, meta)) => exit.packet(packet, slot, &meta),
        None => search(exit, Some(now)),
    }
}

/// A port with a child, that is data-first, that has a marker, obeys pauses or has its link in
/// common with others. It calls nothing, and so has no register to save.
#[inline(never)]
fn other<Q: Queue, E: Exit<Q>>(mut exit: E) -> E::Answer {
    if exit.port().grafted {
        if exit.child_holds() {
            return exit.slow(None);
        }
        if exit.port().rests(false) {
            return exit.empty();
        }
    }
    if exit.port().obeys() || exit.port().is_member() {
        return exit.slow(None);
    }
    if exit.port().goes_straight() {
        return fresh::<true, Q, E>(exit);
    }
    search(exit, None)
}

#[inline(never)]
fn search<Q: Queue, E: Exit<Q>>(mut exit: E, now: Option<Nanos>) -> E::Answer {
    let now = match now.or_else(|| exit.port().fresh_time()) {
        Some(now) => now,
        None => exit.now(),
    };
    match exit.port().take_found(now) {
        // The other forms leave those to this one.
        Some((packet, slot, meta)) if slot.is_token() && meta.segs > 1 => {
            exit.train(packet, slot, &meta)
        }
        Some((packet, slot, meta)) => exit.packet(packet, slot, &meta),
        None => exit.slow(Some(now)),
    }
}

impl<Q: Queue> Port<Q> {
    /// Is nothing queued, neither here nor in the child (`child`: it has packets)? Then
    /// [`Port::dequeue`] has nothing to give, whatever the time.
    #[inline]
    pub fn rests(&mut self, child: bool) -> bool {
        if child || self.backlogged.any() {
            return false;
        }
        self.idle = true;
        true
    }

    /// Is there a fresh packet, and nobody but the shapers to ask? What goes first makes no
    /// difference to one that is alone.
    #[inline]
    fn goes_straight(&self) -> bool {
        self.is_fresh() && !self.passed && !self.grafted && !self.markers.any()
    }

    /// The [fresh](Port::try_enqueue_fresh) packet leaves, at the time at which it came. `None`,
    /// and nothing has changed, if it is not due or of none of the last two lengths.
    #[inline(always)]
    fn take_fresh<const SHAPED: bool>(&mut self) -> Option<(Q::Packet, Slot, Meta)> {
        let slot = self.backlogged.first_or_none();
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
        self.backlogged = self.backlogged.emptied();
        if SHAPED {
            self.idle = true;
        }
        Some((packet, slot, meta))
    }

    /// The head of the first queue leaves. `None`, and nothing has changed, if it is not due, has
    /// expired, is a super-packet or, if it is a token, of none of the last two lengths.
    ///
    /// Made to take no call, and few registers: who calls has none to save.
    #[inline(always)]
    fn take_first<const SHAPED: bool>(&mut self, now: Nanos) -> Option<(Q::Packet, Slot, Meta)> {
        // `Shaper::arrive` makes no difference to whether it is ready.
        if SHAPED && !self.link.as_ref()?.ready(now) {
            return None;
        }
        let slot = self.backlogged.first_or_none();
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
        // As `Port::idle_until` says, or no business of this form.
        let mut idle_until = now;
        if slot.is_token() {
            if waited > self.expiry {
                return None;
            }
            idle_until = self.group.next();
            self.group.try_charge(now, meta.wire_len)?;
        } else if SHAPED && self.idle && self.backlogged.tokens() {
            return None;
        }
        let packet = line.take_head(&meta)?;
        line.waits.add(waited);
        if line.queue.is_empty() {
            self.backlogged = self.backlogged.but_first();
        }
        if SHAPED {
            let link = self.link.as_mut()?;
            if self.idle {
                link.arrive(idle_until);
            }
            link.charge(now, meta.wire_len);
            self.idle = !self.backlogged.any();
        }
        Some((packet, slot, meta))
    }

    /// What goes first leaves, in any port whose child has no packets and that obeys no
    /// pauses. `None`, and nothing but the
    /// [fresh](Port::try_enqueue_fresh) packet's time has changed, if that is not due or has
    /// expired.
    #[inline]
    fn take_found(&mut self, now: Nanos) -> Option<(Q::Packet, Slot, Meta)> {
        if self.is_fresh() {
            self.settle(now);
        }
        if self.link.as_ref().is_some_and(|link| !link.ready(now)) {
            return None;
        }
        let ready = self.ready::<false>(now);
        let slot = self.first(ready)?;
        let idle_until = self.idle_until(now);
        let packet = self.take(now, slot, ready, 0)?;
        let meta = packet.meta();
        if let Some(link) = &mut self.link {
            if self.idle {
                link.arrive(idle_until);
            }
            link.charge(now, meta.wire_len);
            self.idle = !self.backlogged.any();
        }
        self.note_passed();
        Some((packet, slot, meta))
    }
}
