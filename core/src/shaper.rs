// SPDX-License-Identifier: GPL-2.0
//! A shaper: spaces packets at a rate, without drift.
//!
//! A [`Shaper`] knows when the next packet may leave. Its owner asks [`Shaper::ready`], sends one
//! packet and [`Shaper::charge`]s its length, which moves that time by the packet's time at the
//! rate.
//!
//! While there is a backlog, the schedule advances from the scheduled time and not from the time of
//! the call: a late timer delays one packet and not all that follow. Lateness is made up for up to
//! a bound, the *slack*: the schedule is never further behind the clock than that, so no long burst
//! follows a long stall.
//!
//! Of packets that are longer than a given length some bytes may count at another rate:
//! [`Shaper::set_beyond`].
//!
//! Idle time earns nothing. Call [`Shaper::arrive`] when the queue goes from empty to
//! non-empty: then the first packet may leave at once, and the second its transmission time later.
//! This is a token bucket that holds one packet, however large, plus the slack.

use crate::units::{Nanos, Rate};

/// The schedule of what leaves at a rate. See the module's documentation.
///
/// The fields' order is that of cache lines: the port aligns `next` with the start of one, which
/// then has all that a token needs but the first two fields.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Shaper {
    /// [`Rate::parts`].
    parts: u64,
    slack: Nanos,
    /// The first nanosecond in which the next packet may leave: the exact time, rounded up.
    next: Nanos,
    /// The rounding of `next`, as a carry; see [`Rate::advance`].
    carry: u64,
    /// The times of the last two lengths that were charged: the next packet is likely to have one
    /// of these, and then needs no division.
    last: Taken,
    other: Taken,
    rate: Rate,
    beyond: Beyond,
}

/// The bytes of a packet that take their time at another rate than its shaper's: those from `from`
/// up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The first of them, counted from 0.
    pub from: u32,
    /// The first that is none of them any more.
    pub to: u32,
    /// The rate at which they go.
    pub rate: Rate,
}

impl Beyond {
    /// None: all bytes take their time at the shaper's rate.
    pub const NONE: Self = Self {
        from: 0,
        to: 0,
        rate: Rate::UNLIMITED,
    };

    /// How many of a super-packet's bytes they are, which has so many in so many packets.
    fn of(&self, wire_len: u32, segs: u32) -> u32 {
        let to = wire_len.min(self.to.saturating_mul(segs));
        to.saturating_sub(self.from.saturating_mul(segs))
    }
}

/// The next state of a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After {
    next: Nanos,
    carry: u64,
}

/// The time of a packet of some length.
#[derive(Clone, Copy, Debug)]
struct Taken {
    wire_len: u32,
    /// The time that the packet takes, rounded up to a whole nanosecond, or one more if it takes
    /// exactly such.
    up: Nanos,
    /// The rounding of `whole`, as a carry.
    by: u64,
}

impl Taken {
    /// Of nothing, at [`Rate::UNLIMITED`].
    const NOTHING: Self = Self {
        wire_len: 0,
        up: Nanos(1),
        by: 1,
    };

    #[inline]
    fn new(rate: Rate, beyond: &Beyond, wire_len: u32, segs: u32) -> Self {
        let longer = beyond.of(wire_len, segs);
        let (mut time, mut part) = rate.advance(wire_len.saturating_sub(longer), 0);
        if longer != 0 {
            let (more, rest) = beyond.rate.advance(longer, 0);
            let (carried, sum) = rate.join(part, beyond.rate.part_of(rest, &rate));
            (time, part) = (time + more + carried, sum);
        }
        Self {
            wire_len,
            // Below 2^63 + 2^23, or 2^64 - 1 where the sum above is.
            up: Nanos(time.0.saturating_add(1)),
            by: rate.parts().wrapping_sub(part),
        }
    }

    /// [`Rate::advance`] for this length, without its division.
    #[inline(always)]
    fn after(&self, carry: u64, parts: u64) -> (Nanos, u64) {
        let (rest, below) = carry.overflowing_sub(self.by);
        let time = Nanos(self.up.0.wrapping_sub(u64::from(below)));
        // A mask instead of a branch, which would be unpredictable.
        let borrowed = parts & u64::from(below).wrapping_neg();
        (time, rest.wrapping_add(borrowed))
    }
}

impl Shaper {
    /// The fast path uses only so many bytes from the beginning on.
    pub(crate) const HOT: usize = core::mem::offset_of!(Self, rate);

    /// A placeholder, to be set up with [`Shaper::begin`].
    pub const EMPTY: Self = Self {
        parts: 1,
        slack: Nanos::ZERO,
        next: Nanos::ZERO,
        carry: 0,
        last: Taken::NOTHING,
        other: Taken::NOTHING,
        rate: Rate::UNLIMITED,
        beyond: Beyond::NONE,
    };

    /// A shaper that is ready at `now`, and whose schedule may be behind the clock by at most
    /// `slack`.
    #[inline]
    pub fn new(rate: Rate, slack: Nanos, now: Nanos) -> Self {
        let mut shaper = Self::EMPTY;
        shaper.begin(rate, slack, now);
        shaper
    }

    /// Starts afresh, as [`Shaper::new`] would.
    pub fn begin(&mut self, rate: Rate, slack: Nanos, now: Nanos) {
        (self.next, self.slack) = (now, slack);
        self.set(rate);
    }

    fn set(&mut self, rate: Rate) {
        (self.rate, self.parts, self.carry) = (rate, rate.parts(), rate.fresh());
        self.forget();
    }

