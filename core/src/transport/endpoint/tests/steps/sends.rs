// SPDX-License-Identifier: GPL-2.0
//! How many packets one call sends.

use super::*;

/// In a call of the timer.
const PACKETS: usize = 64;

/// Messages that begin with long bursts, all at once, as many that come in and want to be told of
/// what is lost, and sockets that are closed: the timer does it all, and no call sends more than
/// some packets.
#[test]
fn no_timer_sends_more_than_some_packets() {
    let config = Resolved {
        unscheduled: Unscheduled::Packets(1024),
        max_orphans: 1000,
        orphan_buffer: 1 << 30,
        ..large()
    };
    let (mut endpoint, mut io) = new(&config);
    let length = 400 * 1450;
    let mut ids = Vec::new();
    for i in 0..200 {
        let to = host(i, false);
        let what = Outgoing {
            source: 1,
            destination: 2,
            length: Some(length),
            deadline: None,
            coflow: 0,
            priority: None,
            mss: 1450,
            available: length,
            user: 0,
        };
        ids.push(endpoint.send(NOW, &to, &what, (), &mut io).unwrap());
        let sync = Packet::Sync(sync(u64::from(i), 100_000));
        endpoint.receive_known(NOW, &to, sync, &mut io);
    }
    for id in &ids[100..] {
        endpoint.orphan(NOW, *id, &mut io);
    }
    let fewer = Resolved {
        max_orphans: 1,
        ..config
    };
    endpoint.configure(NOW, &fewer, &mut io);
    let mut bursts = io.sent.iter().filter(|it| is_unscheduled(&it.1)).count();
    io.sent.clear();
    let (mut worst, mut calls) = (0, 0);
    // Late, so that everything is due at once; and it is all done without waiting for more.
    let now = NOW + Nanos(10_000_000);
    while endpoint.next_timer().is_some_and(|at| at <= now) {
        endpoint.timer(now, now.0 as u32, &mut io);
        worst = worst.max(io.sent.len());
        bursts += io.sent.iter().filter(|it| is_unscheduled(&it.1)).count();
        io.sent.clear();
        calls += 1;
        assert!(calls < 5000, "it does not end");
    }
    println!("{calls} calls, at most {worst} packets in one, {bursts} of bursts");
    assert!(worst <= PACKETS, "{worst} packets in one call");
    assert!(worst >= PACKETS / 2);
    // None of those that are left waits for another for ever.
    assert_eq!(endpoint.orphans().0, 1);
    assert!(bursts >= 101 * 400, "{bursts} packets");
}

fn is_unscheduled(packet: &Packet) -> bool {
    matches!(packet, Packet::Data(data) if data.token == 0)
}
