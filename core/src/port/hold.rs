// SPDX-License-Identifier: GPL-2.0
//! Data that the next switch holds up: priority flow control, IEEE 802.1Qbb.
//!
//! Tokens and signals go on; data and unscheduled packets wait, from the moment on at which
//! [`Port::hold`] says so. Who hears the pauses is [`crate::pfc`]; whoever asks the port for
//! packets tells it first what that says. A port that nobody holds up takes no notice: what goes
//! first is searched for (the way of ports with a marker) only while data is held.

use core::cell::Cell;

use super::line::{Backlogged, Slot};
use super::Port;
use crate::pfc::pause::{Pauses, Progress, State};
use crate::port::band::Band;
use crate::queue::{DropCause, Meta, Queue, Sink};
use crate::units::Nanos;

/// So many packets at most are dropped in a call.
const DROPS: u32 = 256;

/// What holds data up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Open,
    /// A pause, until then.
    Until(Nanos),
    /// A pause that has lasted for longer than the watchdog lets it: data is dropped, so that not
    /// all switches behind this one stand still.
    Storm(Nanos),
}

impl Hold {
    /// When it ends, if nothing else is heard.
    #[inline]
    pub(super) const fn end(self) -> Option<Nanos> {
        match self {
            Self::Open => None,
            Self::Until(end) | Self::Storm(end) => Some(end),
        }
    }
}

/// What pauses come to.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// When the last one began, if there was one.
    began: Option<Nanos>,
    /// When the last one ended that is over, if one is.
    ended: Option<Nanos>,
    hold: Hold,
}

impl Heard {
    /// By `now`.
    pub fn of(pauses: &Pauses, now: Nanos) -> Self {
        let change = pauses.next_change(now).unwrap_or(now);
        Self {
            began: pauses.last_pause_began(),
            ended: pauses.last_pause_ended(now),
            hold: match pauses.state(now) {
                State::Open => Hold::Open,
                State::Paused { .. } => Hold::Until(change),
                State::Watchdog => Hold::Storm(change),
            },
        }
    }
}

impl<Q: Queue> Port<Q> {
    /// Holds data up as the pauses say that were heard by `now`.
    ///
    /// Not once that is turned off: on another processor a packet may leave before nothing is heard
    /// any more.
    pub fn obey(&mut self, now: Nanos, heard: &Heard) {
        if self.config.pfc.is_none() {
            return;
        }
        if let Some(began) = heard.began.filter(|_| heard.began != self.paused_at) {
            // A pause that is new here, and may be over again.
            self.hold((began, now), Hold::Until(now));
            self.paused_at = heard.began;
        }
        let since = match heard.hold {
            Hold::Open => heard.ended.unwrap_or(now),
            _ => now,
        };
        self.hold((since, now), heard.hold);
    }

    /// What became of data since somebody asked last: for [`Pauses::note`]. What a child holds
    /// waits all the time.
    #[inline]
    pub fn progress(&mut self, child: u64) -> Progress {
        let waits = [Slot::EARLY, Slot::DATA, Slot::UNSCHEDULED].map(|slot| {
            let head = self.line_mut(slot).queue.front();
            head.map(|meta| meta.enqueued)
        });
        let child = (child != 0).then_some(Nanos::ZERO);
        Progress {
            moved: core::mem::take(&mut self.moved),
            waits_since: waits.into_iter().flatten().chain(child).min(),
        }
    }

    /// What holds data up from now on, in a port that [obeys](Port::obeys) pauses. `since`: when
    /// that was heard or began, `now` at the latest.
    pub fn hold(&mut self, (since, now): (Nanos, Nanos), hold: Hold) {
        if self.hold == hold || !self.obeys() {
            return;
        }
        self.settle(now);
        match (self.hold, hold) {
            (Hold::Open, _) => self.markers.paused(since),
            (_, Hold::Open) => self.markers.resumed(since, self.data_bytes()),
            _ => {}
        }
        self.hold = hold;
        self.child_held = false;
        self.note_detour();
    }

    /// Whether pauses are obeyed: then whoever asks for a packet calls [`Port::obey`] first, and
    /// what packets of data are charged to is given back when they leave. So this stays when that
    /// is turned off, until no data is queued.
    #[inline]
    pub fn obeys(&self) -> bool {
        self.obeys
    }

    /// Pauses are no longer obeyed, and all data has left that came before.
    #[inline]
    pub(super) fn note_obeyed(&mut self) {
        if self.config.pfc.is_none() && !self.backlogged.has(Backlogged::HELD) {
            self.obeys = false;
            self.note_detour();
        }
    }

