// SPDX-License-Identifier: GPL-2.0
//! What is sent without tokens because its receiver allows it.

use std::collections::VecDeque;

use super::trust::whole;
use super::*;
use crate::transport::allowance::{HOLDS, LEAST, UNIT};

fn plain(length: u32, available: u32) -> Outgoing {
    Outgoing {
        source: 1,
        destination: 2,
        length: Some(length),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available,
        user: 0,
    }
}

/// Begins a message; what its SYNC announces, and the data that followed at once.
fn begin(
    endpoint: &mut Messages,
    io: &mut Io,
    now: Nanos,
    length: u32,
    available: u32,
) -> (Cookie, u32, Vec<Data>) {
    let to = host(1, false);
    endpoint
        .send(now, &to, &plain(length, available), (), io)
        .unwrap();
    let sent = io.take();
    let sync = match sent[0] {
        Packet::Sync(sync) => sync,
        Packet::First(first) => first.sync,
        _ => panic!("{sent:?}"),
    };
    let data = sent.iter().filter_map(|packet| match packet {
        Packet::Data(data) => Some(*data),
        Packet::First(first) => Some(first.data),
        _ => None,
    });
    (sync.cookie, sync.unscheduled, data.collect())
}

fn ack(cookie: Cookie, received: u32, allowance: u32, last: bool) -> Packet {
    Packet::Ack(Ack {
        cookie,
        received,
        window: MAX_WINDOW,
        allowance: (allowance / UNIT) as u16,
        last,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    })
}

const MAX_WINDOW: u32 = 1 << 24;

/// Of any message its first packets go at once, as many as the receiver allows, and as data: ports
/// have a place for it. What has come may be sent again, and what the receiver says next counts.
#[test]
fn the_first_bytes_of_any_message_go_as_far_as_its_receiver_allows() {
    let (mut endpoint, mut io) = new(&config());
    let to = host(1, false);
    // Nothing is known of the receiver: one short packet.
    let (first, announced, data) = begin(&mut endpoint, &mut io, NOW, 100, 100);
    assert_eq!((announced, data.len()), (100, 1));
    let (_, announced, data) = begin(&mut endpoint, &mut io, NOW, 100, 100);
    assert_eq!((announced, data.len()), (0, 0));
    endpoint.receive(NOW, &to, ack(first, 100, 16_000, true), &mut io);
    io.take();
    let (long, announced, data) = begin(&mut endpoint, &mut io, NOW, 1 << 20, 1 << 20);
    assert_eq!((announced, data.len()), (14_500, 10));
    for (n, data) in data.iter().enumerate() {
        assert_eq!((data.offset, data.len), (n as u32 * 1450, 1450));
        let unasked = crate::header::FLAG_UNASKED;
        assert_eq!((data.flags, data.token, data.timestamp), (unasked, 0, 0));
    }
    let sent = endpoint.stats().get(Counter::UnscheduledSent);
    assert_eq!(sent, 11);
    // 620 bytes are left.
    assert_eq!(begin(&mut endpoint, &mut io, NOW, 900, 900).1, 0);
    assert_eq!(begin(&mut endpoint, &mut io, NOW, 300, 300).1, 300);
    // Not all of the first part has come.
    endpoint.receive(NOW, &to, ack(long, 10_000, 16_000, false), &mut io);
    assert_eq!(begin(&mut endpoint, &mut io, NOW, 900, 900).1, 0);
    endpoint.receive(NOW, &to, ack(long, 14_500, 16_000, false), &mut io);
    io.take();
    // What is written counts, whole packets of it.
    let (_, announced, data) = begin(&mut endpoint, &mut io, NOW, 10_000, 4000);
    assert_eq!((announced, data.len()), (2900, 2));
    // An allowance holds for a second.
    let late = NOW + HOLDS;
    assert_eq!(begin(&mut endpoint, &mut io, late, 300, 300).1, 0);
}

