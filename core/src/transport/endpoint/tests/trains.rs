// SPDX-License-Identifier: GPL-2.0
//! Tokens that stand for several: what they draw, how many there are, and how they are paced.

use std::{format, vec};

use super::*;
use crate::transport::wire::Token;

const MSS: u32 = 1450;

fn config(worth: u32) -> Resolved {
    let config = Config {
        worth,
        jitter: 0,
        ..Config::DEFAULT
    };
    config.validate(None).unwrap()
}

fn token(cookie: Cookie, sequence: u16, worth: u8) -> Packet {
    Packet::Token(Token {
        cookie,
        sequence,
        timestamp: 7,
        priority: 0,
        grant: None,
        worth,
    })
}

/// One that stands for eight draws eight packets in a row, each of which answers its own number; of
/// those that came before it draws none again, and of the rest of a message no more than there is.
#[test]
fn it_draws_as_many_packets_as_it_stands_for() {
    let to = host(1, false);
    let off = Config {
        unscheduled: 0,
        ..Config::DEFAULT
    };
    let (mut endpoint, mut io) = new(&off.validate(None).unwrap());
    let what = Outgoing {
        source: 1,
        destination: 2,
        length: Some(20 * MSS),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: MSS as u16,
        available: 20 * MSS,
        user: 0,
    };
    endpoint.send(NOW, &to, &what, (), &mut io).unwrap();
    let cookie = io.sent[0].1.cookie();
    io.take();
    let mut draws = |sequence, worth| {
        endpoint.receive(NOW, &to, token(cookie, sequence, worth), &mut io);
        let sent = io.take().into_iter();
        let sent: Vec<_> = sent
            .filter_map(|packet| match packet {
                Packet::Data(data) => Some((data.token, data.timestamp, data.offset)),
                _ => None,
            })
            .collect();
        sent
    };
    let expected = |tokens: core::ops::Range<u16>, first: u32| -> Vec<_> {
        let offsets = (first..).map(|packet| packet * MSS);
        tokens.zip(offsets).map(|(it, at)| (it, 7, at)).collect()
    };
    assert_eq!(draws(100, 8), expected(100..108, 0));
    // Four of these are new.
    assert_eq!(draws(104, 8), expected(108..112, 8));
    // The last is shorter, and there are no more than eight left.
    assert_eq!(draws(112, 64), expected(112..120, 12));
    let stats = endpoint.stats();
    assert_eq!(stats.get(Counter::TokenReceived), 8 + 8 + 64);
    assert_eq!(stats.get(Counter::TrainReceived), 3);
    assert_eq!(stats.get(Counter::TokenValid), 20);
    assert_eq!(stats.get(Counter::TokenDuplicate), 4);
    assert_eq!(stats.get(Counter::TokenIdle), 56);
}

/// A message of a peer that has proved its address, whose tokens are all answered at once, until
/// `span` has passed: when its tokens were sent, and what each stood for.
fn answered(config: &Resolved, span: Nanos) -> (Messages, Vec<(Nanos, u8)>) {
    answered_among(config, span, |_, _, _, _| true)
}

/// The same; `each` is called for each packet before it comes, and says whether it does.
fn answered_among(
    config: &Resolved,
    span: Nanos,
    mut each: impl FnMut(&mut Messages, &mut Io, Nanos, &Token) -> bool,
) -> (Messages, Vec<(Nanos, u8)>) {
    let (mut endpoint, mut io) = new(config);
    let from = host(1, false);
    let begin = NOW + Nanos::SECOND;
    endpoint.receive_known(begin, &from, Packet::Sync(sync(77, 1 << 29)), &mut io);
    let (mut now, mut offset, mut sent) = (begin, 0, Vec::new());
    while let Some(next) = endpoint.next_timer().filter(|at| *at < begin + span) {
        now = now.max(next);
        endpoint.timer(now, now.0 as u32, &mut io);
        for packet in io.take() {
            let Packet::Token(token) = packet else {
                continue;
            };
            sent.push((now, token.worth));
            for number in 0..token.worth.into() {
                let one = Token {
                    sequence: token.sequence.wrapping_add(number),
                    ..token
                };
                if each(&mut endpoint, &mut io, now, &token) {
                    endpoint.receive(now, &from, answer(&one, offset, 1000), &mut io);
                }
                offset += 1000;
            }
            let (_, id, ..) = endpoint.incoming(now, 0).unwrap();
            endpoint.window(now, id, offset + (1 << 20), &mut io);
        }
    }
    (endpoint, sent)
}

