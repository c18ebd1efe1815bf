// SPDX-License-Identifier: GPL-2.0
use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::{chunks_left, Std};

fn new() -> Orphans<Std> {
    let mut orphans = Orphans::new();
    assert!(orphans.reserve(99, 9));
    orphans
}

#[test]
fn the_one_that_stood_still_longest_is_the_first_to_go() {
    let mut orphans = new();
    for index in 0..4 {
        orphans.join(index, 0, Nanos(u64::from(index)), 5000);
    }
    assert_eq!(orphans.totals(), (4, 4 * 6024));
    assert_eq!(orphans.excess(4, 4 * 6024), None);
    assert_eq!(orphans.excess(3, u32::MAX), Some(0));
    assert_eq!(orphans.excess(4, 4 * 6024 - 1), Some(0));
    orphans.progress(0, Nanos(9), 4000);
    assert_eq!(orphans.totals(), (4, 4 * 6024 - 4000));
    assert_eq!(orphans.excess(3, u32::MAX), Some(1));
    orphans.leave(1);
    orphans.leave(0);
    assert_eq!(orphans.totals(), (2, 2 * 6024));
    assert_eq!(orphans.excess(1, u32::MAX), Some(2));
    orphans.leave(2);
    orphans.leave(3);
    assert_eq!(orphans.excess(0, 0), None);
    assert_eq!(orphans.totals(), (0, 0));
}

/// Of what there is too much of, who has most gives up: another's small ones do not push out a
/// large one, nor another's large one many small ones.
#[test]
fn who_has_most_of_what_is_too_much_gives_up() {
    let mut orphans = new();
    orphans.join(0, 7, Nanos(0), 90_000);
    for index in 1..10 {
        orphans.join(index, 3, Nanos(u64::from(index)), 100);
    }
    assert_eq!(orphans.excess(9, u32::MAX), Some(1));
    assert_eq!(orphans.excess(10, 90_000), Some(0));
    assert_eq!(orphans.excess(9, 90_000), Some(1));
    // Those who have alike: as if they were one.
    orphans.join(10, 4, Nanos(20), 90_000);
    assert_eq!(orphans.excess(11, 90_000), Some(0));
    orphans.progress(0, Nanos(30), 1);
    orphans.progress(10, Nanos(31), 1);
    assert_eq!(orphans.excess(11, 90_000), Some(0));
    orphans.progress(0, Nanos(32), 0);
    assert_eq!(orphans.excess(11, 90_000), Some(10));
}

#[test]
fn what_has_no_room_is_not_taken() {
    for chunks in 0..6 {
        let mut orphans = Orphans::<Std>::new();
        chunks_left(chunks);
        assert!(!orphans.reserve(0, 0), "{chunks}");
        chunks_left(usize::MAX);
        assert!(orphans.reserve(0, 0));
        let (messages, users) = (orphans.links.len(), orphans.users.len());
        orphans.join(messages, 0, Nanos(1), 1);
        orphans.join(0, users, Nanos(1), 1);
        orphans.join(0, NONE, Nanos(1), 1);
        orphans.progress(0, Nanos(2), 1);
        orphans.leave(0);
        orphans.leave(messages);
        assert_eq!((orphans.totals(), orphans.excess(0, 0)), ((0, 0), None));
        orphans.join(0, 0, Nanos(1), 1);
        assert_eq!(orphans.totals(), (1, 1025));
    }
}

/// A message: its user, what is left, and its last progress.
type Model = BTreeMap<u32, (u32, u32, Nanos)>;

/// The rule, as it is written down.
fn excess(model: &Model, most: u32, bytes: u32) -> Option<u32> {
    let held: u64 = model.values().map(|it| 1024 + u64::from(it.1)).sum();
    let by_count = model.len() > most as usize;
    if !by_count && held <= bytes.into() {
        return None;
    }
    let weight = |user: u32| -> u64 {
        let of = model.values().filter(|it| it.0 == user);
        of.map(|it| if by_count { 1 } else { 1024 + u64::from(it.1) })
            .sum()
    };
    let key = |(_, it): &(&u32, &(u32, u32, Nanos))| (Reverse(weight(it.0)), it.2);
    model.iter().min_by_key(key).map(|(index, _)| *index)
}

proptest! {
    #[test]
    fn the_victim_is_the_models(
        steps in prop::collection::vec((0_u8..8, 0_u32..40, 0_u32..5, 0_u32..5000), 1..400),
        most in 0_u32..20,
        bytes in 0_u32..60_000,
    ) {
        let mut orphans = new();
        let mut model = Model::new();
        for (n, (what, index, user, size)) in steps.into_iter().enumerate() {
            // No two at once, so that there is one answer.
            let now = Nanos(n as u64);
            match what {
                0..=3 => {
                    orphans.join(index, user, now, size);
                    model.entry(index).or_insert((user, size, now));
                }
                4 | 5 => {
                    orphans.progress(index, now, size);
                    if let Some(it) = model.get_mut(&index) {
                        (it.1, it.2) = (it.1.saturating_sub(size), now);
                    }
                }
                _ => {
                    orphans.leave(index);
                    model.remove(&index);
                }
            }
            let held = model.values().map(|it| 1024 + u64::from(it.1)).sum();
            prop_assert_eq!(orphans.totals(), (model.len() as u32, held));
            for (most, bytes) in [(most, u32::MAX), (u32::MAX, bytes), (most, bytes)] {
                prop_assert_eq!(orphans.excess(most, bytes), excess(&model, most, bytes));
            }
        }
        // All go, one after the other, and nothing is left of anybody.
        let mut gone = Vec::new();
        while let Some(index) = orphans.excess(0, 0) {
            prop_assert_eq!(Some(index), excess(&model, 0, 0));
            orphans.leave(index);
            model.remove(&index);
            gone.push(index);
        }
        prop_assert!(model.is_empty());
        prop_assert_eq!(orphans.totals(), (0, 0));
    }
}
