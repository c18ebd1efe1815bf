// SPDX-License-Identifier: GPL-2.0
//! Spacing packets at a rate.
//!
//! A [`Shaper`] knows when the next packet may leave. Whoever owns it asks [`Shaper::ready`], sends one packet and
//! [`Shaper::charge`]s its length, which moves the next time by what the packet takes at the rate.
//!
//! While there is a backlog, the schedule advances from itself and not from the time of the call: a late
//! timer delays one packet and not all that follow. Lateness can be made up for to a bound, the *slack*:
//! the schedule is never further behind the clock than that, so a long stall is not followed by a long burst.
//!
//! Idle time earns nothing. Call [`Shaper::arrive`] when the queue goes from empty to
//! non-empty: then the first packet may leave at once, and the second its transmission time later.
//! This is a token bucket that holds one packet, however large, plus the slack.

use crate::units::{Nanos, Rate};

/// The schedule of what leaves at a rate. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Shaper {
    rate: Rate,
    /// The first nanosecond in which the next packet may leave: the exact time, rounded up.
    next: Nanos,
    /// By how little it was rounded up; see [`Rate::advance`].
    carry: u64,
    /// The carry of a schedule that starts at a whole nanosecond.
    fresh: u64,
    slack: Nanos,
    /// What packets of the last two lengths that were learned take: the next one is likely to be of these, and then no division is needed.
    last: Taken,
    other: Taken,
}

/// What a packet of some length takes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    wire_len: u32,
    /// The time that the packet takes, rounded up to a whole nanosecond, or one more if it takes exactly such.
    up: Nanos,
    /// By how much it was rounded up, as a carry.
    by: u64,
}

impl Taken {
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
    fn after(&self, carry: u64, rate: Rate) -> (Nanos, u64) {
        let (rest, below) = carry.overflowing_sub(self.by);
        let time = Nanos(self.up.0.wrapping_sub(u64::from(below)));
        let carry = if below {
            rest.wrapping_add(rate.parts())
        } else {
            rest
        };
        (time, carry)
    }
}

impl Shaper {
    /// What `Shaper::new(Rate::ONE, Nanos::ZERO, Nanos::ZERO)` makes, as a constant.
    pub(crate) const ONE: Self = {
        let taken = Taken {
            wire_len: 0,
            up: Nanos(1),
            by: 1,
        };
        Self {
            rate: Rate::ONE,
            next: Nanos::ZERO,
            carry: 0,
            fresh: 0,
            slack: Nanos::ZERO,
            last: taken,
            other: taken,
        }
    };

    /// A shaper that is ready at `now`, and whose schedule may be behind the clock by at most `slack`.
    #[inline]
    pub fn new(rate: Rate, slack: Nanos, now: Nanos) -> Self {
        Self {
            rate,
            next: now,
            carry: rate.fresh(),
            fresh: rate.fresh(),
            slack,
            last: Taken::new(rate, 0),
            other: Taken::new(rate, 0),
        }
    }

    /// The rate in force.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The first nanosecond in which the next packet may leave: never early, late by less than 1 ns.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Whether a packet may leave at `now`.
    #[inline]
    pub fn ready(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// A packet of `wire_len` bytes leaves at `now`.
    #[inline(always)]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) {
        if now - self.next > self.slack {
            (self.next, self.carry) = (now - self.slack, self.fresh);
        }
        if wire_len != self.last.wire_len {
            core::mem::swap(&mut self.last, &mut self.other);
            if wire_len != self.last.wire_len {
                self.last = Taken::new(self.rate, wire_len);
            }
        }
        let (time, carry) = self.last.after(self.carry, self.rate);
        self.next += time;
        self.carry = carry;
    }

    /// [`Shaper::charge`], if a packet may leave at `now` and is of one of the last two lengths. `None`, and nothing has changed, otherwise.
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
            // Not before the beginning of time, or `late` would not be more. Done twice, this does no more than once.
            self.next = Nanos(now.0.wrapping_sub(self.slack.0));
            self.carry = self.fresh;
        }
        let (time, carry) = taken.after(self.carry, self.rate);
        self.next = Nanos(self.next.0.checked_add(time.0)?);
        self.carry = carry;
        Some(())
    }

    /// What is shaped was idle until `now`, so that its schedule starts no earlier.
    ///
    /// To the nanosecond: if the next packet could leave exactly now, the fraction that this was rounded up by stays.
    #[inline]
    pub fn arrive(&mut self, now: Nanos) {
        if self.next < now {
            (self.next, self.carry) = (now, self.fresh);
        }
    }

    /// Another rate and slack from now on. The time of the next packet stays (rounded up to a nanosecond), but is
    /// at most what `wire_len` bytes take at the new rate after `now`: the debt of a packet sent at a rate that
    /// was much lower must not stall the port.
    ///
    /// With the same rate nothing changes but the slack.
    pub fn set_rate(&mut self, rate: Rate, slack: Nanos, now: Nanos, wire_len: u32) {
        self.slack = slack;
        if rate == self.rate {
            return;
        }
        self.next = self.next.min(now + rate.duration(wire_len));
        self.carry = rate.fresh();
        self.fresh = rate.fresh();
        self.rate = rate;
        (self.last, self.other) = (Taken::new(rate, 0), Taken::new(rate, 0));
    }

    /// Forgets the schedule: ready at once.
    pub fn reset(&mut self) {
        (self.next, self.carry) = (Nanos::ZERO, self.rate.fresh());
    }
}

#[cfg(test)]
mod tests;
