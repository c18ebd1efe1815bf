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
    slack: Nanos,
    /// What the last packet took: the next one is likely to be as long, and then no division is needed.
    last: Taken,
}

/// What a packet of some length takes from a whole nanosecond on, and the part of a nanosecond that is left over.
#[derive(Clone, Copy, Debug)]
struct Taken {
    wire_len: u32,
    time: Nanos,
    part: u64,
}

impl Taken {
    #[inline]
    fn new(rate: Rate, wire_len: u32) -> Self {
        let (time, part) = rate.advance(wire_len, 0);
        Self {
            wire_len,
            time,
            part,
        }
    }
}

impl Shaper {
    /// A shaper that is ready at `now`, and whose schedule may be behind the clock by at most `slack`.
    #[inline]
    pub fn new(rate: Rate, slack: Nanos, now: Nanos) -> Self {
        Self {
            rate,
            next: now,
            carry: rate.fresh(),
            slack,
            last: Taken::new(rate, 0),
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
    #[inline]
    pub fn charge(&mut self, now: Nanos, wire_len: u32) {
        if now - self.next > self.slack {
            (self.next, self.carry) = (now - self.slack, self.rate.fresh());
        }
        if wire_len != self.last.wire_len {
            self.last = Taken::new(self.rate, wire_len);
        }
        let (time, carry) = self
            .rate
            .carry_over(self.last.time, self.last.part, self.carry);
        self.next += time;
        self.carry = carry;
    }

    /// [`Shaper::charge`], if a packet may leave at `now` and is as long as the last one. `None`, and nothing has changed, otherwise.
    #[inline(always)]
    pub(crate) fn try_charge(&mut self, now: Nanos, wire_len: u32) -> Option<()> {
        let (mut next, mut carry) = (self.next.0, self.carry);
        let late = now.0.checked_sub(next)?;
        if wire_len != self.last.wire_len {
            return None;
        }
        if late > self.slack.0 {
            // Not before the beginning of time, or `late` would not be more.
            next = now.0.wrapping_sub(self.slack.0);
            carry = self.rate.fresh();
        }
        let (time, carry) = self.rate.carry_over(self.last.time, self.last.part, carry);
        self.next = Nanos(next.checked_add(time.0)?);
        self.carry = carry;
        Some(())
    }

    /// What is shaped was idle until `now`, so that its schedule starts no earlier.
    ///
    /// To the nanosecond: if the next packet could leave exactly now, the fraction that this was rounded up by stays.
    #[inline]
    pub fn arrive(&mut self, now: Nanos) {
        if self.next < now {
            (self.next, self.carry) = (now, self.rate.fresh());
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
        self.rate = rate;
        self.last = Taken::new(rate, 0);
    }

    /// Forgets the schedule: ready at once.
    pub fn reset(&mut self) {
        (self.next, self.carry) = (Nanos::ZERO, self.rate.fresh());
    }
}

#[cfg(test)]
mod tests;
