// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::pfc::ingress::Alpha;
use proptest::prelude::*;
use std::sync::Arc;
use std::vec::Vec;

type Ledger = super::Ledger<Arc<AtomicU64>>;

/// 8 ns per byte: the longest pause is 33.55392 ms.
const GBIT: u64 = 125_000_000;

fn rate() -> Rate {
    Rate::from_bytes_per_sec(GBIT).unwrap()
}

fn limits(xoff: u64, xon: u64, headroom: u64) -> Limits {
    Limits {
        xoff: Xoff::Fixed { xoff, xon },
        headroom,
    }
}

fn open(xoff: u64, xon: u64, headroom: u64) -> Ledger {
    let mut ledger = Ledger::new(Scope::one(3));
    assert!(!ledger.open(Nanos(0), 7, limits(xoff, xon, headroom), &rate()));
    ledger
}

fn quanta(ledger: &mut Ledger, now: u64) -> Option<u16> {
    let debt = ledger.debt(Nanos(now))?;
    assert_eq!(debt.frame.says(2), None);
    debt.frame.says(3)
}

fn pay(ledger: &mut Ledger, now: u64) -> Option<u16> {
    let debt = ledger.debt(Nanos(now))?;
    ledger.paid(&debt);
    debt.frame.says(3)
}

#[test]
fn who_sends_too_much_is_paused_and_then_let_go() {
    let mut ledger = open(3000, 1000, 2000);
    let held = Charge::Held(7);
    assert_eq!(ledger.charge(Nanos(1), 1500), Some((held, false)));
    assert_eq!(ledger.charge(Nanos(2), 1500), Some((held, false)));
    assert_eq!(quanta(&mut ledger, 2), None);
    let asking = Charge::Asking(7);
    assert_eq!(ledger.charge(Nanos(3), 1500), Some((asking, true)));
    assert_eq!(pay(&mut ledger, 3), Some(u16::MAX));
    assert_eq!(pay(&mut ledger, 3), None);
    assert_eq!(ledger.charge(Nanos(4), 501), Some((Charge::Full, false)));
    assert_eq!(ledger.charge(Nanos(5), 500), Some((held, false)));
    assert_eq!(ledger.give_back(Nanos(6), 7, 1500), Some(false));
    assert_eq!(ledger.give_back(Nanos(7), 7, 500), Some(false));
    assert_eq!(ledger.give_back(Nanos(8), 7, 1500), Some(false));
    assert_eq!(ledger.give_back(Nanos(13), 7, 1500), Some(true));
    assert_eq!(pay(&mut ledger, 13), Some(0));
    assert_eq!(ledger.held(), 0);
    let counters = ledger.counters(Nanos(100));
    assert_eq!((counters.sent, counters.time), (2, Nanos(10)));
    assert_eq!(counters.ingress.drops, 1);
    assert_eq!(counters.ingress.strays, 0);
}

#[test]
fn a_pause_is_repeated_at_half_of_its_time() {
    let mut ledger = open(0, 0, 2000);
    assert_eq!(ledger.next(), None);
    assert!(ledger.charge(Nanos(10), 1500).unwrap().1);
    let half = 33_553_920 / 2;
    assert_eq!(ledger.next(), Some(Nanos(10 + half)));
    assert_eq!(pay(&mut ledger, 10), Some(u16::MAX));
    assert_eq!(quanta(&mut ledger, 9 + half), None);
    assert_eq!(pay(&mut ledger, 10 + half), Some(u16::MAX));
    assert_eq!(ledger.next(), Some(Nanos(10 + 2 * half)));
    assert_eq!(ledger.counters(Nanos(20)).time, Nanos(10));
    assert_eq!(ledger.counters(Nanos(20)).longest, Nanos(10));
}

/// A frame that is on its way out says what was decided before: the later one is still owed.
#[test]
fn what_is_decided_while_a_frame_leaves_is_owed() {
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    let pause = ledger.debt(Nanos(1)).unwrap();
    assert_eq!(ledger.give_back(Nanos(2), 7, 1500), Some(true));
    ledger.paid(&pause);
    assert_eq!(pay(&mut ledger, 3), Some(0));
    assert_eq!(pay(&mut ledger, 4), None);
}

