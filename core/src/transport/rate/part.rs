// SPDX-License-Identifier: GPL-2.0
//! Parts of a whole, from 0 to 1, in fixed point.

use core::num::NonZeroU64;

const BITS: u32 = 31;

/// A part of a whole.
///
/// # Invariants
///
/// In units of 2^-31, and at most 2^31 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part(u64);

impl Part {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(1 << BITS);

    /// `part / whole`, or all if it is more. Exact to 2^-31 if the whole is below 2^32, and to
    /// 2^-29 otherwise.
    pub(super) fn new(part: u64, whole: NonZeroU64) -> Self {
        if part >= whole.get() {
            return Self::ALL;
        }
        // Both lose their low bits alike, until the whole has 32. So it is not 0, and the part is
        // at most as much.
        let excess = 32_u32.saturating_sub(whole.leading_zeros());
        let Some(whole) = NonZeroU64::new(whole.get() >> excess) else {
            return Self::ALL;
        };
        // Below 2^32 x 2^31.
        Self(((part >> excess) << BITS) / whole)
    }

    /// So many parts per billion, at most all.
    pub(super) fn per_billion(parts: u32) -> Self {
        const BILLION: u64 = 1_000_000_000;
        Self((u64::from(parts).min(BILLION) << BITS) / BILLION)
    }

    /// In parts per billion, rounded down.
    pub(super) fn as_per_billion(self) -> u32 {
        // At most 2^31 x 2^30, so the quotient is at most a billion.
        u32::try_from(self.0.wrapping_mul(1_000_000_000) >> BITS).unwrap_or(u32::MAX)
    }

    /// What is left of the whole.
    pub(super) fn rest(self) -> Self {
        Self(Self::ALL.0.saturating_sub(self.0))
    }

    /// The sum, at most all.
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(Self::ALL.0))
    }

    /// The part of a part, rounded down.
    pub(super) fn times(self, other: Self) -> Self {
        // At most 2^62.
        Self(self.0.wrapping_mul(other.0) >> BITS)
    }

    /// `self x factor^times`, rounded down at each of up to 64 steps.
    pub(super) fn times_power(mut self, mut factor: Self, mut times: u64) -> Self {
        while times != 0 && self != Self::NONE {
            if times & 1 != 0 {
                self = self.times(factor);
            }
            factor = factor.times(factor);
            times >>= 1;
        }
        self
    }

    /// Half of so many thousandths of it, at most all. They are at most 2^32.
    pub(super) fn half_times(self, thousandths: u32) -> Self {
        // At most 2^31 x 2^32.
        Self((self.0.wrapping_mul(thousandths.into()) / 2000).min(Self::ALL.0))
    }

    /// `value` less this part of it, rounded up.
    pub(super) fn off(self, value: u64) -> u64 {
        let part = u128::from(value).wrapping_mul(self.0.into()) >> BITS;
        // No more than the value.
        value.saturating_sub(u64::try_from(part).unwrap_or(value))
    }
}

#[cfg(test)]
mod tests;
