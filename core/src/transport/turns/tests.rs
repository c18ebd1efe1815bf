// SPDX-License-Identifier: GPL-2.0
//! Turns are apart, are given back, and are apart by kind.

use super::*;

const APART: Nanos = Nanos(100);
const NOW: Nanos = Nanos(1_000_000);

/// So many take a turn.
fn taken<const N: usize>(turns: &mut Turns, stranger: bool) -> [Turn; N] {
    core::array::from_fn(|_| {
        let mut turn = Turn::NONE;
        turns.take(&mut turn, NOW, APART, stranger);
        turn
    })
}

#[test]
fn turns_follow_one_another() {
    let mut turns = Turns::NEW;
    let taken = taken::<3>(&mut turns, false);
    let at = taken.map(|turn| turn.at.get().unwrap().0 - NOW.0);
    assert_eq!(at, [0, 100, 200]);
    // Whoever has one keeps it, until it is over.
    let [.., mut last] = taken;
    let again = turns.take(&mut last, Nanos(NOW.0 + 199), APART, false);
    assert_eq!(again.0 - NOW.0, 200);
    let again = turns.take(&mut last, Nanos(NOW.0 + 200), APART, false);
    assert_eq!(again.0 - NOW.0, 300);
}

#[test]
fn what_is_given_back_keeps_nobody_waiting() {
    let mut turns = Turns::NEW;
    let mut all = taken::<1000>(&mut turns, false);
    assert!(turns.are_many(NOW, Nanos(99_000)));
    for turn in &mut all[10..] {
        turns.give_back(turn);
        turns.give_back(turn);
    }
    assert!(turns.are_many(NOW, Nanos(999)) && !turns.are_many(NOW, Nanos(1000)));
    let [turn] = taken::<1>(&mut turns, false);
    assert_eq!(turn.at.get().unwrap().0 - NOW.0, 1000);
    for turn in &mut all {
        turns.pass(turn, Nanos(NOW.0 + 900));
    }
    // Of all these only the last one has its turn still before it.
    assert!(!turns.are_many(NOW, Nanos(100)));
}

#[test]
fn strangers_keep_only_strangers_waiting() {
    let mut turns = Turns::NEW;
    let _strangers = taken::<1000>(&mut turns, true);
    assert!(!turns.are_many(NOW, Nanos(0)));
    let [known] = taken::<1>(&mut turns, false);
    assert_eq!(known.at.get(), Some(NOW));
    let [stranger] = taken::<1>(&mut turns, true);
    assert_eq!(stranger.at.get().unwrap().0 - NOW.0, 100_000);
}
