// SPDX-License-Identifier: GPL-2.0
//! Receivers that get messages of different lengths, and learn different priorities, at the same
//! senders.

use turnstile_core::transport::config::Config;

use super::topology::{host_port, PAPERS};
use super::*;

const G1: u64 = 125_000_000;
const MS: u64 = 1_000_000;

/// Host 0, of 1 Gbit/s, gets short messages of hosts 9 to 12, and 10 MB of each of hosts 1 to 4.
/// These send 100 MB to one other host each, which gets nothing else: ten times as much goes first
/// where the one gives its longest messages the last of its priorities, and the other does so with
/// what is longer still. Not for long: host 0's link is never idle.
#[test]
fn who_gets_short_messages_gets_long_ones_too() {
    let route = |from: usize, to: usize| vec![2 * from, 2 * to + 1];
    let mut network = Network::new(9, Box::new(route));
    for host in 0..13 {
        let rate = if host == 0 { G1 } else { 10 * G1 };
        let link = Link {
            rate,
            delay: 2000,
            ..Link::default()
        };
        let config = Config::DEFAULT.validate(Some(rate)).unwrap();
        network.host(&config, false);
        network.node(host_port(), link);
        network.node(PAPERS, link);
    }
    let known = (1..5).flat_map(|from| [(from, 0), (from, from + 4)]);
    network.acquaint(known.chain((9..13).map(|from| (from, 0))));
    let began = network.now;
    let victims: Vec<_> = (1..5)
        .map(|from| {
            network.send_at(began, from, from + 4, 100_000_000);
            network.send_at(began, from, 0, 10_000_000)
        })
        .collect();
    for n in 0..900 {
        let at = began + n * MS / 10 + network.below(50_000);
        network.send_at(at, 9 + n as usize % 4, 0, 2000);
    }
    let came = |network: &Network| -> u64 {
        let all = &network.registry.messages;
        victims.iter().map(|it| u64::from(all[*it].received)).sum()
    };
    for tenth in 0..8 {
        let before = came(&network);
        network.run_until(began + (tenth + 1) * 10 * MS);
        let part = (came(&network) - before) as f64 / (G1 / 100) as f64;
        println!("after {} ms: {part:.3}", 10 * tenth);
        // The short ones take 16 % of the link.
        assert!(part > 0.7, "after {} ms: {part:.3}", 10 * tenth);
    }
}
