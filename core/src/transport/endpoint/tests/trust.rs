// SPDX-License-Identifier: GPL-2.0
//! What is sent to strangers, and when they are believed.

use super::*;
use crate::header::{FLAG_REN, FLAG_UNSCHEDULED};
use crate::transport::config::Policy;
use crate::transport::endpoint::trust::{TICKET_BITS, TICKET_KEPT};
use crate::transport::wire::Challenge;
use crate::transport::wire::{Fin, Resend, Spans};

pub(super) fn with_unscheduled() -> Resolved {
    Resolved {
        unscheduled: Unscheduled::Packets(8),
        ..config()
    }
}

/// A SYNC of a message that comes whole without tokens, and its data.
pub(super) fn whole(cookie: u64) -> [Packet; 2] {
    whole_showing(cookie, 0)
}

/// The same. The SYNC shows a ticket, or the number of a CHALLENGE.
pub(super) fn whole_showing(cookie: u64, echo: u64) -> [Packet; 2] {
    let sync = Sync {
        echo,
        unscheduled: 1000,
        ..sync(cookie, 1000)
    };
    [Packet::Sync(sync), data_unscheduled(cookie, 0, 1000)]
}

pub(super) fn data_unscheduled(cookie: u64, offset: u32, len: u32) -> Packet {
    Packet::Data(Data {
        cookie: Cookie(cookie),
        token: 0,
        timestamp: 0,
        offset,
        len,
        flags: FLAG_UNSCHEDULED,
        more: 0,
    })
}

/// The number of the CHALLENGE among some packets.
pub(super) fn echo(sent: &[Packet]) -> Option<u64> {
    sent.iter().find_map(|packet| match packet {
        Packet::Challenge(challenge) if !challenge.ticket => Some(challenge.echo),
        _ => None,
    })
}

/// The ticket among some packets.
pub(super) fn ticket(sent: &[Packet]) -> Option<u64> {
    sent.iter().find_map(|packet| match packet {
        Packet::Challenge(challenge) if challenge.ticket => Some(challenge.echo),
        _ => None,
    })
}

pub(super) fn tokens(sent: &[Packet]) -> Vec<wire::Token> {
    let token = |packet: &Packet| match packet {
        Packet::Token(token) => Some(*token),
        _ => None,
    };
    sent.iter().filter_map(token).collect()
}

/// Bytes of the IP packet.
pub(super) fn ip_bytes(from: &Address, packet: &Packet) -> u64 {
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
                    more: 0,
                }),
                data_unscheduled(7, 1, 1),
                Packet::Fin(Fin {
                    cookie,
                    length: 40_000,
                }),
                Packet::Ack(Ack {
                    cookie,
                    received: 1,
                    window: 0,
                    allowance: 0,
                    last: false,
                    mark: crate::transport::rate::Mark::None,
                    notify: false,
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
    // A guess, a number from another address, and one that is too old: at a receiver that keeps
    // nothing of the message, as this one would give it up before.
    endpoint.receive(NOW, &from, answer(challenge ^ 1), &mut io);
    endpoint.receive(NOW, &host(2, false), answer(challenge), &mut io);
    assert_eq!(endpoint.stats().get(Counter::EchoWrong), 2);
    for (seconds, wrong) in [(8, 0), (18, 1)] {
        let (mut later, mut io) = new(&with_unscheduled());
        let at = NOW + Nanos(seconds * Nanos::SECOND.0);
        later.receive(at, &from, answer(challenge), &mut io);
        assert_eq!(later.stats().get(Counter::EchoWrong), wrong);
        assert_eq!(later.stats().get(Counter::EchoReceived), 1 - wrong);
    }
    assert!(io.delivered.is_empty());
    endpoint.receive(NOW, &from, answer(challenge), &mut io);
    assert_eq!((io.delivered.len(), io.progress), (1, 1));
    assert_eq!(endpoint.counts().2, 1);
    // With the ticket that it was given its messages are delivered at once; without, they are not.
    let has_echo = |sent: &[Packet]| echo(sent).is_some();
    let has_ticket = |sent: &[Packet]| ticket(sent).is_some();
    let shown = ticket(&io.take()).expect("a ticket");
    for (cookie, echo, delivered) in [(9, shown, 2), (10, shown ^ 1, 2), (11, 0, 2)] {
        let [_, data] = whole(cookie);
        let first = Sync {
            echo,
            unscheduled: 1000,
            ..sync(cookie, 1000)
        };
        endpoint.receive(NOW, &from, Packet::Sync(first), &mut io);
        endpoint.receive(NOW, &from, data, &mut io);
        assert_eq!(io.delivered.len(), delivered, "{cookie}");
        let sent = io.take();
        assert_eq!(has_echo(&sent), cookie != 9);
        assert!(!has_ticket(&sent));
    }
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
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 0);
    let later = now + Nanos(30_000);
    endpoint.receive(later, &from, answer(&token, 1450, 1450), &mut io);
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
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
                endpoint.receive(now, &from, data_unscheduled(cookie, 0, 1000), &mut io);
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
    let hostile = host(0x10_0001, false);
    for cookie in 0..400 {
        for packet in whole(cookie) {
            endpoint.receive_known(NOW, &hostile, packet, &mut io);
        }
    }
    assert_eq!(endpoint.counts(), (0, 0, 100));
    assert_eq!(endpoint.stats().get(Counter::SyncLimitShare), 300);
    // Others of its network, up to a quarter together; and of another network.
    for n in 2..10 {
        let other = host(0x10_0000 + n, false);
        for cookie in 0..100 {
            for packet in whole(cookie) {
                endpoint.receive_known(NOW, &other, packet, &mut io);
            }
        }
    }
    assert_eq!(endpoint.counts(), (0, 0, 200));
    // And of another network: half of what is left. There is some for a third one.
    for n in 0..10 {
        let other = host(0x30_0000 + n, false);
        for cookie in 0..100 {
            for packet in whole(cookie) {
                endpoint.receive_known(NOW, &other, packet, &mut io);
            }
        }
    }
    assert_eq!(endpoint.counts(), (0, 0, 300));
    let honest = host(0x20_0000, false);
    for packet in whole(1) {
        endpoint.receive_known(NOW, &honest, packet, &mut io);
    }
    assert_eq!(endpoint.counts(), (0, 0, 301));
}

