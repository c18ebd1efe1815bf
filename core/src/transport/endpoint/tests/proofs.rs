// SPDX-License-Identifier: GPL-2.0
//! What proves a sender's address proves that one alone, for its message, its ports and its time.

use super::trust::{data_unscheduled, echo, ticket, whole_showing, with_unscheduled};
use super::*;

/// A host that has a ticket of its own shows it in the name of another one.
#[test]
fn a_ticket_of_one_address_proves_no_other() {
    for v6 in [false, true] {
        let (mut endpoint, mut io) = new(&with_unscheduled());
        let (attacker, victim) = (host(1, v6), host(2, v6));
        for packet in whole_showing(7, 0) {
            endpoint.receive(NOW, &attacker, packet, &mut io);
        }
        let number = echo(&io.take()).expect("a CHALLENGE");
        endpoint.receive(NOW, &attacker, whole_showing(7, number)[0], &mut io);
        let ticket = ticket(&io.take()).expect("a ticket");
        assert_eq!(io.delivered.len(), 1);
        for packet in whole_showing(8, ticket) {
            endpoint.receive(NOW, &victim, packet, &mut io);
        }
        assert_eq!(io.delivered.len(), 1, "IPv6 {v6}: in the name of another");
    }
}

/// What a receiver sent for message 7 of a host: the number of its CHALLENGE.
fn challenged() -> (Messages, Io, Address, u64) {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    for packet in whole_showing(7, 0) {
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    let number = echo(&io.take()).expect("a CHALLENGE");
    (endpoint, io, from, number)
}

/// The number of a CHALLENGE is right for the message that it was for, and for 17 seconds; for any
/// ports, as a forged SYNC with others may have drawn it. Each is tried alone, as one that is wrong
/// would hide another.
#[test]
fn an_echo_is_of_one_message_and_its_time() {
    let (mut endpoint, mut io, from, number) = challenged();
    endpoint.receive(NOW, &from, whole_showing(7, number)[0], &mut io);
    assert_eq!(io.delivered.len(), 1, "the right one");

    let (mut endpoint, mut io, from, number) = challenged();
    for packet in whole_showing(8, number) {
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    assert_eq!(io.delivered.len(), 0, "another cookie");

    // These come to a receiver that keeps nothing of the message. It has the same keys.
    let again = |at: Nanos, destination: u16| {
        let (_, _, from, number) = challenged();
        let (mut endpoint, mut io) = new(&with_unscheduled());
        let [mut first, data] = whole_showing(7, number);
        if let Packet::Sync(sync) = &mut first {
            sync.destination = destination;
        }
        endpoint.receive(at, &from, first, &mut io);
        endpoint.receive(at, &from, data, &mut io);
        io.delivered.len()
    };
    let seconds = |n: u64| NOW + Nanos(n * Nanos::SECOND.0);
    assert_eq!(again(NOW, 2), 1, "the same");
    assert_eq!(again(NOW, 3), 1, "another port");
    assert_eq!(again(seconds(18), 2), 0, "too old");
}

/// Data of full length from a stranger counts with its bytes, and no more: what tokens and
/// challenges follow stay below three times of what came.
#[test]
fn long_data_of_a_stranger_draws_no_more_than_three_times_its_bytes() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    let first = Sync {
        unscheduled: 1450,
        ..sync(7, 1_000_000)
    };
    let mut came = 0;
    for packet in [Packet::Sync(first), data_unscheduled(7, 0, 1450)] {
        came += packet.bytes() + 28;
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    let (mut now, end) = (NOW, NOW + Nanos(20 * Nanos::SECOND.0));
    while let Some(next) = endpoint.next_timer().filter(|at| *at < end) {
        now = now.max(next) + Nanos(1000);
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    let went: u32 = io.sent.iter().map(|it| it.2).sum();
    assert!(went > came && went <= 3 * came, "{went} bytes for {came}");
}