#[test]
fn closed_while_paused_the_other_end_may_send() {
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
    assert!(ledger.close(Nanos(5)));
    assert_eq!(pay(&mut ledger, 5), Some(0));
    assert_eq!(ledger.charge(Nanos(6), 1500), None);
    // What was charged before gives nothing back to the next epoch.
    assert!(!ledger.open(Nanos(7), 8, limits(2000, 0, 0), &rate()));
    assert_eq!(ledger.charge(Nanos(8), 100), Some((Charge::Held(8), false)));
    assert_eq!(ledger.give_back(Nanos(9), 7, 1500), None);
    assert_eq!(ledger.held(), 100);
    // Of one that stays open the number stays, too.
    assert!(!ledger.open(Nanos(10), 9, limits(2000, 0, 0), &rate()));
    assert_eq!(ledger.give_back(Nanos(11), 8, 100), Some(false));
}

#[test]
fn what_a_link_that_was_down_has_lost_is_said_again() {
    let mut ledger = open(0, 0, 2000);
    assert!(!ledger.repeat() && !ledger.is_busy());
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
    assert!(ledger.repeat() && ledger.is_busy());
    assert_eq!(pay(&mut ledger, 2), Some(u16::MAX));
    assert_eq!(ledger.counters(Nanos(2)).ingress.pauses, 1);
}

/// What is owed is of the priority that it was decided for.
#[test]
fn another_priority_ends_the_pause_of_the_one_before() {
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert!(ledger.close(Nanos(2)));
    ledger.name(Scope::one(5));
    let debt = ledger.debt(Nanos(2)).unwrap();
    assert_eq!((debt.frame.says(3), debt.frame.says(5)), (Some(0), None));
    ledger.paid(&debt);
    assert!(!ledger.open(Nanos(3), 8, limits(0, 0, 2000), &rate()));
    assert!(ledger.charge(Nanos(3), 1500).unwrap().1);
    let debt = ledger.debt(Nanos(3)).unwrap();
    assert_eq!(debt.frame.says(5), Some(u16::MAX));
}

/// Whoever goes away says so to who is silent, and to nobody else.
/// The other end was paused at one priority. It is let go though a pause of another one is due
/// before the frame has left.
#[test]
fn a_pause_of_another_priority_does_not_replace_the_end_of_the_one_before() {
    let mut ledger = open(1000, 0, 5000);
    ledger.charge(Nanos(1), 1500);
    assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
    ledger.close(Nanos(2));
    ledger.name(Scope::one(5));
    ledger.open(Nanos(3), 8, limits(1000, 0, 5000), &rate());
    let owes = ledger.charge(Nanos(4), 1500);
    assert_eq!(owes, Some((Charge::Asking(8), true)));
    let mut left = Vec::new();
    while let Some(debt) = ledger.debt(Nanos(5)) {
        assert!(ledger.is_busy());
        ledger.paid(&debt);
        left.push((debt.frame.says(3), debt.frame.says(5)));
    }
    assert_eq!(left, [(Some(0), None), (None, Some(u16::MAX))]);
    // So it is if the pause was just leaving when the name changed.
    let mut late = open(1000, 0, 5000);
    late.charge(Nanos(1), 1500);
    let leaving = late.debt(Nanos(1)).unwrap();
    late.close(Nanos(2));
    late.name(Scope::one(5));
    late.paid(&leaving);
    let debt = late.debt(Nanos(3)).unwrap();
    late.paid(&debt);
    assert_eq!((debt.frame.says(3), late.debt(Nanos(4))), (Some(0), None));
    // And nothing of the first is said again.
    assert_eq!(ledger.last_word(Nanos(6)), Some(Scope::one(5).frame(0)));
    assert_eq!(ledger.debt(Nanos(7)), None);
}

