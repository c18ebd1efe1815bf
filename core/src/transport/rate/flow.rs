// SPDX-License-Identifier: GPL-2.0
//! What a sender keeps of a message that it paces: the rate, when the next packet is due, and the
//! segments that it times.
//!
//! A *segment* is as much as a receiver acknowledges at once, 16 full packets. Its round-trip time
//! is taken from when its last packet was handed to the port until an ACK covers it. TIMELY
//! (section 4.1) takes it from the first byte, less the time that the segment's bytes take on the
//! link, as it sends it as a burst. Here each packet is paced by itself.
//!
//! Once anything is sent again nothing that is under way is timed any more: an ACK does not say
//! which of two packets it is for (Karn).

use super::lately::Sent;
use super::{dcqcn, timely, Kind, Law, Mark, RateControl};
use crate::transport::config::Resolved;
use crate::transport::jitter::{self, Due};
use crate::transport::ranges::Ranges;
use crate::units::Nanos;

/// So many segments are timed at once. With more under way every other one is, or fewer.
const SEGMENTS: usize = 8;

/// The laws in force, each on the link that it was last asked for.
#[derive(Debug)]
pub(crate) struct Laws {
    /// For each kind the link's rate, in bytes/s, and the law.
    known: [Option<(u64, Law)>; 2],
    /// Counts the changes of options.
    changes: u32,
}

impl Laws {
    pub(crate) const NONE: Self = Self {
        known: [None; 2],
        changes: 0,
    };

    /// The options are others from now on.
    pub(crate) fn change(&mut self) {
        self.known = [None; 2];
        self.changes = self.changes.wrapping_add(1);
    }

    /// A law on a link of so many bytes/s. Worked out anew where a host's links differ.
    #[inline]
    pub(crate) fn of(&mut self, config: &Resolved, kind: Kind, line: u64) -> &Law {
        let [dcqcn, timely] = &mut self.known;
        let slot = match kind {
            Kind::Dcqcn => dcqcn,
            Kind::Timely => timely,
        };
        let known = slot.take().filter(|(other, _)| *other == line);
        let law = known.map(|(_, law)| law);
        let law = law.unwrap_or_else(|| law_of(config, kind, line));
        &slot.insert((line, law)).1
    }
}

#[cold]
fn law_of(config: &Resolved, kind: Kind, line: u64) -> Law {
    match kind {
        Kind::Dcqcn => Law::Dcqcn(dcqcn::Law::new(&config.dcqcn, line)),
        Kind::Timely => Law::Timely(timely::Law::new(&config.timely, line)),
    }
}

/// A segment under way.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Bytes of the message up to its end.
    end: u32,
    /// When its last packet was sent.
    sent: Nanos,
}

impl Segment {
    const NONE: Self = Self {
        end: 0,
        sent: Nanos::ZERO,
    };
}

/// A message's turn on the host's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It needs none.
    None,
    /// It waits for it.
    Waits,
    /// It has it.
    Has,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) control: RateControl,
    /// What its law was worked out from: the link's rate, and the options.
    line: u64,
    changes: u32,
    /// When its next packet is due by its rate, and how much later it is sent: that part of the
    /// time until the one after it, in 2^-32.
    due: Due,
    part: u32,
    late: Nanos,
    /// Whether it waits for its turn on the host's link.
    pub(crate) turn: Turn,
    /// It waits until some of so many packets, those that may be below, have left; 0: it does not.
    pub(crate) below: u32,
    /// The numbers of the last packets that it handed over, the last one first.
    handed: [u32; 2],
    /// When it last sent anything.
    pub(crate) lately: Sent,
    /// The worst mark that was told of the segments since one was complete.
    mark: Mark,
    /// What was sent again lately, but before what the message itself has.
    pub(crate) resent: Ranges<16>,
    /// The oldest first, `timed` of them.
    segments: [Segment; SEGMENTS],
    timed: usize,
}

