// SPDX-License-Identifier: GPL-2.0
//! The tables give memory back when few messages are left, a little at once, and work on.

use super::trust::{gives_a_ticket, send, whole};
use super::*;
use std::println;

use crate::transport::testing::chunks;

fn large() -> Resolved {
    Resolved {
        unscheduled: Unscheduled::Packets(8),
        max_incoming: 65_536,
        max_outgoing: 1 << 19,
        max_per_peer: 65_536,
        max_half_open: 65_536,
        max_remembered: 1 << 19,
        ..config()
    }
}

/// Sixty thousand messages that go out, come in, are remembered and forgotten, twice: afterwards
/// the endpoint has about the chunks that it had at first.
#[test]
fn after_sixty_thousand_messages_memory_is_given_back() {
    const COUNT: u32 = 60_000;
    let (mut endpoint, mut io) = new(&large());
    let mut now = NOW;
    let mut first = 0;
    for round in 0..3 {
        let count = if round == 0 { 50 } else { COUNT };
        for i in 0..count {
            let from = host(i * 64, false);
            gives_a_ticket(&mut endpoint, &from, &mut io);
            for packet in whole((u64::from(i) << 2) | round) {
                endpoint.receive_known(now, &from, packet, &mut io);
            }
            let half = host(i, true);
            endpoint.receive(now, &half, Packet::Sync(sync(u64::from(i), 5000)), &mut io);
            send(&mut endpoint, &half, &mut io).unwrap();
            io.sent.clear();
        }
        let (outs, ins, remembered) = endpoint.counts();
        assert!(
            outs == count && ins > count / 3 && remembered >= count / 2,
            "{ins} {remembered}"
        );
        let most = chunks();
        let mut calls = 0_u64;
        let end = now + Nanos(90 * Nanos::SECOND.0);
        while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
            now = now.max(at);
            let before = chunks();
            endpoint.timer(now, now.0 as u32, &mut io);
            assert!(before.saturating_sub(chunks()) <= 64, "in one call");
            io.sent.clear();
            calls += 1;
        }
        now = end;
        assert_eq!(endpoint.counts(), (0, 0, 0));
        println!(
            "{round}: {most} chunks, then {} after {calls} calls",
            chunks()
        );
        if round == 0 {
            first = chunks();
        } else {
            assert!(most > 5000, "{most}");
            assert!(chunks() <= first + most / 8, "{} of {most}", chunks());
        }
    }
}

/// One message that stays, begun last: the rest goes when that has ended, or before.
#[test]
fn one_message_that_stays_keeps_no_more_than_it_must() {
    let (mut endpoint, mut io) = new(&large());
    let ids: Vec<OutId> = (0..20_000)
        .map(|n| send(&mut endpoint, &host(n, false), &mut io).unwrap())
        .collect();
    io.sent.clear();
    for id in &ids[1..] {
        endpoint.abort(NOW, *id, &mut io);
    }
    let most = chunks();
    let mut now = NOW;
    for _ in 0..20_000 {
        now += Nanos(300_000);
        endpoint.timer(now, 0, &mut io);
        io.sent.clear();
    }
    assert!(endpoint.out_mut(ids[0]).is_some());
    assert!(ids[1..].iter().all(|id| endpoint.out_mut(*id).is_none()));
    assert!(chunks() * 4 < most, "{} of {most}", chunks());
    // And it grows again, with ids that nothing had before.
    let again = send(&mut endpoint, &host(7, false), &mut io).unwrap();
    assert!(!ids.contains(&again));
}
