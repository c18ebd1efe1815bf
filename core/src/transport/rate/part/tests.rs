// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;

fn part(part: u64, whole: u64) -> Part {
    Part::new(part, NonZeroU64::new(whole).unwrap())
}

#[test]
fn halves_and_quarters_are_exact() {
    let half = part(1, 2);
    assert_eq!(half, Part(1 << 30));
    assert_eq!(half, half.rest());
    assert_eq!(half.times(half), part(1, 4));
    assert_eq!(half.plus(half), Part::ALL);
    assert_eq!(half.plus(Part::ALL), Part::ALL);
    assert_eq!(half.times_power(half, 3), part(1, 16));
    assert_eq!(Part::ALL.times_power(Part::ALL, u64::MAX), Part::ALL);
    assert_eq!(half.times_power(half, u64::MAX), Part::NONE);
    assert_eq!(half.half_times(1000), part(1, 4));
    assert_eq!(half.half_times(3000), part(3, 4));
    assert_eq!(half.half_times(u32::MAX), Part::ALL);
    assert_eq!([half.off(10), half.off(11)], [5, 6]);
    assert_eq!(half.off(u64::MAX), 1 << 63);
    assert_eq!(Part::ALL.off(u64::MAX), 0);
    assert_eq!(Part::NONE.off(u64::MAX), u64::MAX);
}

#[test]
fn parts_per_billion() {
    assert_eq!(Part::per_billion(3_906_250), part(1, 256));
    assert_eq!(part(1, 256).as_per_billion(), 3_906_250);
    assert_eq!(Part::per_billion(u32::MAX), Part::ALL);
    assert_eq!(Part::ALL.as_per_billion(), 1_000_000_000);
    assert_ne!(Part::per_billion(1), Part::NONE);
}

proptest! {
    #[test]
    fn a_ratio_is_as_near_as_it_says(a: u64, b in 1..=u64::MAX) {
        let found = part(a, b).0 as f64 / Part::ALL.0 as f64;
        let exact = (a as f64 / b as f64).min(1.0);
        let error = if b >> 32 == 0 { 31 } else { 29 };
        prop_assert!((found - exact).abs() <= 0.5_f64.powi(error), "{found} {exact}");
        prop_assert!(part(a, b) <= Part::ALL);
    }

    #[test]
    fn what_is_left_is_rounded_up(a in 0..=1_u64 << 31, value in 0..1_u64 << 42) {
        let exact = u128::from(value) * u128::from((1 << 31) - a);
        let up = (exact + (1 << 31) - 1) >> 31;
        prop_assert_eq!(u128::from(Part(a).off(value)), up);
    }
}
