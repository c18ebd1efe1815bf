// SPDX-License-Identifier: GPL-2.0
//! REN's marks (*REN: Receiver-Driven Congestion Control Using Explicit Notification*, sections
//! 3.2.1 to 3.2.3): the port measures in each sampling period, about a round trip, how many packets
//! wait (*ql*) and how many more would have fit (*ti*, from the gaps in which the link was idle).
//! *ql - ti* packets are marked over-utilized, and their grants will trigger no packet; or *ti -
//! ql* packets are left under-utilized, and their grants will trigger two. All others are marked
//! fully utilized: one.
//!
//! | mark | ECN field | who leaves it |
//! |---|---|---|
//! | [`UNDER`] | 00 | the sender; a port with room to spare |
//! | [`FULL`] | 01 | a port without |
//! | [`OVER`] | 10 | a port with a queue |
//!
//! A mark is only ever raised, so that the narrowest port on a path decides (section 3.2.3). 11,
//! which a router may have written that takes the field for RFC 3168's, is above all.
//!
//! # When a mark is given
//!
//! The paper says that ql and ti are compared at the end of each period, and shows in its figures
//! 5, 6 and 7 packets that are marked in the period in which their queue forms. It cannot be both:
//! - Marks worked out at the end of a period and given in the next are late by a period, and take
//!   another one to act. When two flows start together, all packets of two rounds are marked,
//!   nothing triggers a packet any more, and both flows stand still.
//! - As in the figures, each packet that leaves is judged by the period that ends with it: it is
//!   marked over-utilized if there were less than ql - ti such marks, left under-utilized if there
//!   were less than ti - ql. That is what [`Ren`] does.
//!
//! A mark acts when it has gone round, a period after it was given. Until then the queue for which
//! it was given is still there, or the gap. So the marks of the whole period count, and those
//! before do not: with what was counted afresh in each period, queues were marked twice and gaps
//! not at all that lay before the beginning of one, which a flow whose packets come at the same
//! time of each period met again and again. The period that ends with a packet is kept in sixteen
//! parts. Then a burst of m flows leaves the queue that the paper's equations (1) and (3) say, one
//! bandwidth-delay product less each round, and the link full.
//!
//! # What a gap is
//!
//! The time in which the link had nothing to send, whatever it sends: packets of all bands, of REN
//! flows or not, are no gaps. One that is longer than a period says only that there is room: it
//! counts as one packet. Otherwise a flow that starts at full rate on an idle link would be told to
//! double it.
//!
//! The time of a packet is that of a full frame of 1538 bytes on the wire, the paper's MSS/C. What
//! is compared is exact (see [`Rate`]'s volumes).

use core::num::NonZeroU64;

use crate::port::config::FRAME_WIRE_LEN;
use crate::units::{Nanos, Rate};

/// More would have fit.
pub const UNDER: u8 = 0b00;
/// As much as fits.
pub const FULL: u8 = 0b01;
/// Packets wait.
pub const OVER: u8 = 0b10;

/// What the marker counts. Packets are wire packets.
///
/// `seen = under + full + over + kept`, plus those whose header could not be written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets of REN flows that passed.
    pub seen: u64,
    /// Of these, packets that were left under-utilized.
    pub under: u64,
    /// Packets that were raised to fully utilized.
    pub full: u64,
    /// Packets that were raised to over-utilized.
    pub over: u64,
    /// Packets that came with the mark that they would have got, or a higher one.
    pub kept: u64,
    /// Sampling periods in which packets left.
    pub periods: u64,
}

impl Counters {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        seen: 0,
        under: 0,
        full: 0,
        over: 0,
        kept: 0,
        periods: 0,
    };
}

/// The marker. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Ren {
    period: NonZeroU64,
    link: Rate,
    /// When this period began.
    begin: Nanos,
    /// Until when the link is busy with what was sent: the exact time, rounded up, and what it was
    /// rounded by.
    busy: Nanos,
    carry: u64,
    /// The last period, in parts of [`Ren::part`]: the newest first, and one that is partly over.
    window: [Part; PARTS + 1],
    /// When the newest part began.
    newest: Nanos,
}

/// The last period is looked at in so many parts. What was in the oldest is taken to have come
/// evenly.
const PARTS: usize = 16;

/// What there was in a part of a period.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// The gaps.
    idle: Nanos,
    /// How many packets were marked over-utilized.
    over: u64,
    /// How many packets were left under-utilized.
    under: u64,
}

impl Ren {
    /// A marker for a link of this rate, which is idle. Sampling begins now.
    pub fn new(period: NonZeroU64, link: Rate, now: Nanos) -> Self {
        Self {
            period,
            link,
            begin: now,
            busy: now,
            carry: link.fresh(),
            window: [Part::default(); PARTS + 1],
            newest: now,
        }
    }