/// A receiver that allows more than anybody should cannot make a host send that much.
#[test]
fn no_more_is_sent_than_all_would_be_allowed_here() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let to = host(1, false);
    let (first, ..) = begin(&mut endpoint, &mut io, NOW, 100, 100);
    let all = u32::from(u16::MAX) * UNIT;
    endpoint.receive(NOW, &to, ack(first, 100, all, true), &mut io);
    io.take();
    let length = config.unscheduled_buffer + 1;
    let (_, announced, _) = begin(&mut endpoint, &mut io, NOW, length, length);
    assert_eq!(announced, config.unscheduled_buffer / 1538 * 1450);
}

/// Whatever becomes of a message, its part of the allowance is free again.
#[test]
fn what_is_aborted_or_fails_is_not_under_way() {
    let (mut endpoint, mut io) = new(&config());
    let to = host(1, false);
    for round in 0..3 {
        let (cookie, announced, _) = begin(&mut endpoint, &mut io, NOW, 100, 100);
        assert_eq!(announced, 100, "{round}");
        match round {
            0 => {
                let (_, id, ..) = endpoint.outgoing(NOW, 0).unwrap();
                assert!(endpoint.abort(NOW, id, &mut io).is_some());
            }
            1 => {
                let code = ResetCode::NoSocket;
                let reset = Packet::Reset(Reset { cookie, code });
                endpoint.receive(NOW, &to, reset, &mut io);
            }
            _ => endpoint.receive(NOW, &to, ack(cookie, 100, 0, true), &mut io),
        }
        io.take();
    }
    assert_eq!(begin(&mut endpoint, &mut io, NOW, 100, 100).1, 100);
}

fn allowance(sent: &[Packet]) -> Option<u32> {
    sent.iter().find_map(|packet| match packet {
        Packet::Ack(ack) => Some(u32::from(ack.allowance) * UNIT),
        _ => None,
    })
}

/// Each of those that send has an equal part of what all may send, and none more than the link
/// carries in a round trip, nor at first more than a quarter. Who has proved nothing takes nothing
/// of it.
#[test]
fn all_allowances_fit_into_the_buffer() {
    let config = config();
    let all = config.unscheduled_buffer;
    let (mut endpoint, mut io) = new(&config);
    let tell_at = |now, endpoint: &mut Messages, io: &mut Io, n, number| {
        for packet in whole(number) {
            endpoint.receive_known(now, &host(n, false), packet, io);
        }
        allowance(&io.take()).expect("an ACK")
    };
    let later = NOW + Nanos(Nanos::SECOND.0 / 4);
    let tell =
        |endpoint: &mut Messages, io: &mut Io, n, number| tell_at(later, endpoint, io, n, number);
    let most = config.base_bytes(&config.speed);
    let first = tell_at(NOW, &mut endpoint, &mut io, 1, 0);
    assert_eq!(first, all / 4 / UNIT * UNIT);
    assert_eq!(tell(&mut endpoint, &mut io, 1, 1), most / UNIT * UNIT);
    for n in 0..50 {
        let stranger = Packet::Sync(sync(1000 + n, 100_000));
        endpoint.receive(NOW, &host(100 + n as u32, false), stranger, &mut io);
        assert!(allowance(&io.take()).is_none());
    }
    assert_eq!(tell(&mut endpoint, &mut io, 1, 2), most / UNIT * UNIT);
    for n in 1..=16 {
        tell(&mut endpoint, &mut io, n, 3);
    }
    let told: Vec<u32> = (1..=16)
        .map(|n| tell(&mut endpoint, &mut io, n, 4))
        .collect();
    let part = all / 16 / UNIT * UNIT;
    assert_eq!(told, [part; 16]);
    // With the option off, or a number of packets, nothing is allowed.
    let none = Resolved {
        unscheduled: Unscheduled::Packets(8),
        ..config
    };
    endpoint.configure(NOW, &none, &mut io);
    assert_eq!(tell(&mut endpoint, &mut io, 1, 5), 0);
}

