// SPDX-License-Identifier: GPL-2.0
use super::*;

#[test]
fn the_sequence_is_the_published_one() {
    // splitmix64 of seed 1234567, as others give it.
    let mut rng = Rng::new(1_234_567);
    let expected = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
    ];
    for number in expected {
        assert_eq!(rng.next_u64(), number);
    }
}

#[test]
fn numbers_below_a_bound_are_all_as_likely() {
    let mut rng = Rng::new(1);
    assert_eq!(rng.below(0), 0);
    assert_eq!(rng.below(1), 0);
    let mut seen = [0; 7];
    for _ in 0..70_000 {
        seen[rng.below(7) as usize] += 1;
    }
    assert!(
        seen.iter().all(|&n| (9_500..10_500).contains(&n)),
        "{seen:?}"
    );
}

#[test]
fn intervals_vary_around_the_mean_as_far_as_they_are_told_to() {
    const INTERVAL: u64 = 1_328_743;
    for jitter in [1, 10_000_000, 500_000_000, 1_000_000_000_u64] {
        let mut rng = Rng::new(jitter);
        let (mut sum, mut least, mut most) = (0, u64::MAX, 0);
        for _ in 0..100_000 {
            let varied = rng.vary(INTERVAL, jitter as u32);
            sum += varied;
            least = least.min(varied);
            most = most.max(varied);
        }
        let width = INTERVAL * jitter / 1_000_000_000;
        assert!(least >= INTERVAL - width / 2 && most <= INTERVAL + width / 2 + 1);
        // Nearly all of the range is used, and the mean is in its middle.
        assert!(most - least >= width - width / 100 - u64::from(width != 0));
        assert!((sum / 100_000).abs_diff(INTERVAL) <= width / 200 + 1);
    }
    assert_eq!(Rng::new(1).vary(INTERVAL, 0), INTERVAL);
    assert!(Rng::new(1).vary(u64::MAX, 1_000_000_000) >= u64::MAX / 2);
}

#[test]
fn a_token_is_anywhere_in_its_interval_and_intervals_drift_a_little() {
    const INTERVAL: u64 = 1000 * NANO;
    let mut rng = Rng::new(5);
    let places: std::vec::Vec<u64> = (0..10_000)
        .map(|_| rng.place(INTERVAL, 1_000_000_000))
        .collect();
    let (least, most) = (places.iter().min().unwrap(), places.iter().max().unwrap());
    assert!(*least < INTERVAL / 500 && *most > INTERVAL - INTERVAL / 500 && *most <= INTERVAL);
    let mean = places.iter().sum::<u64>() / 10_000;
    assert!(mean.abs_diff(INTERVAL / 2) < INTERVAL / 100);
    assert_eq!(rng.place(INTERVAL, 0), INTERVAL / 2);
    for _ in 0..10_000 {
        assert!(rng.drift(INTERVAL, 1_000_000_000).abs_diff(INTERVAL) <= INTERVAL / 8 + 1);
    }
}

#[test]
fn fractions_of_a_nanosecond_are_not_lost() {
    let mut due = Due::new(Nanos(1000));
    // 1.25 ns, 4000 times.
    for _ in 0..4000 {
        let now = due.at();
        due.advance(now, NANO + NANO / 4, Nanos::ZERO);
    }
    assert_eq!(due.at(), Nanos(6000));
}

#[test]
fn what_is_late_is_made_up_for_within_the_slack() {
    let mut due = Due::new(Nanos(1000));
    due.advance(Nanos(1300), 100 * NANO, Nanos(500));
    assert_eq!(due.at(), Nanos(1100));
    due.advance(Nanos(2000), 100 * NANO, Nanos(500));
    assert_eq!(due.at(), Nanos(1600));
    due.advance(Nanos(3000), u64::MAX, Nanos::ZERO);
    assert!(due.at() > Nanos(1 << 53));
}

#[test]
fn a_higher_rate_takes_effect_at_once() {
    let mut due = Due::new(Nanos(0));
    due.advance(Nanos(0), 1_000_000 * NANO, Nanos::ZERO);
    due.hasten(Nanos(10), 2_000_000 * NANO);
    assert_eq!(due.at(), Nanos(1_000_000));
    due.hasten(Nanos(10), 100 * NANO);
    assert_eq!(due.at(), Nanos(110));
}
