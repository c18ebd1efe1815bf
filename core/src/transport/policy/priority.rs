// SPDX-License-Identifier: GPL-2.0
//! TOP's priority function.

use crate::transport::wire::MAX_PRIORITY;

const THRESHOLDS: usize = MAX_PRIORITY as usize;
/// The cutoffs of two octaves each, packets.
pub(crate) const OCTAVES: [u64; THRESHOLDS] = [8, 32, 128, 512, 2048, 8192, 32_768];

/// `floor(K * log_p(a * x + b))` (TOP section 3.2), exactly.
///
/// `x` is the length of a message in packets, or another measure in its place; K the number of
/// priorities; `p` the packets of the longest usual message; `a` and `b` are adjustable. Priorities
/// are 0..K, 0 the highest: messages longer than `p` have the lowest.
///
/// Priority `i` begins where `(a x + b)^K` reaches `p^i`. That is worked out once, so that a
/// look-up is a few comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityFunction {
    /// Thousandths of a packet: the least `a x + b` of priorities 1 to 7; `u64::MAX` for those that
    /// do not exist.
    thresholds: [u64; THRESHOLDS],
    /// Thousandths.
    a: u32,
    /// Thousandths of a packet.
    b: u32,
    priorities: u8,
}

impl PriorityFunction {
    /// One priority for all.
    pub(crate) const ONE: Self = Self {
        thresholds: [u64::MAX; THRESHOLDS],
        a: 0,
        b: 0,
        priorities: 1,
    };

    /// `priorities` is K, clamped to 1..=8, and `packets` is p, at least 2; `a` and `b` are in
    /// thousandths.
    pub fn new(priorities: u32, packets: u32, a: u32, b: u32) -> Self {
        let priorities = priorities.clamp(1, u32::from(MAX_PRIORITY) + 1);
        let packets = packets.max(2);
        let mut thresholds = [u64::MAX; THRESHOLDS];
        for (priority, threshold) in (1..priorities).zip(thresholds.iter_mut()) {
            *threshold = first_reaching(priorities, packets, priority);
        }
        Self {
            thresholds,
            a,
            b,
            priorities: priorities as u8,
        }
    }

    /// The priority of a message is that of the first of these, packets, that it does not exceed.
    pub(crate) fn cut(cutoffs: &[u64; THRESHOLDS]) -> Self {
        let mut thresholds = [u64::MAX; THRESHOLDS];
        for (threshold, cutoff) in thresholds.iter_mut().zip(cutoffs) {
            *threshold = cutoff.saturating_add(1).saturating_mul(1000);
        }
        Self {
            thresholds,
            a: 1000,
            b: 0,
            priorities: MAX_PRIORITY.saturating_add(1),
        }
    }

    /// Two octaves have a priority each: for lengths that nothing is known of.
    pub(crate) fn octaves() -> Self {
        Self::cut(&OCTAVES)
    }

    /// K.
    #[inline]
    pub const fn priorities(&self) -> u8 {
        self.priorities
    }

    /// The lowest priority.
    #[inline]
    pub const fn lowest(&self) -> u8 {
        self.priorities.saturating_sub(1)
    }

    /// The priority of `packets`: fewer packets have a higher priority, that is a smaller number.
    #[inline]
    pub fn of(&self, packets: u64) -> u8 {
        let argument = packets
            .saturating_mul(u64::from(self.a))
            .saturating_add(u64::from(self.b));
        let mut priority = 0_u8;
        for &threshold in &self.thresholds {
            priority = priority.wrapping_add(u8::from(argument >= threshold));
        }
        priority.min(self.lowest())
    }
}

/// The least `y` for which `(y / 1000)^k >= p^i`.
fn first_reaching(k: u32, p: u32, i: u32) -> u64 {
    let mut goal = Big::ONE;
    for _ in 0..i {
        goal.multiply(p);
    }
    for _ in 0..k {
        goal.multiply(1000);
    }
    // (p x 1000)^k >= p^i x 1000^k, since i <= k.
    let (mut least, mut enough) = (0_u64, u64::from(p).wrapping_mul(1000));
    // At most 42 rounds.
    while least < enough {
        // Below 2^42.
        let middle = least.wrapping_add(enough) >> 1;
        let mut power = Big::ONE;
        for _ in 0..k {
            power.multiply_long(middle);
        }
        if power.reaches(&goal) {
            enough = middle;
        } else {
            least = middle.wrapping_add(1);
        }
    }
    enough
}

/// 384 bits, least significant first: eight factors below 2^43 fit.
struct Big([u32; 12]);

impl Big {
    const ONE: Self = {
        let mut digits = [0; 12];
        digits[0] = 1;
        Self(digits)
    };

    fn multiply(&mut self, by: u32) {
        self.multiply_long(u64::from(by));
    }

    fn multiply_long(&mut self, by: u64) {
        let mut carry: u128 = 0;
        for digit in &mut self.0 {
            // 2^32 x 2^64 + carry, which is below 2^65.
            let product = u128::from(*digit)
                .wrapping_mul(u128::from(by))
                .wrapping_add(carry);
            *digit = product as u32;
            carry = product >> 32;
        }
    }

    fn reaches(&self, other: &Self) -> bool {
        for (a, b) in self.0.iter().rev().zip(other.0.iter().rev()) {
            if a != b {
                return a > b;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
