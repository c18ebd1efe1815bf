// SPDX-License-Identifier: GPL-2.0
//! Tables that grow ahead do so with the lock held: little at a time, and early enough.

use std::println;

use super::trust::whole;
use super::*;
use crate::transport::endpoint::trust::TICKET_BITS;
use crate::transport::testing::{asked, chunks, chunks_left, steps};

/// No call allocates more chunks, but the first one.
const MOST: usize = 64;
/// 1024 items to fill in each at most, and some steps to look at the tables.
const STEPS: u64 = MOST as u64 * 1024 + 4096;

fn ahead() -> (Messages, Io) {
    let config = Resolved {
        max_incoming: 4096,
        max_per_peer: 4096,
        max_half_open: 1024,
        max_remembered: 65_536,
        unscheduled: Unscheduled::Packets(8),
        ..config()
    };
    let (mut endpoint, io) = new(&config);
    endpoint.grow_ahead();
    (endpoint, io)
}

/// As `recvmsg`, `poll`, `bind` and `send` do. How many chunks it allocated, and its steps.
fn prepare(endpoint: &mut Messages) -> (usize, u64) {
    let before = (chunks(), steps());
    endpoint.prepare();
    (chunks() - before.0, steps() - before.1)
}

/// Messages come and are read, one by one, until as many are remembered as may be.
#[test]
fn making_room_ahead_takes_bounded_time() {
    let (mut endpoint, mut io) = ahead();
    let first = prepare(&mut endpoint);
    // Some of each table, however few messages there will be.
    assert!(first.0 <= 128, "{} chunks in the first call", first.0);
    let (mut worst, mut most) = (0, 0);
    for i in 0..30_000 {
        let (made, count) = prepare(&mut endpoint);
        (worst, most) = (worst.max(made), most.max(count));
        let from = host(i * 256 % 0xff_ff00 + i / 60_000, false);
        let before = chunks();
        for packet in whole(u64::from(i)) {
            endpoint.receive_known(NOW, &from, packet, &mut io);
        }
        io.sent.clear();
        assert_eq!(chunks(), before, "a packet allocates");
    }
    println!(
        "{} chunks at first, then at most {worst}; {most} steps",
        first.0
    );
    assert_eq!(
        (endpoint.counts(), io.delivered.len()),
        ((0, 0, 30_000), 30_000)
    );
    assert!(worst <= MOST, "{worst} chunks in one call");
    assert!(most <= STEPS, "{most} steps in one call");
}

/// What one call leaves, the next ones make: room for twice as many.
#[test]
fn later_calls_make_what_one_has_left() {
    let (mut endpoint, mut io) = ahead();
    let mut come = |endpoint: &mut Messages, i: u32| {
        for packet in whole(u64::from(i)) {
            endpoint.receive_known(NOW, &host(i * 256, false), packet, &mut io);
        }
        io.sent.clear();
    };
    for i in 0..8000 {
        prepare(&mut endpoint);
        come(&mut endpoint, i);
    }
    // All of these fit, with no call in between: those before have made room.
    for i in 8000..12_000 {
        come(&mut endpoint, i);
    }
    assert_eq!(endpoint.counts().2, 12_000);
    assert_eq!(prepare(&mut endpoint).0, MOST);
    let calls = (1..200).find(|_| prepare(&mut endpoint).0 == 0);
    assert!(calls.is_some_and(|calls| calls > 3), "{calls:?} calls");
    for i in 12_000..23_900 {
        come(&mut endpoint, i);
    }
    assert_eq!(endpoint.counts().2, 23_900);
}

/// Half as many as there are come at once, with no call in between; and there is one call for each
/// 64 that come.
#[test]
fn there_is_room_for_bursts_whenever_a_call_was_made() {
    let (mut endpoint, mut io) = ahead();
    let mut cookie = 0_u64;
    prepare(&mut endpoint);
    while endpoint.counts().1 < 4096 {
        assert!(prepare(&mut endpoint).0 <= MOST);
        let burst = 64.min(4096 - endpoint.counts().1);
        for _ in 0..burst {
            let packet = Packet::Sync(sync(cookie, 100_000));
            let from = host(cookie as u32 * 256, false);
            endpoint.receive_known(NOW, &from, packet, &mut io);
            cookie += 1;
        }
        io.sent.clear();
        assert_eq!(u64::from(endpoint.counts().1), cookie);
    }
    assert_eq!(endpoint.stats().get(Counter::SyncNoMemory), 0);
}

