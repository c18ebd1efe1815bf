// SPDX-License-Identifier: GPL-2.0
//! Messages of one packet: how many packets they take, and what comes of them when any of these is
//! lost, late or comes twice.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::seal::{Psk, KEY_LEN};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::Packet;

use super::crossing::assert_clean;
use super::network::Fate;
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;
const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

fn two(seed: u64, v6: bool, sealed: bool) -> Network {
    let mut network = star(seed, &Config::DEFAULT, 2, link(), v6);
    if sealed {
        for host in 0..2 {
            let key = [7; KEY_LEN];
            network.set_keys(host, &[Psk { id: 1, key }]);
        }
    }
    network
}

/// Requests and answers in turn, each as soon as the other end has the one before: so many pairs.
fn exchange(network: &mut Network, pairs: usize, length: u32) {
    for turn in 0..2 * pairs {
        let (from, to) = (turn % 2, 1 - turn % 2);
        let message = network.send_at(network.now, from, to, length);
        let give_up = network.now + 30 * SECOND;
        while network.registry.messages[message].delivered.is_none() {
            assert!(network.now < give_up, "message {turn} does not arrive");
            network.run_until(network.now + 1000);
        }
    }
}

/// Counts the packets that arrive.
fn count(network: &mut Network) -> Rc<Cell<u32>> {
    let count = Rc::new(Cell::new(0));
    let tap = count.clone();
    network.fate = Some(Box::new(move |_| {
        tap.set(tap.get() + 1);
        Fate::Comes
    }));
    count
}

/// On a quiet line a request takes one packet, and so does its answer: SYNC and data are one, which
/// takes along that what it answers has come, and ends are confirmed together.
#[test]
fn a_request_and_its_answer_take_one_packet_each() {
    for v6 in [false, true] {
        for length in [1, 100, 1_400 - 20 * u32::from(v6)] {
            let mut network = two(1, v6, false);
            network.run_until(BEGIN);
            network.acquaint([(0, 1), (1, 0)]);
            let packets = count(&mut network);
            exchange(&mut network, 100, length);
            network.run_until(network.now + 10_000_000);
            println!("{} packets for 200 messages", packets.get());
            let confirm = packets.get() - 200;
            assert!(
                (1..=200 / 10).contains(&confirm),
                "{v6} {length}: {confirm}"
            );
            network.run_to_the_end(SECOND);
            assert_clean(&mut network, 2);
        }
    }
}

/// Many at once, one way: four are acknowledged together, and ends are confirmed together.
#[test]
fn many_at_once_take_little_more_than_a_packet_each() {
    let mut network = two(1, false, false);
    network.run_until(BEGIN);
    network.acquaint([(0, 1)]);
    let packets = count(&mut network);
    for turn in 0..100 {
        for _ in 0..20 {
            network.send_at(BEGIN + 10_000_000 + turn * 100_000, 0, 1, 100);
        }
    }
    network.run_to_the_end(SECOND);
    network.run_until(network.now + 10_000_000);
    println!("{} packets for 2000 messages", packets.get());
    let most = 2000 + 2000 / 4 + 2000 / 10;
    assert!(packets.get() <= most, "{}", packets.get());
    assert_clean(&mut network, 2);
}

/// What is longer, or what a receiver allows no more of, has its SYNC before it as ever.
#[test]
fn longer_ones_begin_with_their_sync() {
    let mut network = two(1, false, false);
    network.run_until(BEGIN);
    network.acquaint([(0, 1)]);
    let kinds = Rc::new(RefCell::new(Vec::new()));
    let tap = kinds.clone();
    network.fate = Some(Box::new(move |packet| {
        tap.borrow_mut().push(match &packet.packet {
            Packet::First(_) => 'F',
            Packet::Sync(_) => 'S',
            Packet::Data(_) => 'D',
            _ => ' ',
        });
        Fate::Comes
    }));
    for (length, begins) in [(1416, "F"), (1417, "SD"), (1450, "SD"), (1451, "SDD")] {
        kinds.borrow_mut().clear();
        network.send_at(network.now, 0, 1, length);
        network.run_until(network.now + 1_000_000);
        let seen: String = kinds.borrow().iter().filter(|kind| **kind != ' ').collect();
        assert_eq!(seen, begins, "{length}");
    }
    network.run_to_the_end(SECOND);
    assert_clean(&mut network, 2);
}

