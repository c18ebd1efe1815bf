// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

mod fluid;

/// 10 Gbit/s, as in the paper.
const LINE: u64 = 1_250_000_000;

/// Algorithm 1 as it is written, with the weight that others have, of which differences are easier
/// to see.
const QUICK: Config = Config {
    weight: 875,
    max_cut: 1000,
    ..Config::DEFAULT
};

fn law() -> Law {
    Law::new(&QUICK, LINE)
}

fn tcd() -> Law {
    let config = Config { tcd: true, ..QUICK };
    Law::new(&config, LINE)
}

fn us(microseconds: u64) -> Nanos {
    Nanos(microseconds * 1000)
}

/// A flow of one of five at a host, so of 250 MB/s, after round-trip times in us and marks.
fn after(law: &Law, segments: &[(u64, Mark)]) -> Timely {
    let mut flow = Timely::new(law, 4);
    for (rtt, mark) in segments {
        flow.completed(law, us(*rtt), *mark);
    }
    flow
}

/// The rate after round-trip times in us that were not marked.
fn rate(rtts: &[u64]) -> u64 {
    let segments: Vec<_> = rtts.iter().map(|rtt| (*rtt, Mark::None)).collect();
    after(&law(), &segments).bytes_per_sec()
}

/// Cuts are exact but for 2^-29 of the rate.
fn near(found: u64, expected: u64) {
    assert!(found.abs_diff(expected) <= 2, "{found}, not {expected}");
}

#[test]
fn the_defaults_are_the_papers_but_for_the_weight() {
    let config = Config::DEFAULT;
    assert_eq!((config.t_low, config.t_high), (us(50), us(500)));
    assert_eq!((config.weight, config.beta), (125, 800));
    // Mbit/s.
    assert_eq!(config.additive * 8 / 1_000_000, 10);
    assert_eq!((config.hyper_after, config.hyper_factor), (5, 5));
    assert_eq!(config.tcd_beta, 1600);
}

#[test]
fn a_flow_begins_with_its_part_of_the_link() {
    let rate = |others| Timely::new(&law(), others).bytes_per_sec();
    assert_eq!(rate(0), LINE);
    assert_eq!(rate(1), LINE / 2);
    assert_eq!(rate(4), 250_000_000);
    assert_eq!(rate(u32::MAX), 1_250_000);
}

#[test]
fn below_t_low_it_goes_up_by_delta() {
    assert_eq!(rate(&[40]), 251_250_000);
    // Whatever the gradient is, and without HAI.
    assert_eq!(rate(&[10, 49]), 252_500_000);
    assert_eq!(
        rate(&[40, 39, 38, 37, 36, 35, 34]),
        250_000_000 + 7 * 1_250_000
    );
}

#[test]
fn above_t_high_it_goes_down_whatever_the_gradient_is() {
    // 0.8 x (1 - 500/1000) = 0.4, and then 0.8 x (1 - 500/800) = 0.3.
    near(rate(&[1000]), 150_000_000);
    near(rate(&[1000, 800]), 105_000_000);
    // At most by 0.8: at 4.29 s nearly.
    near(rate(&[u64::MAX / 1000]), 50_000_000 + 23_283);
}

#[test]
fn between_them_the_gradient_decides() {
    // The first has none, which counts as 0; T_low and T_high themselves are between.
    assert_eq!(rate(&[100]), 251_250_000);
    assert_eq!(rate(&[50]), 251_250_000);
    assert_eq!(rate(&[500]), 251_250_000);
    // 0.875 x 10 us / 20 us = 0.4375; 0.8 of that are 0.35.
    near(rate(&[100, 110]), 251_250_000 * 65 / 100);
    // 0.125 x 8.75 us - 0.875 x 10 us: down.
    let flow = after(
        &law(),
        &[(100, Mark::None), (110, Mark::None), (100, Mark::None)],
    );
    assert_eq!(flow.rtt_diff(), -7656);
    near(flow.bytes_per_sec(), 251_250_000 * 65 / 100 + 1_250_000);
    // 0.8 x 0.875 x 30 / 20 is more than all.
    assert_eq!(rate(&[100, 130]), 1_250_000);
    assert_eq!(rate(&[100, 400]), 1_250_000);
}

#[test]
fn one_segment_takes_half_of_the_rate_at_most() {
    let cut = |max_cut, rtts: [u64; 2]| {
        let config = Config { max_cut, ..QUICK };
        let segments = rtts.map(|rtt| (rtt, Mark::None));
        after(&Law::new(&config, LINE), &segments).bytes_per_sec()
    };
    assert_eq!(Config::DEFAULT.max_cut, 500);
    // 0.35 is less than that, 1.05 more, and so is 0.8 x (1 - 1/5), also in thousandths.
    near(cut(500, [100, 110]), 251_250_000 * 65 / 100);
    near(cut(500, [100, 130]), 125_625_000);
    near(cut(500, [2500, 2500]), 62_500_000);
    near(cut(600, [100, 400]), 251_250_000 * 4 / 10);
    near(cut(1, [100, 400]), 251_250_000 * 999 / 1000);
    assert_eq!(cut(1000, [100, 400]), 1_250_000);
    // Never below the lowest rate.
    assert_eq!(
        after(&law(), &[(100, Mark::None), (400, Mark::None)]).bytes_per_sec(),
        1_250_000
    );
}