    /// Forgets the times of lengths.
    fn forget(&mut self) {
        (self.last, self.other) = (self.taken(0), self.taken(0));
    }

    #[inline]
    fn taken(&self, wire_len: u32) -> Taken {
        Taken::new(self.rate, &self.beyond, wire_len, 1)
    }

    /// From now on these bytes of a packet take their time at another rate, whatever becomes of the
    /// shaper's.
    pub fn set_beyond(&mut self, beyond: &Beyond) {
        if *beyond != self.beyond {
            self.beyond = *beyond;
            self.forget();
        }
    }

    /// The carry of a schedule that starts at a whole nanosecond.
    #[inline]
    fn fresh(&self) -> u64 {
        self.parts.wrapping_sub(1)
    }

    /// The rate in force.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The first nanosecond in which the next packet may leave: never early, late by less than 1
    /// ns.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Whether a packet may leave at `now`.
    #[inline]
    pub fn ready(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// A packet of `wire_len` bytes leaves at `now`. Returns the time that is forfeited: the
    /// lateness beyond the slack.
    #[inline(always)]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) -> Nanos {
        let forfeited = self.forfeit(now);
        if wire_len != self.last.wire_len {
            core::mem::swap(&mut self.last, &mut self.other);
            if wire_len != self.last.wire_len {
                self.last = self.taken(wire_len);
            }
        }
        let taken = self.last;
        self.take(&taken);
        forfeited
    }

    /// [`Shaper::charge`] for a super-packet of `segs` packets, which together have `wire_len`
    /// bytes.
    #[cold]
    #[inline(never)]
    pub fn charge_super(&mut self, now: Nanos, wire_len: u32, segs: u32) -> Nanos {
        let forfeited = self.forfeit(now);
        let taken = Taken::new(self.rate, &self.beyond, wire_len, segs);
        self.take(&taken);
        forfeited
    }

    /// Gives up the lateness beyond the slack.
    #[inline(always)]
    fn forfeit(&mut self, now: Nanos) -> Nanos {
        let mut forfeited = Nanos::ZERO;
        if now - self.next > self.slack {
            let next = now - self.slack;
            forfeited = next - self.next;
            (self.next, self.carry) = (next, self.fresh());
        }
        forfeited
    }

    #[inline(always)]
    fn take(&mut self, taken: &Taken) {
        let (time, carry) = taken.after(self.carry, self.parts);
        self.next += time;
        self.carry = carry;
    }

    /// [`Shaper::charge`] without a division, if a packet may leave at `now`, no time is forfeited,
    /// and its length is one of the last two. Otherwise `None`, and nothing has changed.
    #[inline(always)]
    pub(crate) fn try_charge(&mut self, now: Nanos, wire_len: u32) -> Option<()> {
        let late = now.0.checked_sub(self.next.0)?;
        let taken = if wire_len == self.last.wire_len {
            &self.last
        } else if wire_len == self.other.wire_len {
            &self.other
        } else {
            return None;
        };
        if late > self.slack.0 {
            return None;
        }
        let (time, carry) = taken.after(self.carry, self.parts);
        self.next = Nanos(self.next.0.checked_add(time.0)?);
        self.carry = carry;
        Some(())
    }

    /// The schedule after a packet of `wire_len` bytes that leaves at `now`, when the shaper was
    /// idle before. `None`: the packet may not leave yet, or its length is none of the last two.
    #[inline(always)]
    pub(crate) fn plan(&self, now: Nanos, wire_len: u32) -> Option<After> {
        if self.next > now {
            return None;
        }
        // As `arrive` has it.
        let carry = if self.next == now {
            self.carry
        } else {
            self.fresh()
        };
        let taken = if wire_len == self.last.wire_len {
            &self.last
        } else if wire_len == self.other.wire_len {
            &self.other
        } else {
            return None;
        };
        let (time, carry) = taken.after(carry, self.parts);
        Some(After {
            next: Nanos(now.0.checked_add(time.0)?),
            carry,
        })
    }

    /// The packet of [`Shaper::plan`] leaves: takes over the planned schedule.
    #[inline(always)]
    pub(crate) fn follow(&mut self, after: After) {
        (self.next, self.carry) = (after.next, after.carry);
    }

    /// The shaper was idle until `now`: its schedule starts no earlier.
    ///
    /// If the next packet could leave at exactly this nanosecond, the rounding of its time stays.
    #[inline]
    pub fn arrive(&mut self, now: Nanos) {
        if self.next < now {
            (self.next, self.carry) = (now, self.fresh());
        }
    }

    /// The schedule is another one's, who says when the next packet may leave.
    pub(crate) fn mirror(&mut self, next: Nanos) {
        (self.next, self.carry) = (next, self.fresh());
    }

    /// The last packet that was charged takes so much longer.
    pub(crate) fn delay(&mut self, time: Nanos) {
        self.next += time;
    }

    /// Changes rate and slack from now on. The time of the next packet stays (rounded up to a
    /// nanosecond), but is at most the time of `wire_len` bytes at the new rate after `now`: the
    /// debt of a packet sent at a much lower rate must not stall the port.
    ///
    /// With the same rate only the slack changes.
    pub fn set_rate(&mut self, rate: Rate, slack: Nanos, now: Nanos, wire_len: u32) {
        self.slack = slack;
        if rate == self.rate {
            return;
        }
        self.next = self.next.min(now + rate.duration(wire_len));
        self.set(rate);
    }

    /// Forgets the schedule: ready at once.
    pub fn reset(&mut self) {
        (self.next, self.carry) = (Nanos::ZERO, self.rate.fresh());
    }
}

#[cfg(test)]
mod tests;
