// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;

mod fluid;

/// 40 Gbit/s, as in the paper.
const LINE: u64 = 5_000_000_000;
const MICROSECOND: u64 = 1000;

fn law() -> Law {
    Law::new(&Config::DEFAULT, LINE)
}

fn at(microseconds: u64) -> Nanos {
    Nanos(microseconds * MICROSECOND)
}

/// A flow with so many notifications of congestion at time 0.
fn notified(law: &Law, times: u32) -> Dcqcn {
    let mut flow = Dcqcn::new(law);
    for _ in 0..times {
        flow.notified(law, Nanos::ZERO, Mark::Congested);
    }
    flow
}

fn rates(flow: &Dcqcn) -> (u64, u64) {
    (flow.bytes_per_sec(), flow.target())
}

#[test]
fn the_defaults_are_the_papers() {
    let config = Config::DEFAULT;
    assert_eq!(config.g, 1_000_000_000 / 256);
    assert_eq!((config.timer, config.alpha_timer), (at(55), at(55)));
    assert_eq!(config.notify_interval, at(50));
    assert_eq!(config.byte_counter, 10_000_000);
    assert_eq!(config.recovery_steps, 5);
    // Mbit/s.
    assert_eq!(config.additive * 8 / 1_000_000, 40);
    assert_eq!(config.hyper * 8 / 1_000_000, 50);
    assert_eq!(config.minimum * 8 / 1_000_000, 10);
}

#[test]
fn a_flow_begins_at_the_rate_of_the_link_and_keeps_it() {
    let law = law();
    let mut flow = Dcqcn::new(&law);
    assert_eq!(rates(&flow), (LINE, LINE));
    flow.sent(&law, at(1_000_000), u32::MAX);
    assert_eq!(flow, Dcqcn::new(&law));
    assert_eq!(flow.next(&law), None);
}

#[test]
fn equation_1() {
    let law = law();
    // alpha is 1: by half, and 1 is left of it: 255/256 + 1/256.
    let flow = notified(&law, 1);
    assert_eq!(rates(&flow), (2_500_000_000, 5_000_000_000));
    assert_eq!(flow.alpha(), 1_000_000_000);
    assert_eq!(rates(&notified(&law, 2)), (1_250_000_000, 2_500_000_000));
    // After K, and after T: half of the way back, and alpha is 255/256.
    let mut flow = notified(&law, 2);
    flow.advance(&law, at(55));
    assert_eq!(rates(&flow), (1_875_000_000, 2_500_000_000));
    assert_eq!(flow.alpha(), 996_093_750);
    // 255/512 of it are 933837890.6, and alpha is 65025/65536 + 1/256.
    flow.notified(&law, at(55), Mark::Congested);
    assert_eq!(rates(&flow), (941_162_110, 1_875_000_000));
    assert_eq!(flow.alpha(), 996_109_008);
}

#[test]
fn equation_2() {
    let law = law();
    let mut flow = notified(&law, 1);
    flow.advance(&law, Nanos(54_999));
    assert_eq!(flow.alpha(), 1_000_000_000);
    // (255/256)^k, for k = 1, 2, 256, and late by some.
    for (time, alpha) in [(55, 996_093_750), (120, 992_202_758), (14_080, 367_159_809)] {
        flow.advance(&law, at(time));
        let error = flow.alpha().abs_diff(alpha);
        assert!(
            error <= 1000,
            "{time} us: {} instead of {alpha}",
            flow.alpha()
        );
    }
    flow.advance(&law, Nanos::SECOND);
    assert_eq!(flow.alpha(), 0);
    // Nothing is left of it: the next notification cuts nothing, but the one after it does, by
    // 1/512.
    let line = flow;
    flow.notified(&law, Nanos::SECOND, Mark::Congested);
    assert_eq!(rates(&flow), rates(&line));
    assert_eq!(flow.alpha(), 3_906_250);
    flow.notified(&law, Nanos::SECOND, Mark::Congested);
    assert_eq!(flow.bytes_per_sec(), LINE - LINE / 512);
}

#[test]
fn five_steps_of_fast_recovery_and_then_additive_increase() {
    let law = law();
    let mut flow = notified(&law, 2);
    let mut seen = [0; 7];
    for (step, seen) in seen.iter_mut().enumerate() {
        let due = flow.next(&law).unwrap();
        assert_eq!(due, at(55 * (step as u64 + 1)));
        flow.advance(&law, due);
        *seen = flow.bytes_per_sec();
    }
    let expected = [
        1_875_000_000,
        2_187_500_000,
        2_343_750_000,
        2_421_875_000,
        2_460_937_500,
        // (2505000000 + 2460937500) / 2, and then towards 2510000000.
        2_482_968_750,
        2_496_484_375,
    ];
    assert_eq!(seen, expected);
    assert_eq!(flow.target(), 2_510_000_000);
}