/// They begin with one, become as many as the option says, and ask for exactly as much as single
/// ones: the rate of all tokens.
#[test]
fn they_ask_for_as_much_as_single_ones() {
    let span = Nanos(10_000_000);
    let count = |worth| {
        let (endpoint, sent) = answered(&config(worth), span);
        let all: u64 = sent.iter().map(|(_, worth)| u64::from(*worth)).sum();
        assert_eq!(endpoint.stats().get(Counter::TokenSent), all);
        (all, sent)
    };
    let (single, sent) = count(1);
    assert_eq!(sent.len() as u64, single);
    // By default it begins when nothing has come unasked for 1 ms, and of what is asked nothing was
    // lost.
    for (worth, most, quiet) in [(2, 2_u64, 0), (0, 8, 2000), (8, 8, 0), (64, 64, 0)] {
        let (all, sent) = count(worth);
        assert_eq!(sent[0].1, 1, "{worth}");
        assert!(all.abs_diff(single) <= most, "{worth}: {all}, not {single}");
        let longest = sent.iter().map(|(_, worth)| u64::from(*worth)).max();
        let longest = longest.unwrap();
        // A quarter of what the link carries in a round trip, which is never less than 25 us here.
        assert!(
            (most.min(4)..=most).contains(&longest),
            "{worth}: {longest}"
        );
        // Most are as long; the first ones are shorter.
        let (packets, least) = (sent.len() as u64, all / longest);
        assert!(
            packets <= least + least / 4 + 64 + quiet,
            "{worth}: {packets}"
        );
    }
}

/// With other policies each asks for one packet, as in the papers, unless the option says more; so
/// it does on slow links.
#[test]
fn by_default_they_are_for_fast_links_and_policy_top() {
    let span = Nanos(6_000_000);
    let longest = |config: Config| {
        let (_, sent) = answered(&config.validate(None).unwrap(), span);
        sent.iter().map(|(_, worth)| *worth).max().unwrap()
    };
    let on = |link| Config {
        link,
        // Answers come at once, and half of this counts.
        base_rtt: 100_000,
        ..Config::DEFAULT
    };
    assert_eq!(longest(on(125_000_000)), 1);
    assert_eq!(longest(on(1_250_000_000)), 8);
    assert_eq!(longest(on(12_500_000_000)), 8);
    let other = Config {
        policy: crate::transport::uapi::POLICY_EXPRESSPASS,
        ..on(1_250_000_000)
    };
    assert_eq!(longest(other), 1);
    assert_eq!(longest(Config { worth: 4, ..other }), 4);
}

/// What anybody can send changes nothing: a packet of data of no message, each time.
#[test]
fn they_go_on_whatever_strangers_send() {
    let stranger = host(9, false);
    let (endpoint, sent) = answered_among(&config(0), Nanos(10_000_000), |endpoint, io, now, _| {
        let data = Data {
            cookie: Cookie(5),
            token: 0,
            timestamp: 0,
            offset: 0,
            len: 1,
            flags: crate::header::FLAG_UNASKED,
            more: 0,
        };
        endpoint.receive(now, &stranger, Packet::Data(data), io);
        true
    });
    assert!(endpoint.stats().get(Counter::DataUnknown) > 1000);
    let most = sent.iter().map(|it| it.1).max();
    assert!(most >= Some(4), "{most:?}");
}

/// When data is lost that they asked for there are none for ten seconds: ports that take each of
/// them for one do not drop as many as others do.
#[test]
fn a_loss_of_data_ends_them_for_long() {
    let (mut lost, mut at) = (false, Nanos::ZERO);
    let span = Nanos(30_000_000);
    let (_, sent) = answered_among(&config(0), span, |_, _, now, token| {
        if !lost && token.worth > 3 {
            (lost, at) = (true, now);
            return false;
        }
        true
    });
    assert!(lost);
    // Those that had been sent by then, and what it takes to notice.
    let soon = at + Nanos(1_000_000);
    let later: Vec<_> = sent.iter().filter(|it| it.0 > soon).collect();
    assert!(later.len() > 1000);
    assert!(later.iter().all(|it| it.1 == 1));
}

/// The next message of a peer goes on where the last one was, unless that is long ago.
#[test]
fn a_peer_that_was_calm_is_so_at_once() {
    let (mut endpoint, _) = answered(&config(0), Nanos(30_000_000));
    let peer = endpoint.peers.find(&endpoint.key, &host(1, false)).unwrap();
    let end = NOW + Nanos::SECOND + Nanos(30_000_000);
    assert!(endpoint.peers.is_calm(end, peer));
    assert!(!endpoint.peers.is_calm(end + Nanos(1_100_000_000), peer));
    let mut io = Io::default();
    let next = Packet::Sync(sync(78, 1 << 20));
    endpoint.receive_known(end, &host(1, false), next, &mut io);
    let index = endpoint.find_in(Cookie(78), &host(1, false)).unwrap();
    assert!(endpoint.ins.get(index).unwrap().is_calm());
}

/// Who has not shown its address, or does not answer, gets single ones.
#[test]
fn strangers_and_who_does_not_answer_get_single_ones() {
    for known in [false, true] {
        let (mut endpoint, mut io) = new(&config(64));
        let (from, mut now) = (host(1, false), NOW + Nanos::SECOND);
        let begin = Packet::Sync(sync(77, 1 << 20));
        match known {
            true => endpoint.receive_known(now, &from, begin, &mut io),
            false => endpoint.receive(now, &from, begin, &mut io),
        }
        let end = now + Nanos(100_000_000);
        while let Some(next) = endpoint.next_timer().filter(|at| *at < end) {
            now = now.max(next);
            endpoint.timer(now, now.0 as u32, &mut io);
            let tokens = io.take();
            let long = tokens.iter().any(|packet| match packet {
                Packet::Token(token) => token.worth != 1,
                _ => false,
            });
            assert!(!long, "{known}");
        }
    }
}

