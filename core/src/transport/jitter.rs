// SPDX-License-Identifier: GPL-2.0
//! Randomized intervals between tokens, and the random numbers for them.
//!
//! A host's pacer and a port's shaper are both exact. Where the tokens of two messages come to a
//! port in step, the port may drop those of the same one each time, and a message with nearly all
//! of the rate shuts out one with little. ExpressPass (section 2.2) varies the intervals between
//! tokens by 1 %, which is enough where pacers are not exact themselves; by
//! [`Config::DEFAULT`](super::config::Config::DEFAULT) a token is anywhere in its interval, and the
//! gap between two is anything from nothing to two intervals ([`Rng::place`]). The intervals
//! themselves vary little, so that a message with all of the rate uses it; they do vary, so that
//! two messages of equal rate do not stay in step ([`Rng::drift`]).

use crate::units::Nanos;

/// Intervals are in units of 1/1024 ns; the remainder of one is carried over to the next.
pub const NANO: u64 = 1 << NANO_BITS;
const NANO_BITS: u32 = 10;

/// Random numbers that need not be unpredictable: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
/// Cookies come from [`Host::random`](super::host::Host::random).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Different seeds give unrelated sequences.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number: 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..below`; 0 if `below` is 0.
    #[inline]
    pub fn below(&mut self, below: u32) -> u32 {
        // The high bits of a product: the bias is below 2^-32.
        ((self.next_u64() >> 32).wrapping_mul(u64::from(below)) >> 32) as u32
    }

    /// The length of the next interval: `interval` on average, varied by a quarter of `jitter`.
    #[inline]
    pub fn drift(&mut self, interval: u64, jitter: u32) -> u64 {
        self.vary(interval, jitter / 4)
    }

    /// A token's place in its interval: uniform over `jitter` billionths of the interval, around
    /// its middle.
    #[inline]
    pub fn place(&mut self, interval: u64, jitter: u32) -> u64 {
        let half = interval.saturating_sub(interval / 2);
        self.vary(interval, jitter).saturating_sub(half)
    }

    /// A part of an interval, in 2^-32: uniform over its first `jitter` billionths.
    #[inline]
    pub fn part(&mut self, jitter: u32) -> u32 {
        let width = (u64::from(jitter) << 32) / 1_000_000_000;
        let part = scale(width, self.next_u64() >> 32);
        u32::try_from(part).unwrap_or(u32::MAX)
    }

    /// Varies `interval`: uniform over a range of `jitter` billionths of its length around it, so
    /// that the mean is `interval`.
    #[inline]
    pub fn vary(&mut self, interval: u64, jitter: u32) -> u64 {
        if jitter == 0 {
            return interval;
        }
        // In units of 2^-32 of the interval.
        let jitter = (u64::from(jitter) << 32) / 1_000_000_000;
        let width = scale(interval, jitter);
        let place = scale(width, self.next_u64() >> 32);
        interval.saturating_sub(width / 2).saturating_add(place)
    }
}

/// `value x part / 2^32`.
#[inline]
fn scale(value: u64, part: u64) -> u64 {
    let product = u128::from(value).wrapping_mul(u128::from(part)) >> 32;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// How long a [part](Rng::part) of an interval is.
#[inline]
pub fn part_of(interval: u64, part: u32) -> Nanos {
    Nanos(scale(interval, part.into()) >> NANO_BITS)
}

/// When a message's next token is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    at: Nanos,
    /// 1/[`NANO`] ns past that, less than a ns.
    part: u64,
}

impl Due {
    /// At once.
    pub const fn new(now: Nanos) -> Self {
        Self { at: now, part: 0 }
    }

    /// When, rounded down to a nanosecond.
    #[inline]
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// A token was sent at `now`: the next is due `interval`, in 1/[`NANO`] ns, after this one was
    /// due. Lateness of up to `slack` is made up for.
    #[inline]
    pub fn advance(&mut self, now: Nanos, interval: u64, slack: Nanos) {
        let earliest = now - slack;
        if self.at < earliest {
            *self = Self::new(earliest);
        }
        let parts = interval.saturating_add(self.part);
        self.at += Nanos(parts >> NANO_BITS);
        self.part = parts & (NANO - 1);
    }

    /// The rate changed at `now`: the next token is due within `interval` of it.
    #[inline]
    pub fn hasten(&mut self, now: Nanos, interval: u64) {
        let mut latest = Self::new(now);
        latest.advance(now, interval, Nanos::ZERO);
        if latest.at < self.at {
            *self = latest;
        }
    }
}

#[cfg(test)]
mod tests;