impl Flow {
    /// A flow that begins now on a link of so many bytes/s, at a host with so many others.
    pub(crate) fn new(
        now: Nanos,
        laws: &mut Laws,
        config: &Resolved,
        (kind, line, others): (Kind, u64, u32),
    ) -> Self {
        Self {
            control: RateControl::new(laws.of(config, kind, line), others),
            line,
            changes: laws.changes,
            due: Due::new(now),
            part: 0,
            late: Nanos::ZERO,
            turn: Turn::None,
            below: 0,
            handed: [0; 2],
            lately: Sent::NEVER,
            mark: Mark::None,
            resent: Ranges::new(),
            segments: [Segment::NONE; SEGMENTS],
            timed: 0,
        }
    }

    /// The law that it goes by on a link of `line` bytes/s: the policy's, or while that has none
    /// the one that it began by. If it is another one than the last time, the rate goes on by it.
    #[inline]
    pub(crate) fn law<'a>(
        &mut self,
        laws: &'a mut Laws,
        config: &Resolved,
        line: u64,
        now: Nanos,
    ) -> &'a Law {
        let kind = config.policy.law().unwrap_or(self.control.kind());
        let changes = laws.changes;
        let law = laws.of(config, kind, line);
        if self.changes != changes || self.line != line {
            self.control.configure(law, now);
            (self.changes, self.line) = (changes, line);
        }
        law
    }

    /// When its next packet is to be sent.
    #[inline]
    pub(crate) fn ready(&self) -> Nanos {
        self.due.at() + self.late
    }

    /// A packet takes `interval` at its rate by now, which is more than it was, perhaps.
    #[inline]
    pub(crate) fn hasten(&mut self, now: Nanos, interval: u64) {
        self.due.hasten(now, interval);
        self.late = self.late.min(jitter::part_of(interval, self.part));
    }

    /// A packet was sent, which takes `interval`; the next one is sent so large a part of it later
    /// than it is due. Lateness of up to `slack` beyond that is made up for.
    #[inline]
    pub(crate) fn paid(&mut self, now: Nanos, interval: u64, part: u32, slack: Nanos) {
        self.due.advance(now, interval, slack + self.late);
        self.part = part;
        self.late = jitter::part_of(interval, part);
    }

    /// A packet was handed over, with this number among its link's.
    #[inline]
    pub(crate) fn hand_over(&mut self, number: u32) {
        let [last, _] = self.handed;
        self.handed = [number, last];
    }

    /// Its packets go out by a link of which the one with this number has left.
    pub(crate) fn turn_to(&mut self, left: u32) {
        self.handed = [left; 2];
    }

    /// So many of its packets are still there: the number of the last one that has left, if known.
    #[inline]
    pub(crate) fn last_left(&self, still: u32) -> Option<u32> {
        let [last, before] = self.handed;
        match still {
            0 => Some(last),
            1 => Some(before),
            _ => None,
        }
    }

    /// A packet was sent: the bytes from `offset` to `end` of the message, whose segments have so
    /// many bytes. `again`: they were sent before.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        now: Nanos,
        (offset, end): (u32, u32),
        segment: u32,
        again: bool,
    ) {
        if again {
            self.timed = 0;
            return;
        }
        let (Some(before), Some(after)) = (offset.checked_div(segment), end.checked_div(segment))
        else {
            return;
        };
        if after == before {
            return;
        }
        if let Some(free) = self.segments.get_mut(self.timed) {
            let end = after.saturating_mul(segment);
            *free = Segment { end, sent: now };
            self.timed = self.timed.saturating_add(1);
        }
    }

    /// The receiver tells of a mark.
    pub(crate) fn told(&mut self, mark: Mark) {
        self.mark = self.mark.max(mark);
    }

    /// All bytes below `received` have come, as an ACK says that comes now. Returns the round-trip
    /// time of the last of the segments which that completes, and their mark.
    pub(crate) fn acknowledged(&mut self, now: Nanos, received: u32) -> Option<(Nanos, Mark)> {
        let mut last = None;
        while self.timed != 0 {
            let [first, ..] = self.segments;
            if first.end > received {
                break;
            }
            last = Some(now - first.sent);
            self.segments.rotate_left(1);
            self.timed = self.timed.saturating_sub(1);
        }
        last.map(|rtt| (rtt, core::mem::take(&mut self.mark)))
    }
}

#[cfg(test)]
mod tests;