/// However much is sent in a stranger's name, it does not become one that is never answered.
#[test]
fn many_bytes_in_a_strangers_name_do_not_shut_it_out() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(666, 1_000_000)), &mut io);
    let mut now = NOW;
    for n in 0..960_000_u64 {
        endpoint.receive(now, &from, data_unscheduled(666, 0, 1450), &mut io);
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
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
}

impl Messages {
    /// As `receive`, from a host that has a ticket, which it shows.
    pub(super) fn receive_known(
        &mut self,
        now: Nanos,
        from: &Address,
        mut packet: Packet,
        io: &mut Io,
    ) {
        if let Packet::Sync(sync) = &mut packet {
            sync.echo = self.ticket_of(now.0 >> TICKET_BITS, from);
        }
        self.receive(now, from, packet, io);
    }
}

/// A ticket of somebody else's, who says that it is 77.
pub(super) fn ticket_packet(cookie: u64) -> Packet {
    Packet::Challenge(Challenge {
        cookie: Cookie(cookie),
        echo: 77,
        ticket: true,
    })
}

/// A message goes to a host, which gives us a ticket and refuses it.
pub(super) fn gives_a_ticket(endpoint: &mut Messages, to: &Address, io: &mut Io) {
    io.take();
    send(endpoint, to, io).unwrap();
    let cookie = io.take()[0].cookie();
    endpoint.receive(NOW, to, ticket_packet(cookie.0), io);
    let code = ResetCode::NoSocket;
    endpoint.receive(NOW, to, Packet::Reset(Reset { cookie, code }), io);
}

pub(super) fn send(
    endpoint: &mut Messages,
    to: &Address,
    io: &mut Io,
) -> Result<OutId, (crate::transport::host::SendError, ())> {
    endpoint.send(NOW, to, &outgoing(), (), io)
}

/// A message of 100 000 bytes.
pub(super) fn outgoing() -> Outgoing {
    Outgoing {
        source: 1,
        destination: 2,
        length: Some(100_000),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available: 100_000,
        user: 0,
    }
}

