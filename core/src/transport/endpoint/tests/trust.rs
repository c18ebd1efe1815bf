// SPDX-License-Identifier: GPL-2.0
//! What is sent to strangers, and when they are believed.

use super::*;
use crate::header::{FLAG_REN, FLAG_UNSCHEDULED};
use crate::transport::config::Policy;
use crate::transport::wire::{Fin, Resend, Spans};

fn with_unscheduled() -> Resolved {
    Resolved {
        unscheduled: 8,
        ..config()
    }
}

/// A SYNC of a message that comes whole without tokens, and its data.
pub(super) fn whole(cookie: u64) -> [Packet; 2] {
    let sync = Sync {
        unscheduled: 1000,
        ..sync(cookie, 1000)
    };
    [Packet::Sync(sync), unscheduled(cookie, 0, 1000)]
}

fn unscheduled(cookie: u64, offset: u32, len: u32) -> Packet {
    Packet::Data(Data {
        cookie: Cookie(cookie),
        token: 0,
        timestamp: 0,
        offset,
        len,
        flags: FLAG_UNSCHEDULED,
    })
}

/// The number of the CHALLENGE among some packets.
fn echo(sent: &[Packet]) -> Option<u64> {
    sent.iter().find_map(|packet| match packet {
        Packet::Challenge(challenge) => Some(challenge.echo),
        _ => None,
    })
}

fn tokens(sent: &[Packet]) -> Vec<wire::Token> {
    let token = |packet: &Packet| match packet {
        Packet::Token(token) => Some(*token),
        _ => None,
    };
    sent.iter().filter_map(token).collect()
}

/// Bytes of the IP packet.
fn ip_bytes(from: &Address, packet: &Packet) -> u64 {
    u64::from(packet.bytes()) + if from.is_ipv4() { 28 } else { 48 }
}

/// Whatever comes from an address, in whatever order, no more than three times as much goes there
/// until it has proved to be its sender's: tokens, grants, probes, ACKs and RESETs together.
#[test]
fn a_stranger_is_sent_at_most_three_times_what_came() {
    for (v6, policy) in [
        (false, Policy::Top),
        (true, Policy::Top),
        (false, Policy::Ren),
        (true, Policy::Ren),
        (false, Policy::ExpressPass),
    ] {
        let config = Resolved {
            policy,
            ..with_unscheduled()
        };
        let from = host(1, v6);
        for kinds in 1..64_u32 {
            let (mut endpoint, mut io) = new(&config);
            let cookie = Cookie(7);
            let mut spans = Spans::EMPTY;
            assert!(spans.push(0, 100));
            let all = [
                Packet::Sync(Sync {
                    ren: true,
                    unscheduled: 1450,
                    ..sync(7, 50_000)
                }),
                Packet::Data(Data {
                    cookie,
                    token: 3,
                    timestamp: 9,
                    offset: 0,
                    len: 1,
                    flags: FLAG_REN,
                }),
                unscheduled(7, 1, 1),
                Packet::Fin(Fin {
                    cookie,
                    length: 40_000,
                }),
                Packet::Ack(Ack {
                    cookie,
                    received: 1,
                    window: 0,
                    last: false,
                }),
                Packet::Resend(Resend { cookie, spans }),
            ];
            let (mut came, mut went, mut now) = (0, 0, NOW);
            for round in 0..4 {
                for (bit, packet) in all.iter().enumerate() {
                    // The SYNC always comes, and opens a message.
                    if bit != 0 && (kinds >> (bit - 1)) & 1 == 0 {
                        continue;
                    }
                    came += ip_bytes(&from, packet);
                    endpoint.receive(now, &from, *packet, &mut io);
                    now += Nanos(round * 1000);
                }
                // All timers until it is given up.
                let end = now + Nanos(15 * Nanos::SECOND.0);
                while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
                    now = now.max(at);
                    endpoint.timer(now, now.0 as u32, &mut io);
                }
                went += io
                    .sent
                    .drain(..)
                    .map(|(.., bytes)| u64::from(bytes))
                    .sum::<u64>();
                assert!(
                    went <= 3 * came,
                    "{policy:?} {kinds:#b}: {went} B for {came}"
                );
            }
            assert!(went > 0 && endpoint.counts().2 == 0 && io.delivered.is_empty());
        }
    }
}

