// SPDX-License-Identifier: GPL-2.0
//! The share of the link that may go before all else.
//!
//! The signal band is served first and is not paced, and who sends decides what is a signal: a
//! byte of Turnstile's header, a DSCP, an ARP request. Without a bound, one sender of such packets
//! has the whole link. So signals have a share of it; what arrives beyond that is *excess*, and
//! goes to the data band, there with what no token asked for: the first bytes of a message must not
//! overtake the SYNC that announces them, or they are sent again. Excess is not dropped for being
//! that, and may come after signals that were sent later.
//!
//! # Credit
//!
//! A token bucket, which fills in chunks of [`CHUNK`] bytes. Signals draw from the chunk, which
//! takes a subtraction and no clock; who finds it used up buys the next one by the schedule of the
//! share, which may be ahead of the clock by the time of [`BURST`] bytes and the port's jitter.
//! Idle time earns nothing beyond that. The schedule is exact, as a
//! [`Shaper`](crate::shaper::Shaper)'s: over any time signals get no more than their share, a burst
//! and a chunk, and while they are offered more, no less than their share less a chunk.
//!
//! # How large a burst
//!
//! [`BURST`] holds five signals of 100 bytes from each of 128 senders that begin at once, all that
//! they exchange about a message: an incast must not lose its order. On a link of 10 Gbit/s it is
//! 52 us of the link.
//!
//! # What bridges keep to themselves
//!
//! Frames to 01-80-C2-00-00-00 to -0F (STP, LACP, LLDP, pause) keep links up, and no bridge passes
//! them on: who floods a port from afar cannot send them through it. For them the schedule may be
//! ahead by [`KEPT`] bytes more, so that those few a second are signals also while others flood the
//! band. They count for the share like all others, since what is not a bridge may pass them on.
//! ARP and neighbour discovery have nothing of the sort: anyone on the network may send them.

use crate::units::{Nanos, Rate};

/// Bytes on the wire: what signals may take at once.
pub const BURST: u32 = 64 << 10;
/// Bytes on the wire: what frames that bridges keep to themselves may take beyond.
pub const KEPT: u32 = 16 << 10;
/// Bytes on the wire: what is bought at once.
pub const CHUNK: u32 = 4 << 10;

/// Who says whether one more signal is within the share. See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    /// Bytes that are paid for. As good as endless where signals have no share.
    credit: u64,
    /// When all that was bought has passed at the share's rate, rounded up.
    next: Nanos,
    /// The rounding of `next`; see [`Rate::advance`].
    carry: u64,
    /// How far `next` may be ahead of the clock.
    tolerance: Nanos,
    /// The same for frames that bridges keep to themselves.
    kept: Nanos,
    /// `None`: all signals pass.
    rate: Option<Rate>,
}

impl Policer {
    /// One that lets all signals pass.
    pub(super) const OFF: Self = Self {
        credit: u64::MAX,
        next: Nanos::ZERO,
        carry: 0,
        tolerance: Nanos::ZERO,
        kept: Nanos::ZERO,
        rate: None,
    };

    /// Another share, as a rate, and another jitter, from `now` on. What was bought stays bought;
    /// at a lower rate the schedule is not further ahead than it could have come by that.
    pub(super) fn set(&mut self, rate: Option<Rate>, jitter: Nanos, now: Nanos) {
        let Some(new) = rate else {
            *self = Self::OFF;
            return;
        };
        self.tolerance = new.duration(BURST.saturating_sub(CHUNK)) + jitter;
        self.kept = self.tolerance + new.duration(KEPT);
        match self.rate {
            None => (self.credit, self.next) = (0, now),
            Some(old) if old == new => return,
            Some(_) => self.next = self.next.min(now + self.kept),
        }
        (self.rate, self.carry) = (rate, new.fresh());
    }

    /// Forgets what passed when.
    pub(super) fn reset(&mut self) {
        if let Some(rate) = self.rate {
            (self.credit, self.next, self.carry) = (0, Nanos::ZERO, rate.fresh());
        }
    }

    /// Pays for a signal of `wire_len` bytes if that needs no look at the clock. If not, nothing
    /// has changed: ask [`Policer::pay`].
    #[inline(always)]
    pub(super) fn try_pay(&mut self, wire_len: u32) -> bool {
        match self.credit.checked_sub(wire_len.into()) {
            Some(rest) => {
                self.credit = rest;
                true
            }
            None => false,
        }
    }

    /// Pays for a signal of `wire_len` bytes that arrives at `now`. `false`: it is excess. `kept`
    /// says whether bridges keep it to themselves; it is asked where that matters.
    pub(super) fn pay(&mut self, now: Nanos, wire_len: u32, kept: impl FnOnce() -> bool) -> bool {
        if self.try_pay(wire_len) {
            return true;
        }
        match self.buy(now, wire_len, kept) {
            Some(left) => {
                self.credit(left);
                true
            }
            None => false,
        }
    }

    /// Pays for a signal of `wire_len` bytes by the schedule, whatever is left of what was bought
    /// before. How much more was bought; `None`: it is excess.
    pub(super) fn buy(
        &mut self,
        now: Nanos,
        wire_len: u32,
        kept: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let Some(rate) = self.rate else {
            // It took centuries.
            *self = Self::OFF;
            return Some(0);
        };
        if self.next < now {
            (self.next, self.carry) = (now, rate.fresh());
        }
        let ahead = self.next - now;
        let bought = if ahead <= self.tolerance {
            wire_len.max(CHUNK)
        } else if ahead <= self.kept && kept() {
            // Nothing is left of it for others.
            wire_len
        } else {
            return None;
        };
        let (time, carry) = rate.advance(bought, self.carry);
        (self.next, self.carry) = (self.next + time, carry);
        Some(bought.saturating_sub(wire_len).into())
    }

    /// So many more bytes are paid for.
    pub(super) fn credit(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests;