#[test]
fn the_last_word_is_for_who_is_silent() {
    let last = |ledger: &mut Ledger| ledger.last_word(Nanos(9));
    // Nothing was said, or nothing has left yet.
    let mut ledger = open(0, 0, 2000);
    assert_eq!(last(&mut ledger), None);
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert_eq!(last(&mut ledger), None);
    assert!(!ledger.is_busy());
    // A pause has left; and its end has not.
    for ends in [false, true] {
        let mut ledger = open(0, 0, 2000);
        assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
        assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
        if ends {
            assert_eq!(ledger.give_back(Nanos(2), 7, 1500), Some(true));
        }
        assert_eq!(last(&mut ledger), Some(Frame::one(3, 0)));
        assert_eq!((last(&mut ledger), ledger.debt(Nanos(9))), (None, None));
        assert_eq!(ledger.charge(Nanos(10), 1), None);
    }
    // The end has left.
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
    assert_eq!(ledger.give_back(Nanos(2), 7, 1500), Some(true));
    assert_eq!(pay(&mut ledger, 3), Some(0));
    assert_eq!(last(&mut ledger), None);
    // Of what the pause was of.
    let mut ledger = open(0, 0, 2000);
    assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
    assert_eq!(pay(&mut ledger, 1), Some(u16::MAX));
    ledger.close(Nanos(2));
    ledger.name(Scope::Link);
    assert_eq!(last(&mut ledger), Some(Frame::one(3, 0)));
}

/// All that data may be is paused by one frame.
#[test]
fn a_frame_names_all_of_the_scope() {
    for scope in [Scope::Link, Scope::Priorities(0b1_1000)] {
        let mut ledger = Ledger::new(scope);
        assert!(!ledger.open(Nanos(0), 7, limits(0, 0, 2000), &rate()));
        assert!(ledger.charge(Nanos(1), 1500).unwrap().1);
        let debt = ledger.debt(Nanos(1)).unwrap();
        assert_eq!(debt.frame, scope.frame(u16::MAX));
        ledger.paid(&debt);
        assert_eq!(ledger.last_word(Nanos(2)), Some(scope.frame(0)));
    }
}

#[test]
fn more_room_ends_a_pause() {
    let mut ledger = open(1000, 0, 2000);
    assert!(!ledger.charge(Nanos(1), 900).unwrap().1);
    assert!(ledger.charge(Nanos(2), 900).unwrap().1);
    assert_eq!(pay(&mut ledger, 2), Some(u16::MAX));
    assert_eq!(ledger.give_back(Nanos(3), 7, 900), Some(false));
    assert!(ledger.open(Nanos(4), 0, limits(1000, 900, 2000), &rate()));
    assert_eq!(pay(&mut ledger, 4), Some(0));
}

