// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;
use std::vec;

const GBIT: u64 = 125_000_000;

/// 5 % of 10 Gbit/s: 16 ns for a byte.
fn rate() -> Rate {
    Rate::from_share(10 * GBIT, 50_000_000).unwrap()
}

fn policer(jitter: u64) -> Policer {
    let mut policer = Policer::OFF;
    policer.set(Some(rate()), Nanos(jitter), Nanos(1_000_000));
    policer
}

/// How many signals of this length pass at once, of more than can.
fn pass(policer: &mut Policer, now: u64, wire_len: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..10_000 {
        passed += u32::from(policer.pay(Nanos(now), wire_len, || false));
    }
    passed
}

#[test]
fn a_burst_passes_and_no_more() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 1_000_000, 128), 512);
    // The first chunk has passed at the share's rate after 4096 x 16 ns, to the nanosecond.
    assert_eq!(pass(&mut policer, 1_065_535, 128), 0);
    assert_eq!(pass(&mut policer, 1_065_536, 128), 32);
    assert_eq!(pass(&mut policer, 1_065_536, 128), 0);
}

#[test]
fn jitter_allows_what_falls_due_within_it() {
    // Three chunks' time more.
    let mut late = policer(3 * 65_536);
    assert_eq!(pass(&mut late, 1_000_000, 128), 512 + 96);
    let mut not_quite = policer(3 * 65_536 - 1);
    assert_eq!(pass(&mut not_quite, 1_000_000, 128), 512 + 64);
}

#[test]
fn idle_time_earns_no_more_than_the_burst() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 3_600_000_000_000, 128), 512);
    assert_eq!(pass(&mut policer, 7_200_000_000_000, 128), 512);
}

#[test]
fn what_is_left_of_a_chunk_is_not_lost() {
    let mut policer = policer(0);
    // 4096 = 40 x 100 + 96. Sixteen chunks are 655 x 100 + 36.
    assert_eq!(pass(&mut policer, 1_000_000, 100), 655);
    assert_eq!(pass(&mut policer, 1_065_536, 100), 41);
}

#[test]
fn a_signal_longer_than_a_chunk_is_paid_for_in_full() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 1_000_000, 9000), 7);
    // 63 000 bytes have passed after 1.008 ms; 61 440 may be ahead.
    assert_eq!(pass(&mut policer, 1_024_959, 9000), 0);
    assert_eq!(pass(&mut policer, 1_024_960, 9000), 1);
}

#[test]
fn what_bridges_keep_passes_while_others_flood() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 1_000_000, 128), 512);
    let mut kept = 0;
    while policer.pay(Nanos(1_000_000), 128, || true) {
        kept += 1;
        assert_eq!(pass(&mut policer, 1_000_000, 128), 0, "no other gets it");
    }
    // 16 KiB and the burst's last chunk: the schedule may be so far ahead before, not after.
    assert_eq!(kept, 128 + 1 - 32);
}

#[test]
fn nobody_asks_for_the_address_while_there_is_room() {
    let mut policer = policer(0);
    for _ in 0..512 {
        assert!(policer.pay(Nanos(1_000_000), 128, || panic!("asked")));
    }
}

#[test]
fn without_a_share_all_pass() {
    let mut off = Policer::OFF;
    off.set(None, Nanos::ZERO, Nanos(5));
    assert_eq!(pass(&mut off, 5, u32::MAX), 10_000);
    assert!(off.try_pay(u32::MAX));
    off.reset();
    assert!(off.try_pay(u32::MAX));
    // Nor do they once the credit is used up.
    off.credit = 0;
    assert!(!off.try_pay(1));
    assert!(off.pay(Nanos(5), 1, || false));
    assert!(off.try_pay(u32::MAX));
}

