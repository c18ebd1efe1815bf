// SPDX-License-Identifier: GPL-2.0
//! Shapers against exact arithmetic: ten million packets at each rate, without a nanosecond of
//! drift.

mod common;

use common::{PerByte, Rng};
use turnstile_core::shaper::Shaper;
use turnstile_core::units::{Nanos, Rate};

const PACKETS: u64 = 10_000_000;
const KBIT: u64 = 125;
const MBIT: u64 = 125_000;
const GBIT: u64 = 125_000_000;

/// Packets of 84 to 1538 bytes, each sent a little late. After each of them, the next may leave in
/// the first nanosecond that is not before the exact time; never earlier, never later.
fn run(rate: Rate, exact: PerByte, start: u64, packets: u64) {
    let slack = 1000;
    let mut rng = Rng(exact.bytes as u64 ^ start);
    let mut shaper = Shaper::new(rate, Nanos(slack), Nanos(start));
    // In units of 1 / exact.bytes ns.
    let mut due = u128::from(start) * exact.bytes;
    for n in 0..packets {
        let random = rng.next();
        let len = 84 + random as u32 % 1455;
        let late = Nanos((random >> 32) % (slack + 1)); // the slack itself is still made up for
        shaper.charge(shaper.next() + late, len);
        due += u128::from(len) * exact.ns;
        let next = u128::from(shaper.next().0) * exact.bytes;
        assert!(next >= due, "packet {n} early: {next} < {due}");
        assert!(next - due < exact.bytes, "packet {n} late: {next} > {due}");
    }
}

#[test]
fn no_drift_at_any_rate() {
    for rate in [KBIT, 10 * MBIT, GBIT, 10 * GBIT, 100 * GBIT, 800 * GBIT] {
        run(
            Rate::from_bytes_per_sec(rate).unwrap(),
            PerByte::of_rate(rate),
            12_345,
            PACKETS,
        );
    }
}

#[test]
fn no_drift_at_the_default_share() {
    for link in [10 * MBIT, 10 * GBIT, 800 * GBIT] {
        let rate = Rate::from_share(link, 51_787_916).unwrap();
        run(rate, PerByte::of_share(link, 51_787_916), 12_345, PACKETS);
    }
}

#[test]
fn no_drift_at_odd_rates_and_shares() {
    let mut rng = Rng(7);
    for _ in 0..200 {
        // Beyond 2^42 / 10^9 B/s a share in billionths may be rounded.
        let link = 125 + rng.below(4000);
        let ppb = (100_000 + rng.below(499_900_001)) as u32;
        run(
            Rate::from_share(link, ppb).unwrap(),
            PerByte::of_share(link, ppb),
            0,
            5000,
        );
        let rate = 1 + rng.below(100 * GBIT);
        run(
            Rate::from_bytes_per_sec(rate).unwrap(),
            PerByte::of_rate(rate),
            0,
            5000,
        );
    }
}

#[test]
fn a_rounded_share_drifts_by_less_than_one_in_ten_billion_and_only_late() {
    for (link, ppb) in [
        (99_999_999_977, 51_787_917),
        (100_000_000_000 - 125, 499_999_999),
    ] {
        let exact = PerByte::of_share(link, ppb);
        let mut shaper = Shaper::new(Rate::from_share(link, ppb).unwrap(), Nanos(0), Nanos(0));
        for _ in 0..PACKETS {
            shaper.charge(shaper.next(), 1538);
        }
        let (ns, should) = (shaper.next().0, exact.duration(PACKETS * 1538));
        assert!(ns >= should, "{link} {ppb}: {ns} < {should}");
        assert!(
            ns - should <= should / 10_000_000_000 + 1,
            "{link} {ppb}: {ns} > {should}"
        );
    }
}

#[test]
fn exact_up_to_the_end_of_time_and_then_it_stays_there() {
    for bytes in [1, KBIT, 3, GBIT, 10 * GBIT, 800 * GBIT] {
        let exact = PerByte::of_rate(bytes);
        // So that the end comes after some thousand packets.
        let start = u64::MAX - exact.duration(3_000_000);
        let rate = Rate::from_bytes_per_sec(bytes).unwrap();
        let mut shaper = Shaper::new(rate, Nanos(1000), Nanos(start));
        let mut due = u128::from(start) * exact.bytes;
        let mut at_the_end = 0;
        for _ in 0..6000 {
            let before = shaper.next();
            shaper.charge(before, 811);
            due += 811 * exact.ns;
            let should = due.div_ceil(exact.bytes).min(u64::MAX.into()) as u64;
            assert_eq!(shaper.next(), Nanos(should));
            assert!(shaper.next() >= before);
            at_the_end += u32::from(should == u64::MAX);
        }
        assert!(at_the_end > 1000, "{bytes}: the end did not come");
    }
}

#[test]
fn at_least_the_time_lies_between_any_two_packets() {
    // Calls at random times: never early; lateness is made up for up to the slack.
    let slack = 5000;
    for bytes in [10 * MBIT, GBIT, 10 * GBIT] {
        let exact = PerByte::of_rate(bytes);
        let mut rng = Rng(bytes);
        let mut shaper = Shaper::new(
            Rate::from_bytes_per_sec(bytes).unwrap(),
            Nanos(slack),
            Nanos(0),
        );
        // How far the bytes sent are ahead of the rate: the maximum over all intervals that end
        // here, in 1 / exact.bytes ns.
        let (mut ahead, mut before, mut worst) = (0_u128, 0, 0);
        let mut cost = 0;
        for _ in 0..500_000 {
            let late = if rng.below(10) == 0 {
                rng.below(50_000)
            } else {
                rng.below(100)
            };
            if rng.below(50) == 0 {
                shaper.arrive(shaper.next() + Nanos(rng.below(100_000)));
            }
            let now = shaper.next().0.max(before) + late;
            ahead = (ahead + cost).saturating_sub(u128::from(now - before) * exact.bytes);
            assert!(ahead < u128::from(slack + 1) * exact.bytes);
            worst = worst.max(ahead);
            let len = 84 + rng.below(1455) as u32;
            shaper.charge(Nanos(now), len);
            cost = u128::from(len) * exact.ns;
            before = now;
        }
        assert!(
            worst > u128::from(slack) * exact.bytes * 9 / 10,
            "the slack is not used"
        );
    }
}
