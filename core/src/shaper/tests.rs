// SPDX-License-Identifier: GPL-2.0
use super::*;

const GBIT: u64 = 125_000_000;

fn shaper(bytes_per_sec: u64, slack: u64, now: u64) -> Shaper {
    Shaper::new(
        Rate::from_bytes_per_sec(bytes_per_sec).unwrap(),
        Nanos(slack),
        Nanos(now),
    )
}

#[test]
fn the_first_goes_at_once_and_the_second_its_transmission_time_later() {
    let mut s = shaper(10 * GBIT, 1_000_000, 5000);
    assert!(s.ready(Nanos(5000)));
    assert!(!s.ready(Nanos(4999)));
    s.charge(Nanos(5000), 1538);
    assert_eq!(s.next(), Nanos(6231)); // + 1230.4, not before it is over
    assert!(!s.ready(Nanos(6230)));
    assert!(s.ready(Nanos(6231)));
}

#[test]
fn fractions_of_a_nanosecond_add_up() {
    let mut s = shaper(10 * GBIT, 1_000_000, 0);
    let mut times = [0; 5];
    for time in &mut times {
        let now = s.next();
        s.charge(now, 1538);
        *time = s.next().0;
    }
    assert_eq!(times, [1231, 2461, 3692, 4922, 6152]); // 1230.4 2460.8 3691.2 4921.6 6152
}

#[test]
fn a_late_timer_does_not_move_the_schedule() {
    let mut s = shaper(GBIT, 10_000, 0);
    s.charge(Nanos(0), 125); // takes 1000
    s.charge(Nanos(1700), 125);
    assert_eq!(s.next(), Nanos(2000));
    s.charge(Nanos(2999), 125);
    assert_eq!(s.next(), Nanos(3000));
}

#[test]
fn lateness_is_made_up_for_to_the_bound() {
    let mut s = shaper(GBIT, 10_000, 0);
    s.charge(Nanos(0), 125);
    // 10 000 of the 999 000 ns that it is late.
    let mut sent = 0;
    let now = Nanos(1_000_000);
    while s.ready(now) {
        s.charge(now, 125);
        sent += 1;
    }
    assert_eq!(sent, 11);
    assert_eq!(s.next(), Nanos(1_001_000));
}

#[test]
fn without_slack_the_schedule_starts_from_the_late_packet() {
    let mut s = shaper(GBIT, 0, 0);
    s.charge(Nanos(0), 125);
    s.charge(Nanos(1700), 125);
    assert_eq!(s.next(), Nanos(2700));
}

#[test]
fn idle_time_earns_nothing() {
    let mut s = shaper(GBIT, 10_000, 0);
    s.charge(Nanos(0), 125);
    s.arrive(Nanos(6000));
    s.charge(Nanos(6000), 125);
    assert_eq!(s.next(), Nanos(7000));
}

#[test]
fn arriving_early_does_not_shorten_the_wait() {
    let mut s = shaper(10 * GBIT, 10_000, 0);
    s.charge(Nanos(0), 1538);
    s.arrive(Nanos(1230));
    assert_eq!(s.next(), Nanos(1231));
    s.charge(Nanos(1231), 1538);
    assert_eq!(s.next(), Nanos(2461)); // 2460.8: the fraction is still there
    s.arrive(Nanos(2462));
    s.charge(Nanos(2462), 1538);
    assert_eq!(s.next(), Nanos(3693)); // 2462 + 1230.4: and now it is not
}

#[test]
fn on_time_there_is_no_drift_even_without_slack() {
    let mut s = shaper(10 * GBIT, 0, 0);
    for _ in 0..1000 {
        s.arrive(s.next());
        s.charge(s.next(), 1538);
    }
    assert_eq!(s.next(), Nanos(1_230_400));
}

#[test]
fn a_new_rate_keeps_the_schedule() {
    let mut s = shaper(GBIT, 10_000, 0);
    s.charge(Nanos(0), 125);
    s.set_rate(
        Rate::from_bytes_per_sec(GBIT / 10).unwrap(),
        Nanos(20_000),
        Nanos(500),
        1538,
    );
    assert_eq!(s.next(), Nanos(1000));
    s.charge(Nanos(1000), 125);
    assert_eq!(s.next(), Nanos(11_000));
    // The new slack: 20 packets' time.
    s.charge(Nanos(1_000_000), 125);
    assert_eq!(s.next(), Nanos(990_000));
}