/// A receiver takes no more unasked than it could have allowed, whatever a sender announces.
#[test]
fn no_more_is_taken_than_the_link_carries_in_a_round_trip() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let from = host(1, false);
    let announced = Sync {
        unscheduled: 1 << 20,
        ..sync(7, 1 << 20)
    };
    endpoint.receive_known(NOW, &from, Packet::Sync(announced), &mut io);
    let most = config.base_bytes(&config.speed);
    for n in 0..100 {
        let data = Packet::Data(Data {
            cookie: Cookie(7),
            token: 0,
            timestamp: 0,
            offset: n * 1450,
            len: 1450,
            flags: 0,
            more: 0,
        });
        endpoint.receive(NOW, &from, data, &mut io);
    }
    let (.., info, _) = endpoint.incoming(NOW, 0).unwrap();
    assert_eq!(info.received, u64::from(most / 1450 * 1450) as u32);
}

/// The sender of a long message hears that its first bytes have come, though no more of it do: what
/// it may send unasked is free for its next message.
#[test]
fn that_the_first_bytes_have_come_is_told_at_once() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let from = host(1, false);
    let announced = Sync {
        unscheduled: 4350,
        ..sync(7, 1 << 20)
    };
    endpoint.receive_known(NOW, &from, Packet::Sync(announced), &mut io);
    io.take();
    // Out of order: when all of it is there, and once.
    let told = [0, 2, 1].map(|n| {
        let data = Packet::Data(Data {
            cookie: Cookie(7),
            token: 0,
            timestamp: 0,
            offset: n * 1450,
            len: 1450,
            flags: 0,
            more: 255,
        });
        endpoint.receive(NOW, &from, data, &mut io);
        allowance(&io.take()).is_some()
    });
    assert_eq!(told, [false, false, true]);
}

/// What is least is always allowed: it is documented in bytes on the wire.
#[test]
fn the_least_allowance_is_one_short_packet() {
    assert_eq!(LEAST, 256);
    let overhead = u32::try_from(20 + 8 + 22 + 38).unwrap();
    assert_eq!(overhead, data_overhead(&host(1, false)));
}

/// Where many send at once, what comes unasked waits in a port as long as all together may take,
/// and the tokens' packets wait behind it: neither is lost.
#[test]
fn what_waits_behind_others_first_bytes_is_not_lost() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let from = host(1, false);
    let announced = Sync {
        unscheduled: 14_500,
        ..sync(7, 72_500)
    };
    let now = NOW + Nanos::SECOND;
    endpoint.receive_known(now, &from, Packet::Sync(announced), &mut io);
    // All eight begin at once, and packets of all come in turn.
    let queue = config.speed.link_rate.duration(config.unscheduled_buffer);
    let mut coming: VecDeque<(Nanos, Data)> = (0..10)
        .map(|n| {
            let data = Data {
                cookie: Cookie(7),
                token: 0,
                timestamp: 0,
                offset: n * 1450,
                len: 1450,
                flags: 0,
                more: 0,
            };
            let after = config.base_rtt.0 / 2 + queue.0 * u64::from(n + 1) / 10;
            (now + Nanos(after), data)
        })
        .collect();
    let (mut at, mut offset) = (now, 14_500);
    while let Some(&(comes, data)) = coming.front() {
        match endpoint.next_timer().filter(|next| *next <= comes) {
            Some(next) => {
                at = at.max(next);
                endpoint.timer(at, at.0 as u32, &mut io);
            }
            None => {
                at = comes;
                coming.pop_front();
                endpoint.receive(at, &from, Packet::Data(data), &mut io);
            }
        }
        for packet in io.take() {
            let Packet::Token(token) = packet else {
                assert!(!matches!(packet, Packet::Resend(_)), "{packet:?} at {at:?}");
                continue;
            };
            if offset < 72_500 {
                let Packet::Data(data) = answer(&token, offset, 1450) else {
                    unreachable!()
                };
                coming.push_back((at + config.base_rtt + queue, data));
                offset += 1450;
            }
        }
    }
    assert_eq!(endpoint.stats().get(Counter::InDelivered), 1);
    let given_up = endpoint.stats().get(Counter::TokenGivenUp);
    assert_eq!(given_up, 0, "tokens that were given up");
}

