// SPDX-License-Identifier: GPL-2.0
//! Figures of many values.

/// The mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The least value that `percent` of all do not exceed (nearest rank); `sorted` ascends. 0 of none.
pub fn percentile<T: Copy + Default>(sorted: &[T], percent: f64) -> T {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    let index = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

/// Jain's fairness index of `count` shares, of which those that are not listed are 0: 1 if all are
/// alike, 1/`count` if one has everything (Jain, Chiu, Hawe: DEC-TR-301, 1984). 0 if there is
/// nothing to share.
pub fn jain(shares: &[f64], count: usize) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        0.0
    } else {
        sum * sum / (count as f64 * squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        for (percent, value) in [(50.0, 50), (99.0, 99), (100.0, 100), (0.0, 1)] {
            assert_eq!(percentile(&hundred, percent), value);
        }
        assert_eq!(percentile(&[7], 99.0), 7);
        assert_eq!(percentile::<u32>(&[], 50.0), 0);
    }

    #[test]
    fn means() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[]), 0.0);
    }

    #[test]
    fn jains_index() {
        assert_eq!(jain(&[5.0; 8], 8), 1.0);
        assert_eq!(jain(&[1.0], 4), 0.25);
        assert_eq!(jain(&[], 4), 0.0);
    }
}
