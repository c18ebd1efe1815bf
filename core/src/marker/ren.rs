// SPDX-License-Identifier: GPL-2.0
//! REN's marks (*REN: Receiver-Driven Congestion Control Using Explicit Notification*, sections 3.2.1 to 3.2.3): the port measures in each
//! sampling period, about a round trip, how many packets wait (*ql*) and how many more would have fit (*ti*, from the gaps in which the link was
//! idle). *ql - ti* packets are marked over-utilized, and their grants will trigger no packet; or *ti - ql* packets are left under-utilized,
//! and their grants will trigger two. All others are marked fully utilized: one.
//!
//! | mark | ECN field | who leaves it |
//! |---|---|---|
//! | [`UNDER`] | 00 | the sender; a port with room to spare |
//! | [`FULL`] | 01 | a port without |
//! | [`OVER`] | 10 | a port with a queue |
//!
//! A mark is only ever raised, so that the narrowest port on a path decides (section 3.2.3). 11, which a router may have written that takes the
//! field for RFC 3168's, is above all.
//!
//! # When a mark is given
//!
//! The paper says that ql and ti are compared at the end of each period, and shows in its figures 5, 6 and 7 packets that are marked in the
//! period in which their queue forms. It cannot be both:
//! - Marks worked out at the end of a period and given in the next are late by a period, and take another one to act. When two flows start
//!   together, all packets of two rounds are marked, nothing triggers a packet any more, and both flows stand still.
//! - As in the figures, each packet that leaves is judged by what the period has brought so far: it is marked over-utilized while there were less
//!   than ql - ti such marks, left under-utilized while there were less than ti - ql. That is what [`Ren`] does.
//!
//! One thing must be added. A mark acts when it has gone round. The queue for which marks were given in one period is still there at the beginning of
//! the next; counted afresh it would be marked twice, and half of the link be idle for a round. So marks count for a whole period after they
//! were given: those of the period before for the part of this one that is left. Then a burst of m flows leaves the queue that the paper's
//! equations (1) and (3) say, one bandwidth-delay product less each round, and the link full.
//!
//! # What a gap is
//!
//! The time in which the link had nothing to send, whatever it sends: packets of all bands, of REN flows or not, are no gaps. A gap counts for the
//! period in which it ends. All gaps of a period together count as no more than the period. One that is longer than a period says only that there
//! is room: it counts as one packet. Otherwise a flow that starts at full rate on an idle link would be told to double it.
//!
//! The time of a packet is that of a full frame of 1538 bytes on the wire, the paper's MSS/C. What is compared is exact
//! (see [`Rate`]'s volumes).

use core::num::NonZeroU64;

use crate::config::FRAME_WIRE_LEN;
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

/// The marker. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Ren {
    period: NonZeroU64,
    link: Rate,
    /// When this period began.
    begin: Nanos,
    /// Until when the link is busy with what was sent: the exact time, rounded up, and what it was rounded by.
    busy: Nanos,
    carry: u64,
    /// The gaps of this period.
    idle: Nanos,
    /// How many packets were marked over-utilized in this period, and in the one before.
    over: u64,
    over_before: u64,
    /// How many packets were left under-utilized in this period.
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
            idle: Nanos::ZERO,
            over: 0,
            over_before: 0,
            under: 0,
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

    /// A packet of any band leaves at `now`, of `wire_len` bytes. `true`: a sampling period begins with it.
    pub fn passes(&mut self, now: Nanos, wire_len: u32) -> bool {
        let begins = self.sample(now);
        let period = Nanos(self.period.get());
        if now > self.busy {
            let gap = now - self.busy;
            let counts = if gap > period {
                self.link.duration(FRAME_WIRE_LEN)
            } else {
                gap
            };
            self.idle = (self.idle + counts).min(period);
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
            self.over_before = self.over;
        } else {
            // There was at least one without a packet: the marks of the last one have acted.
            self.begin = now;
            self.over_before = 0;
        }
        (self.idle, self.over, self.under) = (Nanos::ZERO, 0, 0);
        true
    }

    /// Would `packets` full frames have fit into this period's gaps?
    fn fit(&self, packets: u64) -> bool {
        let bytes = packets.saturating_mul(FRAME_WIRE_LEN.into());
        self.link.volume_in(self.idle) >= self.link.volume(bytes)
    }

    /// The mark for a packet that leaves now, after [`Ren::passes`], while `queue` packets wait behind it.
    pub fn judge(&self, now: Nanos, queue: u64) -> u8 {
        // ql > ti + marks under way: those of this period, and the part of the last one's that has not acted yet.
        let left = (self.begin + Nanos(self.period.get())) - now;
        let before = self.over_before.saturating_mul(left.0) / self.period;
        let under_way = self.over.saturating_add(before);
        if queue > under_way && !self.fit(queue.wrapping_sub(under_way)) {
            return OVER;
        }
        // ti > ql + packets left so.
        if self.fit(queue.saturating_add(self.under).saturating_add(1)) {
            return UNDER;
        }
        FULL
    }

    /// `packets` packets have left with this mark, which [`Ren::judge`] gave.
    pub fn gave(&mut self, mark: u8, packets: u32) {
        let count = match mark {
            OVER => &mut self.over,
            UNDER => &mut self.under,
            _ => return,
        };
        *count = count.saturating_add(packets.into());
    }

    /// Forgets what was sent when.
    pub fn reset(&mut self) {
        (self.idle, self.over, self.over_before, self.under) = (Nanos::ZERO, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests;
