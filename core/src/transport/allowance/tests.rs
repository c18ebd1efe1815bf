// SPDX-License-Identifier: GPL-2.0
use core::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::Std;

/// Longer ones have less.
const SHORT: u32 = 128_000;
const OVERHEAD: u32 = 88;

fn mss() -> NonZeroU32 {
    NonZeroU32::new(1450).unwrap()
}

fn take(allowance: &mut Allowance, now: u64, length: u32, written: u32) -> (u32, u32) {
    allowance.take(Nanos(now), (length, written), mss(), OVERHEAD, SHORT)
}

#[test]
fn who_was_told_nothing_sends_one_short_packet() {
    let mut new = Allowance::default();
    assert_eq!(take(&mut new, 0, 168, 168), (168, 256));
    assert_eq!(take(&mut new, 0, 1, 1), (0, 0));
    new.give_back(256);
    assert_eq!(take(&mut new, 0, 169, 169), (0, 0));
    assert_eq!(take(&mut new, 0, 168, 167), (0, 0));
    assert_eq!(take(&mut new, 0, 100, 100), (100, 188));
}

#[test]
fn a_message_goes_whole_or_with_its_first_full_packets() {
    let mut told = Allowance::default();
    told.told(Nanos(0), 100);
    assert_eq!(take(&mut told, 1, 5000, 5000), (5000, 5000 + 4 * 88));
    // 1048 of 6400 are left.
    assert_eq!(take(&mut told, 1, 5000, 5000), (0, 0));
    told.give_back(5352);
    assert_eq!(take(&mut told, 1, 1 << 20, 1 << 20), (4 * 1450, 4 * 1538));
    told.give_back(4 * 1538);
    assert_eq!(take(&mut told, 1, 1 << 20, 3000), (2 * 1450, 2 * 1538));
}

#[test]
fn an_allowance_ends() {
    let mut told = Allowance::default();
    told.told(Nanos(5), 100);
    assert_eq!(take(&mut told, 4 + HOLDS.0, 3000, 3000), (3000, 3264));
    told.give_back(3264);
    assert_eq!(take(&mut told, 5 + HOLDS.0, 3000, 3000), (0, 0));
}

/// After a silence all are new again, in whatever order they were heard: the first ones to come
/// back do not get what the others had.
#[test]
fn after_a_silence_all_are_new() {
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(3));
    let tell =
        |all: &mut Allowances<Std>, now, index| all.promise(Nanos(now), index, 64_000, 50_000);
    for round in 0..2 {
        for index in [3, 2, 1, 0] {
            tell(&mut all, round, index);
        }
    }
    let later = 5 * HOLDS.0;
    assert_eq!(tell(&mut all, later, 0), 16_000);
    // An eighth of what is left: 48 000, then 42 048, 36 800.
    assert_eq!(tell(&mut all, later, 1), 5_952);
    assert_eq!(tell(&mut all, later, 2), 5_248);
    assert_eq!(tell(&mut all, later, 3), 4_544);
}

/// Hosts that begin within some ms of each other, each told twice before the next one comes: the
/// last one has room for a message of two packets at once, and a quarter when it is told again.
#[test]
fn who_begins_soon_after_finds_room() {
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(3));
    let mut now = 5 * HOLDS.0;
    let mut tell = |index| {
        now += 1_000_000;
        all.promise(Nanos(now), index, 128_000, 60_000)
    };
    for index in 0..4 {
        let first = tell(index);
        assert!(first >= 3200, "{index}: {first}");
        assert_eq!(tell(index), 32_000);
    }
    // Somebody who has been there for a while has what he can use, as far as there is any.
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(0));
    let mut told = |ms: u64| all.promise(Nanos(ms * 1_000_000), 0, 128_000, 60_000);
    assert_eq!(
        [0, 1, 120, 130].map(&mut told),
        [32_000, 32_000, 32_000, 59_968]
    );
}

