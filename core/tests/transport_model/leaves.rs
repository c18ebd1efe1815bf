// SPDX-License-Identifier: GPL-2.0
//! Two leaves and two spines, and messages of a web search both ways.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config as PortConfig;
use turnstile_core::transport::config::Config;
use turnstile_workload::sizes::{self, PACKET, WEB_SEARCH};

use super::crossing::assert_clean;
use super::topology::{host_port, PAPERS};
use super::*;

/// Hosts at each leaf.
const HOSTS: usize = 4;
/// By which spine each host of the one leaf and each of the other send to one another, a bit each:
/// as a hash would have it.
const SPINES: usize = 0b0110_1001_1101_0110;

/// Hosts 0 to 3 are at one leaf, 4 to 7 at the other. Host `i`'s port is node `i`, its leaf's port
/// to it `8 + i`; from leaf `l` to spine `s` it is `16 + 2 l + s`, back `20 + 2 l + s`.
fn route(from: usize, to: usize) -> Vec<usize> {
    let (here, there) = (from / HOSTS, to / HOSTS);
    let last = 2 * HOSTS + to;
    if here == there {
        return vec![from, last];
    }
    let (one, other) = (from.min(to), from.max(to) - HOSTS);
    let spine = (SPINES >> (HOSTS * one + other)) & 1;
    vec![from, 16 + 2 * here + spine, 20 + 2 * there + spine, last]
}

/// 400 messages with such a load on the links in the middle, switches' ports with such a
/// configuration and room for 128 kB of data. How many packets of data these drop.
fn dropped(port: PortConfig, percent: u64, seed: u64) -> u64 {
    let link = Link {
        rate: 1_250_000_000,
        delay: 7_350,
        ..Link::default()
    };
    let mut network = Network::new(seed, Box::new(route));
    let config = Config::DEFAULT.validate(Some(link.rate)).unwrap();
    for _ in 0..2 * HOSTS {
        network.host(&config, false);
        network.node(host_port(), link);
    }
    for _ in 0..2 * HOSTS + 8 {
        let data_limit = 128_000;
        network.node(PortConfig { data_limit, ..port }, link);
    }
    let pairs = (0..HOSTS).flat_map(|a| (HOSTS..2 * HOSTS).flat_map(move |b| [(a, b), (b, a)]));
    network.acquaint(pairs);
    let bytes = sizes::mean(WEB_SEARCH) * f64::from(PACKET);
    let apart = bytes * 1e9 / (2.0 * link.rate as f64 * percent as f64 / 100.0);
    let mut at = [network.now + 1_000_000; 2];
    for n in 0..400 {
        // Each way Poisson.
        let share = (network.below(1 << 40) + 1) as f64 / (1_u64 << 40) as f64;
        at[n % 2] += (-share.ln() * apart) as u64;
        let share = network.below(1_000_000) as f64 / 1e6;
        let length = (sizes::at(WEB_SEARCH, share) * f64::from(PACKET)) as u32;
        let (a, b) = (network.below(4) as usize, HOSTS + network.below(4) as usize);
        let (from, to) = [(a, b), (b, a)][n % 2];
        network.send_at(at[n % 2], from, to, length.max(1));
    }
    network.run_to_the_end(100_000_000_000);
    let ports = network.nodes.iter().skip(2 * HOSTS);
    let dropped = ports.map(|node| node.port.stats(Band::Data).over_limit);
    let dropped = dropped.sum();
    assert_clean(&mut network, 2 * HOSTS);
    dropped
}

/// Tokens wait in three ports on their way, and what they ask for comes the closer together the
/// more these waits differ: nowhere too close for ports of 128 kB, though their queues have room
/// for a poll of tokens.
#[test]
fn leaves_and_spines_drop_no_data() {
    for port in [PAPERS, PortConfig::DEFAULT] {
        for (percent, seed) in [(60, 1), (90, 1), (90, 2)] {
            if (percent, seed) != (90, 1) && !is_long() {
                continue;
            }
            let dropped = dropped(port, percent, seed);
            assert_eq!(dropped, 0, "{percent} %, seed {seed}, {:?}", port.jitter);
        }
    }
}
