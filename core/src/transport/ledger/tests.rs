// SPDX-License-Identifier: GPL-2.0
use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

#[test]
fn the_fourth_later_answer_loses_one() {
    let mut ledger = Ledger::new(0);
    for _ in 0..10 {
        ledger.send();
    }
    assert_eq!(ledger.answer(0), Answer::New);
    assert_eq!(ledger.answer(2), Answer::New);
    assert_eq!(ledger.answer(3), Answer::New);
    assert_eq!(ledger.take(), (3, 0));
    assert_eq!(ledger.answer(5), Answer::New);
    assert_eq!(ledger.take(), (1, 1));
    // 4 and 6 to 9.
    assert_eq!(ledger.outstanding(), 5);
    assert_eq!(ledger.answer(5), Answer::Unasked);
    assert_eq!(ledger.answer(4), Answer::New);
    // 6 is lost; 7 and 8 are not yet.
    ledger.answer(9);
    assert_eq!(ledger.take(), (2, 1));
    assert_eq!(ledger.outstanding(), 2);
    // An answer that is late by 8 raises the tolerance to 8.
    assert_eq!(ledger.answer(1), Answer::Late);
    assert_eq!(ledger.answer(10), Answer::Unasked);
    assert_eq!(ledger.tolerance, 9);
}

#[test]
fn what_is_old_is_given_up() {
    let mut ledger = Ledger::new(0);
    for _ in 0..1000 {
        ledger.send();
    }
    ledger.answer(1);
    ledger.answer(3);
    assert_eq!(ledger.give_up(3), 1);
    assert_eq!(ledger.give_up(2000), 0);
    assert_eq!(ledger.give_up(600), 596);
    assert_eq!(ledger.outstanding(), 400);
    assert_eq!(ledger.answer(599), Answer::Late);
    assert_eq!(ledger.answer(700), Answer::New);
    assert_eq!(ledger.outstanding(), 399 - 98);
}

proptest! {
    /// However tokens and answers are lost, delayed and repeated: each token ends up answered, lost
    /// or outstanding.
    #[test]
    fn every_token_is_accounted_for(
        steps in prop::collection::vec((0_u8..16, 0_usize..40), 1..1000),
        wrap in any::<bool>(),
    ) {
        let mut ledger = Ledger::new(0);
        if wrap {
            for _ in 0..65_000_u32 {
                let sequence = ledger.send();
                prop_assert_eq!(ledger.answer(sequence), Answer::New);
            }
            ledger.take();
        }
        let mut flying: VecDeque<u16> = VecDeque::new();
        let mut came: Vec<u16> = Vec::new();
        let (mut sent, mut answered, mut lost) = (0_i64, 0_i64, 0_i64);
        for (what, pick) in steps {
            match what {
                0..=7 => {
                    flying.push_back(ledger.send());
                    sent += 1;
                }
                8 => drop(flying.pop_front()),
                9 => {
                    if let Some(&sequence) = came.get(pick) {
                        prop_assert_eq!(ledger.answer(sequence), Answer::Unasked);
                    }
                }
                10 if pick == 0 => {
                    ledger.give_up(ledger.next().wrapping_sub(10));
                }
                _ => {
                    let pick = if pick < 38 { 0 } else { pick % 5 };
                    if let Some(sequence) = flying.remove(pick) {
                        ledger.answer(sequence);
                        came.insert(0, sequence);
                        came.truncate(30);
                    }
                }
            }
            let (a, l) = (ledger.answered, ledger.lost);
            if pick == 7 {
                ledger.take();
                answered += i64::from(a);
                lost += i64::from(l);
            } else if pick == 8 {
                let sent = ledger.next.wrapping_sub(ledger.resolved);
                prop_assert!(ledger.outstanding() <= u32::from(sent));
                prop_assert!(ledger.edge.wrapping_sub(ledger.resolved) <= ledger.tolerance);
            }
        }
        let (a, l) = ledger.take();
        let all = answered + i64::from(a) + lost + i64::from(l) + i64::from(ledger.outstanding());
        // A loss counted before the last `take` is not subtracted after it.
        prop_assert!(all >= sent, "{all} {sent}");
        ledger.give_up(ledger.next());
        prop_assert_eq!(ledger.outstanding(), 0);
    }
}

/// Answers in a row are the same as one by one, whatever is outstanding, lost or out of order.
#[test]
fn answers_in_a_row_are_as_one_by_one() {
    let mut random = 1_u64;
    let mut next = |most: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % most
    };
    let mut rows = 0;
    for _ in 0..2000 {
        let mut one = Ledger::new(next(1 << 16) as u16);
        for _ in 0..60 {
            for _ in 0..next(20) {
                one.send();
            }
            let sequence = one.next().wrapping_sub(next(90) as u16);
            let count = 1 + next(64) as u16;
            match next(4) {
                0 => drop(one.answer(sequence)),
                1 => drop(one.give_up(sequence)),
                _ if one.is_next(sequence, count) => {
                    let mut row = one.clone();
                    row.answer_next(sequence, count);
                    for number in 0..count {
                        assert_eq!(one.answer(sequence.wrapping_add(number)), Answer::New);
                    }
                    assert_eq!(std::format!("{row:?}"), std::format!("{one:?}"));
                    rows += 1;
                }
                _ => {}
            }
        }
    }
    assert!(rows > 1000, "{rows}");
}