#[test]
fn five_negative_gradients_in_a_row_are_hai() {
    let up = |rtts: &[u64]| (rate(rtts) - 250_000_000) / 1_250_000;
    assert_eq!(up(&[100]), 1);
    assert_eq!(up(&[100, 99, 98, 97, 96]), 5);
    assert_eq!(up(&[100, 99, 98, 97, 96, 95]), 5 + 5);
    assert_eq!(up(&[100, 99, 98, 97, 96, 95, 94]), 5 + 10);
    // Below T_low it is 1 again, and the count begins anew.
    let fallen = [100, 99, 98, 97, 96, 95, 40, 39];
    assert_eq!(up(&fallen), 5 + 5 + 2);
    // So does one of 0, which goes up, too.
    assert_eq!(up(&[100, 99, 98, 97, 96]), 5);
    let law = Law::new(
        &Config {
            weight: 1000,
            ..QUICK
        },
        LINE,
    );
    let rtts = [100, 99, 98, 97, 96, 96, 95, 94, 93, 92];
    let segments: Vec<_> = rtts.iter().map(|rtt| (*rtt, Mark::None)).collect();
    assert_eq!(
        after(&law, &segments).bytes_per_sec(),
        250_000_000 + 10 * 1_250_000
    );
}

#[test]
fn the_weight_is_that_of_the_newest_difference() {
    let config = Config {
        weight: 125,
        ..QUICK
    };
    let law = Law::new(&config, LINE);
    let flow = after(&law, &[(100, Mark::None), (180, Mark::None)]);
    assert_eq!(flow.rtt_diff(), 10_000);
    // 0.8 x 10 / 20 = 0.4.
    near(flow.bytes_per_sec(), 251_250_000 * 6 / 10);
    let flow = after(
        &law,
        &[(100, Mark::None), (180, Mark::None), (180, Mark::None)],
    );
    assert_eq!(flow.rtt_diff(), 8750);
}

#[test]
fn with_tcd_what_is_undetermined_is_not_cut_for_its_gradient() {
    let law = tcd();
    let ue = Mark::Undetermined;
    let flow = after(&law, &[(100, ue), (110, ue), (400, ue), (500, ue)]);
    assert_eq!(flow.bytes_per_sec(), 251_250_000);
    // The filter goes on.
    assert!(flow.rtt_diff() > 100_000);
    // Above T_high it is, by beta as it was: 0.8 / 2; and below T_low the rate goes up.
    near(after(&law, &[(1000, ue)]).bytes_per_sec(), 150_000_000);
    assert_eq!(
        after(&law, &[(10, ue), (49, ue)]).bytes_per_sec(),
        252_500_000
    );
    // The count for HAI begins anew: 1 + 3, 0, and 4 of 1 each.
    let rtts = [100, 99, 98, 97, 200, 150, 140, 130, 120];
    let segments: Vec<_> = rtts.iter().map(|rtt| (*rtt, ue)).collect();
    assert_eq!(
        after(&law, &segments).bytes_per_sec(),
        250_000_000 + 8 * 1_250_000
    );
}

#[test]
fn with_tcd_others_are_cut_harder() {
    for mark in [Mark::None, Mark::Congested] {
        // 1.6 x 0.875 x 10 / 20 = 0.7.
        let flow = after(&tcd(), &[(100, mark), (110, mark)]);
        near(flow.bytes_per_sec(), 251_250_000 * 3 / 10);
        // 1.6 x (1 - 500/800) = 0.6.
        near(after(&tcd(), &[(800, mark)]).bytes_per_sec(), 100_000_000);
        // 1.6 x (1 - 500/2000) is more than all.
        assert_eq!(after(&tcd(), &[(2000, mark)]).bytes_per_sec(), 1_250_000);
    }
    // Without TCD marks do not matter.
    let flow = |mark| after(&law(), &[(100, mark), (110, mark), (900, mark)]);
    assert_eq!(flow(Mark::Undetermined), flow(Mark::None));
    assert_eq!(flow(Mark::Congested), flow(Mark::None));
}