/// Any packet of an exchange is lost, or comes late or twice, and so does any other one: each
/// message is delivered once (or the model fails), its sender is told so, and nothing is left.
#[test]
fn any_packet_may_be_lost_late_or_come_twice() {
    let mut slowest = 0;
    for (v6, sealed) in [(false, false), (true, false), (false, true), (true, true)] {
        for met in [false, true] {
            for first in 0..14_u32 {
                for second in (first..14).chain([u32::MAX]) {
                    for how in 0..4 {
                        let mut network = two(1, v6, sealed);
                        network.run_until(BEGIN);
                        if met {
                            network.acquaint([(0, 1), (1, 0)]);
                        }
                        let mut number = 0;
                        network.fate = Some(Box::new(move |_| {
                            number += 1;
                            if number - 1 != first && number - 1 != second {
                                return Fate::Comes;
                            }
                            match how {
                                0 => Fate::Lost,
                                1 => Fate::Late(60_000),
                                // After what was sent again in its place.
                                2 => Fate::Late(9_000_000),
                                _ => Fate::Again(3_000_000),
                            }
                        }));
                        let began = network.now;
                        exchange(&mut network, 3, 100);
                        slowest = slowest.max(network.now - began);
                        network.run_to_the_end(60 * SECOND);
                        network.fate = None;
                        // Sealed ones are remembered for 17 s.
                        network.run_until(network.now + 20 * SECOND);
                        assert_clean(&mut network, 2);
                    }
                }
            }
        }
    }
    println!("the slowest exchange took {slowest} ns");
    // Each loss costs `rto`, and what is waited for then.
    assert!(slowest < 30_000_000, "{slowest}");
}

/// Loss and reordering of everything, for long.
#[test]
fn exchanges_over_lossy_links() {
    for seed in 0..20 {
        let mut network = two(seed, seed % 2 != 0, seed % 5 == 0);
        for node in 0..4 {
            network.set_loss(node, 50_000);
            network.set_reorder(node, 200_000, 3_000_000);
        }
        exchange(&mut network, 100, 1 + seed as u32 * 70);
        for node in 0..4 {
            network.set_loss(node, 0);
        }
        network.run_to_the_end(network.now + 60 * SECOND);
        network.run_until(network.now + 20 * SECOND);
        assert_clean(&mut network, 2);
    }
}

/// What is sent again goes with its data only to who is known to be there, and not for ever.
#[test]
fn who_does_not_answer_is_not_sent_the_data_again_and_again() {
    for met in [false, true] {
        let mut network = two(3, false, false);
        network.run_until(BEGIN);
        if met {
            network.acquaint([(0, 1), (1, 0)]);
        }
        network.kill(1);
        let before = network.stats(0).get(Counter::DataSentBytes);
        let message = network.send_at(network.now, 0, 1, 200 - 100 * u32::from(!met));
        network.run_until(network.now + 60 * SECOND);
        assert!(network.registry.messages[message].result.is_some());
        let sent = network.stats(0).get(Counter::DataSentBytes) - before;
        assert_eq!(sent, if met { 4 * 200 } else { 100 });
    }
}

/// A namespace that goes away confirms what it has not yet.
#[test]
fn who_goes_away_confirms_the_last_ones() {
    let mut network = two(1, false, false);
    network.run_until(BEGIN);
    network.acquaint([(0, 1)]);
    let message = network.send_at(network.now, 0, 1, 100);
    while network.registry.messages[message].result.is_none() {
        network.run_until(network.now + 1000);
    }
    network.close(0);
    network.run_until(network.now + 900_000);
    // It remembers it no longer than one whose end is confirmed.
    network.run_until(network.now + 250_000_000);
    assert_eq!(network.endpoint(1).counts().2, 0);
}
