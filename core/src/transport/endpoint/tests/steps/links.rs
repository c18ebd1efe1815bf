// SPDX-License-Identifier: GPL-2.0
//! However many links there are, a packet takes as many steps as with one.

use super::*;
use crate::transport::endpoint::trust::TICKET_BITS;

/// All links that there may be but the shared one.
const LINKS: u32 = 31;

/// Messages come in by so many links, each from another host with a ticket.
fn with_links(links: u32, n: u32) -> (Messages, Io) {
    let (mut endpoint, mut io) = new(&large());
    for device in 1..=links {
        endpoint.set_link(NOW, device, 1_250_000_000);
    }
    for i in 0..n {
        let from = host(i, false);
        let mut sync = sync(7, 100_000);
        sync.echo = endpoint.ticket_of(NOW.0 >> TICKET_BITS, &from);
        let packet = Packet::Sync(sync);
        endpoint.packet(NOW, 0, &from, 1 + i % links, 0, &packet, (), &mut io);
        io.sent.clear();
    }
    assert_eq!(endpoint.counts().1, n);
    (endpoint, io)
}

/// The timer is late, so that each packet finds as much to do as one call may: tokens of all links.
#[test]
fn many_links_cost_no_more_than_one() {
    let mut measured = Measured::default();
    for n in [1000, 10_000] {
        let mut worst = Vec::new();
        for links in [1, 2, LINKS] {
            let (mut endpoint, mut io) = with_links(links, n);
            let mut packet = Watch::new(n, "a packet, and tokens of all links");
            let mut timer = Watch::new(n, "a timer, and tokens of all links");
            let mut sent = 0;
            for i in 1..=200 {
                let now = NOW + Nanos(i * 2_000_000);
                let stray = Packet::Fin(Fin {
                    cookie: Cookie(3),
                    length: 9,
                });
                io.sent.clear();
                let from = host(n, true);
                let device = 1 + i as u32 % links;
                packet.call(|| {
                    assert!(endpoint.has_link(device));
                    endpoint.packet(now, 0, &from, device, 0, &stray, (), &mut io);
                });
                sent = sent.max(io.sent.len());
                timer.call(|| endpoint.timer(now, 0, &mut io));
            }
            println!("{links} links, at most {sent} packets in a call");
            worst.push((packet.worst, timer.worst));
            measured.end(packet, 2000);
            measured.end(timer, 5000);
        }
        // Though more tokens are due: each link makes up for some.
        let (one, all) = (worst[0], worst[2]);
        assert!(all.0 <= 2 * one.0 && all.1 <= 2 * one.1, "{worst:?}");
    }
}

/// Packets come by more devices than there are links: each is told of, and some may take the place
/// of others, or there is none for them.
#[test]
fn more_devices_than_links_take_a_constant_number_of_steps() {
    let mut measured = Measured::default();
    for taken in [0, LINKS] {
        let (mut endpoint, mut io) = with_links(LINKS, taken);
        let mut watch = Watch::new(100, "a packet by another device");
        for i in 0..1000 {
            let device = 1 + i * 7 % 100;
            let from = host(9, true);
            let stray = Packet::Fin(Fin {
                cookie: Cookie(3),
                length: 9,
            });
            watch.call(|| {
                if !endpoint.has_link(device) {
                    endpoint.set_link(NOW, device, 125_000_000);
                }
                endpoint.packet(NOW, 0, &from, device, 0, &stray, (), &mut io);
            });
            io.sent.clear();
        }
        measured.end(watch, 220);
    }
}
