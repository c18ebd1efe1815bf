// SPDX-License-Identifier: GPL-2.0
//! Beginnings of messages that are forged by somebody who has seen the cookie of the right one.

use std::cell::Cell;
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::*;

use super::topology::star;
use super::*;

const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// Who has seen the cookie begins the message first, with something of its SYNC changed. The honest
/// SYNC comes 14 us later, with a ticket or without.
#[track_caller]
fn forged(change: impl Fn(Sync) -> Sync) {
    forged_for(true, &change);
    forged_for(false, &change);
}

#[track_caller]
fn forged_for(known: bool, change: impl Fn(Sync) -> Sync) {
    let run = |first: Option<Sync>| {
        let mut network = star(1, &Config::DEFAULT, 4, link(), false);
        if known {
            network.acquaint([(1, 0)]);
        }
        let seen: Rc<Cell<Option<Sync>>> = Rc::default();
        let tap = seen.clone();
        network.tap = Some(Box::new(move |_, packet| {
            if let Packet::Sync(sync) = packet.packet {
                tap.set(tap.get().or(Some(sync)));
            }
        }));
        let begin = network.now + 1000;
        let message = network.send_at(begin, 1, 0, 100_000);
        network.run_until(begin + 2000);
        if let Some(sync) = first {
            network.inject(1, 0, Packet::Sync(sync), None);
        }
        network.run_to_the_end(begin + 400 * SECOND);
        let it = &network.registry.messages[message];
        let took = it.delivered.map(|at| (at - begin) / 1000);
        let refused = network.endpoint(1).stats().get(Counter::TokenDuplicate);
        let long = network.endpoint(0).stats().get(Counter::DataTooLong);
        (took, it.result, refused, long, seen.get().unwrap())
    };
    let (took, .., honest) = run(None);
    assert!(took.is_some() && (honest.echo != 0) == known);
    let (took, result, refused, long, _) = run(Some(change(Sync { echo: 0, ..honest })));
    assert!(
        took.is_some_and(|us| us < 10_000),
        "known: {known}; {took:?} us, {result:?}; tokens refused: {refused}; data too long: {long}"
    );
}

#[test]
fn shorter_packets() {
    forged(|sync| Sync { mss: 256, ..sync });
}

#[test]
fn no_length() {
    forged(|sync| Sync {
        length: None,
        unscheduled: 0,
        ..sync
    });
}

#[test]
fn another_length() {
    forged(|sync| Sync {
        length: Some(99_999),
        ..sync
    });
}

#[test]
fn a_shorter_length() {
    for length in [1000, 50_000] {
        forged(|sync| Sync {
            length: Some(length),
            unscheduled: 0,
            ..sync
        });
    }
}

#[test]
fn another_port() {
    forged(|sync| Sync { source: 7, ..sync });
}

#[test]
fn other_wishes() {
    forged(|sync| Sync {
        patience: 1,
        coflow: 9,
        unscheduled: 0,
        ..sync
    });
    forged(|sync| Sync {
        priority: Some(7),
        deadline: 1,
        ..sync
    });
    forged(|sync| Sync {
        ren: true,
        unscheduled: u32::MAX,
        ..sync
    });
}

/// The forged SYNC comes right after the honest one, which has no ticket, and a fifth of all
/// packets is lost: the message arrives all the same.
#[test]
fn among_losses() {
    for seed in 1..=300 {
        let mut network = star(seed, &Config::DEFAULT, 4, link(), false);
        let begin = network.now + 1000;
        let seen: Rc<Cell<Option<Sync>>> = Rc::default();
        let tap = seen.clone();
        network.tap = Some(Box::new(move |_, packet| {
            if let Packet::Sync(sync) = packet.packet {
                tap.set(tap.get().or(Some(sync)));
            }
        }));
        for node in 0..4 {
            network.set_loss(node, 200_000);
        }
        let message = network.send_at(begin, 1, 0, 20_000);
        while seen.get().is_none() {
            network.run_until(network.now + 1000);
        }
        let honest = seen.get().unwrap();
        let forged = Sync {
            source: 101,
            echo: 0,
            ..honest
        };
        network.inject(1, 0, Packet::Sync(forged), None);
        network.run_to_the_end(begin + 30 * SECOND);
        let it = &network.registry.messages[message];
        let result = it.result.map(|(_, result)| result);
        assert_eq!(result, Some(Ok(())), "seed {seed}");
    }
}
