// SPDX-License-Identifier: GPL-2.0
//! Messages that their senders pace: what each end sends, and takes.

use super::*;
use crate::header::FLAG_UNASKED;
use crate::transport::rate::Mark;
use crate::transport::uapi;
use crate::transport::wire::{Resend, Spans, Token};

/// 10 Gbit/s.
const LINE: u64 = 1_250_000_000;
const SEGMENT: u32 = 16 * 1450;

fn paced(policy: u32) -> Resolved {
    let config = Config {
        // Times are exact.
        jitter: 0,
        policy,
        // As if the receiver were known.
        unscheduled: 1024,
        ..Config::DEFAULT
    };
    config.validate(None).unwrap()
}

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

fn ack(cookie: Cookie, received: u32, (mark, notify): (Mark, bool)) -> Packet {
    Packet::Ack(Ack {
        cookie,
        received,
        window: 1 << 20,
        allowance: 0,
        last: false,
        mark,
        notify,
    })
}

/// Lets timers fire until then. Returns the data that was sent, with its time.
fn run(endpoint: &mut Messages, io: &mut Io, from: Nanos, until: Nanos) -> Vec<(Nanos, Data)> {
    let mut all = Vec::new();
    let mut now = from;
    loop {
        for packet in io.take() {
            if let Packet::Data(data) = packet {
                all.push((now, data));
            }
        }
        match endpoint.next_timer() {
            Some(next) if next <= until => now = next.max(now),
            _ => return all,
        }
        endpoint.timer(now, now.0 as u32, io);
    }
}

fn rate(endpoint: &Messages, now: Nanos) -> u64 {
    endpoint.outgoing(now, 0).unwrap().2.rate
}

/// A message that goes out by a policy, its first packets, and its cookie.
fn begin(policy: u32, length: u32) -> (Messages, Io, Vec<(Nanos, Data)>, Cookie) {
    let (mut endpoint, mut io) = new(&paced(policy));
    let to = host(1, false);
    endpoint
        .send(NOW, &to, &plain(length), (), &mut io)
        .unwrap();
    let Packet::Sync(sync) = io.sent[0].1 else {
        panic!("{:?}", io.sent[0]);
    };
    assert!(sync.paced && !sync.ren);
    // It announces what follows at once.
    assert!(sync.unscheduled >= 62_500 / 1538 * 1450);
    let sent = run(&mut endpoint, &mut io, NOW, NOW + Nanos::MILLISECOND);
    (endpoint, io, sent, sync.cookie)
}

#[test]
fn data_is_paced_and_goes_as_far_as_a_round_trip_before_an_answer() {
    for policy in [uapi::POLICY_DCQCN, uapi::POLICY_TIMELY] {
        let (_, _, sent, _) = begin(policy, 10_000_000);
        // 62.5 KB on the link.
        assert_eq!(sent.len(), 62_500 / 1538);
        for ((at, data), number) in sent.iter().zip(0_u32..) {
            assert_eq!((data.offset, data.len), (number * 1450, 1450));
            assert_eq!(
                (data.flags, data.token, data.timestamp),
                (FLAG_UNASKED, 0, 0)
            );
            // 1538 bytes at 10 Gbit/s are 1230.4 ns; the pacer may be some packets ahead once.
            let due = u64::from(number) * 12304 / 10;
            let early = (NOW + Nanos(due)).0.saturating_sub(at.0);
            assert!(
                early <= 12_304 && at.0 <= (NOW + Nanos(due)).0 + 1300,
                "{number}: {at:?}"
            );
        }
    }
}

