// SPDX-License-Identifier: GPL-2.0
//! Spacing packets at a rate.
//!
//! A [`Shaper`] knows when the next packet may leave. Whoever owns it asks [`Shaper::ready`], sends
//! one packet and [`Shaper::charge`]s its length, which moves the next time by what the packet
//! takes at the rate.
//!
//! While there is a backlog, the schedule advances from itself and not from the time of the call: a
//! late timer delays one packet and not all that follow. Lateness can be made up for to a bound,
//! the *slack*: the schedule is never further behind the clock than that, so a long stall is not
//! followed by a long burst.
//!
//! Idle time earns nothing. Call [`Shaper::arrive`] when the queue goes from empty to
//! non-empty: then the first packet may leave at once, and the second its transmission time later.
//! This is a token bucket that holds one packet, however large, plus the slack.

use crate::units::{Nanos, Rate};

/// The schedule of what leaves at a rate. See the module's documentation.
///
/// In this order, because a cache line begins with `next` where the port has it so: all that a
/// token needs but for the first two fields is in one.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Shaper {
    /// [`Rate::parts`].
    parts: u64,
    slack: Nanos,
    /// The first nanosecond in which the next packet may leave: the exact time, rounded up.
    next: Nanos,
    /// By how little it was rounded up; see [`Rate::advance`].
    carry: u64,
    /// What packets of the last two lengths that were learned take: the next one is likely to be of
    /// these, and then no division is needed.
    last: Taken,
    other: Taken,
    rate: Rate,
}

/// What a schedule will be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct After {
    next: Nanos,
    carry: u64,
}

/// What a packet of some length takes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    wire_len: u32,
    /// The time that the packet takes, rounded up to a whole nanosecond, or one more if it takes
    /// exactly such.
    up: Nanos,
    /// By how much it was rounded up, as a carry.
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
    fn new(rate: Rate, wire_len: u32) -> Self {
        let (time, part) = rate.advance(wire_len, 0);
        Self {
            wire_len,
            // Below 2^63 + 2^23.
            up: Nanos(time.0.wrapping_add(1)),
            by: rate.parts().wrapping_sub(part),
        }
    }

    /// [`Rate::advance`] for this length, without its division.
    #[inline(always)]
    fn after(&self, carry: u64, parts: u64) -> (Nanos, u64) {
        let (rest, below) = carry.overflowing_sub(self.by);
        let time = Nanos(self.up.0.wrapping_sub(u64::from(below)));
        // A mask and no branch: which way it goes is as good as random.
        let borrowed = parts & u64::from(below).wrapping_neg();
        (time, rest.wrapping_add(borrowed))
    }
}

impl Shaper {
    /// So many bytes from the beginning on are all that a usual packet needs.
    pub(crate) const HOT: usize = core::mem::offset_of!(Self, rate);

    /// One that stands for none: to be set up with [`Shaper::begin`].
    pub const EMPTY: Self = Self {
        parts: 1,
        slack: Nanos::ZERO,
        next: Nanos::ZERO,
        carry: 0,
        last: Taken::NOTHING,
        other: Taken::NOTHING,
        rate: Rate::UNLIMITED,
    };

    /// A shaper that is ready at `now`, and whose schedule may be behind the clock by at most
    /// `slack`.
    #[inline]
    pub fn new(rate: Rate, slack: Nanos, now: Nanos) -> Self {
        let mut shaper = Self::EMPTY;
        shaper.begin(rate, slack, now);
        shaper
    }

    /// Begins anew, as [`Shaper::new`] would.
    pub fn begin(&mut self, rate: Rate, slack: Nanos, now: Nanos) {
        (self.next, self.slack) = (now, slack);
        self.set(rate);
    }

    fn set(&mut self, rate: Rate) {
        (self.rate, self.parts, self.carry) = (rate, rate.parts(), rate.fresh());
        (self.last, self.other) = (Taken::new(rate, 0), Taken::new(rate, 0));
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

    /// A packet of `wire_len` bytes leaves at `now`. Returned is the time that is forfeited: by how
    /// much this is later than the slack allows.
    #[inline(always)]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) -> Nanos {
        let mut forfeited = Nanos::ZERO;
        if now - self.next > self.slack {
            let next = now - self.slack;
            forfeited = next - self.next;
            (self.next, self.carry) = (next, self.fresh());
        }
        if wire_len != self.last.wire_len {
            core::mem::swap(&mut self.last, &mut self.other);
            if wire_len != self.last.wire_len {
                self.last = Taken::new(self.rate, wire_len);
            }
        }
        let (time, carry) = self.last.after(self.carry, self.parts);
        self.next += time;
        self.carry = carry;
        forfeited
    }

    /// [`Shaper::charge`], if a packet may leave at `now`, no time is forfeited, and it is of one
    /// of the last two lengths. `None`, and nothing has changed, otherwise.
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

    /// What the schedule is once a packet of `wire_len` bytes has left at `now`, before which
    /// nothing was there to be shaped. `None`: it may not leave yet, or is of none of the last two
    /// lengths.
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

    /// The packet of [`Shaper::plan`] leaves.
    #[inline(always)]
    pub(crate) fn follow(&mut self, after: After) {
        (self.next, self.carry) = (after.next, after.carry);
    }

    /// What is shaped was idle until `now`, so that its schedule starts no earlier.
    ///
    /// To the nanosecond: if the next packet could leave exactly now, the fraction that this was
    /// rounded up by stays.
    #[inline]
    pub fn arrive(&mut self, now: Nanos) {
        if self.next < now {
            (self.next, self.carry) = (now, self.fresh());
        }
    }

    /// Another rate and slack from now on. The time of the next packet stays (rounded up to a
    /// nanosecond), but is at most what `wire_len` bytes take at the new rate after `now`: the debt
    /// of a packet sent at a rate that was much lower must not stall the port.
    ///
    /// With the same rate nothing changes but the slack.
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
