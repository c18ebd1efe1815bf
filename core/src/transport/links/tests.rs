// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use super::*;
use crate::port::config::TOKEN_WIRE_LEN;
use crate::transport::config::Config;
use crate::transport::testing::{chunks_left, Std};

const G1: u64 = 125_000_000;
const G10: u64 = 1_250_000_000;
const NOW: Nanos = Nanos(1_000_000);

fn config() -> Resolved {
    Config::DEFAULT.validate(Some(G10)).unwrap()
}

fn links() -> Links<Std> {
    let mut links = Links::NEW;
    links.start(&config(), NOW);
    links
}

fn join(links: &mut Links<Std>, link: u32, index: u32) {
    assert!(links.reserve(link, index));
    links.join(link);
}

/// All that can be listed: device, rate, messages.
fn all(links: &Links<Std>) -> Vec<(u32, u64, u32)> {
    let mut from = 0;
    let next = || {
        let (next, info) = links.info(from)?;
        from = next;
        Some((info.device, info.rate, info.incoming))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_device_has_the_link_that_was_told_of_and_others_share_one() {
    let mut links = links();
    assert_eq!(all(&links), [(0, G10, 0)]);
    for (device, rate) in [(7, G1), (0, G1), (8, 0), (9, 2 * G1)] {
        links.set(&config(), NOW, device, rate);
    }
    assert_eq!([7, 0, 8, 9, 10].map(|it| links.of(it)), [1, 0, 0, 2, 0]);
    assert_eq!(all(&links), [(0, G10, 0), (7, G1, 0), (9, 2 * G1, 0)]);
    assert_eq!(links.speed(1).link, G1);
    let of_device = Config::DEFAULT.validate(Some(G1)).unwrap().speed;
    assert_eq!(*links.speed(1), of_device);
    assert_eq!(*links.speed(LINKS as u32), Speed::NONE);
}

#[test]
fn a_link_that_is_set_is_all_devices_and_no_longer_once_it_is_not() {
    let mut links = links();
    links.set(&config(), NOW, 7, G1);
    let set = Config {
        link: 3 * G1,
        ..Config::DEFAULT
    };
    let set = set.validate(Some(G10)).unwrap();
    links.configure(&set, NOW);
    links.set(&set, NOW, 8, G1);
    assert_eq!(
        all(&links),
        [(0, 3 * G1, 0), (7, 3 * G1, 0), (8, 3 * G1, 0)]
    );
    links.configure(&config(), NOW);
    assert_eq!(all(&links), [(0, G10, 0), (7, G1, 0), (8, G1, 0)]);
}

#[test]
fn places_are_taken_from_devices_without_messages_only() {
    let mut links = links();
    let own = LINKS as u32 - 1;
    for device in 1..=own {
        links.set(&config(), NOW, device, G1);
        let link = links.of(device);
        assert_eq!(link, device);
        if device != 5 {
            join(&mut links, link, device);
        }
    }
    links.set(&config(), NOW, 100, 2 * G1);
    assert_eq!((links.of(100), links.of(5)), (5, SHARED));
    join(&mut links, 5, 5);
    links.set(&config(), NOW, 101, G1);
    assert_eq!(links.of(101), SHARED);
    // One that has gone is taken before one that is there.
    links.gone(9);
    links.leave(3, 3);
    links.leave(9, 9);
    links.set(&config(), NOW, 101, G1);
    assert_eq!((links.of(101), links.of(3)), (9, 3));
    // A link that went away has still its messages.
    links.gone(100);
    links.set(&config(), NOW, 102, G1);
    assert_eq!((links.of(100), links.of(102)), (SHARED, 3));
    assert!(all(&links).contains(&(0, 2 * G1, 1)));
}

/// Devices come and go in any order, and more than there are links.
#[test]
fn each_device_is_found_and_no_other() {
    let mut links = links();
    let mut rng = Rng::new(7);
    let mut next = |below| (rng.next_u64() >> 33) as u32 % below;
    for _ in 0..5000 {
        let device = 1 + next(60);
        match next(3) {
            0 => links.gone(device),
            1 => {
                links.set(&config(), NOW, device, G1);
                assert!(links.own(device).is_some());
            }
            _ => {}
        }
        for device in 0..62 {
            let link = (1..LINKS).find(|it| device != 0 && links.devices[*it] == device);
            assert_eq!(links.own(device), link.map(|link| link as u32));
        }
    }
}

/// Two pacers, which share a table: each gives tokens at its own rate, in its own order.
#[test]
fn links_wait_and_give_apart() {
    let mut links = links();
    for (device, rate) in [(7, G1), (8, G10)] {
        links.set(&config(), NOW, device, rate);
    }
    let mut rng = Rng::new(1);
    for index in 0..4 {
        join(&mut links, 1 + index % 2, index);
        links.want(1 + index % 2, NOW, index, NOW);
    }
    assert_eq!(links.next(), Some(NOW));
    let mut given = [0_u32; 4];
    let mut now = NOW;
    let end = NOW + Nanos::MILLISECOND;
    while let Some(at) = links.next().filter(|at| *at < end) {
        now = now.max(at);
        let link = links.due(now).expect("due at the time that it said");
        if let Some(index) = links.due_message(link, now) {
            links.ready(link, index, Key(given[index as usize].into(), index.into()));
            continue;
        }
        let (key, index) = links.first(link, now).unwrap();
        assert_eq!(key, Key(given[index as usize].into(), index.into()));
        assert_eq!(link, 1 + index % 2);
        assert!(links.holds(link, index) && !links.holds(3 - link, index));
        given[index as usize] += 1;
        links.charge(link, now, (TOKEN_WIRE_LEN, 1), &mut rng, 0);
        links.wait(link, index, now);
    }
    // 1 ms at 12 976 ns and at 1297.6 ns a token.
    assert!((77..=79).contains(&(given[0] + given[2])), "{given:?}");
    assert!((770..=772).contains(&(given[1] + given[3])), "{given:?}");
    // What leaves wants no token, and another link does not notice.
    for index in [0, 2] {
        links.leave(1, index);
    }
    assert_eq!(links.due(Nanos(u64::MAX - 1)), Some(2));
    for index in [1, 3] {
        links.leave(2, index);
    }
    assert_eq!((links.next(), links.due(Nanos(u64::MAX))), (None, None));
    assert_eq!(all(&links)[1..], [(7, G1, 0), (8, G10, 0)]);
}

#[test]
fn a_new_speed_counts_at_once() {
    let mut links = links();
    links.set(&config(), NOW, 7, G1);
    join(&mut links, 1, 0);
    let mut rng = Rng::new(1);
    links.want(1, NOW, 0, NOW);
    links.ready(1, 0, Key(0, 0));
    links.charge(1, NOW, (TOKEN_WIRE_LEN, 1), &mut rng, 0);
    let at = |links: &Links<Std>| links.next().unwrap() - NOW;
    // Half an interval late: the middle of its place.
    assert_eq!(at(&links), Nanos(12_976 * 3 / 2 + 1));
    links.set(&config(), NOW, 7, G10);
    assert_eq!(at(&links), Nanos(1298));
    assert_eq!(links.slack(1), Nanos(10_381));
    let other = Config::DEFAULT.validate(Some(G1)).unwrap();
    links.configure(&other, NOW);
    assert_eq!(
        (links.slack(1), links.slack(0)),
        (Nanos(10_381), Nanos(103_809))
    );
}

#[test]
fn without_memory_nobody_joins() {
    let mut links = links();
    chunks_left(0);
    assert!(!links.reserve(SHARED, 0) && !links.reserve(1, 0));
    chunks_left(usize::MAX);
    assert!(links.reserve(SHARED, 0) && !links.reserve(LINKS as u32, 0));
}