#[test]
fn the_byte_counter_counts_as_the_timer_does() {
    let law = law();
    let mut flow = notified(&law, 2);
    flow.sent(&law, Nanos::ZERO, 3_000_000);
    flow.sent(&law, Nanos::ZERO, 3_000_000);
    flow.sent(&law, Nanos::ZERO, 3_999_999);
    assert_eq!(flow.bytes_per_sec(), 1_250_000_000);
    flow.sent(&law, Nanos::ZERO, 1);
    assert_eq!(flow.bytes_per_sec(), 1_875_000_000);
    for _ in 0..4 {
        for _ in 0..10 {
            flow.sent(&law, Nanos::ZERO, 1_000_000);
        }
    }
    assert_eq!(rates(&flow), (2_460_937_500, 2_500_000_000));
    // The counter is through with fast recovery, so the timer's first is additive increase.
    flow.advance(&law, at(55));
    assert_eq!(rates(&flow), (2_482_968_750, 2_505_000_000));
}

#[test]
fn hyper_increase_once_both_are_through() {
    let law = law();
    let mut flow = notified(&law, 4);
    for step in 1..=6 {
        flow.advance(&law, at(55 * step));
        for _ in 0..10 {
            flow.sent(&law, at(55 * step), 1_000_000);
        }
    }
    // Both have expired six times. From 625 MB/s on, thrice by 5 MB/s: the counter's fifth, which
    // finds the timer's five before it, the timer's sixth, and the counter's.
    assert_eq!(flow.target(), 625_000_000 + 3 * 5_000_000);
    // i = 1 for the timer's seventh, and for the counter's; then both are 2 beyond.
    flow.advance(&law, at(55 * 7));
    assert_eq!(flow.target(), 640_000_000 + 6_250_000);
    for _ in 0..10 {
        flow.sent(&law, at(55 * 7), 1_000_000);
    }
    assert_eq!(flow.target(), 640_000_000 + 2 * 6_250_000);
    flow.advance(&law, at(55 * 8));
    assert_eq!(flow.target(), 640_000_000 + 4 * 6_250_000);
    // A notification begins it all anew.
    flow.notified(&law, at(55 * 8), Mark::Congested);
    let target = flow.target();
    flow.advance(&law, at(55 * 13));
    assert_eq!(flow.target(), target);
    flow.advance(&law, at(55 * 14));
    assert_eq!(flow.target(), target + 5_000_000);
}

#[test]
fn the_lowest_rate_is_a_limit_and_the_link_is() {
    let law = law();
    let mut flow = notified(&law, 20);
    assert_eq!(rates(&flow), (1_250_000, 1_250_000));
    // 5 + 1000 steps of 5 MB/s, and some to get near.
    flow.advance(&law, at(55 * 1000));
    assert!(flow.bytes_per_sec() < LINE);
    flow.advance(&law, at(55 * 1040));
    assert_eq!(rates(&flow), (LINE, LINE));
    assert_eq!(flow.next(&law), None);
    // A minimum above the link's rate is the link's rate.
    let slow = Law::new(&Config::DEFAULT, 1000);
    assert_eq!(rates(&notified(&slow, 5)), (1000, 1000));
    assert_eq!((slow.minimum(), slow.line()), (1000, 1000));
}

#[test]
fn with_tcd_congestion_cuts_harder_and_what_is_undetermined_waits() {
    let config = Config {
        tcd: true,
        ..Config::DEFAULT
    };
    let law = Law::new(&config, LINE);
    // 1.5 x 1/2: a first cut leaves a quarter.
    let mut flow = notified(&law, 1);
    assert_eq!(rates(&flow), (1_250_000_000, LINE));
    // Every 50 us nothing changes, neither way.
    let before = (rates(&flow), flow.alpha());
    for step in 1..100 {
        flow.notified(&law, at(50 * step), Mark::Undetermined);
        assert_eq!((rates(&flow), flow.alpha()), before);
    }
    flow.advance(&law, at(50 * 99 + 55));
    assert_eq!(flow.bytes_per_sec(), 3_125_000_000);
    // At a flow that was never cut it is nothing.
    let mut flow = Dcqcn::new(&law);
    flow.notified(&law, at(1), Mark::Undetermined);
    assert_eq!(flow, Dcqcn::new(&law));
    // Twice a half is all: the lowest rate.
    let law = Law::new(
        &Config {
            tcd_cut: 2000,
            ..config
        },
        LINE,
    );
    assert_eq!(rates(&notified(&law, 1)), (1_250_000, LINE));
}

