// SPDX-License-Identifier: GPL-2.0
//! Networks for several tests.

use turnstile_core::port::config::{Config as PortConfig, Expiry, Tokens};
use turnstile_core::transport::config::Config;

use super::*;

/// The papers' switch: `jitter 0`, so that limit and expiry are as configured.
pub(crate) const PAPERS: PortConfig = PortConfig {
    jitter: Nanos::ZERO,
    ..PortConfig::DEFAULT
};

/// A port as a host has it, by `tc-configs/host-nic.sh`, but for its jitter: the model's clocks are
/// exact.
pub(crate) fn host_port() -> PortConfig {
    PortConfig {
        tokens: Tokens::Share(100_000_000),
        token_expiry: Expiry::Off,
        token_limit: 64,
        unscheduled: 0,
        ..PAPERS
    }
}

/// Hosts at one switch: host `i`'s port is node `2 i`, the switch's port to it `2 i + 1`.
pub(crate) fn star(seed: u64, config: &Config, hosts: usize, link: Link, v6: bool) -> Network {
    let mut network = Network::new(seed, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let config = config.validate(Some(link.rate)).unwrap();
    for _ in 0..hosts {
        network.host(&config, v6);
        network.node(host_port(), link);
        network.node(PAPERS, link);
    }
    network
}

/// `pairs` of hosts, `0..pairs` sending to `pairs..2 * pairs`, over one link.
pub(crate) fn dumbbell(seed: u64, config: &Config, pairs: usize, link: Link) -> Network {
    // Nodes 0 and 1: the link, left to right and back. Host i: its own port, and the switch's to
    // it.
    let route = move |from: usize, to: usize| {
        let (left, right) = (from < pairs, to < pairs);
        let mut route = vec![2 + 2 * from];
        if left != right {
            route.push(usize::from(!left));
        }
        route.push(2 + 2 * to + 1);
        route
    };
    let mut network = Network::new(seed, Box::new(route));
    let ports = PAPERS;
    network.node(ports, link);
    network.node(ports, link);
    let config = config.validate(Some(link.rate)).unwrap();
    for _ in 0..2 * pairs {
        network.host(&config, false);
        network.node(host_port(), link);
        network.node(ports, link);
    }
    network
}
