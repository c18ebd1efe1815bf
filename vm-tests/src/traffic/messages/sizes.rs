// SPDX-License-Identifier: GPL-2.0
//! Distributions of message lengths, and Poisson arrivals.

use turnstile_workload::sizes::{self, Points, PACKET};

use super::Message;
use crate::rng::Rng;

/// A distribution of lengths.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Its name.
    pub name: &'static str,
    /// Bytes of a unit: every message is a whole number of them.
    pub unit: u64,
    /// The lengths in units.
    pub points: &'static Points,
}

/// The web search of the papers.
pub const WEB_SEARCH: Sizes = Sizes {
    name: "web search",
    unit: PACKET as u64,
    points: sizes::WEB_SEARCH,
};

/// A Hadoop cluster of Facebook's.
pub const HADOOP: Sizes = Sizes {
    name: "Hadoop",
    unit: 1,
    points: sizes::HADOOP,
};

/// Cache followers of Facebook's.
pub const CACHE_FOLLOWER: Sizes = Sizes {
    name: "cache followers",
    unit: PACKET as u64,
    points: sizes::CACHE_FOLLOWER,
};

/// Data mining, but for the longest of a hundred messages, up to 970 MB, which are as the next
/// ones: a process of the virtual bed has no memory for them.
pub const DATA_MINING: Sizes = Sizes {
    name: "data mining, up to 97 MB",
    unit: PACKET as u64,
    points: &[
        (1.0, 0.0),
        (1.0, 0.5),
        (2.0, 0.6),
        (3.0, 0.7),
        (7.0, 0.8),
        (267.0, 0.9),
        (2107.0, 0.95),
        (66_667.0, 1.0),
    ],
};

impl Sizes {
    /// A length, bytes.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let units = sizes::at(self.points, uniform(rng));
        (units.round() as u64).max(1) * self.unit
    }

    /// The mean length, bytes.
    pub fn mean(&self) -> f64 {
        sizes::mean(self.points) * self.unit as f64
    }

    /// Lengths from the shortest to the longest, bytes: every one of the first few units, and then
    /// so that a straight line between two of them says how long a message of a length between them
    /// takes.
    pub fn grid(&self) -> Vec<u64> {
        /// Up to here each length is one by itself: the first packets decide how many round trips
        /// it takes.
        const EACH: u64 = 8;
        let last = self.points.last().map_or(1, |(units, _)| *units as u64);
        let mut grid: Vec<u64> = (1..=EACH.min(last)).collect();
        let mut units = EACH;
        while units < last {
            units = (units + units.div_ceil(2)).min(last);
            grid.push(units);
        }
        grid.into_iter().map(|units| units * self.unit).collect()
    }
}

/// `count` messages whose gaps are exponential, so that the payload of all together is `bits_per_s`
/// on average; each between a pair of hosts chosen anew.
pub fn poisson(
    rng: &mut Rng,
    sizes: &Sizes,
    pairs: &[(usize, usize)],
    count: usize,
    bits_per_s: f64,
) -> Vec<Message> {
    let gap = sizes.mean() * 8e9 / bits_per_s;
    let mut at = 0.0;
    (0..count)
        .map(|_| {
            at -= (1.0 - uniform(rng)).ln() * gap;
            let (from, to) = *rng.pick(pairs);
            Message::new(from, to, sizes.draw(rng)).at(at as u64)
        })
        .collect()
}

/// In 0..1.
fn uniform(rng: &mut Rng) -> f64 {
    const STEPS: u64 = 1 << 53;
    rng.range(0..=STEPS - 1) as f64 / STEPS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_mining_is_what_was_published_below_the_longest() {
        let published = sizes::DATA_MINING;
        let (last, before) = (published.len() - 1, published.len() - 2);
        assert_eq!(DATA_MINING.points[..before], published[..before]);
        assert_eq!(
            DATA_MINING.points[before],
            (published[before].0, published[last].1)
        );
    }

    #[test]
    fn what_is_drawn_has_the_mean_and_the_shares() {
        let mut rng = Rng::new(1, "sizes");
        let drawn: Vec<u64> = (0..200_000).map(|_| WEB_SEARCH.draw(&mut rng)).collect();
        assert_eq!(drawn.iter().min(), Some(&(6 * 1460)));
        // The first point says that none is shorter.
        for (units, part) in &WEB_SEARCH.points[1..] {
            let most = *units as u64 * 1460;
            let upto = drawn.iter().filter(|len| **len <= most).count() as f64 / 2e5;
            // Rounding to whole packets moves up to half a packet's worth of the steepest stretch.
            assert!((upto - part).abs() < 0.02, "{units}: {upto}");
        }
        let mean = drawn.iter().sum::<u64>() as f64 / 2e5;
        assert!((mean / WEB_SEARCH.mean() - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn the_grid_spans_all_lengths() {
        let grid = WEB_SEARCH.grid();
        assert_eq!(grid[0], 1460);
        assert_eq!(grid[7], 8 * 1460);
        assert_eq!(*grid.last().unwrap(), 20_000 * 1460);
        assert!(grid.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(grid.len() < 40);
    }

    #[test]
    fn the_load_is_what_was_asked_for() {
        let mut rng = Rng::new(2, "load");
        let sizes = Sizes {
            name: "fixed",
            unit: 1000,
            points: &[(10.0, 0.0), (10.0, 1.0)],
        };
        let all = poisson(&mut rng, &sizes, &[(0, 1), (1, 0)], 20_000, 1e9);
        let bits: u64 = all.iter().map(|m| m.bytes * 8).sum();
        let rate = bits as f64 / (all.last().unwrap().at as f64 / 1e9);
        assert!((rate / 1e9 - 1.0).abs() < 0.03, "{rate}");
        assert!(all.iter().all(|m| m.bytes == 10_000));
        assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}
