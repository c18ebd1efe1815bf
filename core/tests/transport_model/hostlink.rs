// SPDX-License-Identifier: GPL-2.0
//! Who is next on a host's own link, of the messages that it paces.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::uapi;

use super::topology::star;
use super::*;

const MS: u64 = 1_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 2_000,
        ..Link::default()
    }
}

/// How long 100 kB take to one host, beside so many messages without end to another one, which took
/// so much of the link meanwhile.
fn beside(policy: u32, count: usize) -> u64 {
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 3, link(), false);
    network.acquaint([(0, 1), (0, 2)]);
    for host in 1..3 {
        network.set_window(host, u32::MAX >> 2, 0);
    }
    for _ in 0..count {
        network.send_at(network.now, 0, 2, 512 << 20);
    }
    network.run_until(network.now + 30 * MS);
    let begin = network.now;
    let it = network.send_at(begin, 0, 1, 100_000);
    network.run_until(begin + 400 * MS);
    let delivered = network.registry.messages[it].delivered;
    delivered.map_or(u64::MAX, |at| at - begin)
}

/// Peers have turns, however many messages go to each.
#[test]
fn who_has_many_messages_keeps_no_other_peer_waiting() {
    for (name, policy, most) in [
        ("top", uapi::POLICY_TOP, 150_000),
        ("dcqcn", uapi::POLICY_DCQCN, 400_000),
        ("timely", uapi::POLICY_TIMELY, 1_000_000),
    ] {
        for count in [0, 1, 1000] {
            let took = beside(policy, count);
            println!("{name}: 100 kB take {} us beside {count}", took / 1000);
            assert!(took < most, "{name}, {count}: {took}");
        }
    }
}
