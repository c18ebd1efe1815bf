// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// A constant rate: the least eta, the least beta, an interval of a second.
fn steady() -> Config {
    Config {
        interval: Nanos(1_000_000_000),
        eta: 1_000_000,
        beta: 1,
        ..Config::DEFAULT
    }
}

#[test]
fn a_full_bucket_then_the_rate() {
    let start = Nanos(1_000);
    // 1 Gbit/s: 8 ns a byte.
    let mut bucket = Bucket::new(&steady(), 125_000_000, start);
    assert!(bucket.is_due(3_072) && bucket.is_due(1 << 20));
    bucket.take(1_538);
    bucket.take(1_534);
    assert!(bucket.is_due(0) && !bucket.is_due(1));
    assert_eq!(bucket.due(1_538), start + Nanos(8 * 1_538));
    bucket.advance(start + Nanos(8 * 1_538 - 1), 1_538);
    assert!(!bucket.is_due(1_538));
    bucket.advance(start + Nanos(8 * 1_538), 1_538);
    assert!(bucket.is_due(1_538));
}

#[test]
fn longer_than_the_bucket_is_paid_for_later() {
    let start = Nanos(0);
    let mut bucket = Bucket::new(&steady(), 125_000_000, start);
    assert!(bucket.is_due(65_536));
    bucket.take(65_536);
    // Full again, and what the packet took beyond it.
    assert_eq!(bucket.due(65_536), Nanos(8 * 65_536));
    assert_eq!(bucket.due(100), Nanos(8 * (65_536 - 3_072 + 100)));
}

#[test]
fn no_rate_waits_for_the_next_one() {
    let mut bucket = Bucket::new(&Config::DEFAULT, 0, Nanos(0));
    bucket.take(3_072);
    assert_eq!(bucket.due(84), Nanos(64_000));
    bucket.arrive(1_538);
    bucket.advance(Nanos(64_000), 1_538);
    // 1/8 of 1538 bytes in 64 us, and 16/s of them.
    assert_eq!(bucket.bytes_per_sec(), 1_538 * 15_625 / 8 + 1_538 * 16);
    assert_eq!(bucket.updates(), 1);
}

#[test]
fn what_nobody_looked_at_is_bounded() {
    let config = Config {
        interval: Nanos(1_000),
        ..Config::DEFAULT
    };
    let mut bucket = Bucket::new(&config, 125_000_000, Nanos(0));
    bucket.arrive(1_000);
    bucket.advance(Nanos(1 << 62), 1_000);
    assert_eq!(bucket.updates(), u64::from(MAX_LATE));
    bucket.advance(Nanos((1 << 62) + 1_000), 1_000);
    assert_eq!(bucket.updates(), u64::from(MAX_LATE) + 1);
}

proptest! {
    /// The number of calls of `advance` does not change the tokens by more than a byte.
    #[test]
    fn looking_changes_nothing(
        times in prop::collection::vec(0_u64..300_000, 1..50),
        take in 1_u32..200_000,
    ) {
        let mut looked = Bucket::new(&Config::DEFAULT, 1_000_000, Nanos(0));
        let mut not = looked.clone();
        looked.take(take);
        not.take(take);
        let mut now = Nanos(0);
        for time in times {
            now += Nanos(time);
            looked.advance(now, 0);
        }
        not.advance(now, 0);
        prop_assert_eq!(looked.updates(), not.updates());
        prop_assert!(looked.bytes_per_sec().abs_diff(not.bytes_per_sec()) <= 1);
        prop_assert!(looked.tokens.abs_diff(not.tokens) <= BYTE.unsigned_abs());
    }

    #[test]
    fn any_numbers_do_no_harm(
        config: (u64, u32, u32, u32),
        rate: u64,
        steps: Vec<(u64, u32, u64)>,
    ) {
        let config = Config {
            interval: Nanos(config.0),
            eta: config.1,
            beta: config.2,
            bucket: config.3,
            ..Config::DEFAULT
        };
        let mut bucket = Bucket::new(&config, rate, Nanos(u64::MAX / 2));
        for (now, len, backlog) in steps {
            bucket.advance(Nanos(now), backlog);
            bucket.arrive(len);
            if bucket.is_due(len) {
                bucket.take(len);
            } else {
                prop_assert!(bucket.due(len) >= bucket.upto);
            }
            bucket.change(&config, (len % 2 == 0).then_some(backlog), Nanos(now));
        }
    }
}