/// Devices that have been there from the first, and many: their tables are made in parts, too.
#[test]
fn links_make_no_call_longer() {
    let (mut endpoint, mut io) = ahead();
    for device in 1..32 {
        endpoint.set_link(NOW, device, 1_250_000_000);
    }
    let first = prepare(&mut endpoint);
    assert!(first.0 <= 192, "{} chunks in the first call", first.0);
    for cookie in 0..4000_u64 {
        let (made, count) = prepare(&mut endpoint);
        assert!(
            made <= MOST && count <= STEPS,
            "{made} chunks, {count} steps"
        );
        let from = host(cookie as u32 * 256, false);
        let mut sync = sync(cookie, 100_000);
        sync.echo = endpoint.ticket_of(NOW.0 >> TICKET_BITS, &from);
        let packet = Packet::Sync(sync);
        let device = cookie as u32 % 31 + 1;
        let before = chunks();
        endpoint.packet(NOW, 0, &from, device, 0, &packet, (), &mut io);
        io.sent.clear();
        assert_eq!(chunks(), before, "a packet allocates");
    }
    assert_eq!(endpoint.counts().1, 4000);
}

/// Without memory nothing is made, and it is tried again as soon as there is some.
#[test]
fn making_room_goes_on_when_there_is_memory_again() {
    let (mut endpoint, mut io) = ahead();
    for left in (0..400).step_by(7) {
        chunks_left(left);
        prepare(&mut endpoint);
        chunks_left(usize::MAX);
    }
    let cookies = 0..100;
    for cookie in cookies {
        let packet = Packet::Sync(sync(cookie, 100_000));
        endpoint.receive_known(NOW, &host(cookie as u32 * 256, false), packet, &mut io);
    }
    assert_eq!(endpoint.counts().1, 100);
    while prepare(&mut endpoint).0 != 0 {}
    assert!(!endpoint.is_room_scarce() && endpoint.is_prepared());
}

/// Room is made when there is not enough for half as many messages more, and then for as many more
/// as there are: so of thousands that come one by one few calls make any.
#[test]
fn few_calls_make_room() {
    for remember in [false, true] {
        let (mut endpoint, mut io) = ahead();
        let room = |endpoint: &Messages| {
            let room = endpoint.ahead.unwrap();
            if remember {
                room.remembered
            } else {
                room.ins
            }
        };
        let mut times = 0;
        for number in 0..4000_u32 {
            let before = room(&endpoint);
            while {
                endpoint.prepare();
                endpoint.ahead.unwrap().more
            } {}
            let has = room(&endpoint);
            times += u32::from(has != before);
            assert!(
                has >= (number + number / 2).min(4096),
                "for {has}, and {number} are there"
            );
            let from = host(number * 256, false);
            if remember {
                for packet in whole(number.into()) {
                    endpoint.receive_known(NOW, &from, packet, &mut io);
                }
            } else {
                let packet = Packet::Sync(sync(number.into(), 100_000));
                endpoint.receive_known(NOW, &from, packet, &mut io);
            }
            io.sent.clear();
        }
        let (_, ins, remembered) = endpoint.counts();
        assert_eq!(ins + remembered, 4000);
        // By a third each time.
        assert!((4..=20).contains(&times), "{times} times");
    }
}

/// Without memory a call asks once for each table, and goes away.
#[test]
fn without_memory_a_call_asks_once() {
    let (mut endpoint, _) = ahead();
    chunks_left(0);
    for _ in 0..10 {
        let before = asked();
        endpoint.prepare();
        let count = asked() - before;
        assert!((1..=3).contains(&count), "{count} times");
    }
    chunks_left(usize::MAX);
    while prepare(&mut endpoint).0 != 0 {}
    let before = asked();
    endpoint.prepare();
    assert_eq!(asked(), before);
}
