// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use super::*;
use crate::transport::jitter::Rng;
use crate::transport::wire::MAX_COOKIES;

fn receiver(number: u8) -> Address {
    Address {
        ip: [number; 16],
        ..Address::default()
    }
}

fn all((_, cookies): (Address, Cookies)) -> Vec<u64> {
    let others = cookies.others().iter();
    std::iter::once(&cookies.first())
        .chain(others)
        .map(|cookie| cookie.0)
        .collect()
}

#[test]
fn one_waits_for_the_next_message() {
    let mut confirms = Confirms::NEW;
    assert_eq!(confirms.next(), Nanos::MAX);
    assert!(confirms.add(Nanos(5), 3, &receiver(1), Cookie(7)).is_none());
    assert_eq!(confirms.next(), Nanos(5) + WAIT);
    assert_eq!(confirms.take(3, &receiver(2)), None);
    assert_eq!(confirms.take(4, &receiver(1)), None);
    assert_eq!(confirms.take(3, &receiver(1)), Some(Cookie(7)));
    assert_eq!(confirms.take(3, &receiver(1)), None);
    assert_eq!(confirms.next(), Nanos::MAX);
}

#[test]
fn what_nothing_comes_for_is_due() {
    let mut confirms = Confirms::NEW;
    confirms.add(Nanos(5), 3, &receiver(1), Cookie(7));
    confirms.add(Nanos(6), 4, &receiver(2), Cookie(8));
    confirms.add(Nanos(9), 3, &receiver(1), Cookie(9));
    assert!(confirms.take_due(Nanos(4) + WAIT).is_none());
    let due = confirms.take_due(Nanos(5) + WAIT).unwrap();
    assert_eq!((due.0, all(due)), (receiver(1), std::vec![7, 9]));
    assert!(confirms.take_due(Nanos(5) + WAIT).is_none());
    assert_eq!(confirms.next(), Nanos(6) + WAIT);
    assert_eq!(all(confirms.take_due(Nanos(6) + WAIT).unwrap()), [8]);
    assert_eq!(confirms.next(), Nanos::MAX);
}

/// No cookie is lost, and none comes twice, whatever takes it.
#[test]
fn each_is_told_once() {
    let mut confirms = Confirms::NEW;
    let mut random = Rng::new(5);
    let mut below = |most: u64| (random.next_u64() >> 32) % most;
    let (mut told, mut added) = (Vec::new(), 0);
    for step in 0..200_000_u64 {
        let now = Nanos(step * 10_000);
        let peer = below(12) as u32;
        let to = receiver(peer as u8);
        match below(5) {
            0..=2 => {
                let full = confirms.add(now, peer, &to, Cookie(added));
                added += 1;
                let full = full.map(all).unwrap_or_default();
                assert!(full.len() <= MAX_COOKIES);
                told.extend(full);
            }
            3 => told.extend(confirms.take(peer, &to).map(|cookie| cookie.0)),
            _ => {
                while let Some(due) = confirms.take_due(now) {
                    told.extend(all(due));
                }
                assert!(confirms.next() > now);
            }
        }
    }
    while let Some(due) = confirms.take_due(Nanos(u64::MAX - 1)) {
        told.extend(all(due));
    }
    told.sort_unstable();
    assert!(told.iter().copied().eq(0..added));
}