#[test]
fn a_strangers_message_is_delivered_when_it_echoes_the_challenge() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    for packet in whole(7) {
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    let challenge = echo(&io.take()).expect("a CHALLENGE");
    assert!(io.delivered.is_empty() && io.progress == 0);
    assert_eq!(endpoint.counts(), (0, 1, 0));
    let answer = |echo| {
        Packet::Sync(Sync {
            echo,
            unscheduled: 1000,
            ..sync(7, 1000)
        })
    };
    // A guess, a number from another address, and one that is too old.
    let late = NOW + Nanos(18 * Nanos::SECOND.0);
    endpoint.receive(NOW, &from, answer(challenge ^ 1), &mut io);
    endpoint.receive(NOW, &host(2, false), answer(challenge), &mut io);
    assert_eq!(endpoint.stats().get(Counter::EchoWrong), 2);
    let old = sync(8, 1000);
    endpoint.receive(
        late,
        &from,
        Packet::Sync(Sync {
            echo: challenge,
            ..old
        }),
        &mut io,
    );
    assert_eq!(endpoint.stats().get(Counter::EchoWrong), 3);
    assert!(io.delivered.is_empty());
    endpoint.receive(NOW, &from, answer(challenge), &mut io);
    assert_eq!((io.delivered.len(), io.progress), (1, 1));
    assert_eq!(endpoint.counts().2, 1);
    // From now on it is known, and its messages are delivered at once.
    io.take();
    for packet in whole(9) {
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    assert_eq!(io.delivered.len(), 2);
    assert_eq!(echo(&io.take()), None);
}

#[test]
fn the_answer_to_a_token_proves_the_address_and_a_guess_does_not() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(7, 100_000)), &mut io);
    let mut now = NOW;
    while tokens(&io.sent.iter().map(|it| it.1).collect::<Vec<_>>()).is_empty() {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    let token = tokens(&io.take())[0];
    // It does not expire at the sender.
    let ahead = token.timestamp.wrapping_sub(now.0 as u32);
    assert!((1 << 28..1 << 30).contains(&ahead), "{ahead}");
    let wrong = [
        wire::Token {
            timestamp: token.timestamp ^ 1,
            ..token
        },
        wire::Token {
            sequence: token.sequence.wrapping_add(1),
            ..token
        },
    ];
    for guess in wrong {
        endpoint.receive(now, &from, answer(&guess, 0, 1450), &mut io);
    }
    assert_eq!(endpoint.stats().get(Counter::PeerProven), 0);
    let later = now + Nanos(30_000);
    endpoint.receive(later, &from, answer(&token, 1450, 1450), &mut io);
    assert_eq!(endpoint.stats().get(Counter::PeerProven), 1);
    // The round trip is measured by when the token was sent.
    let (_, _, info, _) = endpoint.incoming(later, 0).unwrap();
    assert_eq!(info.rtt, Some(Nanos(30_000)));
}