    /// Whether the port pauses others: then it [never rests](Port::rests), and data that came in by
    /// a device that counts it is not bounded by `data-limit`.
    #[inline]
    pub fn generates(&self) -> bool {
        self.config.generates()
    }

    /// Has the data band's own queue room, by `data-limit`, for this packet, which counts for no
    /// device? So many bytes of those wait.
    pub fn has_room_for_own(&self, own: u64, meta: &Meta) -> bool {
        let bytes = own.saturating_add(meta.len.into());
        bytes <= self.config.data_limit.into()
    }

    /// There is a frame to send though the port pauses nobody any more, or no longer: until then it
    /// never rests.
    pub fn owes(&mut self, owes: bool) {
        match owes || self.generates() {
            true => self.backlogged.set(Backlogged::ASKED),
            false => self.backlogged.clear(Backlogged::ASKED),
        }
    }

    /// Whom the data packet came from that is queued next is asked for a pause because of it.
    #[cold]
    pub fn asks_for_pause(&mut self) {
        self.markers.asks();
    }

    /// A packet of data that arrives is dropped: it has no room, here or where it counts.
    pub fn refuse_data(&mut self, meta: &Meta) {
        self.markers.asks();
        self.line_mut(Slot::DATA).aside.refused_full(meta);
    }

    /// A control frame is to leave before all else, also while data is held. `Some`: not before
    /// that time, since the link is busy.
    pub fn control_waits(&mut self, now: Nanos) -> Option<Nanos> {
        self.settle(now);
        let idle_until = self.idle_until(now);
        let link = self.link.as_mut()?;
        if self.idle {
            link.arrive(idle_until);
        }
        (!link.ready(now)).then(|| link.next())
    }

    /// A control frame of so many bytes on the wire leaves, which need not
    /// [wait](Self::control_waits): the link is busy with it.
    pub fn send_control(&mut self, now: Nanos, wire_len: u32) {
        if let Some(link) = self.link.as_mut() {
            link.charge(now, wire_len);
            self.idle = !self.free::<true>().any();
        }
    }

    /// How much of what the child holds may go. Its packets are held as others, but no watchdog can
    /// empty it.
    #[inline]
    pub(super) fn note_child(&mut self, child: u64) -> u64 {
        if self.hold == Hold::Open {
            return child;
        }
        self.child_held = child != 0;
        0
    }

    /// Drops what the watchdog of a pause wants dropped.
    #[inline]
    pub(super) fn drop_stormed(&mut self, sink: &mut impl Sink<Q::Packet>) {
        if self.is_stormed() {
            self.drop_held(sink);
        }
    }

    /// Is there data to be dropped?
    #[inline]
    pub(super) fn is_stormed(&self) -> bool {
        matches!(self.hold, Hold::Storm(_)) && self.backlogged.has(Backlogged::HELD)
    }

    #[cold]
    #[inline(never)]
    fn drop_held(&mut self, sink: &mut impl Sink<Q::Packet>) {
        let left = Cell::new(DROPS);
        for slot in [Slot::EARLY, Slot::DATA, Slot::UNSCHEDULED] {
            self.drop_while(slot, DropCause::Stormed, sink, |line| {
                let some = !line.queue.is_empty() && left.get() != 0;
                left.set(left.get().saturating_sub(u32::from(some)));
                some
            });
        }
        self.look_beside();
    }

    /// What holds data up.
    pub fn held(&self) -> Hold {
        self.hold
    }

    /// Bytes of the data band that wait.
    pub fn data_bytes(&self) -> u64 {
        self.queued(Band::Data).bytes
    }

    /// Of what is queued, what may go. `HOLDS`: the port obeys pauses.
    #[inline]
    pub(super) fn free<const HOLDS: bool>(&self) -> Backlogged {
        if !HOLDS {
            return self.backlogged.queues();
        }
        let known = self.backlogged.queues().known();
        match self.hold {
            Hold::Open => known,
            _ => known.unheld(),
        }
    }

    /// When held data may go, if there is any.
    #[inline]
    pub(super) fn held_until(&self) -> Option<Nanos> {
        if self.is_stormed() {
            // There is more to drop, at once.
            return Some(Nanos::ZERO);
        }
        let end = self.hold.end()?;
        (self.backlogged.has(Backlogged::HELD) || self.child_held).then_some(end)
    }
}
