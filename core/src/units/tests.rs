// SPDX-License-Identifier: GPL-2.0
use super::*;

const GBIT: u64 = 125_000_000;

/// 84 / (84 + 1538) in parts per billion.
const DEFAULT_SHARE: u32 = 51_787_916;

fn rate(bytes_per_sec: u64) -> Rate {
    Rate::from_bytes_per_sec(bytes_per_sec).unwrap()
}

fn share(link: u64, ppb: u32) -> Rate {
    Rate::from_share(link, ppb).unwrap()
}

/// `rate` as a fraction of bytes per `per` ns.
fn fraction(rate: &Rate) -> (u128, u128) {
    (rate.bytes.get().into(), rate.per_ns.get().into())
}

#[test]
fn time_saturates_at_both_ends() {
    assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
    assert_eq!(Nanos(1) + Nanos(2), Nanos(3));
    assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
    assert_eq!(Nanos(5) - Nanos(2), Nanos(3));
    let mut time = Nanos(u64::MAX - 1);
    time += Nanos(5);
    assert_eq!(time.as_u64(), u64::MAX);
}

#[test]
fn a_rate_in_bytes_per_second_is_exact() {
    for bytes in [
        1,
        2,
        3,
        125,
        999_999_937,
        10 * GBIT,
        800 * GBIT,
        Rate::MAX_BYTES_PER_SEC,
    ] {
        let rate = rate(bytes);
        let (b, per) = fraction(&rate);
        assert_eq!(b * 1_000_000_000, per * u128::from(bytes), "{bytes}");
        assert_eq!(rate.bytes_per_sec(), bytes);
        assert_eq!(rate.whole * rate.bytes.get() + rate.rest, rate.per_ns.get());
        assert!(rate.rest < rate.bytes.get());
    }
}

#[test]
fn there_is_no_rate_of_zero_nor_beyond_the_highest() {
    assert_eq!(Rate::MAX_BYTES_PER_SEC, 4_398_046_511_103);
    assert_eq!(Rate::from_bytes_per_sec(0), None);
    assert_eq!(Rate::from_bytes_per_sec(Rate::MAX_BYTES_PER_SEC + 1), None);
    assert_eq!(Rate::from_bytes_per_sec(u64::MAX), None);
    assert_eq!(Rate::from_share(0, 1), None);
    assert_eq!(Rate::from_share(GBIT, 0), None);
    assert_eq!(Rate::from_share(GBIT, 1_000_000_001), None);
    assert_eq!(Rate::from_share(Rate::MAX_BYTES_PER_SEC + 1, 1), None);
    assert_eq!(share(GBIT, 1_000_000_000), rate(GBIT));
}

#[test]
fn a_share_is_exact_on_the_usual_links() {
    let usual = (1..=339_000).step_by(17).chain([400_000, 800_000]);
    for mbit in usual {
        let link = mbit * 125_000;
        let (b, per) = fraction(&share(link, DEFAULT_SHARE));
        let exact = u128::from(link) * u128::from(DEFAULT_SHARE);
        assert_eq!(b * 1_000_000_000_000_000_000, per * exact, "{mbit} Mbit/s");
    }
}

#[test]
fn any_share_is_close_and_never_higher() {
    let links = [
        125,
        126,
        999_999_937,
        12_345_678_901,
        99_999_999_977,
        100_000_000_000,
    ];
    for link in links {
        for ppb in [
            100_000,
            51_787_916,
            51_787_917,
            333_333_333,
            499_999_999,
            999_999_999,
        ] {
            let (b, per) = fraction(&share(link, ppb));
            // b / per against exact / 10^18.
            let exact = u128::from(link) * u128::from(ppb);
            let (ours, theirs) = (b * 1_000_000_000_000_000_000, per * exact);
            assert!(ours <= theirs, "{link} {ppb}: too fast");
            assert!(
                (theirs - ours) < theirs / 10_000_000_000 + 1,
                "{link} {ppb}: too slow"
            );
        }
    }
}

#[test]
fn shares_that_need_rounding_exist() {
    // The test above would prove little otherwise.
    let (b, per) = fraction(&share(99_999_999_977, 51_787_917));
    let exact = 99_999_999_977_u128 * 51_787_917;
    assert!(b * 1_000_000_000_000_000_000 < per * exact);
}

#[test]
fn bytes_per_second_are_rounded_down() {
    // 1.25e9 x 0.051787916 = 64734895 exactly; 125 x 0.0001 = 0.0125.
    assert_eq!(share(10 * GBIT, DEFAULT_SHARE).bytes_per_sec(), 64_734_895);
    assert_eq!(share(125, 100_000).bytes_per_sec(), 0);
    assert_eq!(share(1000, 1_500_000).bytes_per_sec(), 1);
    assert_eq!(share(800 * GBIT, 500_000_000).bytes_per_sec(), 400 * GBIT);
}

#[test]
fn durations_are_rounded_up() {
    assert_eq!(rate(10 * GBIT).duration(1538), Nanos(1231)); // 1230.4
    assert_eq!(rate(10 * GBIT).duration(1500), Nanos(1200)); // 1200 exactly
    assert_eq!(rate(125).duration(84), Nanos(672_000_000));
    assert_eq!(rate(800 * GBIT).duration(84), Nanos(1)); // 0.84
    assert_eq!(rate(10 * GBIT).duration(0), Nanos::ZERO);
    assert_eq!(share(10 * GBIT, DEFAULT_SHARE).duration(84), Nanos(1298)); // 1297.6
}