/// 13,333 forged messages a second, complete ones, of many addresses, for 20 s; and honest ones of
/// a stranger each, and of one that is known.
#[test]
fn forged_messages_never_keep_honest_ones_out() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let mut now = NOW;
    let (mut delivered, mut sent) = (0_u64, 0_u64);
    for i in 0..266_660_u32 {
        now += Nanos(75_000);
        let forged = host(0x10_0000 + i % 60_000, false);
        for packet in whole(u64::from(i)) {
            endpoint.receive(now, &forged, packet, &mut io);
        }
        endpoint.timer(now, now.0 as u32, &mut io);
        io.sent.clear();
        if i % 100 != 0 {
            continue;
        }
        for from in [host(i / 100, false), host(0xf0_0000, false)] {
            let cookie = (1 << 40) + sent;
            sent += 1;
            for packet in whole(cookie) {
                endpoint.receive(now, &from, packet, &mut io);
            }
            let mine: Vec<Packet> = io
                .sent
                .drain(..)
                .filter(|(to, packet, _)| *to == from && packet.cookie().0 == cookie)
                .map(|it| it.1)
                .collect();
            if let Some(echo) = echo(&mine) {
                let again = Sync {
                    echo,
                    unscheduled: 1000,
                    ..sync(cookie, 1000)
                };
                endpoint.receive(now, &from, Packet::Sync(again), &mut io);
                // Where nothing was kept of it, its data is sent once more.
                endpoint.receive(now, &from, unscheduled(cookie, 0, 1000), &mut io);
            }
            delivered += io.delivered.drain(..).count() as u64;
        }
    }
    assert_eq!(delivered, sent);
    assert_eq!(
        endpoint.stats().get(Counter::InDelivered),
        u64::from(sent as u32)
    );
    let limit = endpoint.stats().get(Counter::SyncLimitRemembered);
    assert_eq!(limit, 0);
}

/// A host that has proved its address, and never confirms the end of its messages.
#[test]
fn who_never_confirms_has_a_share_of_what_is_remembered_and_no_more() {
    let config = Resolved {
        max_remembered: 800,
        ..with_unscheduled()
    };
    let (mut endpoint, mut io) = new(&config);
    // Known, as a message to it was answered.
    let hostile = known(&mut endpoint, 0x10_0001, &mut io);
    for cookie in 0..400 {
        for packet in whole(cookie) {
            endpoint.receive(NOW, &hostile, packet, &mut io);
        }
    }
    assert_eq!(endpoint.counts(), (0, 0, 100));
    assert_eq!(endpoint.stats().get(Counter::SyncLimitShare), 300);
    // Others of its network, up to a half together; and of another network.
    for n in 2..10 {
        let other = known(&mut endpoint, 0x10_0000 + n, &mut io);
        for cookie in 0..100 {
            for packet in whole(cookie) {
                endpoint.receive(NOW, &other, packet, &mut io);
            }
        }
    }
    assert_eq!(endpoint.counts(), (0, 0, 400));
    let honest = known(&mut endpoint, 0x20_0000, &mut io);
    for packet in whole(1) {
        endpoint.receive(NOW, &honest, packet, &mut io);
    }
    assert_eq!(endpoint.counts(), (0, 0, 401));
}

/// However much is sent in a stranger's name, it does not become one that is never answered.
#[test]
fn many_bytes_in_a_strangers_name_do_not_shut_it_out() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(666, 1_000_000)), &mut io);
    let mut now = NOW;
    for n in 0..960_000_u64 {
        endpoint.receive(now, &from, unscheduled(666, 0, 1450), &mut io);
        if n % 1000 == 0 {
            now += Nanos(1_200_000);
            endpoint.timer(now, now.0 as u32, &mut io);
            io.take();
        }
    }
    let mut first = sync(7, 1000);
    endpoint.receive(now, &from, Packet::Sync(first), &mut io);
    let sent = io.take();
    assert!(!sent.is_empty());
    first.echo = echo(&sent).unwrap_or_else(|| {
        now += Nanos::SECOND;
        endpoint.timer(now, now.0 as u32, &mut io);
        echo(&io.take()).expect("a CHALLENGE")
    });
    endpoint.receive(now, &from, Packet::Sync(first), &mut io);
    assert_eq!(endpoint.stats().get(Counter::PeerProven), 1);
}

