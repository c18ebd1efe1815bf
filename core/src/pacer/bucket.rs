// SPDX-License-Identifier: GPL-2.0
//! HULL's token bucket, in exact arithmetic.
//!
//! Tokens flow in at the rate of [`PacingRate`], which changes every T_r, up to the bucket's depth;
//! a packet takes as many as it has bytes on the wire. Tokens are counted in *pieces* so small that
//! at any rate a nanosecond brings a whole number of them. So only the time at which there are
//! enough is rounded, up to the next nanosecond.
//!
//! The bucket is lazy: each call gets the time, and first does what was due since the last call.

use crate::pacer::config::Config;
use crate::pacer::law::{Law, PacingRate, UNITS};
use crate::units::{Nanos, Rate};
use core::num::NonZeroU64;

/// Pieces of a byte: a rate's unit is one piece per nanosecond. 2^37.9.
const BYTE: i64 = (UNITS * 1_000_000_000) as i64;

/// The most intervals that are caught up with one by one while packets wait. If the device has
/// taken no packet for longer, the bucket has filled, and the rate has settled at what the backlog
/// gives.
const MAX_LATE: u32 = 1024;

/// The bucket.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    law: Law,
    rate: PacingRate,
    /// Bytes, at most 2^20.
    depth: u32,
    /// Pieces. At most `depth`; below 0 after a packet that was longer than that. Its absolute
    /// value is below 2^61.
    tokens: i64,
    /// Tokens have flowed in until this time.
    upto: Nanos,
    /// When the rate changes next. After `upto`.
    next: Nanos,
    /// M_r: bytes since the rate last changed.
    arrived: u64,
    updates: u64,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(config: &Config, bytes_per_sec: u64, now: Nanos) -> Self {
        let law = Law::new(config);
        let mut bucket = Self {
            law,
            rate: PacingRate::new(bytes_per_sec),
            depth: 0,
            tokens: 0,
            upto: now,
            next: now + Nanos(law.interval()),
            arrived: 0,
            updates: 0,
        };
        bucket.set_depth(config.bucket);
        bucket.tokens = bucket.full();
        bucket
    }

    fn set_depth(&mut self, bytes: u32) {
        self.depth = bytes.min(1 << 20);
        self.tokens = self.tokens.min(self.full());
    }

    /// The bucket's depth, in pieces.
    #[inline]
    fn full(&self) -> i64 {
        i64::from(self.depth).wrapping_mul(BYTE)
    }

    /// Changes the options from now on. Tokens in the bucket stay, up to the new depth. A shorter
    /// interval takes effect with the present one.
    pub(crate) fn change(&mut self, config: &Config, bytes_per_sec: Option<u64>, now: Nanos) {
        self.law = Law::new(config);
        let soon = self.upto.max(now) + Nanos(self.law.interval());
        self.next = self.next.min(soon);
        self.set_depth(config.bucket);
        if let Some(rate) = bytes_per_sec {
            self.rate = PacingRate::new(rate);
        }
    }

    /// bytes/s, rounded down.
    pub(crate) fn bytes_per_sec(&self) -> u64 {
        self.rate.units() / UNITS
    }

    /// How often the rate was updated.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// `bytes` come from the host. Call [`Bucket::advance`] before.
    #[inline]
    pub(crate) fn arrive(&mut self, bytes: u32) {
        self.arrived = self.arrived.saturating_add(bytes.into());
    }

    /// Advances to `now`; `backlog` bytes have been waiting since the last call. A clock that goes
    /// backwards counts as standing still.
    pub(crate) fn advance(&mut self, now: Nanos, backlog: u64) {
        let mut late = 0_u32;
        while now >= self.next {
            if backlog == 0 && self.arrived == 0 {
                self.rest(now);
                break;
            }
            self.flow_until(self.next);
            self.rate.update(&self.law, self.arrived, backlog);
            self.arrived = 0;
            self.updates = self.updates.wrapping_add(1);
            self.next += Nanos(self.law.interval());
            late = late.saturating_add(1);
            if late >= MAX_LATE && now >= self.next {
                self.next = now + Nanos(self.law.interval());
                break;
            }
        }
        self.flow_until(now);
    }

    /// Skips intervals in which nothing happened, up to the last whole one before `now`, which is
    /// not before `next`.
    fn rest(&mut self, now: Nanos) {
        self.flow_until(self.next);
        let interval = NonZeroU64::new(self.law.interval()).unwrap_or(NonZeroU64::MIN);
        let more = (now - self.next).0 / interval;
        let times = more.saturating_add(1);
        let at_first = self.rate.units();
        let sum = self.rate.decay(&self.law, times);
        self.updates = self.updates.wrapping_add(times);
        // The first of these rates was that of the interval that has just ended.
        self.pour(sum.saturating_sub(at_first).saturating_mul(interval.get()));
        self.upto = self.next + Nanos(more.saturating_mul(interval.get()));
        self.next = self.upto + Nanos(interval.get());
    }

    /// Tokens flow in at the present rate until `time`.
    #[inline]
    fn flow_until(&mut self, time: Nanos) {
        if time > self.upto {
            self.pour(self.rate.units().saturating_mul((time - self.upto).0));
            self.upto = time;
        }
    }

    #[inline]
    fn pour(&mut self, pieces: u64) {
        let pieces = i64::try_from(pieces).unwrap_or(i64::MAX);
        self.tokens = self.tokens.saturating_add(pieces).min(self.full());
    }

    /// Pieces that must be in the bucket before a packet may leave: those it takes, or a full
    /// bucket if it takes more.
    #[inline]
    fn needed(&self, wire_len: u32) -> i64 {
        i64::from(wire_len.min(self.depth)).wrapping_mul(BYTE)
    }

    /// Whether there are enough tokens for a packet of `wire_len` bytes. Call [`Bucket::advance`]
    /// before.
    #[inline]
    pub(crate) fn is_due(&self, wire_len: u32) -> bool {
        self.tokens >= self.needed(wire_len)
    }

    /// When to ask again for a packet that is not due: when there are enough tokens at the present
    /// rate, or when that changes.
    pub(crate) fn due(&self, wire_len: u32) -> Nanos {
        let missing = self.needed(wire_len).saturating_sub(self.tokens);
        let missing = u64::try_from(missing).unwrap_or(0);
        match NonZeroU64::new(self.rate.units()) {
            Some(rate) => {
                let up = u64::from(missing % rate != 0);
                let time = (missing / rate).saturating_add(up);
                self.next.min(self.upto + Nanos(time))
            }
            None => self.next,
        }
    }

    /// A packet of `wire_len` bytes leaves.
    #[inline]
    pub(crate) fn take(&mut self, wire_len: u32) {
        let pieces = i64::from(wire_len.min(Rate::MAX_LEN)).wrapping_mul(BYTE);
        self.tokens = self.tokens.saturating_sub(pieces);
    }
}

#[cfg(test)]
mod tests;