fn configs() -> impl Strategy<Value = Config> {
    let times = || prop_oneof![0..2_000_000_u64, any::<u64>()].prop_map(Nanos);
    let rates = || prop_oneof![0..10_000_000_u64, any::<u64>()];
    let thousandths = || prop_oneof![0..5000_u32, any::<u32>()];
    (
        (times(), times(), times()),
        (thousandths(), thousandths(), thousandths()),
        (rates(), rates(), any::<u8>(), any::<u8>()),
        any::<bool>(),
        thousandths(),
    )
        .prop_map(|(times, thousandths, rates, tcd, max_cut)| Config {
            t_low: times.0,
            t_high: times.1,
            min_rtt: times.2,
            weight: thousandths.0,
            beta: thousandths.1,
            tcd_beta: thousandths.2,
            additive: rates.0,
            minimum: rates.1,
            hyper_after: rates.2,
            hyper_factor: rates.3,
            tcd,
            max_cut,
        })
}

fn segments() -> impl Strategy<Value = (u64, Mark)> {
    let marks = prop_oneof![
        Just(Mark::None),
        Just(Mark::Undetermined),
        Just(Mark::Congested)
    ];
    let rtts = prop_oneof![40_000..60_000_u64, 0..1_000_000_u64, Just(0), any::<u64>()];
    (rtts, marks)
}

fn lines() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(LINE), 1..20_000_000_000_u64]
}

proptest! {
    #[test]
    fn rates_stay_in_their_limits_and_answer_the_right_way(
        config in configs(),
        line in lines(),
        others: u32,
        segments in proptest::collection::vec(segments(), 1..100),
    ) {
        let law = Law::new(&config, line);
        let mut flow = Timely::new(&law, others);
        for (rtt, mark) in segments {
            let before = flow;
            flow.completed(&law, Nanos(rtt), mark);
            let (old, new) = (before.rate, flow.rate);
            prop_assert!((law.minimum..=law.line).contains(&new));
            prop_assert!(flow.diff.unsigned_abs() < 1 << 42);
            if rtt < law.t_low {
                prop_assert!(new >= old);
            } else if rtt > law.t_high {
                prop_assert!(new <= old);
            } else if flow.diff <= 0 {
                prop_assert!(new >= old);
            } else if law.tcd && mark == Mark::Undetermined {
                prop_assert_eq!(new, old);
            } else {
                prop_assert!(new <= old);
            }
            // The worse the mark, the lower the rate, but for an undetermined port's: none is
            // worse for the flow than that, as it is cut as others are.
            let with = |mark| {
                let mut flow = before;
                flow.completed(&law, Nanos(rtt), mark);
                flow.rate
            };
            prop_assert_eq!(with(Mark::None), with(Mark::Congested));
            if config.tcd_beta >= config.beta {
                prop_assert!(with(Mark::Undetermined) >= with(Mark::Congested));
            }
        }
    }

    /// In real numbers, by the defaults.
    #[test]
    fn it_is_algorithm_1(rtts in proptest::collection::vec(20_000..600_000_u64, 1..200)) {
        let law = law();
        let mut flow = Timely::new(&law, 4);
        let (mut rate, mut diff, mut negative) = (250e6, 0.0, 0);
        let mut last = rtts[0] as f64;
        for rtt in rtts {
            flow.completed(&law, Nanos(rtt), Mark::None);
            let rtt = rtt as f64;
            diff = 0.125 * diff + 0.875 * (rtt - last);
            last = rtt;
            let gradient = diff / 20_000.0;
            // Where rounding may decide.
            prop_assume!(gradient == 0.0 || gradient.abs() > 1e-6);
            let falls = gradient < 0.0 && (50e3..=500e3).contains(&rtt);
            negative = if falls { negative + 1 } else { 0 };
            rate = if rtt < 50e3 {
                rate + 1.25e6
            } else if rtt > 500e3 {
                rate * (1.0 - 0.8 * (1.0 - 500e3 / rtt))
            } else if gradient <= 0.0 {
                rate + 1.25e6 * if negative >= 5 { 5.0 } else { 1.0 }
            } else {
                rate * (1.0 - 0.8 * gradient)
            };
            rate = rate.clamp(1.25e6, 1.25e9);
            let error = (flow.rate as f64 - rate).abs();
            prop_assert!(error <= 1e-6 * rate + 300.0, "{} instead of {rate}", flow.rate);
        }
    }

    #[test]
    fn another_law_at_any_time(
        laws in proptest::collection::vec((configs(), lines()), 1..10),
        segments in proptest::collection::vec((any::<prop::sample::Index>(), segments()), 1..60),
        told: bool,
    ) {
        let mut flow = Timely::new(&Law::new(&laws[0].0, laws[0].1), 0);
        for (law, (rtt, mark)) in segments {
            let (config, line) = law.get(&laws);
            let law = Law::new(config, *line);
            if told {
                flow.configure(&law);
            }
            flow.completed(&law, Nanos(rtt), mark);
            prop_assert!(!told || (law.minimum..=law.line).contains(&flow.rate));
        }
    }
}