    /// Another sampling period, or another rate of the link. What was measured stays.
    pub fn set(&mut self, period: NonZeroU64, link: Rate) {
        self.period = period;
        if link != self.link {
            self.link = link;
            self.carry = link.fresh();
        }
    }

    /// A packet of any band leaves at `now`, of `wire_len` bytes. `true`: a sampling period begins
    /// with it.
    pub fn passes(&mut self, now: Nanos, wire_len: u32) -> bool {
        let begins = self.sample(now);
        let period = Nanos(self.period.get());
        self.slide(now);
        if now > self.busy {
            if now - self.busy > period {
                let [newest, ..] = &mut self.window;
                newest.idle += self.link.duration(FRAME_WIRE_LEN);
            } else {
                self.idle_since(self.busy, now);
            }
            (self.busy, self.carry) = (now, self.link.fresh());
        }
        let (time, carry) = self.link.advance(wire_len, self.carry);
        (self.busy, self.carry) = (self.busy + time, carry);
        // A device that is faster than it says does not become busy for ever.
        if self.busy > now + period {
            (self.busy, self.carry) = (now + period, self.link.fresh());
        }
        begins
    }

    /// Begins another period if it is time.
    fn sample(&mut self, now: Nanos) -> bool {
        let period = Nanos(self.period.get());
        let elapsed = now - self.begin;
        if elapsed < period {
            return false;
        }
        if elapsed - period < period {
            self.begin += period;
        } else {
            self.begin = now;
        }
        true
    }

    /// ns of a part, at least 1.
    fn part(&self) -> NonZeroU64 {
        NonZeroU64::new(self.period.get() / PARTS as u64).unwrap_or(NonZeroU64::MIN)
    }

    /// Lets parts pass until `now` is in the newest.
    fn slide(&mut self, now: Nanos) {
        let part = self.part();
        let parts = (now - self.newest).0 / part;
        for _ in 0..parts.min(PARTS as u64 + 1) {
            self.window.copy_within(..PARTS, 1);
            let [newest, ..] = &mut self.window;
            *newest = Part::default();
        }
        self.newest += Nanos(parts.saturating_mul(part.get()));
    }

    /// The link was idle from `from` to `until`, which is in the newest part.
    fn idle_since(&mut self, from: Nanos, until: Nanos) {
        let part = Nanos(self.part().get());
        let (mut begin, mut end) = (self.newest, until);
        for it in &mut self.window {
            it.idle += end - begin.max(from);
            if begin <= from {
                return;
            }
            (begin, end) = (begin - part, begin);
        }
    }

    /// What there was in the period until `now`.
    fn last_period(&self, now: Nanos) -> Part {
        let part = self.part();
        let passed = (now - self.newest).0.min(part.get());
        let left = part.get() - passed;
        let mut sum = Part::default();
        let [newer @ .., oldest] = &self.window;
        for it in newer {
            sum.idle += it.idle;
            sum.over = sum.over.saturating_add(it.over);
            sum.under = sum.under.saturating_add(it.under);
        }
        let of = |all: u64| all.saturating_mul(left) / part;
        sum.idle += Nanos(of(oldest.idle.0));
        sum.over = sum.over.saturating_add(of(oldest.over));
        sum.under = sum.under.saturating_add(of(oldest.under));
        sum
    }

    /// Would `packets` full frames fit into these gaps?
    fn fit(&self, idle: Nanos, packets: u64) -> bool {
        let bytes = packets.saturating_mul(FRAME_WIRE_LEN.into());
        self.link.volume_in(idle) >= self.link.volume(bytes)
    }

    /// The mark for a packet that leaves now, after [`Ren::passes`], while `queue` packets wait
    /// behind it.
    pub fn judge(&self, now: Nanos, queue: u64) -> u8 {
        let last = self.last_period(now);
        // ql > ti + marks under way.
        if queue > last.over && !self.fit(last.idle, queue.wrapping_sub(last.over)) {
            return OVER;
        }
        // ti > ql + packets left so.
        if self.fit(
            last.idle,
            queue.saturating_add(last.under).saturating_add(1),
        ) {
            return UNDER;
        }
        FULL
    }

    /// `packets` packets have left with this mark, which [`Ren::judge`] gave.
    pub fn gave(&mut self, mark: u8, packets: u32) {
        let [newest, ..] = &mut self.window;
        let count = match mark {
            OVER => &mut newest.over,
            UNDER => &mut newest.under,
            _ => return,
        };
        *count = count.saturating_add(packets.into());
    }

    /// Forgets what was sent when.
    pub fn reset(&mut self) {
        self.window = [Part::default(); PARTS + 1];
    }
}

#[cfg(test)]
mod tests;