#[test]
fn a_change_starts_afresh_from_off_and_goes_on_from_another_share() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 1_000_000, 128), 512);
    policer.set(Some(rate()), Nanos::ZERO, Nanos(1_000_000));
    assert_eq!(pass(&mut policer, 1_000_000, 128), 0, "the same share");
    // Twice the share: what was bought has still to pass, but the schedule is no further ahead than
    // it could be by the new one.
    let twice = Rate::from_share(10 * GBIT, 100_000_000).unwrap();
    policer.set(Some(twice), Nanos::ZERO, Nanos(1_000_000));
    assert_eq!(pass(&mut policer, 1_000_000, 128), 0);
    // It was ahead by 1 048 576 ns, and may be by 622 592; others have to wait until it is by
    // 491 520.
    assert_eq!(pass(&mut policer, 1_131_071, 128), 0);
    assert_eq!(pass(&mut policer, 1_131_072, 128), 32);
    // Off and on again.
    policer.set(None, Nanos::ZERO, Nanos(1_131_072));
    assert_eq!(pass(&mut policer, 1_131_072, 128), 10_000);
    policer.set(Some(rate()), Nanos::ZERO, Nanos(1_131_072));
    assert_eq!(pass(&mut policer, 1_131_072, 128), 512);
}

#[test]
fn the_debt_of_a_slow_link_does_not_outlive_it() {
    let mut policer = Policer::OFF;
    let slow = Rate::from_share(125_000, 50_000_000).unwrap();
    policer.set(Some(slow), Nanos::ZERO, Nanos(0));
    assert_eq!(pass(&mut policer, 0, 128), 512);
    // It would be 10 s. At the new rate no more is owed than could have been ahead.
    policer.set(Some(rate()), Nanos::ZERO, Nanos(1));
    let owed = 16 * u64::from(BURST - CHUNK + KEPT);
    assert_eq!(policer.next, Nanos(1 + owed));
    assert_eq!(pass(&mut policer, 1 + 16 * u64::from(KEPT), 128), 32);
}

#[test]
fn a_reset_forgets() {
    let mut policer = policer(0);
    assert_eq!(pass(&mut policer, 1_000_000, 128), 512);
    policer.reset();
    assert_eq!(policer.credit, 0);
    assert_eq!(pass(&mut policer, 1_000_000, 128), 512);
}

proptest! {
    /// Over any time, whatever is offered.
    #[test]
    fn no_more_than_the_share_a_burst_and_a_chunk(
        ppb in 100_000_u32..1_000_000_000,
        link in prop::sample::select(&[125_000, 1_250_000, GBIT, 10 * GBIT, 100 * GBIT + 1][..]),
        jitter in 0_u64..1_000_000,
        offers in prop::collection::vec((0_u64..2_000_000, 1_u32..5000, any::<bool>()), 1..400),
    ) {
        let rate = Rate::from_share(link, ppb).unwrap();
        let mut policer = Policer::OFF;
        policer.set(Some(rate), Nanos(jitter), Nanos(0));
        let (mut now, mut passed) = (0, 0_u64);
        // What has passed and the time of each offer: of any two the bound holds.
        let mut seen = vec![(0, 0)];
        for (sleep, wire_len, fast) in offers {
            now += sleep;
            let passes = fast && policer.try_pay(wire_len)
                || policer.pay(Nanos(now), wire_len, || false);
            passed += if passes { u64::from(wire_len) } else { 0 };
            // Rounded up by a byte.
            for &(then, before) in &seen {
                let time = Nanos(now - then + jitter);
                let due = rate.bytes_of(rate.volume_in(time)) + 1;
                let most = due + u64::from(BURST + CHUNK) + 5000;
                prop_assert!(passed - before <= most, "{} in {} ns", passed - before, now - then);
            }
            seen.push((now, passed));
        }
    }

    /// Who stays below the share, and comes in no larger bursts, is never excess.
    #[test]
    fn who_stays_within_the_share_is_never_excess(
        signals in prop::collection::vec((84_u32..1538, 0_u64..5000), 1..2000),
    ) {
        let rate = rate();
        let mut policer = policer(0);
        let mut now = 1_000_000;
        for (wire_len, sleep) in signals {
            prop_assert!(policer.pay(Nanos(now), wire_len, || false));
            now += rate.duration(wire_len).0 + sleep;
        }
    }
}
