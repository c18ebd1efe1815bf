// SPDX-License-Identifier: GPL-2.0
//! Hosts with several links: tokens are paced for each of them.

use std::cell::Cell;
use std::rc::Rc;

use turnstile_core::port::band::Band;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;

use super::network::device;
use super::topology::{host_port, PAPERS};
use super::*;

const G1: u64 = 125_000_000;
const G10: u64 = 1_250_000_000;
const G100: u64 = 12_500_000_000;
/// More than any of these links carries in a test.
const LONG: u32 = 500_000_000;
const MS: u64 = 1_000_000;
/// The receiver.
const HOST: usize = 0;

fn link(rate: u64) -> Link {
    Link {
        rate,
        delay: 10_000,
        ..Link::default()
    }
}

/// Host 0 has two links to a switch, and four hosts one of 100 Gbit/s each.
struct Bed {
    network: Network,
    /// By which of its links host 0 is reached, for each of the others.
    ways: Rc<Cell<[usize; 5]>>,
}

/// The switch's port for host 0's first or second link. Its own are the next ones.
const PORTS: [usize; 2] = [0, 2];

impl Bed {
    fn new(seed: u64, config: &Config, rates: [u64; 2]) -> Self {
        let ways = Rc::new(Cell::new([0, 0, 1, 0, 1]));
        let by = ways.clone();
        let route = move |from: usize, to: usize| match (from, to) {
            (HOST, other) => vec![PORTS[by.get()[other]] + 1, 4 + 2 * other],
            (other, HOST) => vec![4 + 2 * other + 1, PORTS[by.get()[other]]],
            (from, to) => vec![4 + 2 * from + 1, 4 + 2 * to],
        };
        let mut network = Network::new(seed, Box::new(route));
        for rate in rates {
            network.node(PAPERS, link(rate));
            network.node(host_port(), link(rate));
        }
        let fastest = config.validate(rates.into_iter().max()).unwrap();
        let others = config.validate(Some(G100)).unwrap();
        for host in 0..5 {
            network.host(if host == HOST { &fastest } else { &others }, false);
            network.node(PAPERS, link(G100));
            network.node(host_port(), link(G100));
        }
        let mut bed = Self { network, ways };
        for (port, rate) in PORTS.iter().zip(rates) {
            bed.tell(*port, rate);
        }
        bed
    }

    /// The host is told how fast a link is.
    fn tell(&mut self, port: usize, rate: u64) {
        self.network.with(HOST, |endpoint, _, now, _| {
            endpoint.set_link(nanos(now), device(&port), rate);
        });
    }

    fn moves(&mut self, sender: usize, way: usize) {
        let mut ways = self.ways.get();
        ways[sender] = way;
        self.ways.set(ways);
        self.network.reroute();
    }

    /// How much of each link carries data for so long, of what tokens leave for it.
    fn filled(&mut self, time: u64, rates: [u64; 2]) -> [f64; 2] {
        let data = |network: &Network| PORTS.map(|port| network.nodes[port].data_bytes);
        let before = data(&self.network);
        self.network.run_until(self.network.now + time);
        let after = data(&self.network);
        let ideal = |rate: u64| rate as f64 * time as f64 / 1e9 * 1538.0 / 1622.0;
        let filled = [0, 1].map(|i| (after[i] - before[i]) as f64 / ideal(rates[i]));
        println!("filled: {filled:?}");
        filled
    }

    /// Packets of data that a link dropped.
    fn dropped(&self, way: usize) -> u64 {
        let data = self.network.nodes[PORTS[way]].port.stats(Band::Data);
        data.over_limit + data.trimmed
    }

    fn count(&self, counter: Counter) -> u64 {
        self.network.endpoint(HOST).stats().get(counter)
    }
}

fn full(filled: [f64; 2]) {
    for it in filled {
        assert!((0.95..1.02).contains(&it), "{filled:?}");
    }
}

/// With one pacer for both, at 100 Gbit/s, the slow link's senders got a hundred times the tokens
/// that it carries data for.
#[test]
fn a_slow_and_a_fast_link_are_both_full_and_neither_drops_data() {
    for (seed, rates) in [(1, [G1, G100]), (2, [G100, G1])] {
        let mut bed = Bed::new(seed, &Config::DEFAULT, rates);
        for sender in 1..3 {
            bed.network.send_at(2 * MS, sender, HOST, LONG);
        }
        bed.network.run_until(10 * MS);
        full(bed.filled(10 * MS, rates));
        assert_eq!([bed.dropped(0), bed.dropped(1)], [0, 0]);
    }
}

/// One pacer at the speed of the fastest gave half of this.
#[test]
fn two_equal_links_are_both_full() {
    let rates = [G10; 2];
    let mut bed = Bed::new(3, &Config::DEFAULT, rates);
    for sender in 1..5 {
        bed.network.send_at(2 * MS, sender, HOST, LONG);
    }
    bed.network.run_until(10 * MS);
    full(bed.filled(20 * MS, rates));
    assert_eq!([bed.dropped(0), bed.dropped(1)], [0, 0]);
    let info: Vec<_> = bed.links();
    assert_eq!(info.len(), 3, "{info:?}");
    for (of, it) in [(0, info[0]), (2, info[1]), (2, info[2])] {
        assert_eq!((it.rate, it.incoming), (G10, of), "{info:?}");
    }
}