#[test]
fn without_tcd_what_is_undetermined_is_no_mark() {
    let law = law();
    let mut flow = notified(&law, 1);
    let other = flow;
    flow.notified(&law, at(50), Mark::Undetermined);
    flow.notified(&law, at(50), Mark::None);
    assert_eq!(flow, other);
}

#[test]
fn a_change_of_the_link() {
    let law = law();
    let half = Law::new(&Config::DEFAULT, LINE / 2);
    let mut flow = Dcqcn::new(&law);
    flow.configure(&half);
    assert_eq!(rates(&flow), (LINE / 2, LINE / 2));
    // It was never cut.
    flow.configure(&law);
    assert_eq!(rates(&flow), (LINE, LINE));
    let mut flow = notified(&law, 1);
    flow.configure(&half);
    assert_eq!(rates(&flow), (LINE / 2, LINE / 2));
    flow.configure(&law);
    assert_eq!(rates(&flow), (LINE / 2, LINE / 2));
    assert_eq!(flow.next(&law), Some(at(55)));
}

#[test]
fn a_marked_packet_is_told_of_at_once_and_then_once_an_interval() {
    let (interval, ce) = (at(50), Mark::Congested);
    let mut notifier = Notifier::NEW;
    let mut heard = |now, mark| (notifier.heard(interval, at(now), mark), notifier.next());
    assert_eq!(heard(0, Mark::None), (None, None));
    assert_eq!(heard(1, ce), (Some(ce), None));
    assert_eq!(heard(2, ce), (None, Some(at(51))));
    assert_eq!(heard(3, Mark::None), (None, Some(at(51))));
    // The timer, or a packet that is not marked.
    assert_eq!(heard(51, Mark::None), (Some(ce), None));
    // Nothing was marked since then, so the interval's end is not told of.
    assert_eq!(heard(101, Mark::None), (None, None));
    assert_eq!(
        heard(300, Mark::Undetermined),
        (Some(Mark::Undetermined), None)
    );
    // The worst of an interval.
    assert_eq!(heard(301, ce), (None, Some(at(350))));
    assert_eq!(heard(302, Mark::Undetermined), (None, Some(at(350))));
    assert_eq!(heard(360, Mark::Undetermined), (Some(ce), None));
    // An earlier time is too early.
    assert_eq!(heard(0, ce), (None, Some(at(410))));
}

fn configs() -> impl Strategy<Value = Config> {
    let times = || (0..2_000_000_u64).prop_map(Nanos);
    let rates = || prop_oneof![Just(0), 0..10_000_000_u64, Just(5_000_000), any::<u64>()];
    (
        (any::<u32>(), times(), times(), times()),
        (prop_oneof![0..1_000_000_u64, any::<u64>()], any::<u8>()),
        (rates(), rates(), rates()),
        (any::<bool>(), any::<u32>()),
    )
        .prop_map(|(times, steps, rates, tcd)| Config {
            g: times.0,
            alpha_timer: times.1,
            timer: times.2,
            notify_interval: times.3,
            byte_counter: steps.0,
            recovery_steps: steps.1,
            additive: rates.0,
            hyper: rates.1,
            minimum: rates.2,
            tcd: tcd.0,
            tcd_cut: tcd.1,
        })
}

fn marks() -> impl Strategy<Value = Mark> {
    prop_oneof![
        Just(Mark::None),
        Just(Mark::Undetermined),
        Just(Mark::Congested)
    ]
}

/// Time that passes, bytes, a mark.
fn events() -> impl Strategy<Value = (u64, u32, Mark)> {
    // Sixty of them end before time does.
    let time = prop_oneof![0..100_000_u64, 0..100_000_000_u64, 0..1_u64 << 57];
    (time, prop_oneof![0..100_000_u32, any::<u32>()], marks())
}

fn lines() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(LINE), 1..20_000_000_000_u64]
}

fn holds(flow: &Dcqcn, law: &Law) -> bool {
    let (current, target) = rates(flow);
    law.minimum <= current && current <= target && target <= law.line && flow.alpha() <= 1 << 30
}

