// SPDX-License-Identifier: GPL-2.0
//! What a sender sends without being asked, what it answers, and what it tells its user.

use super::trust::whole;
use super::*;
use crate::header::FLAG_UNSCHEDULED;
use crate::transport::endpoint::sending::base_payload;
use crate::transport::wire::{Challenge, Resend, Spans, Token};

fn plain(length: u32) -> Outgoing {
    Outgoing {
        source: 1,
        destination: 2,
        length: Some(length),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available: length,
        user: 0,
    }
}

/// The data that was sent since the last call.
fn data(io: &mut Io) -> Vec<Data> {
    let sent = io.take().into_iter();
    sent.filter_map(|packet| match packet {
        Packet::Data(data) => Some(data),
        _ => None,
    })
    .collect()
}

fn token(cookie: Cookie, sequence: u16) -> Packet {
    Packet::Token(Token {
        cookie,
        sequence,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    })
}

fn ack(cookie: Cookie, received: u32, last: bool) -> Packet {
    Packet::Ack(Ack {
        cookie,
        received,
        window: 100_000,
        allowance: 0,
        last,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    })
}

/// A short message goes out whole behind its SYNC, in full packets; a longer one waits for tokens.
/// Of many packets the rest follows in further calls, at once.
#[test]
fn short_messages_are_sent_without_tokens() {
    for (most, in_one_call) in [(8, 8), (100, 32)] {
        let config = Resolved {
            unscheduled: Unscheduled::Packets(most),
            ..config()
        };
        let to = host(1, false);
        let (mut endpoint, mut io) = new(&config);
        let length = most * 1450;
        endpoint
            .send(NOW, &to, &plain(length), (), &mut io)
            .unwrap();
        assert!(matches!(io.sent[0].1, Packet::Sync(sync) if sync.unscheduled == length));
        let mut sent = data(&mut io);
        assert_eq!(sent.len(), in_one_call);
        while sent.len() < most as usize {
            assert_eq!(endpoint.next_timer(), Some(NOW));
            endpoint.timer(NOW, 0, &mut io);
            let more = data(&mut io);
            assert!(!more.is_empty());
            sent.extend(more);
        }
        for (n, data) in sent.iter().enumerate() {
            assert_eq!((data.offset, data.len), (n as u32 * 1450, 1450));
            assert_eq!(data.flags & FLAG_UNSCHEDULED, FLAG_UNSCHEDULED);
        }
        let sent = endpoint.stats().get(Counter::UnscheduledSent);
        assert_eq!(sent, u64::from(most));
        endpoint
            .send(NOW, &to, &plain(length + 1), (), &mut io)
            .unwrap();
        assert!(data(&mut io).is_empty());
    }
}

/// For a token that finds nothing to send, though all is written, the receiver is asked what it
/// misses: once in a round trip.
#[test]
fn a_token_too_many_is_answered_once_in_a_round_trip() {
    let config = config();
    let to = host(1, false);
    let (mut endpoint, mut io) = new(&config);
    endpoint.send(NOW, &to, &plain(1000), (), &mut io).unwrap();
    let cookie = io.take()[0].cookie();
    let mut now = NOW + config.base_rtt;
    endpoint.receive(now, &to, token(cookie, 0), &mut io);
    assert_eq!(data(&mut io).len(), 1);
    for round in 0..3 {
        for n in 0..4 {
            let number = 1 + round * 4 + n;
            endpoint.receive(now, &to, token(cookie, number), &mut io);
            let sent = io.take();
            match n {
                0 => assert!(matches!(sent[..], [Packet::Sync(sync)] if sync.probe)),
                _ => assert!(sent.is_empty(), "{round} {n}: {sent:?}"),
            }
        }
        let index = endpoint.find_out(cookie, &to).unwrap();
        now += endpoint.outs.get(index).unwrap().rtt(config.base_rtt);
    }
}

/// The user hears of each ACK that has something new, once; that all has come it is told by the
/// message's end alone.
#[test]
fn the_user_hears_of_what_is_new() {
    let to = host(1, false);
    let (mut endpoint, mut io) = new(&config());
    endpoint.send(NOW, &to, &plain(2900), (), &mut io).unwrap();
    let cookie = io.take()[0].cookie();
    for n in 0..2 {
        endpoint.receive(NOW, &to, token(cookie, n), &mut io);
    }
    for received in [0, 1450, 1450, 700] {
        endpoint.receive(NOW, &to, ack(cookie, received, false), &mut io);
    }
    assert_eq!(io.acked, [1450]);
    // Not all of it: that contradicts itself.
    endpoint.receive(NOW, &to, ack(cookie, 1450, true), &mut io);
    assert_eq!(endpoint.counts().0, 1);
    assert_eq!(endpoint.stats().get(Counter::SignalContradiction), 1);
    endpoint.receive(NOW, &to, ack(cookie, 2900, true), &mut io);
    assert_eq!((endpoint.counts().0, &io.acked[..]), (0, &[1450][..]));
    assert!(io.out_failed.is_empty());
}