#[test]
fn a_much_higher_rate_does_not_wait_for_the_old_debt() {
    let mut s = shaper(125, 10_000, 0);
    s.charge(Nanos(0), 1538); // 12.3 s
    s.set_rate(
        Rate::from_bytes_per_sec(10 * GBIT).unwrap(),
        Nanos(10_000),
        Nanos(500),
        1538,
    );
    assert_eq!(s.next(), Nanos(500 + 1231));
}

#[test]
fn the_fraction_of_an_old_rate_is_rounded_up() {
    let mut s = shaper(10 * GBIT, 10_000, 0);
    s.charge(Nanos(0), 1538); // 1230.4
    s.set_rate(
        Rate::from_bytes_per_sec(GBIT).unwrap(),
        Nanos(10_000),
        Nanos(0),
        1538,
    );
    assert_eq!(s.next(), Nanos(1231));
    s.charge(Nanos(1231), 125);
    assert_eq!(s.next(), Nanos(2231));
}

#[test]
fn the_same_rate_again_changes_nothing() {
    let mut s = shaper(125, 10_000, 0);
    s.charge(Nanos(0), 1538);
    let before = s.clone();
    s.set_rate(s.rate(), Nanos(10_000), Nanos(500), 84);
    assert_eq!((s.next, s.carry), (before.next, before.carry));
}

#[test]
fn a_reset_forgets_the_schedule() {
    let mut s = shaper(3, 0, 0);
    s.charge(Nanos(0), 1538);
    s.reset();
    assert!(s.ready(Nanos(0)));
    assert_eq!(s.carry, s.rate.fresh());
}

#[test]
fn the_end_of_time_is_not_passed() {
    let mut s = shaper(125, 0, u64::MAX - 10);
    s.charge(Nanos(u64::MAX - 10), 1538);
    assert_eq!(s.next(), Nanos::MAX);
    assert!(!s.ready(Nanos(u64::MAX - 1)));
    assert!(s.ready(Nanos::MAX));
    s.charge(Nanos::MAX, 1);
    assert_eq!(s.next(), Nanos::MAX);
}

/// Rates with and without a fraction of a nanosecond per byte, up to the fastest link and down to a
/// byte in half an hour.
fn rates() -> [Rate; 5] {
    [
        Rate::from_bytes_per_sec(10 * GBIT).unwrap(),
        Rate::from_bytes_per_sec(1).unwrap(),
        Rate::from_bytes_per_sec(Rate::MAX_BYTES_PER_SEC).unwrap(),
        Rate::from_share(10 * GBIT, 51_787_916).unwrap(),
        Rate::from_share(339 * GBIT, 51_787_917).unwrap(),
    ]
}

#[test]
fn what_a_length_takes_is_what_a_division_says() {
    for rate in rates() {
        for wire_len in [0, 1, 84, 1538, 65_549, Rate::MAX_LEN, u32::MAX] {
            let taken = Taken::new(rate, &Beyond::NONE, wire_len, 1);
            let mut carry = rate.fresh();
            for _ in 0..1000 {
                let expected = rate.advance(wire_len, carry);
                assert_eq!(
                    taken.after(carry, rate.parts()),
                    expected,
                    "{rate:?}, {wire_len}, {carry}"
                );
                carry = expected.1;
            }
        }
    }
}

#[test]
fn the_short_way_to_charge_is_the_long_one_or_changes_nothing() {
    for rate in rates() {
        for (now, wire_len) in [
            (0, 84),            // of the same length, in time
            (5_000, 84),        // late, within the slack
            (5_000_000, 84),    // late beyond it
            (u64::MAX - 1, 84), // at the end of time
            (5_000, 85),        // of another length
        ] {
            let mut long = Shaper::new(rate, Nanos(10_000), Nanos(0));
            // Learns the length, and then owes nothing.
            long.charge(Nanos(0), 84);
            long.reset();
            let mut short = long.clone();
            let forfeited = long.charge(Nanos(now), wire_len);
            assert_eq!(forfeited, Nanos(now) - Nanos(10_000));
            match short.try_charge(Nanos(now), wire_len) {
                Some(()) => assert_eq!(
                    (short.next, short.carry),
                    (long.next, long.carry),
                    "{rate:?} at {now}"
                ),
                None => {
                    assert!(wire_len != 84 || now >= 5_000_000);
                    // Nothing has changed.
                    assert_eq!(short.charge(Nanos(now), wire_len), forfeited);
                    assert_eq!((short.next, short.carry), (long.next, long.carry));
                }
            }
        }
    }
    let mut early = Shaper::new(rates()[0], Nanos(10_000), Nanos(100));
    early.charge(Nanos(100), 84);
    assert_eq!(early.try_charge(Nanos(100), 84), None, "not ready");
}