/// The sender's timeout is 60 s, the receiver's 10 s, and nothing arrives for 15 s.
#[test]
fn a_message_is_remembered_as_long_as_its_sender_tries() {
    for (patience, seconds) in [(600, 60), (100, 10), (1, 0)] {
        let (mut endpoint, mut io) = new(&with_unscheduled());
        let from = host(1, false);
        let first = Sync {
            patience,
            unscheduled: 1000,
            ..sync(7, 1000)
        };
        endpoint.receive_known(NOW, &from, Packet::Sync(first), &mut io);
        endpoint.receive(NOW, &from, data_unscheduled(7, 0, 1000), &mut io);
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
    let from = host(1, false);
    let first = Packet::Sync(Sync {
        patience: 600,
        unscheduled: 1000,
        ..sync(7, 1000)
    });
    endpoint.receive_known(NOW, &from, first, &mut io);
    endpoint.receive(NOW, &from, data_unscheduled(7, 0, 1000), &mut io);
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
fn tickets_are_kept_for_minutes_and_few_of_peers_without_messages() {
    use crate::transport::peers::{MOST_IDLE, MOST_IDLE_OF_NET};
    let (mut endpoint, mut io) = new(&config());
    for n in 0..MOST_IDLE_OF_NET + 10 {
        // IPv6: all are of one network.
        gives_a_ticket(&mut endpoint, &host(n, true), &mut io);
    }
    assert_eq!(endpoint.peers.all.len(), MOST_IDLE_OF_NET);
    for n in 0..MOST_IDLE + 10 {
        gives_a_ticket(&mut endpoint, &host(n * 256, false), &mut io);
    }
    assert_eq!(endpoint.peers.all.len(), MOST_IDLE);
    assert!(endpoint.peers(0).is_none(), "they have no messages");
    let last = host((MOST_IDLE + 9) * 256, false);
    let shown = |endpoint: &mut Messages, now, to: &Address| {
        let mut io = Io::default();
        let what = Outgoing {
            available: 1000,
            ..outgoing()
        };
        let id = endpoint.send(now, to, &what, (), &mut io).unwrap();
        let first = io.take()[0];
        endpoint.abort(now, id, &mut io);
        match first {
            Packet::Sync(sync) => sync.echo,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(shown(&mut endpoint, NOW, &host(9, false)), 0);
    let end = NOW + TICKET_KEPT;
    // Their ends are kept in seconds, and no later than they are.
    assert_eq!(shown(&mut endpoint, end - Nanos(1 << 30), &last), 77);
    assert_eq!(shown(&mut endpoint, end, &last), 0);
}

/// Each SYNC that shows a ticket of the time before draws a new one, and one that is older still
/// is no ticket.
#[test]
fn tickets_are_renewed_before_they_are_too_old() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, true);
    let begin = Nanos(5 << TICKET_BITS);
    let old = endpoint.ticket_of(5, &from);
    let next = endpoint.ticket_of(6, &from);
    let cases = [
        (begin, old, 1, None),
        (begin + TICKET_KEPT - Nanos(1), old, 1, None),
        (begin + TICKET_KEPT, old, 1, Some(next)),
        (begin + Nanos(2 * TICKET_KEPT.0 - 1), old, 1, Some(next)),
        (begin + Nanos(2 * TICKET_KEPT.0), old, 0, None),
        (begin - Nanos(1), old, 0, None),
    ];
    for (cookie, (now, echo, delivered, renewed)) in (1..).zip(cases) {
        let [_, data] = whole(cookie);
        let first = Sync {
            echo,
            unscheduled: 1000,
            ..sync(cookie, 1000)
        };
        endpoint.receive(now, &from, Packet::Sync(first), &mut io);
        endpoint.receive(now, &from, data, &mut io);
        assert_eq!(io.delivered.drain(..).count(), delivered, "{cookie}");
        assert_eq!(ticket(&io.take()), renewed, "{cookie}");
    }
}

/// One that has answered is not believed in what else comes in its name: messages, whole or not,
/// draw no more than three times their bytes, and take no more than a quarter of its places.
#[test]
fn what_comes_in_the_name_of_a_known_peer_is_a_strangers() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    gives_a_ticket(&mut endpoint, &from, &mut io);
    let mut now = NOW;
    for packet in whole(1) {
        endpoint.receive_known(now, &from, packet, &mut io);
    }
    assert_eq!(io.delivered.drain(..).count(), 1);
    io.sent.clear();
    let (mut came, mut went) = (0, 0);
    for cookie in 10..5000 {
        now += Nanos(100_000);
        let first = Packet::Sync(sync(cookie, 100_000));
        let [sync, data] = whole((1 << 20) | cookie);
        for packet in [first, sync, data] {
            came += ip_bytes(&from, &packet);
            endpoint.receive(now, &from, packet, &mut io);
        }
        endpoint.timer(now, now.0 as u32, &mut io);
        went += io
            .sent
            .drain(..)
            .map(|(.., bytes)| u64::from(bytes))
            .sum::<u64>();
    }
    assert!(went <= 3 * came, "{went} for {came}");
    assert_eq!((io.delivered.len(), endpoint.counts().2), (0, 1));
    assert_eq!(endpoint.counts().1, endpoint.config().max_per_peer / 4);
    // Its own begin as before, also if they have no ticket.
    for packet in whole(2) {
        endpoint.receive_known(now, &from, packet, &mut io);
    }
    assert_eq!(io.delivered.len(), 1);
    io.sent.clear();
    let [_, data] = whole(3);
    let mut first = sync(3, 1000);
    first.unscheduled = 1000;
    endpoint.receive(now, &from, Packet::Sync(first), &mut io);
    first.echo = echo(&io.take()).expect("a CHALLENGE");
    endpoint.receive(now, &from, Packet::Sync(first), &mut io);
    endpoint.receive(now, &from, data, &mut io);
    assert_eq!(io.delivered.len(), 2);
}

/// Guessing what a token said ends after some tries, and an echo still proves.
#[test]
fn guesses_of_a_token_end() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(7, 10_000)), &mut io);
    let mut now = NOW;
    while io.sent.iter().all(|it| !matches!(it.1, Packet::Token(_))) {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    let sent = io.take();
    let (token, number) = (tokens(&sent)[0], echo(&sent).expect("a CHALLENGE"));
    for guess in 0..64 {
        assert!(!endpoint.ins.get_mut(0).unwrap().proven);
        let wrong = wire::Token {
            timestamp: token.timestamp ^ (guess + 1),
            ..token
        };
        endpoint.receive(now, &from, answer(&wrong, 0, 1000), &mut io);
    }
    // The right one comes too late.
    endpoint.receive(now, &from, answer(&token, 0, 1000), &mut io);
    assert!(!endpoint.ins.get_mut(0).unwrap().proven);
    assert_eq!(endpoint.stats().get(Counter::DataUnasked), 65);
    let mut again = sync(7, 10_000);
    again.echo = number;
    endpoint.receive(now, &from, Packet::Sync(again), &mut io);
    assert!(endpoint.ins.get_mut(0).unwrap().proven);
}

