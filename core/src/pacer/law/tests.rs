// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::units::Nanos;
use proptest::prelude::*;

fn law(interval: u64, eta: u32, beta: u32) -> Law {
    Law::new(&Config {
        interval: Nanos(interval),
        eta,
        beta,
        ..Config::DEFAULT
    })
}

/// Equation 4 in real numbers, as near as they come; bytes/s.
fn real(law: &Law, rate: f64, arrived: u64, backlog: u64) -> f64 {
    let eta = law.eta.get() as f64 / 1e9;
    let interval = law.interval.get() as f64 / 1e9;
    (1.0 - eta) * rate + eta * arrived as f64 / interval + law.beta as f64 * backlog as f64
}

fn bytes_per_sec(rate: &PacingRate) -> f64 {
    rate.units() as f64 / UNITS as f64
}

#[test]
fn one_step_by_hand() {
    // 10 Gbit/s with section 6.3's numbers: 9000 bytes in 7.2 us are 1.25 GB/s, so the rate stays
    // but for the backlog's 375/s x 1600 bytes.
    let law = law(7_200, 125_000_000, 375);
    let mut rate = PacingRate::new(1_250_000_000);
    rate.update(&law, 9_000, 1_600);
    assert_eq!(rate.units(), (1_250_000_000 + 600_000) * UNITS);
    // Nothing came: an eighth less.
    rate.update(&law, 0, 0);
    assert_eq!(rate.units(), 1_250_600_000 / 8 * 7 * UNITS);
}

#[test]
fn the_highest_rate_is_a_limit() {
    let law = law(1_000, 1_000_000_000, 1_000_000);
    let mut rate = PacingRate::new(0);
    rate.update(&law, u64::MAX, u64::MAX);
    assert_eq!(rate.units(), MAX);
    rate.update(&law, u64::MAX, u64::MAX);
    assert_eq!(rate.units(), MAX);
    rate.update(&law, 0, 0);
    assert_eq!(rate.units(), 0);
}

/// What comes in goes out again as tokens, over all time: the filter loses nothing.
#[test]
fn a_burst_comes_to_its_bytes() {
    let law = law(64_000, 125_000_000, 1);
    let mut rate = PacingRate::new(0);
    rate.update(&law, 65_536, 0);
    let mut tokens = 0.0;
    for _ in 0..1_000 {
        tokens += bytes_per_sec(&rate) * 64e-6;
        rate.update(&law, 0, 0);
    }
    assert!((tokens - 65_536.0).abs() < 0.01, "{tokens}");
    assert_eq!(rate.units(), 0);
}

#[test]
fn no_rounding_adds_up_in_ten_million_steps() {
    // Values that leave remainders in all divisions.
    let law = law(63_997, 123_456_789, 17);
    let mut rate = PacingRate::new(12_345_678);
    let mut exact = 12_345_678.0;
    for step in 0..10_000_000_u64 {
        let (arrived, backlog) = (step * 7919 % 9_973, step * 104_729 % 3_001);
        rate.update(&law, arrived, backlog);
        exact = real(&law, exact, arrived, backlog);
    }
    let error = (bytes_per_sec(&rate) - exact).abs();
    assert!(error < 2.0 / UNITS as f64 + 1e-4, "{error}");
}

proptest! {
    #[test]
    fn as_real_numbers(
        interval in 1_000_u64..1_000_000_000,
        eta in 1_000_000_u32..=1_000_000_000,
        beta in 1_u32..1_000,
        start in 0_u64..1_000_000_000,
        steps in prop::collection::vec((0_u64..100_000, 0_u64..100_000), 1..200),
    ) {
        let law = law(interval, eta, beta);
        let (mut rate, mut exact) = (PacingRate::new(start), start as f64);
        for (arrived, backlog) in steps {
            rate.update(&law, arrived, backlog);
            exact = real(&law, exact, arrived, backlog);
            prop_assume!(exact < 1e11);
            let error = (bytes_per_sec(&rate) - exact).abs();
            let bound = 2.0 / UNITS as f64 + exact * 1e-12;
            prop_assert!(error < bound, "{} {exact}", bytes_per_sec(&rate));
        }
    }

    /// Many idle intervals at once give the same as one by one.
    #[test]
    fn idle_at_once(
        interval in 1_000_u64..1_000_000_000,
        eta in 1_000_000_u32..=1_000_000_000,
        start in 0_u64..100_000_000_000,
        times in 1_u64..3_000,
    ) {
        let law = law(interval, eta, 1);
        let (mut at_once, mut one_by_one) = (PacingRate::new(start), PacingRate::new(start));
        let sum = at_once.decay(&law, times);
        let mut exact = 0.0;
        for _ in 0..times {
            exact += bytes_per_sec(&one_by_one);
            one_by_one.update(&law, 0, 0);
        }
        let error = bytes_per_sec(&at_once) - bytes_per_sec(&one_by_one);
        prop_assert!(error.abs() < 16.0 / UNITS as f64, "{error}");
        let sum = sum as f64 / UNITS as f64;
        let bound = (16.0 / UNITS as f64) * 1e9 / f64::from(eta) + exact * 1e-9;
        prop_assert!((sum - exact).abs() <= bound, "{sum} {exact}");
    }

    #[test]
    fn any_numbers_do_no_harm(
        interval: u64,
        eta: u32,
        beta: u32,
        start: u64,
        arrived: u64,
        backlog: u64,
        times: u64,
    ) {
        let law = law(interval, eta, beta);
        let mut rate = PacingRate::new(start);
        rate.update(&law, arrived, backlog);
        rate.decay(&law, times);
        rate.update(&law, arrived, 0);
        prop_assert!(rate.units() <= MAX);
    }
}
