// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use super::*;

const RTT: Nanos = Nanos(1000);

fn ranges(all: &[(u32, u32)]) -> Ranges<RANGES> {
    let mut ranges = Ranges::new();
    for &(start, end) in all {
        assert!(ranges.insert(start, end));
    }
    ranges
}

fn spans(spans: Option<Spans>) -> Vec<(u32, u32)> {
    let spans = spans.unwrap_or(Spans::EMPTY);
    spans.iter().map(|span| (span.start, span.end)).collect()
}

#[test]
fn a_gap_waits_a_quarter_of_a_round_trip() {
    let mut gaps = Gaps::default();
    let have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    assert_eq!(gaps.due(RTT), Some(Nanos(5250)));
    assert!(gaps.name(Nanos(5249), &have, RTT, 3, 9).is_none());
    assert_eq!(spans(gaps.name(Nanos(5250), &have, RTT, 3, 9)), [(10, 20)]);
    assert_eq!(gaps.due(RTT), None);
    assert!(gaps.name(Nanos(9999), &have, RTT, 3, 9).is_none());
}

#[test]
fn or_for_as_much_later_data_as_the_tolerance() {
    let mut gaps = Gaps::default();
    let mut have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    for (token, end) in [(2, 40), (3, 50), (4, 60)] {
        assert!(gaps.name(Nanos(5001), &have, RTT, 3, 9).is_none());
        have.insert(20, end);
        gaps.came(Nanos(5001), &have, Some(token));
    }
    assert_eq!(spans(gaps.name(Nanos(5001), &have, RTT, 3, 9)), [(10, 20)]);
}

#[test]
fn what_reordering_fills_is_not_named() {
    let mut gaps = Gaps::default();
    gaps.came(Nanos(5000), &ranges(&[(0, 10), (20, 30)]), Some(1));
    let have = ranges(&[(0, 30)]);
    gaps.came(Nanos(5100), &have, Some(2));
    assert!(gaps.name(Nanos(9000), &have, RTT, 3, 9).is_none());
}

#[test]
fn it_is_named_again_when_later_tokens_did_not_fill_it() {
    let mut gaps = Gaps::default();
    let mut have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    assert!(gaps.name(Nanos(5250), &have, RTT, 3, 9).is_some());
    // Data for tokens that were sent before the RESEND does not show a second loss.
    for token in 2..9 {
        have.insert(30, 30 + u32::from(token));
        gaps.came(Nanos(5300), &have, Some(token));
    }
    assert!(gaps.name(Nanos(7000), &have, RTT, 3, 20).is_none());
    for token in 9..12 {
        assert!(gaps.name(Nanos(7000), &have, RTT, 3, 20).is_none());
        gaps.came(Nanos(7000), &have, Some(token));
    }
    assert_eq!(spans(gaps.name(Nanos(7000), &have, RTT, 3, 20)), [(10, 20)]);
    // Not twice in a round trip.
    for token in 20..30 {
        gaps.came(Nanos(7001), &have, Some(token));
    }
    assert!(gaps.name(Nanos(7999), &have, RTT, 3, 40).is_none());
    assert!(gaps.name(Nanos(8000), &have, RTT, 3, 40).is_some());
}

#[test]
fn no_more_than_fit_are_named_and_the_rest_later() {
    let mut gaps = Gaps::default();
    let have: Vec<(u32, u32)> = (0..20).map(|i| (i * 10, i * 10 + 5)).collect();
    let have = ranges(&have);
    gaps.came(Nanos(5000), &have, None);
    let first = spans(gaps.name(Nanos(6000), &have, RTT, 3, 0));
    assert_eq!(
        (first.len(), first[0], first[15]),
        (16, (5, 10), (155, 160))
    );
    let rest = spans(gaps.name(Nanos(6250), &have, RTT, 3, 0));
    assert_eq!(rest, [(165, 170), (175, 180), (185, 190)]);
}

/// A sender that has nothing else to send says so each round trip: that must not keep a gap that
/// was named long ago from being named again.
#[test]
fn a_sender_that_asks_each_round_trip_is_told_again() {
    let mut gaps = Gaps::default();
    let have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    assert!(gaps.name(Nanos(5250), &have, RTT, 3, 9).is_some());
    let mut named = 0;
    for round in 6..20 {
        gaps.all_sent(Nanos(round * 1000), 30);
        let now = Nanos(round * 1000 + 250);
        named += u32::from(gaps.name(now, &have, RTT, 3, 9).is_some());
    }
    assert!((6..=7).contains(&named), "{named}");
}

#[test]
fn all_names_the_end_too() {
    let mut gaps = Gaps::default();
    let have = ranges(&[(0, 10), (20, 30)]);
    assert_eq!(
        spans(gaps.name_all(Nanos(5000), &have, 100, 0)),
        [(10, 20), (30, 100)]
    );
    // That was no gap; a loss there is one now.
    let have = ranges(&[(0, 40), (50, 60)]);
    gaps.came(Nanos(5001), &have, Some(1));
    assert_eq!(gaps.due(RTT), Some(Nanos(5251)));
}

/// Answers that left a gap open, which was filled then, say nothing of the end that is missing:
/// the message waited for it for ever.
#[test]
fn what_was_filled_does_not_hide_the_end() {
    let mut gaps = Gaps::default();
    let have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    assert!(gaps.name(Nanos(5250), &have, RTT, 3, 9).is_some());
    for token in 9..14 {
        gaps.came(Nanos(5300), &have, Some(token));
    }
    let have = ranges(&[(0, 30)]);
    gaps.came(Nanos(5400), &have, Some(14));
    assert_eq!(gaps.name(Nanos(7000), &have, RTT, 3, 20), None);
    gaps.all_sent(Nanos(7000), 50);
    assert_eq!(spans(gaps.name(Nanos(7250), &have, RTT, 3, 20)), [(30, 50)]);
}

/// A gap that is named once more does not hide what is pending behind it.
#[test]
fn what_is_named_again_does_not_hide_the_end() {
    let mut gaps = Gaps::default();
    let have = ranges(&[(0, 10), (20, 30)]);
    gaps.came(Nanos(5000), &have, Some(1));
    assert!(gaps.name(Nanos(5250), &have, RTT, 3, 9).is_some());
    gaps.all_sent(Nanos(6500), 50);
    for token in 9..14 {
        gaps.came(Nanos(6500), &have, Some(token));
    }
    assert_eq!(spans(gaps.name(Nanos(6500), &have, RTT, 3, 20)), [(10, 20)]);
    let later = spans(gaps.name(Nanos(6750), &have, RTT, 3, 20));
    assert!(later.contains(&(30, 50)), "{later:?}");
}