#[test]
fn each_has_an_equal_part_and_all_fit() {
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(4));
    // Nobody is young.
    let later = u64::from(YOUNG + 1) << TICK;
    let tell = |all: &mut Allowances<Std>, now, index| {
        let told = all.promise(Nanos(later + now), index, 64_000, 50_000);
        all.all.get_mut(index).unwrap().since = 0;
        (told, all.sum)
    };
    // The first one has a quarter, and then what there is.
    assert_eq!(all.promise(Nanos(0), 0, 64_000, 50_000), 16_000);
    assert_eq!(tell(&mut all, 0, 0), (49_984, 49_984));
    // The first one has not been told of the second.
    assert_eq!(tell(&mut all, 0, 1), (1_728, 51_712));
    assert_eq!(tell(&mut all, 0, 1), (14_016, 64_000));
    assert_eq!(tell(&mut all, 0, 0).0, 32_000);
    assert_eq!(tell(&mut all, 0, 1).0, 32_000);
    for index in 2..5 {
        assert_eq!(tell(&mut all, 0, index).0, 0);
    }
    for index in 0..4 {
        tell(&mut all, 1, index);
        assert_eq!(tell(&mut all, 1, index).0, 12_800);
    }
    assert_eq!(tell(&mut all, 1, 4).0, 1_600);
    assert_eq!(tell(&mut all, 1, 4).0, 12_800);
    let end = 1 + HOLDS.0 + MORE.0;
    assert_eq!(tell(&mut all, end - 1, 3), (12_800, 64_000));
    // The four others end.
    assert_eq!(tell(&mut all, end, 3), (49_984, 49_984));
    all.end(3);
    assert_eq!((all.sum, all.until(3)), (0, Nanos::ZERO));
}

/// Four that begin at once find room for a message of 9 KB each, and eight for one of 5 KB.
#[test]
fn new_ones_leave_some_for_others() {
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(7));
    let tell = |index| all.promise(Nanos(0), index, 128_000, 60_000);
    let told: std::vec::Vec<_> = (0..8).map(tell).collect();
    assert_eq!(
        told,
        [32_000, 11_968, 10_496, 9_152, 8_000, 7_040, 6_144, 5_376]
    );
}

#[test]
fn both_ways_hold_until_the_later_one_ends() {
    let mut all = Allowances::<Std>::new();
    assert!(all.reserve(0));
    assert_eq!(all.until(0), Nanos::ZERO);
    all.ours(0).unwrap().told(Nanos(7), 1);
    assert_eq!(all.until(0), Nanos(7) + HOLDS);
    all.promise(Nanos(5), 0, 64_000, 1);
    assert_eq!(all.until(0), Nanos(5) + HOLDS + MORE);
    all.ours(0).unwrap().told(Nanos(9), 0);
    all.end(0);
    assert_eq!(all.until(0), Nanos::ZERO);
    all.ours(0).unwrap().told(Nanos(9), 1);
    all.begin(0);
    assert_eq!(all.until(0), Nanos::ZERO);
}

proptest! {
    #[test]
    fn all_promises_fit_and_all_uses_do(
        calls in proptest::collection::vec((0_u32..8, 0_u64..1 << 30, 1_u32..200_000), 1..200),
        budget in 4096_u32..200_000,
    ) {
        let mut all = Allowances::<Std>::new();
        prop_assert!(all.reserve(7));
        let mut peers = [Allowance::default(); 8];
        let mut taken = [0_u32; 8];
        let mut now = 0;
        for (index, time, length) in calls {
            now += time;
            let at = index as usize;
            peers[at].give_back(taken[at]);
            let told = all.promise(Nanos(now), index, budget, u32::MAX);
            let sum: u32 = (0..8).map(|at| all.all.get(at).unwrap().promised).sum();
            prop_assert!(sum <= budget && u64::from(sum) == all.sum);
            peers[at].told(Nanos(now), (told / UNIT) as u16);
            let (bytes, wire) = take(&mut peers[at], now, length, length);
            prop_assert!(bytes <= length && wire <= told.max(LEAST));
            prop_assert!(wire >= bytes && (bytes != 0) == (wire != 0));
            taken[at] = wire;
        }
    }
}

/// Of a message of twice the length half as much goes unasked, and of any a packet.
#[test]
fn long_messages_have_less_at_once() {
    let wire = mss().get() + OVERHEAD;
    for (length, bytes) in [
        (SHORT, SHORT),
        (2 * SHORT, SHORT / 2),
        (16 * SHORT, SHORT / 16),
        (1 << 30, wire),
    ] {
        let mut allowance = Allowance::default();
        allowance.told(Nanos(1), u16::MAX);
        let (_, taken) = take(&mut allowance, 2, length, length - 1);
        assert_eq!(taken, bytes / wire * wire, "{length}");
    }
}
