// SPDX-License-Identifier: GPL-2.0
//! Limits of the configuration and of memory, and what senders may choose.

use super::trust::{send, whole};
use super::*;
use crate::transport::bucket::{share, BURST};
use crate::transport::config::Policy;
use crate::transport::host::SendError;
use crate::transport::testing::chunks_left;

#[test]
fn no_more_messages_come_in_than_max_incoming() {
    let config = Resolved {
        max_incoming: 20,
        max_half_open: 1000,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    for n in 0..40 {
        endpoint.receive(
            NOW,
            &host(n * 256, false),
            Packet::Sync(sync(1, 100_000)),
            &mut io,
        );
    }
    // Of strangers half as many.
    assert_eq!(endpoint.counts().1, 10);
    for n in 100..140 {
        let from = host(n * 256, false);
        let mut first = sync(1, 100_000);
        io.take();
        endpoint.receive(NOW, &from, Packet::Sync(first), &mut io);
        if let Some(Packet::Challenge(challenge)) = io.take().last() {
            first.echo = challenge.echo;
            endpoint.receive(NOW, &from, Packet::Sync(first), &mut io);
        }
    }
    assert_eq!(endpoint.counts().1, 20);
    assert!(endpoint.stats().get(Counter::SyncLimitIncoming) >= 30);
}

/// However many addresses of one network have proved to be theirs, there are places for others.
#[test]
fn one_network_does_not_take_all_places() {
    for v6 in [false, true] {
        let (mut endpoint, mut io) = new(&config());
        let mut now = NOW;
        let mut cookie = 0;
        for minute in 0..3 {
            // Those that are kept open, and as many new ones.
            for from in (0..8).map(|n| host(n, v6)) {
                for kept in 0..1024 {
                    let probe = Sync {
                        probe: true,
                        ..sync(kept, 1)
                    };
                    endpoint.receive(now, &from, Packet::Sync(probe), &mut io);
                    let new = Packet::Sync(sync(kept + minute * 1024, 1));
                    endpoint.receive_known(now, &from, new, &mut io);
                    io.sent.clear();
                }
            }
            let most = endpoint.config().max_incoming;
            assert_eq!(endpoint.counts().1, (most * 4).div_ceil(5));
            for n in 1..100 {
                cookie += 1;
                let mut honest = host(n << 8, false);
                honest.ip[12] ^= 1;
                let before = endpoint.counts().1;
                let first = Packet::Sync(sync((1 << 40) | cookie, 1000));
                endpoint.receive_known(now, &honest, first, &mut io);
                assert_eq!(endpoint.counts().1, before + 1);
                let (cookie, code) = (Cookie((1 << 40) | cookie), ResetCode::Aborted);
                let reset = Packet::Reset(Reset { cookie, code });
                endpoint.receive(now, &honest, reset, &mut io);
            }
            now += Nanos(9 * Nanos::SECOND.0);
        }
        let limited = endpoint.stats().get(Counter::SyncLimitIncoming);
        assert!(limited > 1000, "{limited}");
    }
}

#[test]
fn no_more_messages_come_from_one_peer_than_max_per_peer() {
    let config = Resolved {
        max_per_peer: 10,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    // Of those that may be anybody's, a quarter.
    for cookie in 0..30 {
        endpoint.receive(NOW, &host(1, false), Packet::Sync(sync(cookie, 9)), &mut io);
    }
    assert_eq!(endpoint.counts().1, 2);
    assert_eq!(endpoint.stats().get(Counter::HalfOpenChallenged), 28);
    for cookie in 30..60 {
        let first = Packet::Sync(sync(cookie, 9));
        endpoint.receive_known(NOW, &host(1, false), first, &mut io);
    }
    assert_eq!(endpoint.counts().1, 10);
    assert_eq!(endpoint.stats().get(Counter::SyncLimitPeer), 22);
    endpoint.receive(NOW, &host(2, false), Packet::Sync(sync(1, 9)), &mut io);
    assert_eq!(endpoint.counts().1, 11);
}

#[test]
fn without_memory_nothing_begins_and_it_is_counted() {
    let (mut endpoint, mut io) = new(&config());
    chunks_left(0);
    let to = host(1, false);
    let refused = send(&mut endpoint, &to, &mut io);
    assert_eq!(refused, Err((SendError::NoMemory, ())));
    endpoint.receive(NOW, &to, Packet::Sync(sync(1, 9)), &mut io);
    chunks_left(usize::MAX);
    assert_eq!(endpoint.stats().get(Counter::OutNoMemory), 1);
    assert_eq!(endpoint.stats().get(Counter::SyncNoMemory), 1);
    assert_eq!(endpoint.counts(), (0, 0, 0));
    assert!(io.sent.is_empty());
    // Nothing is left half done: with memory it goes on.
    endpoint.receive(NOW, &to, Packet::Sync(sync(1, 9)), &mut io);
    assert!(send(&mut endpoint, &to, &mut io).is_ok());
    assert_eq!(endpoint.counts(), (1, 1, 0));
}

/// They take a sixteenth of the link.
#[test]
fn resets_are_limited_and_their_limit_is_refilled() {
    let (mut endpoint, mut io) = new(&config());
    let interval = endpoint.links.speed(0).link_rate.duration(share(44)).0;
    let mut send = |endpoint: &mut Messages, now: Nanos| {
        for cookie in 0..1000 {
            let probe = Sync {
                probe: true,
                ..sync(cookie, 9)
            };
            endpoint.receive(now, &host(1, false), Packet::Sync(probe), &mut io);
        }
        io.take().len() as u64
    };
    assert_eq!(send(&mut endpoint, NOW), BURST);
    assert_eq!(send(&mut endpoint, NOW), 0);
    assert_eq!(send(&mut endpoint, NOW + Nanos(interval * 3)), 3);
    assert_eq!(send(&mut endpoint, NOW + Nanos(interval * 4 - 1)), 0);
    let later = NOW + Nanos(interval * 10_000);
    assert_eq!(send(&mut endpoint, later), BURST);
    let suppressed = endpoint.stats().get(Counter::ResetSuppressed);
    assert_eq!(suppressed, 5000 - 3 - 2 * BURST);
}

/// A message whose sender wants grants and the first place.
#[test]
fn a_senders_wishes_count_only_where_the_configuration_says_so() {
    for (policy, sender_priority) in [
        (Policy::Top, false),
        (Policy::Top, true),
        (Policy::Ren, false),
        (Policy::ExpressPass, false),
    ] {
        let config = Resolved {
            policy,
            sender_priority,
            ..config()
        };
        let (mut endpoint, mut io) = new(&config);
        let wish = Sync {
            priority: Some(5),
            ren: true,
            ..sync(7, 100_000)
        };
        endpoint.receive(NOW, &host(1, false), Packet::Sync(wish), &mut io);
        let (_, index) = (0, endpoint.ins.next(0).unwrap());
        let message = endpoint.ins.get(index).unwrap();
        assert_eq!(message.ren, policy == Policy::Ren);
        assert_eq!(message.wish, sender_priority.then_some(5));
        assert_eq!(endpoint.stats().get(Counter::SyncWishIgnored), 1);
    }
}

#[test]
fn data_that_nobody_asked_for_is_not_taken() {
    let off = Resolved {
        unscheduled: Unscheduled::Packets(0),
        ..config()
    };
    let (mut endpoint, mut io) = new(&off);
    let from = host(1, false);
    let announced = Sync {
        unscheduled: 50_000,
        ..sync(7, 100_000)
    };
    endpoint.receive(NOW, &from, Packet::Sync(announced), &mut io);
    let token = wire::Token {
        cookie: Cookie(7),
        sequence: 77,
        timestamp: 1,
        priority: 0,
        grant: None,
        worth: 1,
    };
    for n in 0..20 {
        endpoint.receive(NOW, &from, answer(&token, n * 1450, 1450), &mut io);
    }
    // Nor what was announced, as the option is off here.
    let Packet::Data(data) = answer(&token, 30_000, 1450) else {
        return;
    };
    let free = Data {
        token: 0,
        timestamp: 0,
        flags: crate::header::FLAG_UNSCHEDULED,
        ..data
    };
    endpoint.receive(NOW, &from, Packet::Data(free), &mut io);
    assert_eq!(endpoint.stats().get(Counter::DataUnasked), 21);
    assert_eq!(endpoint.incoming(NOW, 0).unwrap().2.received, 0);
}

/// Data for which there is no memory is asked for again, and not at the link's rate: else a socket
/// whose buffer was made smaller has the same bytes sent over and over.
#[test]
fn what_finds_no_memory_is_asked_for_again_after_a_while() {
    for policy in [Policy::ExpressPass, Policy::Top, Policy::Ren] {
        let config = Resolved { policy, ..config() };
        let (mut endpoint, mut io) = new(&config);
        let from = host(1, false);
        let begin = Sync {
            ren: policy == Policy::Ren,
            ..sync(7, 20 * 1450)
        };
        let rtt = Nanos(20_000);
        // What the sender still has to send: the bytes that the receiver lacks, in turn.
        let (mut now, mut next, mut sent) = (NOW, 0, 0);
        io.full = true;
        endpoint.receive(now, &from, Packet::Sync(begin), &mut io);
        let mut under_way = Vec::new();
        while io.delivered.is_empty() {
            if now >= NOW + Nanos(1_000_000_000) {
                io.full = false;
            }
            assert!(
                now < NOW + Nanos(1_200_000_000),
                "{policy:?}: it does not go on"
            );
            for packet in io.take() {
                match packet {
                    Packet::Token(token) => {
                        let data = answer(&token, next * 1450, 1450);
                        under_way.push((now + rtt, data));
                        next = (next + 1) % 20;
                        sent += u32::from(io.full);
                    }
                    Packet::Challenge(challenge) => {
                        let echo = Sync {
                            echo: challenge.echo,
                            ..begin
                        };
                        under_way.push((now + rtt, Packet::Sync(echo)));
                    }
                    _ => {}
                }
            }
            let timer = endpoint.next_timer().unwrap_or(Nanos::MAX);
            let due = under_way.first().map_or(Nanos::MAX, |(at, _)| *at);
            now = now.max(timer.min(due));
            if due <= now {
                let (_, packet) = under_way.remove(0);
                endpoint.receive(now, &from, packet, &mut io);
            } else {
                endpoint.timer(now, now.0 as u32, &mut io);
            }
        }
        // One in 8 ms, after some at first.
        assert!(sent < 250, "{policy:?}: {sent} packets for nothing");
    }
}

/// Messages whose end is confirmed are remembered for a while, too, but no more of them than there
/// is room for.
#[test]
fn no_more_are_remembered_than_max_remembered() {
    let config = Config {
        unscheduled: 8,
        max_remembered: 16,
        ..Config::DEFAULT
    };
    let (mut endpoint, mut io) = new(&config.validate(None).unwrap());
    for cookie in 1..100 {
        let from = host((cookie as u32) << 16, false);
        for packet in whole(cookie) {
            endpoint.receive_known(NOW, &from, packet, &mut io);
        }
        let ack = closing::final_ack(Cookie(cookie), 1000, 0);
        endpoint.receive(NOW, &from, ack, &mut io);
    }
    assert!(endpoint.counts().2 <= 16, "{:?}", endpoint.counts());
    assert!(endpoint.stats().get(Counter::SyncLimitRemembered) >= 80);
}