proptest! {
    /// Whatever comes, leaves, opens and closes: what is held is what has come in this epoch and
    /// not left, nothing strays, and once all has left the other end is not silent.
    #[test]
    fn books_are_kept(
        steps in proptest::collection::vec((0_u8..10, 64_u32..2000), 1..300),
        xoff in 0_u64..8000,
        headroom in 0_u64..8000,
    ) {
        let mut ledger = open(xoff, xoff / 2, headroom);
        let (mut queue, mut epoch) = (std::collections::VecDeque::new(), 7);
        let (mut silent, mut now) = (false, 0);
        for (what, bytes) in steps {
            now += 1;
            match what {
                0 => {
                    ledger.close(Nanos(now));
                    epoch += 1;
                    ledger.open(Nanos(now), epoch, limits(xoff, xoff / 2, headroom), &rate());
                }
                1..=5 => {
                    let charge = ledger.charge(Nanos(now), bytes);
                    if let Some((Charge::Held(of) | Charge::Asking(of), _)) = charge {
                        queue.push_back((of, bytes));
                    }
                }
                _ => if let Some((in_epoch, bytes)) = queue.pop_front() {
                    let taken = ledger.give_back(Nanos(now), in_epoch, bytes);
                    prop_assert_eq!(taken.is_some(), in_epoch == epoch);
                },
            }
            if let Some(quanta) = pay(&mut ledger, now) {
                silent = quanta != 0;
            }
            let of_this = queue.iter().filter(|(of, _)| *of == epoch);
            let held: u64 = of_this.map(|(_, bytes)| u64::from(*bytes)).sum();
            prop_assert_eq!(ledger.held(), held);
            prop_assert!(held <= xoff + headroom);
            prop_assert!(!silent || held > 0);
        }
        prop_assert_eq!(ledger.counters(Nanos(now)).ingress.strays, 0);
    }

    /// Several ledgers of a pool, whose neighbours go on sending until a pause has come to them,
    /// for as much as the headroom is: nothing is dropped, and what is held never exceeds the
    /// buffer and the headrooms. Once all has left, nothing is in the pool and nobody is silent.
    #[test]
    fn a_shared_buffer_loses_nothing(
        alpha in 4_u16..=2048,
        buffer in 1600_u64..40_000,
        steps in proptest::collection::vec((0_usize..4, 0_u8..4, 64_u32..=1538), 1..400),
    ) {
        const HEADROOM: u64 = 5 * 1538;
        let used = Arc::new(AtomicU64::new(0));
        let xoff = Xoff::Share { alpha: Alpha(alpha), gap: 2 * 1538 };
        let mut all: Vec<_> = (0..4).map(|at| {
            let mut ledger = Ledger::new(Scope::one(3));
            ledger.share(buffer, used.clone());
            ledger.open(Nanos(0), at, Limits { xoff, headroom: HEADROOM }, &rate());
            // What it may still send once it is paused, and what waits.
            (ledger, None, std::collections::VecDeque::new())
        }).collect();
        for (at, what, bytes) in steps {
            let (ledger, left, queue) = &mut all[at];
            if what < 3 {
                // The frame that decides needs room, too: `Headroom::above_xoff`.
                let may = left.is_none_or(|left| u64::from(bytes) <= left);
                if may {
                    let (charge, _) = ledger.charge(Nanos(1), bytes).unwrap();
                    let at = at as u64;
                    prop_assert!(charge == Charge::Held(at) || charge == Charge::Asking(at));
                    queue.push_back(bytes);
                    *left = left.map(|left| left - u64::from(bytes));
                }
            } else if let Some(bytes) = queue.pop_front() {
                ledger.give_back(Nanos(2), at as u64, bytes);
            }
            match pay(ledger, 3) {
                Some(0) => *left = None,
                Some(_) => *left = Some(HEADROOM - 1538),
                None => {}
            }
            let held: u64 = all.iter().map(|it| it.0.held()).sum();
            prop_assert!(held <= buffer + 4 * HEADROOM, "{}", held);
            prop_assert!(used.load(std::sync::atomic::Ordering::Relaxed) <= buffer);
        }
        for (at, (ledger, left, queue)) in (0..).zip(&mut all) {
            for bytes in queue.drain(..) {
                ledger.give_back(Nanos(4), at, bytes);
            }
            let paid = pay(ledger, 5);
            prop_assert!(left.is_none() || paid == Some(0));
            prop_assert_eq!(ledger.counters(Nanos(5)).ingress.drops, 0);
        }
        prop_assert_eq!(used.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

/// What is held goes along when the threshold becomes another kind.
#[test]
fn a_threshold_may_become_a_part_and_back() {
    let used = Arc::new(AtomicU64::new(0));
    let in_common = || used.load(std::sync::atomic::Ordering::Relaxed);
    let mut ledger = open(3000, 1000, 2000);
    assert!(!ledger.charge(Nanos(1), 2500).unwrap().1);
    let half = Limits {
        xoff: Xoff::Share {
            alpha: Alpha::HALF,
            gap: 100,
        },
        headroom: 2000,
    };
    ledger.share(9000, used.clone());
    assert!(!ledger.open(Nanos(2), 8, half, &rate()));
    assert_eq!((in_common(), ledger.threshold()), (2500, 3250));
    // Half of 6500 is less than 3500.
    assert!(ledger.charge(Nanos(3), 1000).unwrap().1);
    assert_eq!(pay(&mut ledger, 3), Some(u16::MAX));
    assert_eq!(in_common(), 2500);
    ledger.share(90_000, used.clone());
    assert!(!ledger.open(Nanos(4), 8, half, &rate()));
    assert_eq!(ledger.threshold(), 43_750);
    assert!(ledger.give_back(Nanos(5), 7, 1000).unwrap());
    assert!(!ledger.open(Nanos(6), 8, limits(3000, 1000, 2000), &rate()));
    assert_eq!((in_common(), ledger.threshold()), (0, 3000));
    assert_eq!(ledger.held(), 2500);
    // Whoever goes leaves nothing behind.
    ledger.share(9000, used.clone());
    ledger.open(Nanos(7), 8, half, &rate());
    assert_eq!(in_common(), 2500);
    ledger.last_word(Nanos(8));
    assert_eq!(in_common(), 0);
}