/// Makes a host known: it answers a message.
pub(super) fn known(endpoint: &mut Messages, n: u32, io: &mut Io) -> Address {
    let to = host(n, false);
    io.take();
    send(endpoint, &to, io).unwrap();
    let cookie = io.take()[0].cookie();
    let reset = Packet::Reset(Reset {
        cookie,
        code: ResetCode::NoSocket,
    });
    endpoint.receive(NOW, &to, reset, io);
    to
}

pub(super) fn send(
    endpoint: &mut Messages,
    to: &Address,
    io: &mut Io,
) -> Result<OutId, (crate::transport::host::SendError, ())> {
    let what = Outgoing {
        source: 1,
        destination: 2,
        length: Some(100_000),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available: 100_000,
        user: 0,
    };
    endpoint.send(NOW, to, &what, (), io)
}

/// The sender's timeout is 60 s, the receiver's 10 s, and nothing arrives for 15 s.
#[test]
fn a_message_is_remembered_as_long_as_its_sender_tries() {
    for (patience, seconds) in [(600, 60), (100, 10), (1, 0)] {
        let (mut endpoint, mut io) = new(&with_unscheduled());
        let from = known(&mut endpoint, 1, &mut io);
        let first = Sync {
            patience,
            unscheduled: 1000,
            ..sync(7, 1000)
        };
        endpoint.receive(NOW, &from, Packet::Sync(first), &mut io);
        endpoint.receive(NOW, &from, unscheduled(7, 0, 1000), &mut io);
        assert_eq!(io.delivered.len(), 1);
        let mut now = NOW;
        while let Some(at) = endpoint.next_timer() {
            now = now.max(at);
            endpoint.timer(now, now.0 as u32, &mut io);
        }
        let remembered = (now - NOW).0 / Nanos::SECOND.0;
        assert_eq!(remembered, seconds + 1);
    }
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = known(&mut endpoint, 1, &mut io);
    let first = Packet::Sync(Sync {
        patience: 600,
        unscheduled: 1000,
        ..sync(7, 1000)
    });
    endpoint.receive(NOW, &from, first, &mut io);
    endpoint.receive(NOW, &from, unscheduled(7, 0, 1000), &mut io);
    io.take();
    let later = NOW + Nanos(15 * Nanos::SECOND.0);
    endpoint.timer(later, later.0 as u32, &mut io);
    endpoint.receive(later, &from, first, &mut io);
    assert!(matches!(
        io.take()[..],
        [Packet::Ack(Ack { last: true, .. })]
    ));
    assert_eq!(io.delivered.len(), 1);
}

#[test]
fn a_peer_is_known_for_minutes_and_few_without_messages_are() {
    use crate::transport::peers::{MOST_IDLE, MOST_IDLE_OF_NET};
    let (mut endpoint, mut io) = new(&config());
    for n in 0..MOST_IDLE_OF_NET + 10 {
        // IPv6: all are of one network.
        let to = host(n, true);
        send(&mut endpoint, &to, &mut io).unwrap();
        let cookie = io.take()[0].cookie();
        let code = ResetCode::NoSocket;
        endpoint.receive(NOW, &to, Packet::Reset(Reset { cookie, code }), &mut io);
    }
    assert_eq!(endpoint.peers.all.len(), MOST_IDLE_OF_NET);
    for n in 0..MOST_IDLE + 10 {
        known(&mut endpoint, n * 256, &mut io);
    }
    assert_eq!(endpoint.peers.all.len(), MOST_IDLE);
    assert!(endpoint.peers(0).is_none(), "they have no messages");
    let last = host((MOST_IDLE + 9) * 256, false);
    let is_known = |endpoint: &Messages, now| {
        let index = endpoint.peers.find(&endpoint.key, &last);
        index.is_some_and(|index| endpoint.peers.is_known(now, index))
    };
    assert!(is_known(&endpoint, NOW + Nanos(299 * Nanos::SECOND.0)));
    assert!(!is_known(&endpoint, NOW + Nanos(300 * Nanos::SECOND.0)));
}
