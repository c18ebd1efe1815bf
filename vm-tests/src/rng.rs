// SPDX-License-Identifier: GPL-2.0
//! Seeded random numbers: a run is repeated by its seed.

use std::ops::RangeInclusive;

/// A small generator. Same seed and same case: same numbers.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Of `seed` and `name`, so that each case has a stream of its own whichever others run.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: the standard library's hasher is not promised to be stable.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(fastrand::Rng::with_seed(seed ^ hash))
    }

    /// Uniform in `range`.
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    /// An index below `len`, which must not be 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.0.usize(..len)
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.0.u64(..n.max(1)) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn streams_repeat_by_seed_and_differ_by_name() {
        let numbers = |seed, name| {
            let mut rng = Rng::new(seed, name);
            (0..8).map(|_| rng.range(0..=u64::MAX)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, "a"), numbers(1, "a"));
        assert_ne!(numbers(1, "a"), numbers(1, "b"));
        assert_ne!(numbers(1, "a"), numbers(2, "a"));
    }
}
