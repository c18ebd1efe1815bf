// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;

mod wire;
use wire::{rate, Adversary, Outcome, Random, Wire, SHORTEST};

const FULL: u32 = 1538;
const JUMBO: u32 = 9038;

/// A link of 100 m with the standard's reaction.
fn link(gbit: u64) -> Headroom {
    let rate = rate(gbit);
    Headroom {
        rate,
        ours: FULL,
        theirs: FULL,
        delay: Nanos(500),
        response: response(&rate).unwrap(),
        late: Nanos::ZERO,
    }
}

/// Packets for each link and kind of adversary.
fn packets() -> u64 {
    let given = std::env::var("TURNSTILE_PFC_PACKETS");
    given.map_or(1_000_000, |count| {
        count.parse().expect("a number of packets")
    })
}

/// The worst case, with so many bytes of headroom.
fn worst(model: Headroom, headroom: u64, packets: u64) -> Outcome {
    let before = 4;
    let xoff = u64::from(model.theirs) * u64::from(before);
    Wire::new(model, xoff, headroom, Adversary::Worst(before)).run(packets)
}

#[test]
fn the_sum_is_as_published() {
    // Two frames, the control frame, 60 quanta, and 1000 ns of 1250 bytes each.
    let ten = link(10);
    assert_eq!(ten.after_pause(), 2 * 1538 + 84 + 60 * 64 + 1250);
    assert_eq!(ten.above_xoff(), 3 * 1538 + 84 + 60 * 64 + 1250);
    assert_eq!(link(1).after_pause(), 2 * 1538 + 84 + 2 * 64 + 125);
    assert_eq!(link(40).after_pause(), 2 * 1538 + 84 + 118 * 64 + 5000);
    assert_eq!(link(100).after_pause(), 2 * 1538 + 84 + 394 * 64 + 12_500);
    // Rounded up: 127.875 bytes.
    let odd = Headroom {
        delay: Nanos(500),
        late: Nanos(23),
        ..link(1)
    };
    assert_eq!(odd.after_pause(), 2 * 1538 + 84 + 2 * 64 + 128);
    let long = Headroom {
        ours: JUMBO,
        late: Nanos(50_000),
        ..ten
    };
    assert_eq!(long.after_pause(), ten.after_pause() + 7500 + 62_500);
}

#[test]
fn the_response_is_the_standards() {
    for (mbit, quanta) in [
        (100, Some(2)),
        (1000, Some(2)),
        (2500, Some(60)),
        (10_000, Some(60)),
        (25_000, Some(80)),
        (40_000, Some(118)),
        (50_000, Some(394)),
        (100_000, Some(394)),
        (400_000, Some(905)),
        (400_001, None),
    ] {
        let rate = Rate::from_bytes_per_sec(mbit * 125_000).unwrap();
        assert_eq!(response(&rate), quanta, "{mbit}");
    }
    assert_eq!(response(&Rate::UNLIMITED), None);
}

#[test]
fn extremes_do_no_harm() {
    for rate in [
        Rate::UNLIMITED,
        Rate::from_bytes_per_sec(1).unwrap(),
        Rate::from_bytes_per_sec(Rate::MAX_BYTES_PER_SEC).unwrap(),
    ] {
        let all = Headroom {
            rate,
            ours: u32::MAX,
            theirs: u32::MAX,
            delay: Nanos::MAX,
            response: u32::MAX,
            late: Nanos::MAX,
        };
        assert!(all.after_pause() > 0 && all.above_xoff() >= all.after_pause());
    }
}

/// The worst case, again and again: it takes all of the headroom and no more. With a byte less it
/// does not fit, and so with a full frame less.
#[test]
fn the_worst_case_takes_all_and_no_more() {
    for gbit in [1, 10, 40, 100] {
        let model = link(gbit);
        let enough = model.above_xoff();
        let outcome = worst(model, enough, packets());
        let counted = outcome.counters;
        assert_eq!(counted.drops, 0, "{gbit} Gbit/s");
        assert_eq!(counted.most_headroom, enough);
        assert_eq!(outcome.beyond, enough);
        assert_eq!(counted.strays, 0);
        assert!(counted.pauses > packets() / 100 && counted.ends + 1 >= counted.pauses);
        for less in [1, u64::from(FULL)] {
            let outcome = worst(model, enough - less, packets());
            assert_eq!(outcome.counters.drops, 1, "{gbit} Gbit/s, {less} less");
        }
    }
}

/// Frames of any lengths with gaps, a buffer that empties by fits and starts and stands still for
/// longer than a pause, other traffic and reactions of any length that the model allows.
#[test]
fn nothing_that_the_model_allows_overflows() {
    for gbit in [1, 10, 40, 100] {
        for (ours, theirs, packets) in [
            (FULL, FULL, packets()),
            (JUMBO, FULL, packets() / 5),
            (FULL, JUMBO, packets() / 5),
        ] {
            let model = Headroom {
                ours,
                theirs,
                ..link(gbit)
            };
            let xoff = u64::from(theirs) * 4;
            let enough = model.above_xoff();
            let random = Random(gbit * 7 + u64::from(ours));
            let wire = Wire::new(model, xoff, enough, Adversary::Any(random));
            let outcome = wire.run(packets);
            let counted = outcome.counters;
            assert_eq!((counted.drops, counted.strays), (0, 0), "{gbit} Gbit/s");
            // It was a test: it came close, the peer waited, and pauses were refreshed.
            assert!(
                counted.most_headroom > enough * 2 / 3,
                "{counted:?} of {enough}"
            );
            assert!(outcome.refused_to_begin > packets / 1000);
            assert!(counted.refreshes > 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// On any link, the worst case takes all, to the byte, or a byte less where a part of one was
    /// rounded up.
    #[test]
    fn the_sum_is_tight_on_any_link(
        gbit in prop::sample::select(&[1, 10, 25, 40, 100_u64][..]),
        ours in 0..=JUMBO,
        theirs in 2 * SHORTEST..=JUMBO,
        delay in 0_u64..20_000,
        late in 0_u64..100_000,
        response in 0_u32..1000,
    ) {
        let rate = rate(gbit);
        let model = Headroom {
            rate,
            ours,
            theirs,
            delay: Nanos(delay),
            response,
            late: Nanos(late),
        };
        let enough = model.above_xoff();
        let rounded = u64::from((2 * delay + late) * gbit % 8 != 0);
        let packets = 3 * (enough / u64::from(theirs) + 10);
        let outcome = worst(model, enough, packets);
        prop_assert_eq!(outcome.counters.drops, 0);
        prop_assert_eq!(outcome.counters.most_headroom, enough - rounded);
        for less in [rounded + 1, u64::from(theirs)] {
            prop_assert!(worst(model, enough - less, packets).counters.drops > 0);
        }
    }

    /// Nor does anything else overflow there.
    #[test]
    fn the_sum_is_sufficient_on_any_link(
        gbit in prop::sample::select(&[1, 10, 25, 40, 100_u64][..]),
        ours in 0..=JUMBO,
        theirs in SHORTEST..=JUMBO,
        delay in 0_u64..20_000,
        late in 0_u64..100_000,
        seed: u64,
    ) {
        let model = Headroom {
            ours,
            theirs,
            delay: Nanos(delay),
            late: Nanos(late),
            ..link(gbit)
        };
        let xoff = u64::from(theirs) * 3;
        let adversary = Adversary::Any(Random(seed));
        let outcome = Wire::new(model, xoff, model.above_xoff(), adversary).run(2000);
        prop_assert_eq!(outcome.counters.drops, 0);
    }
}
