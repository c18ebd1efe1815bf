// SPDX-License-Identifier: GPL-2.0
//! Messages cross, whatever the network does.

use turnstile_core::transport::config::Config;

use super::network::host_port;
use super::*;

const G10: u64 = 1_250_000_000;

/// Hosts at one switch: host `i`'s port is node `2 i`, the switch's port to it `2 i + 1`.
pub(crate) fn star(seed: u64, config: &Config, hosts: usize, link: Link, v6: bool) -> Network {
    let mut network = Network::new(seed, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let config = config.validate(Some(link.rate)).unwrap();
    for _ in 0..hosts {
        network.host(&config, v6);
        network.node(host_port(), link);
        network.node(turnstile_core::config::Config::DEFAULT, link);
    }
    network
}

fn plain(rate: u64) -> Link {
    Link {
        rate,
        delay: 10_000,
        ..Link::default()
    }
}

#[test]
fn any_size_crosses_a_perfect_network() {
    for v6 in [false, true] {
        for length in [1, 1449, 1450, 1451, 14_500, 1_000_000, 20_000_000] {
            let mut network = star(u64::from(length), &Config::DEFAULT, 2, plain(G10), v6);
            let message = network.send_at(2_000_000, 0, 1, length);
            network.run_to_the_end(1_000_000_000);
            let message = &network.registry.messages[message];
            let (end, result) = message.result.expect("it ends");
            assert_eq!(result, Ok(()));
            let took = message.delivered.unwrap() - message.began;
            println!(
                "{length} bytes: {took} ns, {end}, {} events",
                network.handled
            );
            for host in 0..2 {
                for (counter, value) in network.endpoint(host).stats().iter() {
                    if value != 0 {
                        println!("  {host} {} {value}", counter.name());
                    }
                }
            }
        }
    }
}