#[test]
fn two_lengths_in_turn_need_no_division_and_a_third_is_learned() {
    for rate in rates() {
        let mut s = Shaper::new(rate, Nanos::MAX, Nanos(7));
        let (mut next, mut carry) = (Nanos(7), rate.fresh());
        for (i, wire_len) in [84, 104, 84, 104, 104, 84, 1538, 84, 1538, 104]
            .into_iter()
            .enumerate()
        {
            let known = !matches!(i, 0 | 1 | 6 | 7 | 9);
            assert_eq!(s.try_charge(next, wire_len).is_some(), known, "{i}");
            if !known {
                s.charge(next, wire_len);
            }
            let (time, rest) = rate.advance(wire_len, carry);
            (next, carry) = (next + time, rest);
            assert_eq!((s.next, s.carry), (next, carry), "{rate:?}, {i}");
        }
    }
}

#[test]
fn without_limit_all_go_at_once() {
    let mut s = Shaper::new(Rate::UNLIMITED, Nanos::ZERO, Nanos(100));
    for now in [100, 100, 5000, 5000] {
        for len in [84, 104, 1538] {
            assert!(s.ready(Nanos(now)));
            s.charge(Nanos(now), len);
            assert_eq!(s.next(), Nanos(now));
            // Of a length that it has learned by now.
            assert_eq!(s.try_charge(Nanos(now), len), Some(()));
            assert_eq!(s.next(), Nanos(now));
        }
    }
    // Nothing is owed when a rate comes to be known, and there is no burst but the slack.
    s.set_rate(
        Rate::from_bytes_per_sec(GBIT).unwrap(),
        Nanos(2000),
        Nanos(9000),
        125,
    );
    let mut sent = 0;
    while s.ready(Nanos(9000)) {
        s.charge(Nanos(9000), 125); // takes 1000
        sent += 1;
    }
    assert_eq!(sent, 3);
    // And a debt goes when it is no longer known.
    assert_eq!(s.next(), Nanos(10_000));
    s.set_rate(Rate::UNLIMITED, Nanos::ZERO, Nanos(9000), 125);
    assert!(s.ready(Nanos(9000)));
}

#[test]
fn what_a_packet_is_longer_counts_at_the_other_rate() {
    // Tokens have 84 bytes of every 1622 or so, and another 20 bytes take 16 ns at 10 Gbit/s.
    let link = Rate::from_bytes_per_sec(10 * GBIT).unwrap();
    let share = Rate::from_share(10 * GBIT, 51_787_916).unwrap();
    let beyond = Beyond {
        from: 84,
        to: 168,
        rate: link,
    };
    // And 10 bytes more than twice as many count at the share again.
    for (wire_len, end) in [
        (84, 1_297_600_009),
        (104, 1_313_600_009),
        (168, 1_364_800_009),
        (178, 1_364_800_009 + 154_476_191),
    ] {
        let mut s = Shaper::new(share, Nanos::MAX, Nanos::ZERO);
        let mut supers = s.clone();
        s.set_beyond(&beyond);
        supers.set_beyond(&beyond);
        for _ in 0..1_000_000 {
            s.charge(s.next(), wire_len);
        }
        assert!(s.next().0.abs_diff(end) <= 10, "{wire_len}: {}", s.next());
        // Super-packets take the time of their packets.
        for _ in 0..250_000 {
            supers.charge_super(supers.next(), 4 * wire_len, 4);
        }
        assert!(supers.next().0.abs_diff(end) <= 10, "{}", supers.next());
    }
    // What is owed stays.
    let mut s = Shaper::new(share, Nanos::MAX, Nanos::ZERO);
    s.charge(Nanos::ZERO, 104);
    let before = s.next();
    s.set_beyond(&beyond);
    assert_eq!(s.next(), before);
    s.charge(before, 104);
    assert!(s.next() - before <= Nanos(1314));
}