/// Only the last ACK of a message that is remembered confirms its end; all others belong to
/// nothing.
#[test]
fn an_ack_of_nothing_is_counted_and_confirms_nothing() {
    let config = Resolved {
        unscheduled: Unscheduled::Packets(8),
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    let from = host(1, false);
    for packet in whole(7) {
        endpoint.receive_known(NOW, &from, packet, &mut io);
    }
    assert_eq!((endpoint.counts().1, endpoint.counts().2), (0, 1));
    let forgotten = endpoint.remembered.next();
    let unknown = |endpoint: &Messages| endpoint.stats().get(Counter::SignalUnknown);
    let before = unknown(&endpoint);
    for (n, (cookie, last)) in [(7, false), (8, false), (8, true)].into_iter().enumerate() {
        endpoint.receive(NOW, &from, ack(Cookie(cookie), 1000, last), &mut io);
        assert_eq!(unknown(&endpoint), before + n as u64 + 1);
        assert_eq!(endpoint.remembered.next(), forgotten);
    }
    endpoint.receive(NOW, &from, ack(Cookie(7), 1000, true), &mut io);
    assert_eq!(unknown(&endpoint), before + 3);
    assert!(endpoint.remembered.next() < forgotten);
}

/// A host wakes up, or is late, and something comes before the timer of a message whose time is
/// over. Its receiver may have forgotten it: nothing of it is sent again, whatever comes. A moment
/// before, each of these draws something; and its end is believed at any time.
#[test]
fn what_is_over_is_not_sent_again() {
    let config = config();
    let to = host(1, false);
    let mut spans = Spans::EMPTY;
    assert!(spans.push(0, 1000));
    for over in [false, true] {
        let now = NOW + config.timeout - Nanos(u64::from(!over));
        for what in 0..7 {
            let (mut endpoint, mut io) = new(&config);
            let plain = Outgoing {
                length: None,
                ..plain(2000)
            };
            let id = endpoint.send(NOW, &to, &plain, (), &mut io).unwrap();
            let cookie = io.take()[0].cookie();
            for n in 0..3 {
                endpoint.receive(NOW, &to, token(cookie, n), &mut io);
            }
            assert_eq!(data(&mut io).len(), 2);
            let code = ResetCode::Unknown;
            let (echo, ticket) = (9, false);
            let packet = match what {
                0 => token(cookie, 3),
                1 => Packet::Resend(Resend { cookie, spans }),
                2 => ack(cookie, 0, false),
                3 => Packet::Reset(Reset { cookie, code }),
                4 => Packet::Challenge(Challenge {
                    cookie,
                    echo,
                    ticket,
                }),
                5 => token(cookie, 3),
                _ => ack(cookie, 2000, true),
            };
            if what >= 5 {
                assert!(endpoint.written(now, id, 2000 + 6 - what, true, &mut io));
            }
            let written = !io.take().is_empty();
            assert_eq!(written, !over && what >= 5, "{over} {what}");
            endpoint.receive(now, &to, packet, &mut io);
            let sent = io.take();
            let delivered = what == 6;
            assert_eq!(endpoint.counts().0 == 0, delivered || over && what == 3);
            assert_eq!(endpoint.stats().get(Counter::OutDelivered) != 0, delivered);
            if over && !delivered {
                assert!(sent.is_empty(), "{what}: {sent:?}");
                endpoint.timer(now, 0, &mut io);
                assert_eq!((endpoint.counts().0, io.out_failed.len()), (0, 1), "{what}");
                assert!(io.take().is_empty(), "{what}");
            } else {
                // It lives on; a RESET shows no peer that knows of it.
                endpoint.timer(now + Nanos(1), 0, &mut io);
                let lives = !delivered && what != 3;
                assert_eq!(endpoint.counts().0, u32::from(lives), "{what}");
            }
        }
    }
}

/// Full packets that a link takes in a round trip: all of their bytes count, and one always fits.
#[test]
fn a_round_trip_has_full_packets() {
    // 1450 bytes behind 28 of IP and UDP, those of the header, and 38 of the frame.
    for v6 in [false, true] {
        let to = host(1, v6);
        let packet = 1450 + data_overhead(&to);
        for (wire, packets) in [
            (0, 1),
            (1, 1),
            (packet, 1),
            (2 * packet - 1, 1),
            (2 * packet, 2),
            (60_000, 60_000 / packet),
        ] {
            assert_eq!(base_payload(wire, 1450, &to), packets * 1450, "{wire}");
        }
    }
}
