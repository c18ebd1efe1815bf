// SPDX-License-Identifier: GPL-2.0
//! Data that comes before its SYNC.

use std::cell::Cell;
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::Packet;

use super::crossing::assert_clean;
use super::network::Fate;
use super::topology::star;
use super::*;

/// ns.
const DELAY: u64 = 5_000;
const RATE: u64 = 1_250_000_000;
/// Bytes of a message: all of it goes unasked.
const LENGTH: u32 = 5_000;

fn two() -> Network {
    let link = Link {
        rate: RATE,
        delay: DELAY,
        ..Link::default()
    };
    let mut network = star(5, &Config::DEFAULT, 2, link, false);
    network.acquaint([(0, 1), (1, 0)]);
    network.run_until(network.now + 10_000_000);
    network
}

/// ns that a message takes on the idle network.
fn ideal() -> u64 {
    let wire = LENGTH + LENGTH.div_ceil(1450) * 88;
    u64::from(wire + 1538) * 1_000_000_000 / RATE + 2 * DELAY
}

/// Messages one after the other. The slowdown of each, in order.
fn slowdowns(network: &mut Network, count: u64) -> Vec<f64> {
    let first = network.registry.messages.len();
    let begin = network.now + 1_000_000;
    for number in 0..count {
        network.send_at(begin + number * 1_000_000, 0, 1, LENGTH);
    }
    network.run_to_the_end(begin + count * 1_000_000 + 10_000_000_000);
    let messages = network.registry.messages.iter().skip(first);
    let took = messages.map(|it| it.delivered.expect("it is delivered") - it.began);
    let mut slower: Vec<f64> = took.map(|it| it as f64 / ideal() as f64).collect();
    slower.sort_by(f64::total_cmp);
    slower
}

/// One packet in twenty is 5 us late. What has overtaken its SYNC is asked for when that comes: a
/// round trip more, where it was what `unscheduled-buffer` takes on the link.
#[test]
fn data_that_overtakes_its_sync_costs_a_round_trip() {
    let mut network = two();
    let random = Rc::new(Cell::new(7));
    network.fate = Some(Box::new(move |_| {
        let mut state = random.get();
        let late = host::next(&mut state) % 20 == 0;
        random.set(state);
        match late {
            true => Fate::Late(5_000),
            false => Fate::Comes,
        }
    }));
    let slower = slowdowns(&mut network, 4000);
    let mean = slower.iter().sum::<f64>() / slower.len() as f64;
    let last = slower[slower.len() * 99 / 100];
    let again = network.stats(0).get(Counter::DataResent);
    println!("{mean:.2} in the mean, {last:.1} at the 99th percentile, {again} sent again");
    network.fate = None;
    assert_clean(&mut network, 2);
    assert!(mean < 1.3 && last < 4.0, "{mean:.2}, {last:.1}");
}

/// Of one message's SYNC, and of nothing else.
#[test]
fn all_of_it_may_come_before_its_sync() {
    let mut network = two();
    let late = Rc::new(Cell::new(false));
    network.fate = Some(Box::new(move |packet| match packet.packet {
        Packet::Sync(_) if !late.replace(true) => Fate::Late(20_000),
        _ => Fate::Comes,
    }));
    let slower = slowdowns(&mut network, 1);
    let [unknown, twice] =
        [Counter::DataUnknown, Counter::DataDuplicate].map(|it| network.stats(1).get(it));
    println!("{:.2}, {unknown} came too soon, {twice} twice", slower[0]);
    assert_eq!((unknown, twice), (u64::from(LENGTH.div_ceil(1450)), 0));
    // The SYNC's lateness and a round trip.
    let most = ideal() + 20_000 + 4 * DELAY + 10_000;
    assert!(slower[0] < most as f64 / ideal() as f64, "{:.2}", slower[0]);
    network.fate = None;
    assert_clean(&mut network, 2);
}
