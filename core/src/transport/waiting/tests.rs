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
    let mut confirms = Waiting::NEW;
    assert_eq!(confirms.next(), Nanos::MAX);
    let mut add = |owner, to, cookie| {
        let one = Cookies::new(Cookie(cookie));
        let full = confirms.add(Nanos(5), 3, &(owner, receiver(to)), &one);
        full.map(all).unwrap_or_default()
    };
    assert!(add(1, 1, 7).is_empty());
    assert!(add(1, 1, 8).is_empty());
    // Another receiver in the same place, and another owner.
    assert_eq!(add(1, 2, 9), [7, 8]);
    assert_eq!(add(9, 2, 10), [9]);
    assert_eq!(confirms.next(), Nanos(5));
}

#[test]
fn what_nothing_comes_for_is_due() {
    let mut confirms = Waiting::NEW;
    let mut add = |due, peer, to, cookie| {
        let one = Cookies::new(Cookie(cookie));
        confirms.add(Nanos(due), peer, &(0, receiver(to)), &one);
    };
    add(5, 3, 1, 7);
    add(6, 4, 2, 8);
    add(9, 3, 1, 9);
    assert!(confirms.take_due(Nanos(4)).is_none());
    let due = confirms.take_due(Nanos(5)).unwrap();
    assert_eq!((due.0, all(due)), ((0, receiver(1)), std::vec![7, 9]));
    assert!(confirms.take_due(Nanos(5)).is_none());
    assert_eq!(confirms.next(), Nanos(6));
    assert_eq!(all(confirms.take_due(Nanos(6)).unwrap()), [8]);
    assert_eq!(confirms.next(), Nanos::MAX);
}

/// What rides is taken by who goes to the same peer as the same owner, and by nobody else.
#[test]
fn riders_are_few_and_go_with_their_own() {
    let mut riders = Waiting::NEW;
    let of = (1, receiver(1));
    let one = |cookie, bytes| Riders::one(Cookie(cookie), bytes, 100, 1000 + cookie as u16);
    let cookies = |riders: Riders| -> Vec<u64> {
        let cookies = riders.delivered.cookies().iter();
        cookies.map(|cookie| cookie.0).collect()
    };
    assert!(riders.get(3, &of).is_none());
    assert!(riders.add(Nanos(5), 3, &of, &one(1, 100)).is_none());
    assert!(riders.add(Nanos(6), 3, &of, &one(2, 100)).is_none());
    assert!(riders.get(3, &(2, receiver(1))).is_none());
    assert!(riders.get(3, &(1, receiver(2))).is_none());
    assert!(riders.take(3, &(1, receiver(2))).is_none());
    assert_eq!(riders.next(), Nanos(5));
    let (whose, taken) = riders.take(3, &of).unwrap();
    // What the last one says of the allowance is newest.
    assert_eq!((whose, taken.delivered.allowance), (of, 1002));
    assert_eq!(cookies(taken), [1, 2]);
    assert_eq!(riders.next(), Nanos::MAX);
    // Four at most.
    let add = |riders: &mut Waiting<Riders>, cookie, bytes| {
        let full = riders.add(Nanos(7), 3, &of, &one(cookie, bytes));
        full.map(|(_, riders)| cookies(riders))
    };
    for cookie in 0..3 {
        assert_eq!(add(&mut riders, cookie, 100), None);
    }
    assert_eq!(add(&mut riders, 3, 100), Some(std::vec![0, 1, 2, 3]));
    assert_eq!(riders.next(), Nanos::MAX);
    // Or as many as a packet has bytes.
    assert_eq!(add(&mut riders, 4, 1400), None);
    assert_eq!(add(&mut riders, 5, 100), Some(std::vec![4, 5]));
    // One that has as many by itself passes what waits of others.
    assert_eq!(add(&mut riders, 6, 1500), Some(std::vec![6]));
    assert_eq!(riders.next(), Nanos::MAX);
    let others = (2, receiver(1));
    let waits = riders.add(Nanos(7), 3 ^ 1 ^ 2, &others, &one(7, 100));
    assert!(waits.is_none());
    assert_eq!(add(&mut riders, 8, 1500), Some(std::vec![8]));
    assert_eq!(cookies(riders.take_due(Nanos(7)).unwrap().1), [7]);
    // Or half of what its sender is allowed: at the least 256 bytes.
    let little = |bytes, units| Riders::one(Cookie(9), bytes, 100, units);
    for (bytes, units, waits) in [
        (28, 0, true),
        (29, 0, false),
        (29, 4, false),
        (60, 5, true),
        (61, 5, false),
        (412, 16, true),
        (413, 16, false),
    ] {
        let told = riders.add(Nanos(7), 3, &of, &little(bytes, units));
        assert_eq!(told.is_none(), waits, "{bytes}, {units}");
        riders.take(3, &of);
    }
}

/// No cookie is lost, and none comes twice, whatever takes it.
#[test]
fn each_is_told_once() {
    let mut confirms = Waiting::NEW;
    let mut random = Rng::new(5);
    let mut below = |most: u64| (random.next_u64() >> 32) % most;
    let (mut told, mut added) = (Vec::new(), 0);
    for step in 0..200_000_u64 {
        let now = Nanos(step * 10_000);
        let peer = below(12) as u32;
        let of = (below(3), receiver(peer as u8));
        match below(4) {
            0..=2 => {
                let one = Cookies::new(Cookie(added));
                let full = confirms.add(now + CONFIRM_WAIT, peer, &of, &one);
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