#[test]
fn the_carry_makes_a_sum_exact() {
    let rate = rate(3);
    // A byte takes 333333333 1/3 ns.
    let (mut sum, mut carry, mut sums) = (Nanos::ZERO, rate.fresh(), [0; 4]);
    for at in &mut sums {
        let (time, rest) = rate.advance(1, carry);
        (sum, carry) = (sum + time, rest);
        *at = sum.0;
    }
    assert_eq!(
        sums,
        [333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334]
    );
}

#[test]
fn long_packets_and_low_rates_do_not_overflow() {
    let slow = rate(1);
    assert_eq!(
        slow.duration(Rate::MAX_LEN),
        Nanos(4_194_303 * 1_000_000_000)
    );
    assert_eq!(slow.duration(u32::MAX), slow.duration(Rate::MAX_LEN));
    // The slowest: one byte in 2^41 - 1/3 ns.
    let slowest = Rate::new(3, 3 * (1 << 41) - 1).unwrap();
    assert_eq!(
        u128::from(slowest.duration(Rate::MAX_LEN).0),
        (((1_u128 << 22) - 1) << 41) - ((1 << 22) - 1) / 3
    );
    assert_eq!(Rate::new(3, 3 << 41), None);
    assert_eq!(Rate::from_share(1, 1), None);
    // The largest intermediate there is: rest = carry = bytes - 1.
    let fast = Rate::new(Rate::MAX_BYTES_PER_SEC, Rate::MAX_BYTES_PER_SEC - 1).unwrap();
    assert_eq!(fast.fresh(), Rate::MAX_BYTES_PER_SEC - 1);
    let (time, rest) = fast.advance(u32::MAX, fast.fresh());
    let parts = u128::from(Rate::MAX_LEN) * u128::from(fast.rest) + u128::from(fast.fresh());
    assert_eq!(
        u128::from(time.0),
        parts / u128::from(Rate::MAX_BYTES_PER_SEC)
    );
    assert_eq!(
        u128::from(rest),
        parts % u128::from(Rate::MAX_BYTES_PER_SEC)
    );
}

#[test]
fn the_greatest_common_divisor_is_that() {
    let nz = |x| NonZeroU64::new(x).unwrap();
    assert_eq!(gcd(nz(12), nz(18)), nz(6));
    assert_eq!(gcd(nz(1), nz(u64::MAX)), nz(1));
    assert_eq!(gcd(nz(u64::MAX), nz(u64::MAX)), nz(u64::MAX));
    assert_eq!(reduce(nz(12), nz(18)), (nz(2), nz(3)));
}

#[test]
fn volumes_are_exact() {
    // A third of a byte every nanosecond, and what comes to that only in lowest terms.
    for rate in [
        Rate::new(1, 3).unwrap(),
        Rate::from_share(1_000_000_000, 333_333_333).unwrap(),
        share(10 * GBIT, DEFAULT_SHARE),
        Rate::from_bytes_per_sec(Rate::MAX_BYTES_PER_SEC).unwrap(),
    ] {
        let (bytes, per_ns) = (rate.bytes.get(), rate.per_ns.get());
        assert_eq!(rate.volume(bytes), rate.volume_in(Nanos(per_ns)));
        assert!(rate.volume(bytes) > rate.volume_in(Nanos(per_ns - 1)));
        for bytes in [0, 1, 2, 999_999_937, u64::MAX] {
            assert_eq!(rate.bytes_of(rate.volume(bytes)), bytes);
        }
        let a_bit = rate.volume_in(Nanos(1)).plus(rate.volume(7));
        assert_eq!(a_bit.minus(rate.volume(7)), rate.volume_in(Nanos(1)));
        assert_eq!(rate.volume(7).minus(a_bit), Volume::default());
        assert_eq!(rate.bytes_of(Volume(u128::MAX)), u64::MAX);
        assert_eq!(Volume(u128::MAX).plus(a_bit), Volume(u128::MAX));
    }
}

#[test]
fn without_limit_nothing_takes_time() {
    let rate = Rate::UNLIMITED;
    assert_eq!(rate.bytes_per_sec(), 0);
    for len in [0, 1, 84, 1538, Rate::MAX_LEN, u32::MAX] {
        assert_eq!(rate.duration(len), Nanos::ZERO);
        assert_eq!(rate.advance(len, rate.fresh()), (Nanos::ZERO, rate.fresh()));
    }
    // A byte a nanosecond is the same fraction, and a limit.
    assert_ne!(Rate::from_bytes_per_sec(1_000_000_000), Some(rate));
}

#[test]
fn a_carry_in_units_of_another_rate_is_exact_and_rounded_up() {
    let rates = [1, 2, 1_250_000_000, 777_777_777, 4_398_046_511_103]
        .map(|bytes| Rate::from_bytes_per_sec(bytes).unwrap());
    for of in rates {
        for other in rates {
            let top = of.fresh();
            for carry in [0, 1, top / 3, top.saturating_sub(1), top] {
                let carry = carry.min(top);
                let exact = u128::from(carry) * u128::from(other.parts());
                let want = exact.div_ceil(u128::from(of.parts()));
                assert_eq!(
                    u128::from(of.part_of(carry, &other)),
                    want,
                    "{of:?} {other:?}"
                );
            }
        }
    }
}