#[test]
fn a_notification_of_the_receiver_cuts_and_no_other_mark_does() {
    let (mut endpoint, mut io, sent, cookie) = begin(uapi::POLICY_DCQCN, 10_000_000);
    let (peer, other) = (host(1, false), host(2, false));
    let mut now = NOW + Nanos::MILLISECOND;
    let got = |endpoint: &Messages, counter| endpoint.stats().get(counter);
    assert_eq!(rate(&endpoint, now), LINE);
    // Somebody else has the cookie.
    let cut = ack(cookie, 0, (Mark::Congested, true));
    endpoint.receive(now, &other, cut, &mut io);
    assert_eq!(got(&endpoint, Counter::SignalAddress), 1);
    // Somebody has not.
    let unknown = ack(Cookie(cookie.0 ^ 1), 0, (Mark::Congested, true));
    endpoint.receive(now, &peer, unknown, &mut io);
    // More than was sent.
    let far = sent.len() as u32 * 1450 + 1;
    endpoint.receive(
        now,
        &peer,
        ack(cookie, far, (Mark::Congested, true)),
        &mut io,
    );
    assert_eq!(got(&endpoint, Counter::SignalContradiction), 1);
    assert_eq!(rate(&endpoint, now), LINE);
    assert_eq!(got(&endpoint, Counter::NotifyReceived), 0);
    // A mark that is not notified, and a notification that it cannot tell.
    endpoint.receive(
        now,
        &peer,
        ack(cookie, 1450, (Mark::Congested, false)),
        &mut io,
    );
    endpoint.receive(
        now,
        &peer,
        ack(cookie, 1450, (Mark::Undetermined, true)),
        &mut io,
    );
    assert_eq!(rate(&endpoint, now), LINE);
    endpoint.receive(now, &peer, cut, &mut io);
    assert_eq!(rate(&endpoint, now), LINE / 2);
    assert_eq!(got(&endpoint, Counter::NotifyReceived), 2);
    // Packets are twice as far apart until it goes up.
    run(&mut endpoint, &mut io, now, now + Nanos(20_000));
    now += Nanos(20_000);
    let sent = run(&mut endpoint, &mut io, now, now + Nanos(30_000));
    for pair in sent.windows(2) {
        let apart = pair[1].0 - pair[0].0;
        assert!((2460..=2462).contains(&apart.0), "{apart:?}");
    }
    assert!(sent.len() >= 10);
}

#[test]
fn what_is_named_goes_first_and_tokens_draw_nothing() {
    let (mut endpoint, mut io, sent, cookie) = begin(uapi::POLICY_TIMELY, 62_500 / 1538 * 1450);
    let peer = host(1, false);
    let now = NOW + Nanos::MILLISECOND;
    let token = Packet::Token(Token {
        cookie,
        sequence: 1,
        timestamp: now.0 as u32,
        priority: 0,
        grant: None,
        worth: 1,
    });
    endpoint.receive(now, &peer, token, &mut io);
    assert!(io.take().is_empty());
    assert_eq!(endpoint.stats().get(Counter::TokenIdle), 1);
    let mut spans = Spans::EMPTY;
    assert!(spans.push(1450, 2900));
    let resend = Packet::Resend(Resend { cookie, spans });
    endpoint.receive(now, &peer, resend, &mut io);
    let again = run(&mut endpoint, &mut io, now, now + Nanos(10_000));
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].1.offset, again[0].1.len), (1450, 1450));
    // Nobody answers: the last packet is sent again, beside the question, each time; from the
    // second time on the first one, too, which may be too long for the path.
    let last = sent.last().unwrap().1;
    let more = run(
        &mut endpoint,
        &mut io,
        now + Nanos(10_000),
        now + Nanos(10_000_000),
    );
    let [(_, once), rest @ ..] = more.as_slice() else {
        panic!("nothing was sent");
    };
    assert_eq!(*once, last);
    assert!(rest.len() <= 4, "{more:?}");
    let first = |data: &Data| (data.offset, data.len) == (0, 1450);
    assert!(rest.iter().all(|(_, data)| *data == last || first(data)));
    assert!(rest.is_empty() || rest.iter().any(|(_, data)| first(data)));
}

#[test]
fn segments_make_timely_faster_and_late_ones_slower() {
    let (mut endpoint, mut io, _, cookie) = begin(uapi::POLICY_TIMELY, 10_000_000);
    let peer = host(1, false);
    let now = NOW + Nanos::MILLISECOND;
    let before = rate(&endpoint, now);
    // One of the whole link is as fast as it gets; this one took a ms.
    assert_eq!(before, LINE);
    endpoint.receive(
        now,
        &peer,
        ack(cookie, SEGMENT - 1, (Mark::None, false)),
        &mut io,
    );
    assert_eq!(rate(&endpoint, now), before);
    endpoint.receive(
        now,
        &peer,
        ack(cookie, SEGMENT, (Mark::None, false)),
        &mut io,
    );
    let slower = rate(&endpoint, now);
    assert!(slower < before * 7 / 10, "{slower}");
    let sent = run(&mut endpoint, &mut io, now, now + Nanos(200_000));
    let end = sent.last().unwrap().1.offset + 1450;
    // What ends another segment was sent just before.
    let at = sent.last().unwrap().0 + Nanos(10_000);
    endpoint.receive(
        at,
        &peer,
        ack(cookie, end / SEGMENT * SEGMENT, (Mark::None, false)),
        &mut io,
    );
    assert!(rate(&endpoint, at) > slower);
}

