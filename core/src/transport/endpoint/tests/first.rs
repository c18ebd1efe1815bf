// SPDX-License-Identifier: GPL-2.0
//! A message whose SYNC and data come in one packet.

use super::*;
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
        more: 0,
    };
    Packet::First(First { sync, data })
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
