// SPDX-License-Identifier: GPL-2.0
//! Turns are apart, are given back, and are apart by kind and by peer.

use super::*;
use std::vec::Vec;

const APART: Nanos = Nanos(100);
const NOW: Nanos = Nanos(1_000_000);

/// So many messages of a peer take a turn each.
fn taken(turns: &mut Turns, own: &mut Own, count: u64, stranger: bool) -> Vec<Turn> {
    let take = |_| {
        let mut turn = Turn::NONE;
        let all = &mut *turns;
        Order { all, own }.take(&mut turn, NOW, APART, stranger);
        turn
    };
    (0..count).map(take).collect()
}

/// ns from now.
fn at(turn: &Turn) -> u64 {
    turn.at.get().unwrap().0 - NOW.0
}

/// The most turns in any so many ns.
fn most(turns: &[Turn], ns: u64) -> usize {
    let mut at: Vec<u64> = turns.iter().map(at).collect();
    at.sort();
    let within = |from: &u64| {
        at.iter()
            .filter(|it| **it >= *from && **it < from + ns)
            .count()
    };
    at.iter().map(within).max().unwrap_or(0)
}

#[test]
fn turns_follow_one_another() {
    let (mut all, mut own) = (Turns::NEW, Own::NEW);
    let taken = taken(&mut all, &mut own, 3, false);
    assert_eq!(taken.iter().map(at).collect::<Vec<_>>(), [0, 100, 200]);
    // Whoever has one keeps it, until it is over.
    let mut last = taken[2];
    let mut order = Order {
        all: &mut all,
        own: &mut own,
    };
    let again = order.take(&mut last, Nanos(NOW.0 + 199), APART, false);
    assert_eq!(again.0 - NOW.0, 200);
    let again = order.take(&mut last, Nanos(NOW.0 + 200), APART, false);
    assert_eq!(again.0 - NOW.0, 300);
}

#[test]
fn peers_have_turns() {
    let mut all = Turns::NEW;
    let (mut many, mut few) = (Own::NEW, Own::NEW);
    taken(&mut all, &mut many, 1000, false);
    let of_few = taken(&mut all, &mut few, 3, false);
    // Beside those of the other; one of two, once there are two that have several.
    assert_eq!(of_few.iter().map(at).collect::<Vec<_>>(), [100, 200, 400]);
    // Each peer's first one follows those of the others.
    for n in 2..50 {
        let mut own = Own::NEW;
        assert_eq!(at(&taken(&mut all, &mut own, 1, false)[0]), n * 100);
    }
    let mut order = Order {
        all: &mut all,
        own: &mut many,
    };
    assert!(order.are_many(NOW, Nanos(99_000)));
    let mut other = Own::NEW;
    order.own = &mut other;
    assert!(!order.are_many(NOW, Nanos(5100)) && order.are_many(NOW, Nanos(4900)));
}

/// Peers that have a single turn, a rack without power, come before another's first one and not
/// between all of its others.
#[test]
fn single_turns_of_many_peers_do_not_multiply() {
    let mut all = Turns::NEW;
    for _ in 0..100 {
        let mut own = Own::NEW;
        taken(&mut all, &mut own, 1, false);
    }
    let mut own = Own::NEW;
    let mut turns = taken(&mut all, &mut own, 32, false);
    assert_eq!(at(&turns[0]), 10_000);
    assert!(turns.iter().all(|turn| at(turn) <= 13_200));
    let mut order = Order {
        all: &mut all,
        own: &mut own,
    };
    for turn in &mut turns {
        order.give_back(turn);
    }
    assert_eq!(all.several, 0);
}

#[test]
fn what_is_given_back_keeps_nobody_waiting() {
    let (mut all, mut own) = (Turns::NEW, Own::NEW);
    let mut turns = taken(&mut all, &mut own, 1000, false);
    let mut order = Order {
        all: &mut all,
        own: &mut own,
    };
    assert!(order.are_many(NOW, Nanos(99_000)));
    for turn in &mut turns[10..] {
        order.give_back(turn);
        order.give_back(turn);
    }
    assert!(order.are_many(NOW, Nanos(999)) && !order.are_many(NOW, Nanos(1000)));
    assert!(at(&taken(&mut all, &mut own, 1, false)[0]) <= 1000);
    let mut order = Order {
        all: &mut all,
        own: &mut own,
    };
    for turn in &mut turns {
        order.pass(turn, Nanos(NOW.0 + 900));
    }
    // Of all these only the last one has its turn still before it.
    assert!(!order.are_many(NOW, Nanos(100)));
}

/// Who gives a turn back and takes another one, one after another: no two come at once.
#[test]
fn what_is_taken_again_is_spread() {
    let (mut all, mut own) = (Turns::NEW, Own::NEW);
    let mut turns = taken(&mut all, &mut own, 1000, false);
    assert_eq!(most(&turns, 100), 1);
    let mut order = Order {
        all: &mut all,
        own: &mut own,
    };
    for turn in &mut turns {
        order.give_back(turn);
        order.take(turn, NOW, APART, false);
    }
    assert!(turns.iter().all(|turn| at(turn) <= 100_000));
    assert!(most(&turns, 100) <= 3, "{}", most(&turns, 100));
    assert!(most(&turns, 1000) <= 15, "{}", most(&turns, 1000));
}

#[test]
fn strangers_keep_only_strangers_waiting() {
    let mut all = Turns::NEW;
    for _ in 0..1000 {
        let mut own = Own::NEW;
        taken(&mut all, &mut own, 1, true);
    }
    let mut own = Own::NEW;
    let order = Order {
        all: &mut all,
        own: &mut own,
    };
    assert!(!order.are_many(NOW, Nanos(0)));
    assert_eq!(at(&taken(&mut all, &mut own, 1, false)[0]), 0);
    assert_eq!(at(&taken(&mut all, &mut own, 1, true)[0]), 100_000);
}