/// A message that comes in, and its SYNC.
fn incoming(policy: u32, length: u32) -> (Messages, Io, Sync) {
    let (mut endpoint, mut io) = new(&paced(policy));
    let opening = Sync {
        paced: true,
        ..sync(9, length)
    };
    endpoint.receive(NOW, &host(1, false), Packet::Sync(opening), &mut io);
    (endpoint, io, opening)
}

fn part(offset: u32) -> Packet {
    Packet::Data(Data {
        cookie: Cookie(9),
        token: 0,
        timestamp: 0,
        offset,
        len: 1450,
        flags: FLAG_UNASKED,
        more: 0,
    })
}

#[test]
fn a_stranger_is_asked_for_a_proof_and_is_believed_no_further_than_a_round_trip() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_REN, uapi::POLICY_DCQCN] {
        let (mut endpoint, mut io, opening) = incoming(policy, 10_000_000);
        let from = host(1, false);
        let challenge = io.take().into_iter().find_map(|packet| match packet {
            Packet::Challenge(it) => Some(it),
            _ => None,
        });
        let challenge = challenge.expect("nothing else shows its address");
        let room = 62_500 / 1538 * 1450;
        endpoint.receive(NOW, &from, part(room - 1450), &mut io);
        assert_eq!(endpoint.stats().get(Counter::DataUnasked), 0);
        endpoint.receive(NOW, &from, part(room), &mut io);
        assert_eq!(endpoint.stats().get(Counter::DataUnasked), 1);
        let shown = Sync {
            echo: challenge.echo,
            ..opening
        };
        endpoint.receive(NOW + Nanos(10), &from, Packet::Sync(shown), &mut io);
        let told = |packet: &Packet| matches!(packet, Packet::Ack(ack) if ack.window > room);
        assert!(
            io.take().iter().any(told),
            "it does not know that it may go on"
        );
        endpoint.receive(NOW + Nanos(20), &from, part(room), &mut io);
        assert_eq!(endpoint.stats().get(Counter::DataUnasked), 1);
        // No policy gives it tokens.
        endpoint.timer(NOW + Nanos::MILLISECOND, 0, &mut io);
        assert_eq!(endpoint.stats().get(Counter::TokenSent), 0);
        assert_eq!(endpoint.stats().get(Counter::GrantSent), 0);
    }
}

#[test]
fn marks_are_told_at_once_and_then_once_in_an_interval() {
    let (mut endpoint, mut io, opening) = incoming(uapi::POLICY_TOP, 10_000_000);
    let from = host(1, false);
    let challenge = io.take().into_iter().find_map(|packet| match packet {
        Packet::Challenge(it) => Some(it),
        _ => None,
    });
    let echo = challenge.unwrap().echo;
    endpoint.receive(NOW, &from, Packet::Sync(Sync { echo, ..opening }), &mut io);
    io.take();
    let mut next = 0;
    let mut comes = |at: u64, ecn: u8| {
        let now = NOW + Nanos(at);
        let packet = part(next);
        next += 1450;
        endpoint.packet(now, now.0 as u32, &from, 0, ecn, &packet, (), &mut io);
        let acks = io.take().into_iter().filter_map(|packet| match packet {
            Packet::Ack(ack) => Some((ack.received / 1450, ack.mark, ack.notify)),
            _ => None,
        });
        acks.collect::<Vec<_>>()
    };
    assert_eq!(comes(1000, 2), []);
    assert_eq!(comes(2000, 1), [(2, Mark::Undetermined, true)]);
    assert_eq!(comes(3000, 3), []);
    assert_eq!(comes(4000, 1), []);
    assert_eq!(comes(51_999, 2), []);
    // The worst of the interval, with the first packet behind it.
    assert_eq!(comes(52_000, 2), [(6, Mark::Congested, true)]);
    assert_eq!(comes(60_000, 3), []);
    for packet in 8..16 {
        assert_eq!(comes(60_000 + packet, 2), []);
    }
    // A segment ends, whatever was acknowledged before; what was marked is told, and not notified.
    assert_eq!(comes(61_000, 2), [(16, Mark::Congested, false)]);
    for packet in 17..32 {
        assert_eq!(comes(61_000 + packet, 2), []);
    }
    assert_eq!(comes(62_000, 2), [(32, Mark::None, false)]);
    let got = |counter| endpoint.stats().get(counter);
    assert_eq!(got(Counter::EcnCongested), 2);
    assert_eq!(got(Counter::EcnUndetermined), 2);
    assert_eq!(got(Counter::NotifySent), 2);
}

