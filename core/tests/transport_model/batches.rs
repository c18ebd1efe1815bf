// SPDX-License-Identifier: GPL-2.0
//! Senders whose adapters wait for more before they send.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config as PortConfig;
use turnstile_core::transport::config::Config;

use super::crossing::assert_clean;
use super::topology::host_port;
use super::*;

/// bytes/s.
const RATE: u64 = 1_250_000_000;
const MS: u64 = 1_000_000;

/// So many hosts, whose adapters wait so long, send 75 kB each to one that another one's long
/// message comes to. Packets that the port before it dropped, and the most bytes in it.
fn beside_long(hosts: usize, waits: u64, room: u32) -> (u64, u64) {
    let mut network = Network::new(9, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let mut config = Config::DEFAULT;
    config.worth = 1;
    let config = config.validate(Some(RATE)).unwrap();
    for host in 0..hosts + 2 {
        let link = Link {
            rate: RATE,
            delay: 5_000,
            ..Link::default()
        };
        network.host(&config, false);
        let own = PortConfig {
            jitter: PortConfig::DEFAULT.jitter,
            ..host_port()
        };
        let waits = if host == 0 { 0 } else { waits };
        network.node(own, Link { waits, ..link });
        let switch = PortConfig {
            data_limit: room,
            ..PortConfig::DEFAULT
        };
        network.node(switch, link);
    }
    network.acquaint((1..hosts + 2).map(|host| (host, 0)));
    network.run_until(network.now + 10 * MS);
    let begin = network.now;
    network.send_at(begin, hosts + 1, 0, 50_000_000);
    for round in 1..=4 {
        for host in 1..=hosts {
            network.send_at(begin + round * 8 * MS, host, 0, 75_000);
        }
    }
    network.run_to_the_end(begin + 1000 * MS);
    assert_clean(&mut network, hosts + 2);
    let data = network.nodes[1].port.stats(Band::Data);
    (data.over_limit, data.max_bytes)
}

/// What adapters keep back comes at once, and finds in the port before the receiver what may come
/// unasked: that has to have room for what the link carries while they wait beside
/// `unscheduled-buffer`. Not all of that is used here, so that 12 us fit into 128 kB.
#[test]
fn ports_need_room_for_what_adapters_keep_back() {
    for hosts in [4, 16] {
        for waits in [0, 12_000, 24_000, 48_000] {
            let [(dropped, _), (none, most)] =
                [128_000, 1_000_000].map(|room| beside_long(hosts, waits, room));
            println!("{hosts} hosts, {waits} ns: {dropped} dropped of 128 kB, {most} B");
            assert!(waits > 12_000 || dropped == 0);
            let bound = 125_000 + waits * RATE / 1_000_000_000;
            assert!(none == 0 && most <= bound, "{most} B, {bound}");
        }
    }
}