/// All of a message has come for tokens, and its sender repeats it and shows no SYNC: it is not
/// delivered, and given up after the time-out.
#[test]
fn what_never_shows_its_address_is_given_up() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(7, 1000)), &mut io);
    let mut now = NOW;
    while io.sent.iter().all(|it| !matches!(it.1, Packet::Token(_))) {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    let token = tokens(&io.take())[0];
    let timeout = config().timeout;
    for quarter in 0..8 {
        let data = answer(&token, 0, 1000);
        endpoint.receive(now, &from, data, &mut io);
        let open = endpoint.counts().1;
        assert!(open == 1 || now >= NOW + timeout, "quarter {quarter}");
        let next = now + Nanos(timeout.0 / 4);
        while let Some(at) = endpoint.next_timer().filter(|at| *at < next) {
            now = now.max(at);
            endpoint.timer(now, now.0 as u32, &mut io);
        }
        now = next;
    }
    assert_eq!(endpoint.counts().1, 0);
    assert!(io.delivered.is_empty());
}

/// Nor does the answer to a token that was never sent, even if all else of it were right.
#[test]
fn answers_to_tokens_that_were_not_sent_prove_nothing() {
    let (mut endpoint, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    for packet in whole(7) {
        endpoint.receive(NOW, &from, packet, &mut io);
    }
    assert!(tokens(&io.take()).is_empty());
    for sequence in [1, 700, 60_000] {
        let number = endpoint.ins.get(0).expect("the message").number;
        let secret = endpoint.secret(number, Cookie(7), &from);
        let stamp = endpoint.key.hash([secret], purpose::STAMP, sequence) as u32;
        let token = wire::Token {
            cookie: Cookie(7),
            sequence: sequence as u16,
            timestamp: stamp & ((1 << 28) - 1),
            priority: 0,
            grant: None,
            worth: 1,
        };
        endpoint.receive(NOW, &from, answer(&token, 0, 1), &mut io);
    }
    assert!(io.delivered.is_empty());
    assert_eq!(endpoint.stats().get(Counter::DataUnasked), 3);
}

/// A message that begins once more has other tokens: what answered its first ones proves nothing.
#[test]
fn answers_to_an_earlier_opening_prove_nothing() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    let mut first = Vec::new();
    for round in 0..2 {
        let mut now = NOW + Nanos(round << 35);
        endpoint.receive(now, &from, Packet::Sync(sync(7, 10_000)), &mut io);
        while io.sent.iter().all(|it| !matches!(it.1, Packet::Token(_))) {
            now = now.max(endpoint.next_timer().unwrap());
            endpoint.timer(now, now.0 as u32, &mut io);
        }
        first.push(tokens(&io.take())[0]);
        endpoint.receive(now, &from, answer(&first[0], 0, 1000), &mut io);
        let (cookie, code) = (Cookie(7), ResetCode::Aborted);
        endpoint.receive(now, &from, Packet::Reset(Reset { cookie, code }), &mut io);
        assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
        io.take();
    }
    assert_ne!(first[0].sequence, first[1].sequence);
}

