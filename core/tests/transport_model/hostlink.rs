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

/// A host that sends to two, to one of them so many messages without end.
fn busy(policy: u32, count: usize) -> Network {
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
    network.registry.window = 10 * MS;
    network.run_until(30 * MS);
    network
}

/// How long 100 kB take to this host, 1 or 2, beside so many messages without end to host 2.
fn beside(to: usize, policy: u32, count: usize) -> u64 {
    let mut network = busy(policy, count);
    let begin = network.now;
    let it = network.send_at(begin, 0, to, 100_000);
    network.run_until(begin + 400 * MS);
    let delivered = network.registry.messages[it].delivered;
    delivered.map_or(u64::MAX, |at| at - begin)
}

/// Of the messages of a peer the one that has just begun goes before those that have sent more.
#[test]
fn who_begins_goes_before_who_has_sent_more() {
    let alone = beside(2, uapi::POLICY_DCQCN, 0);
    for count in [1, 4, 16] {
        let took = beside(2, uapi::POLICY_DCQCN, count);
        println!(
            "100 kB take {} us beside {count}, {} alone",
            took / 1000,
            alone / 1000
        );
        assert!(took * 10 <= alone * 16, "{count}: {took} of {alone}");
    }
}

/// But those have their turns all the same, however many begin, and so do other peers.
#[test]
fn who_has_sent_more_goes_on() {
    for to in [1, 2] {
        let mut network = busy(uapi::POLICY_DCQCN, 1);
        // One after the other, so that one has always just begun.
        while network.now < 50 * MS {
            let it = network.send_at(network.now, 0, to, 100_000);
            while network.registry.messages[it].delivered.is_none() {
                network.run_until(network.now + 1000);
            }
        }
        let came = f64::from(network.registry.messages[0].bytes_by[4]);
        let part = came / (0.01 * 1.25e9 * 1450.0 / 1538.0);
        println!("beside those to host {to}: {part:.2} of the link");
        let least = if to == 2 { 0.15 } else { 0.45 };
        assert!(part >= least, "{to}: {part}");
    }
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
            let took = beside(1, policy, count);
            println!("{name}: 100 kB take {} us beside {count}", took / 1000);
            assert!(took < most, "{name}, {count}: {took}");
        }
    }
}
