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

fn all((_, cookies): (Of, Cookies)) -> Vec<u64> {
    let others = cookies.others().iter();
    std::iter::once(&cookies.first())
        .chain(others)
        .map(|cookie| cookie.0)
        .collect()
}

#[test]
fn others_have_packets_of_their_own() {
    let mut confirms = Confirms::NEW;
    assert_eq!(confirms.next(), Nanos::MAX);
    let mut add = |owner, to, cookie| {
        let full = confirms.add(Nanos(5), 3, &(owner, receiver(to)), Cookie(cookie));
        full.map(all).unwrap_or_default()
    };
    assert!(add(1, 1, 7).is_empty());
    assert!(add(1, 1, 8).is_empty());
    // Another receiver in the same place, and another owner.
    assert_eq!(add(1, 2, 9), [7, 8]);
    assert_eq!(add(9, 2, 10), [9]);
    assert_eq!(confirms.next(), Nanos(5) + WAIT);
}

#[test]
fn what_nothing_comes_for_is_due() {
    let mut confirms = Confirms::NEW;
    confirms.add(Nanos(5), 3, &(0, receiver(1)), Cookie(7));
    confirms.add(Nanos(6), 4, &(0, receiver(2)), Cookie(8));
    confirms.add(Nanos(9), 3, &(0, receiver(1)), Cookie(9));
    assert!(confirms.take_due(Nanos(4) + WAIT).is_none());
    let due = confirms.take_due(Nanos(5) + WAIT).unwrap();
    assert_eq!((due.0, all(due)), ((0, receiver(1)), std::vec![7, 9]));
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
        let of = (below(3), receiver(peer as u8));
        match below(4) {
            0..=2 => {
                let full = confirms.add(now, peer, &of, Cookie(added));
                added += 1;
                let full = full.map(all).unwrap_or_default();
                assert!(full.len() <= MAX_COOKIES);
                told.extend(full);
            }
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