proptest! {
    #[test]
    fn rates_stay_in_their_limits_and_answer_the_right_way(
        config in configs(),
        line in lines(),
        events in proptest::collection::vec(events(), 1..60),
    ) {
        let law = Law::new(&config, line);
        let mut flow = Dcqcn::new(&law);
        let mut now = Nanos::ZERO;
        for (time, bytes, mark) in events {
            now += Nanos(time);
            let before = rates(&flow);
            flow.sent(&law, now, bytes);
            prop_assert!(holds(&flow, &law));
            prop_assert!(rates(&flow).0 >= before.0);
            let before = flow;
            flow.notified(&law, now, mark);
            prop_assert!(holds(&flow, &law));
            match mark {
                Mark::Congested => {
                    prop_assert!(rates(&flow).0 <= rates(&before).0);
                    prop_assert!(flow.alpha() >= before.alpha());
                    prop_assert_eq!(rates(&flow).1, rates(&before).0);
                }
                _ => prop_assert_eq!(rates(&flow), rates(&before)),
            }
            prop_assert!(flow.next(&law).is_some() == (rates(&flow).0 < law.line));
        }
    }

    #[test]
    fn another_law_at_any_time(
        laws in proptest::collection::vec((configs(), lines()), 1..10),
        events in proptest::collection::vec((any::<prop::sample::Index>(), events()), 1..60),
        told: bool,
    ) {
        let (config, line) = laws[0];
        let mut flow = Dcqcn::new(&Law::new(&config, line));
        let mut now = Nanos::ZERO;
        for (law, (time, bytes, mark)) in events {
            let (config, line) = law.get(&laws);
            let law = Law::new(config, *line);
            now += Nanos(time);
            // Whoever forgets to tell of a new law gets a wrong rate for a while, not a panic.
            if told {
                flow.configure(&law);
            }
            flow.sent(&law, now, bytes);
            flow.notified(&law, now, mark);
            prop_assert!(!told || holds(&flow, &law));
        }
    }

    /// More congestion never makes a flow faster: with one notification more it is never ahead.
    #[test]
    fn a_harder_cut_is_never_faster(
        factor in 1000..4000_u32,
        harder in 0..1000_u32,
        times in 0..100_000_000_u64,
    ) {
        let law = |tcd_cut| Law::new(&Config { tcd: true, tcd_cut, ..Config::DEFAULT }, LINE);
        let after = |tcd_cut| {
            let mut flow = notified(&law(tcd_cut), 1);
            flow.notified(&law(tcd_cut), Nanos(times), Mark::Congested);
            flow.bytes_per_sec()
        };
        prop_assert!(after(factor + harder) <= after(factor));
    }

    /// Timers that are made up for late are exact: as if each had been called when it expired.
    #[test]
    fn late_is_as_good_as_in_time(
        cuts in 1..8_u32,
        events in proptest::collection::vec((0..20_000_000_u64, 0..4_000_000_u32), 1..20),
        config in (1..20_000_000_u64, 1..50_000_000_u64, 1..12_u8, 100_000..12_000_000_u64),
    ) {
        let config = Config {
            additive: config.0,
            hyper: config.1,
            recovery_steps: config.2,
            byte_counter: config.3,
            ..Config::DEFAULT
        };
        let law = Law::new(&config, LINE);
        let mut late = notified(&law, cuts);
        let mut in_time = late;
        let mut now = Nanos::ZERO;
        for (time, bytes) in events {
            now += Nanos(time);
            // Also where the rate is the line's already.
            while in_time.raise_at.min(in_time.decay_at) <= now {
                let due = in_time.raise_at.min(in_time.decay_at);
                in_time.advance(&law, due);
            }
            in_time.sent(&law, now, bytes);
            late.sent(&law, now, bytes);
            let alphas = (late.alpha(), in_time.alpha());
            prop_assert!(alphas.0.abs_diff(alphas.1) < 200, "{alphas:?}");
            prop_assert_eq!(Dcqcn { alpha: in_time.alpha, ..late }, in_time);
        }
    }

    #[test]
    fn notifications_are_an_interval_apart(
        interval in 1..1_000_000_u64,
        packets in proptest::collection::vec((0..100_000_u64, marks()), 1..100),
    ) {
        let mut notifier = Notifier::NEW;
        let (mut now, mut last, mut worst) = (Nanos::ZERO, None, Mark::None);
        for (time, mark) in packets {
            now += Nanos(time);
            worst = worst.max(mark);
            let Some(told) = notifier.heard(Nanos(interval), now, mark) else {
                // Who waits knows until when.
                prop_assert_eq!(notifier.next().is_some(), worst != Mark::None);
                prop_assert!(notifier.next().is_none_or(|at| at > now));
                continue;
            };
            prop_assert_eq!(told, core::mem::take(&mut worst));
            prop_assert!(last.is_none_or(|last| now - last >= Nanos(interval)));
            last = Some(now);
        }
    }
}