/// A sender whose processor is slow, or whose packets wait their turn at ports, takes longer than
/// the link would for what it announced. It is not late while it comes; what of it was lost is
/// named a round trip after the last packet at the latest.
#[test]
fn what_was_announced_is_not_late_while_it_comes() {
    let config = config();
    let from = host(1, false);
    // Two packets in a row that come are never a round trip apart.
    for (lost, tenths) in [(None, 9), (Some(3), 4), (Some(9), 4)] {
        let (mut endpoint, mut io) = new(&config);
        let announced = Sync {
            unscheduled: 14_500,
            ..sync(7, 14_500)
        };
        endpoint.receive_known(NOW, &from, Packet::Sync(announced), &mut io);
        let mut named = None;
        let until = |endpoint: &mut Messages, io: &mut Io, end: Nanos| {
            let mut named = None;
            while let Some(next) = endpoint.next_timer().filter(|next| *next <= end) {
                endpoint.timer(next, next.0 as u32, io);
                for packet in io.take() {
                    let asks = matches!(packet, Packet::Token(_) | Packet::Resend(_));
                    assert!(!asks || lost.is_some(), "{packet:?} at {next:?}");
                    named = named.or(matches!(packet, Packet::Resend(_)).then_some(next));
                }
            }
            named
        };
        let apart = config.base_rtt.0 * tenths / 10;
        let mut last = NOW;
        for n in 0..10_u32 {
            let at = NOW + Nanos(apart * u64::from(n + 1));
            named = named.or(until(&mut endpoint, &mut io, at));
            if lost == Some(n) {
                continue;
            }
            let data = Data {
                cookie: Cookie(7),
                token: 0,
                timestamp: 0,
                offset: n * 1450,
                len: 1450,
                flags: 0,
                more: 0,
            };
            endpoint.receive(at, &from, Packet::Data(data), &mut io);
            last = at;
        }
        let named = named.or(until(&mut endpoint, &mut io, last + config.base_rtt));
        assert_eq!(named.is_some(), lost.is_some(), "lost {lost:?}");
    }
}

/// A peer to whom the way was longer than the options say has as much time for what it announces.
#[test]
fn what_was_announced_may_take_as_long_as_the_peers_former_answers() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let from = host(1, false);
    let way = Nanos(config.base_rtt.0 * 10);
    endpoint.receive_known(NOW, &from, Packet::Sync(sync(6, 1450)), &mut io);
    let token = loop {
        let token = io.take().into_iter().find_map(|packet| match packet {
            Packet::Token(token) => Some(token),
            _ => None,
        });
        if let Some(token) = token {
            break token;
        }
        let next = endpoint.next_timer().expect("a token is due");
        endpoint.timer(next, next.0 as u32, &mut io);
    };
    endpoint.receive(NOW + way, &from, answer(&token, 0, 1450), &mut io);
    assert_eq!(endpoint.stats().get(Counter::InDelivered), 1);
    io.take();
    let announced = Sync {
        unscheduled: 14_500,
        ..sync(7, 14_500)
    };
    let now = NOW + way + way;
    endpoint.receive_known(now, &from, Packet::Sync(announced), &mut io);
    io.take();
    let asked = loop {
        let next = endpoint.next_timer().expect("what is missing is asked for");
        endpoint.timer(next, next.0 as u32, &mut io);
        let sent = io.take();
        let asks = |packet: &Packet| matches!(packet, Packet::Token(_) | Packet::Resend(_));
        if sent.iter().any(asks) {
            break next;
        }
    };
    assert!(asked >= now + way, "asked after {:?}", asked - now);
}