/// Messages of a known peer whose tokens are all answered but the last ones, eight or more at once:
/// the answers to those.
fn before(messages: u64) -> (Messages, Io, Nanos, Vec<Packet>) {
    let config = Config {
        worth: 8,
        jitter: 0,
        base_rtt: 100_000,
        ..Config::DEFAULT
    };
    let (mut endpoint, mut io) = new(&config.validate(None).unwrap());
    let from = host(1, false);
    let mut now = NOW + Nanos::SECOND;
    for cookie in 0..messages {
        endpoint.receive_known(
            now,
            &from,
            Packet::Sync(sync(77 + cookie, 1 << 20)),
            &mut io,
        );
    }
    let mut offsets = vec![0; messages as usize];
    loop {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
        let mut answers = Vec::new();
        for packet in io.take() {
            let Packet::Token(token) = packet else {
                continue;
            };
            for number in 0..token.worth.into() {
                let one = Token {
                    sequence: token.sequence.wrapping_add(number),
                    ..token
                };
                let offset = &mut offsets[token.cookie.0 as usize - 77];
                answers.push(answer(&one, *offset, 1000));
                *offset += 1000;
            }
        }
        if answers.len() >= 8 {
            return (endpoint, io, now, answers);
        }
        for packet in answers {
            endpoint.receive(now, &from, packet, &mut io);
        }
    }
}

/// Packets that come together have the same answers as if they had come one by one at that time, of
/// which none is said twice; also if one is missing among them, came before, or is of another
/// message.
#[test]
fn what_comes_together_is_answered_as_if_it_came_one_by_one() {
    for (messages, what) in [(1, "all"), (1, "gap"), (1, "twice"), (3, "mixed")] {
        let outcome = |together: bool| {
            let (mut endpoint, mut io, now, mut answers) = before(messages);
            match what {
                "gap" => drop(answers.remove(3)),
                "twice" => answers[5] = answers[4],
                "mixed" => answers.sort_by_key(|packet| match packet {
                    Packet::Data(data) => data.offset,
                    _ => 0,
                }),
                _ => {}
            }
            io.take();
            io.progress = 0;
            let from = host(1, false);
            if together {
                endpoint.begin_train();
            }
            for packet in &answers {
                endpoint.receive(now, &from, *packet, &mut io);
            }
            if together {
                endpoint.end_train(now, now.0 as u32, 0, &mut io);
            }
            let next = endpoint.next_timer();
            let come: Vec<_> = core::iter::successors(endpoint.incoming(now, 0), |it| {
                endpoint.incoming(now, it.0)
            })
            .map(|it| (it.2.received, *it.3))
            .collect();
            let mut sent: Vec<_> = io.take().iter().map(|it| format!("{it:?}")).collect();
            sent.sort();
            let progress = core::mem::take(&mut io.progress);
            (sent, come, next, progress, answers.len() as u32)
        };
        let (one_by_one, together) = (outcome(false), outcome(true));
        assert_eq!(one_by_one.0, together.0, "{what}");
        assert_eq!(one_by_one.1, together.1, "{what}");
        assert_eq!(one_by_one.2, together.2, "{what}");
        if what == "all" {
            assert_eq!((one_by_one.3, together.3), (together.4, 1));
        }
    }
}

/// The end of a message may come among others.
#[test]
fn a_message_may_end_in_the_middle_of_what_comes_together() {
    let (mut endpoint, mut io) = new(&config(8));
    let (from, now) = (host(1, false), NOW + Nanos::SECOND);
    for (cookie, length) in [(77, 3000), (78, 1 << 20)] {
        endpoint.receive_known(now, &from, Packet::Sync(sync(cookie, length)), &mut io);
    }
    let tokens = |io: &mut Io| {
        let mut tokens: Vec<Token> = Vec::new();
        for packet in io.take() {
            if let Packet::Token(token) = packet {
                tokens.push(token);
            }
        }
        tokens
    };
    let mut at = now;
    let mut all = Vec::new();
    while all.iter().filter(|it: &&Token| it.cookie.0 == 77).count() < 3 {
        at = at.max(endpoint.next_timer().unwrap());
        endpoint.timer(at, at.0 as u32, &mut io);
        all.extend(tokens(&mut io));
    }
    endpoint.begin_train();
    let mut offsets = [0, 0];
    for token in &all {
        let offset = &mut offsets[token.cookie.0 as usize - 77];
        endpoint.receive(at, &from, answer(token, *offset, 1000), &mut io);
        *offset += 1000;
    }
    endpoint.end_train(at, at.0 as u32, 0, &mut io);
    assert_eq!(io.delivered.len(), 1);
    let others: Vec<_> = core::iter::once(endpoint.incoming(at, 0).unwrap())
        .map(|it| *it.3)
        .collect();
    assert_eq!(others, [offsets[1]]);
}
