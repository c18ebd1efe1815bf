// SPDX-License-Identifier: GPL-2.0
//! A message whose SYNC and data come in one packet.

use super::*;
use crate::transport::wire::Delivered;
use crate::transport::wire::First;

fn first(cookie: u64, destination: u16) -> Packet {
    let sync = Sync {
        destination,
        unscheduled: 1000,
        ..sync(cookie, 1000)
    };
    let data = Data {
        cookie: sync.cookie,
        token: 0,
        timestamp: 0,
        offset: 0,
        len: 1000,
        flags: crate::header::FLAG_UNASKED,
        more: 1,
    };
    Packet::First(First {
        sync,
        data,
        prompt: true,
        delivered: Delivered::NONE,
    })
}

/// Who knows a message's cookie and shows nothing adds nothing to the message by a packet that says
/// it is another one.
#[test]
fn one_that_contradicts_a_message_is_no_part_of_it() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(7, 1000)), &mut io);
    let received = |endpoint: &Messages| endpoint.incoming(NOW, 0).unwrap().2.received;
    endpoint.receive(NOW, &from, first(7, 3), &mut io);
    assert_eq!(received(&endpoint), 0);
    assert_eq!(endpoint.stats().get(Counter::DataUnknown), 1);
    // A repetition is.
    endpoint.receive(NOW, &from, first(8, 2), &mut io);
    assert_eq!(endpoint.ins.len(), 2);
    endpoint.receive(NOW, &from, first(8, 2), &mut io);
    assert_eq!(endpoint.ins.len(), 2);
    assert_eq!(endpoint.stats().get(Counter::DataUnknown), 1);
}

/// A stranger's first message is delivered when it has shown its address, and with that it has a
/// ticket: its second one is delivered at once.
#[test]
fn who_shows_its_address_has_a_ticket() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    let with = |packet: Packet, echo: u64| match packet {
        Packet::First(it) => Packet::First(First {
            sync: Sync { echo, ..it.sync },
            ..it
        }),
        other => other,
    };
    endpoint.receive(NOW, &from, first(7, 2), &mut io);
    let asked = |io: &mut Io, ticket: bool| {
        io.take().into_iter().find_map(|packet| match packet {
            Packet::Challenge(it) if it.ticket == ticket => Some(it.echo),
            _ => None,
        })
    };
    let echo = asked(&mut io, false).expect("a CHALLENGE");
    assert!(io.delivered.is_empty());
    let Packet::First(it) = with(first(7, 2), echo) else {
        unreachable!()
    };
    endpoint.receive(NOW, &from, Packet::Sync(it.sync), &mut io);
    assert_eq!(io.delivered.len(), 1);
    let ticket = asked(&mut io, true).expect("a ticket");
    endpoint.receive(NOW, &from, with(first(8, 2), ticket), &mut io);
    assert_eq!(io.delivered.len(), 2);
}