/// Who answers a message is given a ticket once, with which it can send something back at once; and
/// who has proved nothing cannot have us show others' hosts a ticket of its own.
#[test]
fn a_receiver_that_answers_has_a_ticket_for_its_reply() {
    let (mut client, mut out) = new(&with_unscheduled());
    let to = host(2, false);
    let mut given = Vec::new();
    for n in 0..3_u64 {
        // The last one in the time after.
        let now = NOW + Nanos(n / 2 * TICKET_KEPT.0);
        client.send(now, &to, &outgoing(), (), &mut out).unwrap();
        let cookie = out.take()[0].cookie();
        let token = wire::Token {
            cookie,
            sequence: 5,
            timestamp: now.0 as u32,
            priority: 0,
            grant: None,
            worth: 1,
        };
        client.receive(now, &to, Packet::Token(token), &mut out);
        let sent = out.take();
        assert!(matches!(sent[0], Packet::Data(_)), "the proof comes first");
        given.push(ticket(&sent));
    }
    assert_eq!(
        given,
        [
            client_ticket(&client, 0, &to),
            None,
            client_ticket(&client, 1, &to)
        ]
    );
    // Its reply.
    for packet in whole(1) {
        client.receive_known(NOW, &to, packet, &mut out);
    }
    assert_eq!(out.delivered.len(), 1);

    let (mut server, mut io) = new(&with_unscheduled());
    let from = host(1, false);
    let ticket = Packet::Challenge(Challenge {
        cookie: Cookie(7),
        echo: 99,
        ticket: true,
    });
    let shown = |server: &mut Messages, io: &mut Io| {
        let before = io.take();
        let id = send(server, &from, io).unwrap();
        let first = io.take()[0];
        server.abort(NOW, id, io);
        match first {
            Packet::Sync(sync) => (sync.echo, before),
            other => panic!("{other:?}"),
        }
    };
    server.receive(NOW, &from, Packet::Sync(sync(7, 10_000)), &mut io);
    server.receive(NOW, &from, ticket, &mut io);
    let (shows, sent) = shown(&mut server, &mut io);
    assert_eq!(shows, 0, "a stranger's");
    let mut again = sync(7, 10_000);
    again.echo = echo(&sent).expect("a CHALLENGE");
    server.receive(NOW, &from, Packet::Sync(again), &mut io);
    server.receive(NOW, &from, ticket, &mut io);
    assert_eq!(shown(&mut server, &mut io).0, 99);

    // Also when the message is over, as short ones soon are.
    let (mut server, mut io) = new(&with_unscheduled());
    for packet in whole(7) {
        server.receive_known(NOW, &from, packet, &mut io);
    }
    assert_eq!(server.counts(), (0, 0, 1));
    server.receive(NOW, &host(2, false), ticket, &mut io);
    assert_eq!(shown(&mut server, &mut io).0, 0, "of another address");
    server.receive(NOW, &from, ticket, &mut io);
    assert_eq!(shown(&mut server, &mut io).0, 99);
}

/// The first message to a host is short, and comes whole without tokens: the reply shows a ticket.
#[test]
fn the_first_request_is_answered_with_a_ticket() {
    let mut ends = [new(&with_unscheduled()), new(&with_unscheduled())];
    let addresses = [host(1, true), host(2, true)];
    let short = Outgoing {
        length: Some(1000),
        available: 1000,
        ..outgoing()
    };
    for (from, valid) in [(0, 0), (1, 1), (0, 1), (1, 2)] {
        let (endpoint, io) = &mut ends[from];
        endpoint
            .send(NOW, &addresses[1 - from], &short, (), io)
            .unwrap();
        for _ in 0..10 {
            for at in 0..2 {
                for packet in ends[at].1.take() {
                    let (endpoint, io) = &mut ends[1 - at];
                    endpoint.receive(NOW, &addresses[at], packet, io);
                }
            }
        }
        let (endpoint, io) = &mut ends[1 - from];
        assert_eq!(io.delivered.drain(..).count(), 1);
        assert_eq!(endpoint.stats().get(Counter::TicketValid), valid);
    }
}

fn client_ticket(client: &Messages, later: u64, to: &Address) -> Option<u64> {
    Some(client.ticket_of((NOW.0 >> TICKET_BITS) + later, to))
}