/// A message's tokens follow its data: 1 to 100 Gbit/s, and back.
#[test]
fn tokens_move_with_the_data_to_another_link() {
    let rates = [G1, G100];
    let mut bed = Bed::new(4, &Config::DEFAULT, rates);
    bed.network.send_at(2 * MS, 1, HOST, LONG);
    bed.network.run_until(10 * MS);
    let [slow, fast] = bed.filled(10 * MS, rates);
    assert!(slow > 0.95 && fast == 0.0, "{slow} {fast}");
    bed.moves(1, 1);
    bed.network.run_until(bed.network.now + 2 * MS);
    let [slow, fast] = bed.filled(5 * MS, rates);
    assert!(slow == 0.0 && fast > 0.95, "{slow} {fast}");
    bed.moves(1, 0);
    // What was under way at 100 Gbit/s still comes.
    bed.network.run_until(bed.network.now + 10 * MS);
    let (dropped, sent) = (bed.dropped(0), bed.count(Counter::TokenSent));
    let [slow, fast] = bed.filled(10 * MS, rates);
    assert!(slow > 0.95 && fast == 0.0, "{slow} {fast}");
    assert_eq!(bed.dropped(0), dropped);
    // 10 ms of tokens for 1 Gbit/s, and some for what is lost.
    let tokens = bed.count(Counter::TokenSent) - sent;
    assert!(tokens < 10 * MS / (1622 * 8) + 40, "{tokens}");
}

#[test]
fn a_link_becomes_slower_and_faster_live() {
    let mut bed = Bed::new(5, &Config::DEFAULT, [G10; 2]);
    for sender in 1..3 {
        bed.network.send_at(2 * MS, sender, HOST, LONG);
    }
    bed.network.run_until(10 * MS);
    full(bed.filled(10 * MS, [G10; 2]));
    for rate in [G1, G10] {
        for node in [PORTS[0], PORTS[0] + 1] {
            bed.network.slow_down(node, rate);
        }
        bed.tell(PORTS[0], rate);
        bed.network.run_until(bed.network.now + 10 * MS);
        let dropped = bed.dropped(0);
        full(bed.filled(10 * MS, [rate, G10]));
        assert_eq!(bed.dropped(0), dropped);
    }
}

/// `link` says how fast each link is, whatever the devices say.
#[test]
fn a_configured_link_is_the_speed_of_each() {
    let config = Config {
        link: G1,
        ..Config::DEFAULT
    };
    let mut bed = Bed::new(6, &config, [G10, G100]);
    for sender in 1..3 {
        bed.network.send_at(2 * MS, sender, HOST, LONG);
    }
    bed.network.run_until(10 * MS);
    full(bed.filled(20 * MS, [G1; 2]));
    // And no longer, once it is not set.
    let auto = Config::DEFAULT.validate(Some(G100)).unwrap();
    bed.network.with(HOST, |endpoint, io, now, _| {
        endpoint.configure(nanos(now), &auto, io);
    });
    bed.network.run_until(bed.network.now + 2 * MS);
    full(bed.filled(5 * MS, [G10, G100]));
}

/// Messages outlive their link, and so does their place in it.
#[test]
fn a_device_goes_and_its_messages_end_by_another() {
    const LENGTH: u32 = 20_000_000;
    let rates = [G1, G10];
    let mut bed = Bed::new(7, &Config::DEFAULT, rates);
    bed.network.send_at(2 * MS, 1, HOST, LENGTH);
    bed.network.run_until(10 * MS);
    let gone = |bed: &mut Bed| {
        bed.network.with(HOST, |endpoint, _, _, _| {
            endpoint.link_gone(device(&PORTS[0]));
        });
        bed.links()
    };
    let links = gone(&mut bed);
    // It has no device, but a message.
    assert_eq!((links[1].device, links[1].incoming, links.len()), (0, 1, 3));
    bed.moves(1, 1);
    bed.network.run_until(12 * MS);
    let links = bed.links();
    assert_eq!(links.len(), 2, "{links:?}");
    assert_eq!((links[1].device, links[1].incoming), (device(&PORTS[1]), 1));
    bed.network.run_to_the_end(10_000 * MS);
    assert_eq!(bed.links()[1].incoming, 0);
    let message = &bed.network.registry.messages[0];
    let took = message.delivered.unwrap() - 12 * MS;
    assert!(took < 20 * MS, "{took} ns: not at 10 Gbit/s");
}

/// What comes by a device without a speed (or one that nobody told of) shares one link, which is as
/// fast as the fastest.
#[test]
fn devices_without_a_speed_share_one_link() {
    let rates = [G10; 2];
    let mut bed = Bed::new(8, &Config::DEFAULT, rates);
    for port in PORTS {
        bed.network.with(HOST, |endpoint, _, now, _| {
            endpoint.link_gone(device(&port));
            endpoint.set_link(nanos(now), device(&port), 0);
            assert!(!endpoint.has_link(device(&port)));
        });
    }
    for sender in 1..5 {
        bed.network.send_at(2 * MS, sender, HOST, LONG);
    }
    bed.network.run_until(10 * MS);
    let [a, b] = bed.filled(20 * MS, rates);
    assert!((0.95..1.02).contains(&(a + b)), "{a} {b}");
    let info = bed.links();
    assert_eq!((info.len(), info[0].incoming), (1, 4), "{info:?}");
}

impl Bed {
    /// The host's links.
    fn links(&self) -> Vec<turnstile_core::transport::host::LinkInfo> {
        let mut from = 0;
        let endpoint = self.network.endpoint(HOST);
        std::iter::from_fn(|| {
            let (next, info) = endpoint.links(from)?;
            from = next;
            Some(info)
        })
        .collect()
    }
}