#[test]
fn questions_overtake_data_and_so_say_nothing_of_losses() {
    let (mut endpoint, mut io, opening) = incoming(uapi::POLICY_DCQCN, 14_500);
    let from = host(1, false);
    let challenge = io.take().into_iter().find_map(|packet| match packet {
        Packet::Challenge(it) => Some(it),
        _ => None,
    });
    let echo = challenge.unwrap().echo;
    let proof = Sync { echo, ..opening };
    endpoint.receive(NOW, &from, Packet::Sync(proof), &mut io);
    endpoint.receive(NOW, &from, part(0), &mut io);
    io.take();
    let probe = Sync {
        probe: true,
        ..proof
    };
    for second in 1..4 {
        let now = NOW + Nanos(second * 10_000_000);
        endpoint.receive(now, &from, Packet::Sync(probe), &mut io);
        endpoint.timer(now + Nanos(1_000_000), 0, &mut io);
    }
    let resends = |io: &mut Io| {
        let all = io.take().into_iter();
        let all = all.filter_map(|packet| match packet {
            Packet::Resend(resend) => Some(resend.spans.as_slice().to_vec()),
            _ => None,
        });
        all.flatten()
            .map(|span| (span.start, span.end))
            .collect::<Vec<_>>()
    };
    assert_eq!(resends(&mut io), []);
    // The last packet does.
    let now = NOW + Nanos(50_000_000);
    endpoint.receive(now, &from, part(14_500 - 1450), &mut io);
    endpoint.timer(now + Nanos(50_000), 0, &mut io);
    assert_eq!(resends(&mut io), [(1450, 14_500 - 1450)]);
}

/// So many packets of the message leave the host's own queues, of which the endpoint hears then.
fn leave(endpoint: &mut Messages, io: &mut Io, now: Nanos, packets: u32) {
    let below = io.below.as_mut().unwrap();
    *below -= packets;
    if let Some(id) = io.waits.take() {
        endpoint.left(now, id, io.below.unwrap(), io);
    }
}

/// A message of a host whose link is paused: two packets wait there, and no more, however long it
/// lasts; one follows each that leaves, and no more is made up for than where a timer is late.
#[test]
fn a_message_waits_above_while_its_packets_wait_below() {
    for policy in [uapi::POLICY_DCQCN, uapi::POLICY_TIMELY] {
        let (mut endpoint, mut io) = new(&paced(policy));
        io.below = Some(0);
        let to = host(1, false);
        let id = endpoint
            .send(NOW, &to, &plain(10_000_000), (), &mut io)
            .unwrap();
        let mut now = NOW + Nanos::MILLISECOND;
        let sent = run(&mut endpoint, &mut io, NOW, now);
        assert_eq!((sent.len(), io.below, io.waits), (2, Some(2), Some(id)));
        for _ in 0..10 {
            leave(&mut endpoint, &mut io, now, 1);
            let sent = run(&mut endpoint, &mut io, now, now + Nanos(10_000));
            let times: Vec<Nanos> = sent.iter().map(|(at, _)| *at).collect();
            assert_eq!(times, [now]);
            now += Nanos(10_000);
        }
        // Once they leave at once, it has its rate again.
        leave(&mut endpoint, &mut io, now, 2);
        let mut times = Vec::new();
        for _ in 0..20 {
            let sent = run(&mut endpoint, &mut io, now, now + Nanos(1000));
            now += Nanos(1000);
            leave(&mut endpoint, &mut io, now, sent.len() as u32);
            times.extend(sent.iter().map(|(at, _)| *at));
        }
        assert!((16..=21).contains(&times.len()), "{times:?}");
        for pair in times[times.len() - 5..].windows(2) {
            assert!((1230..=1231).contains(&(pair[1] - pair[0]).0), "{pair:?}");
        }
        // It has ended when the last ones leave.
        endpoint.abort(now, id, &mut io);
        endpoint.left(now, id, 0, &mut io);
    }
}

/// Where a host hears of packets only when all are gone, more and more may be below.
#[test]
fn more_may_be_below_where_word_of_what_left_is_late() {
    let (mut endpoint, mut io) = new(&paced(uapi::POLICY_DCQCN));
    io.below = Some(0);
    let to = host(1, false);
    endpoint
        .send(NOW, &to, &plain(10_000_000), (), &mut io)
        .unwrap();
    let mut now = NOW;
    for expected in [2, 4, 8, 16] {
        let until = now + Nanos(30_000);
        let sent = run(&mut endpoint, &mut io, now, until);
        assert_eq!(sent.len(), expected);
        now = until;
        leave(&mut endpoint, &mut io, now, expected as u32);
    }
    // Now its rate is what it waits for.
    let sent = run(&mut endpoint, &mut io, now, now + Nanos(10_000));
    assert!((9..=10).contains(&sent.len()), "{}", sent.len());
    assert!(io.waits.is_none());
}
