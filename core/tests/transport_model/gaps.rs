// SPDX-License-Identifier: GPL-2.0
//! Packets that overtake many others, where no RESEND gets through.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::Packet;

use super::crossing::assert_clean;
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;
const HOLE: u64 = 2_000_000_000;

fn is_lost(packet: &Packet) -> bool {
    matches!(packet, Packet::Resend(_) | Packet::Ack(_))
}

/// A third of the packets is late by up to 4 ms, and nothing that the receiver says but its tokens
/// gets through for 2 s. It keeps as much as it has places for, counts the rest, and has it all
/// once it is heard again.
#[test]
fn what_found_no_place_is_counted_and_sent_again() {
    let mut all = 0;
    for v6 in [false, true] {
        for known in [false, true] {
            let link = Link {
                rate: 1_250_000_000,
                delay: 8_000,
                reorder: 300_000,
                late: 4_000_000,
                ..Link::default()
            };
            let mut network = star(1, &Config::DEFAULT, 2, link, v6);
            let mss = if v6 { 1430 } else { 1450 };
            let length = 700 * mss;
            let mut what = network.plain(length);
            what.length = known.then_some(length);
            // It does not end before the receiver is heard.
            what.available = length - 100;
            let message = network.send_as(BEGIN, 0, 1, length, what);
            network.hold(message, BEGIN + HOLE);
            network.hole = Some(is_lost);
            network.run_until(BEGIN + HOLE);
            let stats = network.endpoint(1).stats();
            let dropped = stats.get(Counter::DataNoPlace);
            let received = network.registry.messages[message].received;
            println!("v6 {v6}, {known}: {received} B in order, no place for {dropped} packets");
            // Each packet is received, taken or counted.
            let came = stats.get(Counter::DataReceived) + stats.get(Counter::UnscheduledReceived);
            let counted = dropped + stats.get(Counter::DataDuplicate);
            let now = BEGIN + HOLE;
            let taken = network
                .endpoint(1)
                .incoming(nanos(now), 0)
                .unwrap()
                .2
                .received;
            assert_eq!(came - counted, u64::from(taken.div_ceil(mss)));
            all += dropped;
            network.hole = None;
            network.run_to_the_end(now + 1_000_000_000);
            assert!(network.registry.messages[message].delivered.is_some());
            assert_clean(&mut network, 2);
        }
    }
    assert!(all > 100, "{all} packets found no place");
}
