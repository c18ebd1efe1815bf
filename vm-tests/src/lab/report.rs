// SPDX-License-Identifier: GPL-2.0
//! Helpers for an experiment's report: rounding, and curves with fewer points.

use serde_json::Value;

/// A number in a table, rounded to so many decimals: no more digits than are meaningful.
pub(super) fn number(value: f64, decimals: i32) -> Value {
    rounded(value, decimals).into()
}

/// To so many decimals.
pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let factor = 10_f64.powi(decimals);
    let rounded = (value * factor).round() / factor;
    // No -0.
    rounded + 0.0
}

/// Reduces a curve of steps to at most `most` points: the greatest of each stretch of equal width,
/// at its beginning.
pub(super) fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= most {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / most as f64;
    let mut thin: Vec<(f64, f64)> = Vec::with_capacity(most + 1);
    let mut stretch = None;
    for &(x, y) in points {
        let index = ((x - first.0) / width) as usize;
        if stretch == Some(index) {
            if let Some(kept) = thin.last_mut() {
                kept.1 = kept.1.max(y);
            }
        } else {
            stretch = Some(index);
            thin.push((x, y));
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_peaks() {
        let points: Vec<_> = (0..1000)
            .map(|x| (f64::from(x), if x == 777 { 9.0 } else { 1.0 }))
            .collect();
        let thin = thinned(&points, 100);
        assert!(thin.len() <= 101);
        assert!(thin.iter().any(|(_, y)| *y == 9.0));
        assert_eq!(thinned(&points[..5], 100).len(), 5);
        assert!(thinned(&[], 100).is_empty());
    }

    #[test]
    fn numbers_have_no_more_digits_than_they_should() {
        assert_eq!(number(1_297.600_000_1, 1).to_string(), "1297.6");
        assert_eq!(number(-0.000_1, 1).to_string(), "0.0");
    }
}
