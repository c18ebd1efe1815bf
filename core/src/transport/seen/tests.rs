// SPDX-License-Identifier: GPL-2.0
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const NOW: Nanos = Nanos(1_000_000_000);

proptest! {
    /// Against a set of all numbers, without wrapping: each once, unless too old.
    #[test]
    fn each_is_accepted_once(
        steps in prop::collection::vec((0_u8..8, 0_i64..700), 1..400),
        start in 0_u16..3,
    ) {
        let mut seen = Seen::new();
        let mut all = HashSet::new();
        let mut highest: i64 = -1;
        let mut jump = i64::from(start) * 8000;
        for (what, step) in steps {
            let number = match what {
                0 => highest - step,
                1 => highest + 1 + step + std::mem::take(&mut jump).min(16_000),
                2 => highest,
                _ => highest + 1 + step % 3,
            };
            if number < 0 {
                continue;
            }
            let wanted = number > highest - 512 && all.insert(number);
            highest = highest.max(number);
            prop_assert_eq!(seen.accept(NOW, number as u16), wanted, "{} {}", number, highest);
        }
    }
}

#[test]
fn the_first_may_be_late() {
    let mut seen = Seen::new();
    assert!(seen.accept(NOW, 3) && seen.accept(NOW, 0));
    assert!(!seen.accept(NOW, 0) && seen.accept(NOW, 2));
}

/// After 70 000 tokens, whatever the last one's number.
fn many() -> Seen {
    let mut seen = Seen::new();
    for number in 0..70_000_u32 {
        assert!(seen.accept(NOW, number as u16), "{number}");
    }
    seen
}

/// Where tokens come all the time, none of the last 48 640 is taken once more; one that is older
/// cannot be told from one that is yet to come.
#[test]
fn an_old_one_is_not_taken_again_for_three_quarters_of_the_circle() {
    let seen = many();
    let taken = |ago: u32| seen.clone().accept(NOW, (69_999 - ago) as u16);
    for ago in 0..65_536 {
        assert_eq!(taken(ago), ago > 48_640, "{ago} tokens ago");
    }
    // It is told the second time.
    let mut seen = many();
    assert!(seen.accept(NOW, 9999));
    assert!(!seen.accept(NOW, 9999));
}

/// However many tokens are lost in a row, as many as can be under way: the next one is taken.
#[test]
fn a_loss_of_all_tokens_under_way_stalls_nothing() {
    let seen = many();
    for lost in 0..MAX_OUTSTANDING + 500 {
        let mut seen = seen.clone();
        assert!(seen.accept(NOW, (70_000 + lost) as u16), "{lost}");
        assert!(seen.accept(NOW, (70_001 + lost) as u16), "{lost}");
    }
}

/// All that are under way get lost, and then all single ones of a receiver that is not answered,
/// for an hour, at the least `rto`. The first that arrives is taken, or the next if that happens to
/// have the number of the last that was taken before.
#[test]
fn single_tokens_are_taken_however_long_all_were_lost() {
    const PAUSE: u64 = 64 * 200_000;
    for singles in 0..281_250 {
        let mut seen = Seen::new();
        assert!(seen.accept(NOW, 0));
        let now = NOW + Nanos(singles * PAUSE);
        let number = (u64::from(MAX_OUTSTANDING) + singles) as u16;
        assert_eq!(seen.accept(now, number), number != 0, "{singles}");
        let (second, third) = (number.wrapping_add(1), number.wrapping_add(2));
        assert!(
            seen.accept(now, second) || seen.accept(now, third),
            "{singles}"
        );
    }
}

/// An old one was taken for a new one, or whatever else: the message goes on by itself.
#[test]
fn any_number_is_taken_after_a_while() {
    let seen = many();
    let later = NOW + Nanos(6_400_000_000);
    for ago in 0..65_536 {
        let taken = seen.clone().accept(later, (69_999 - ago) as u16);
        assert_eq!(taken, ago >= WINDOW.into(), "{ago} tokens ago");
    }
}

/// Numbers of another life are taken once four of them, near each other, have come; those of the
/// former one are refused from then on.
#[test]
fn a_receiver_that_restarts_is_heard() {
    for (first, second) in [(1000_u16, 40_000_u16), (40_000, 1000), (40_000, 39_000)] {
        let mut seen = Seen::new();
        for number in first..first + 20 {
            assert!(seen.accept(NOW, number));
        }
        let mut new =
            |number, early| seen.accept(NOW, number) || seen.begins_again(NOW, number, early);
        // One that comes again is no further one.
        for number in [second, second, second + 2, second + 1] {
            assert!(!new(number, true), "{number}");
        }
        assert!(new(second + 3, true));
        assert!(!new(second + 3, true));
        assert!(new(second + 4, false));
        for number in first..first + 20 {
            let ahead = u32::from(number.wrapping_sub(second + 4)) < AHEAD;
            assert!(ahead || !new(number, true), "{number}");
        }
        // Also later.
        for number in second + 5..second + 20 {
            new(number, false);
        }
        assert!(new(second + 20, false));
    }
}

/// Neither numbers that are apart from each other, nor any once something was acknowledged, nor
/// those that came a moment ago.
#[test]
fn others_are_not() {
    let mut seen = Seen::new();
    assert!(seen.accept(NOW, 0));
    for n in 0..100_u16 {
        let number = 20_000 + n % 20 * 1000;
        assert!(!seen.accept(NOW, number) && !seen.begins_again(NOW, number, true));
    }
    for number in 30_000..30_100 {
        assert!(!seen.accept(NOW, number) && !seen.begins_again(NOW, number, false));
    }
    let mut seen = Seen::new();
    for number in 0..500 {
        assert!(seen.accept(NOW, number));
    }
    for number in 0..500 {
        assert!(!seen.accept(NOW, number) && !seen.begins_again(NOW, number, true));
    }
}
