// SPDX-License-Identifier: GPL-2.0
//! Tokens that nobody answers, the windows that senders are told, and the rates that are shown.

use super::trust::{outgoing, tokens};
use super::*;
use crate::transport::ledger::MAX_OUTSTANDING;

/// A message of a peer that has proved its address, and what was sent for it so far.
fn begun(config: &Resolved, length: u32) -> (Messages, Io, Address, Nanos) {
    let (mut endpoint, mut io) = new(config);
    let from = host(1, false);
    let now = NOW + Nanos::SECOND;
    endpoint.receive_known(now, &from, Packet::Sync(sync(77, length)), &mut io);
    (endpoint, io, from, now)
}

/// Lets the timers run until then; the tokens and when each was sent.
fn run(endpoint: &mut Messages, io: &mut Io, until: Nanos) -> Vec<(Nanos, wire::Token)> {
    let mut tokens = Vec::new();
    let mut now = Nanos::ZERO;
    while let Some(next) = endpoint.next_timer().filter(|next| *next <= until) {
        now = now.max(next);
        endpoint.timer(now, now.0 as u32, io);
        for packet in io.take() {
            if let Packet::Token(token) = packet {
                tokens.extend(singles(token).map(|token| (now, token)));
            }
        }
    }
    tokens
}

/// The tokens that one stands for.
fn singles(token: wire::Token) -> impl Iterator<Item = wire::Token> {
    (0..token.worth.into()).map(move |number| wire::Token {
        sequence: token.sequence.wrapping_add(number),
        worth: 1,
        ..token
    })
}

/// A sender that has nothing more for now says so, and gets no token until it asks. The time in
/// between is not made up for: then it has tokens at its rate, which others' is not.
#[test]
fn who_has_nothing_gets_no_token_until_it_asks() {
    let config = Config {
        initial_rate: 62_500_000,
        ..Config::DEFAULT
    };
    let config = config.validate(None).unwrap();
    let (mut endpoint, mut io, from, mut now) = begun(&config, 1 << 20);
    let span = config.base_rtt;
    let first = run(&mut endpoint, &mut io, now + span);
    assert!(first.len() > 1, "{} tokens", first.len());
    now += span;
    endpoint.receive(now, &from, answer(&first[0].1, 0, 1000), &mut io);
    let ack = |received, window| {
        Packet::Ack(Ack {
            cookie: Cookie(77),
            received,
            window,
            allowance: 0,
            last: false,
            mark: crate::transport::rate::Mark::None,
            notify: false,
        })
    };
    endpoint.receive(now, &from, ack(1000, 0), &mut io);
    // It is told what has come.
    let told = io.take();
    assert!(told
        .iter()
        .any(|it| matches!(it, Packet::Ack(ack) if ack.received == 1000)));
    let pause = Nanos(50 * span.0);
    assert_eq!(run(&mut endpoint, &mut io, now + pause), []);
    now += pause;
    let probe = Sync {
        probe: true,
        ..sync(77, 1 << 20)
    };
    endpoint.receive(now, &from, Packet::Sync(probe), &mut io);
    let sent = io.take();
    let sent = sent.iter().filter(|it| matches!(it, Packet::Token(_)));
    let again = sent.count() + run(&mut endpoint, &mut io, now + span).len();
    assert!(
        (first.len() - 1..=first.len() + 1).contains(&again),
        "{again} tokens, and {} at first",
        first.len()
    );
}

/// A packet of a message that was delivered is answered: its sender has not heard of that. Nothing
/// is said of one that nobody knows, which may have overtaken its SYNC.
#[test]
fn data_of_what_was_delivered_is_answered() {
    let (mut endpoint, mut io, from, now) = begun(&config(), 1000);
    let [(at, token), ..] = run(&mut endpoint, &mut io, now + config().base_rtt)[..] else {
        panic!("no token");
    };
    endpoint.receive(at, &from, answer(&token, 0, 1000), &mut io);
    assert_eq!(io.delivered.len(), 1);
    io.take();
    let late = at + config().base_rtt + config().rto;
    endpoint.receive(late, &from, answer(&token, 0, 1000), &mut io);
    let sent = io.take();
    assert!(
        matches!(sent[..], [Packet::Ack(ack)] if ack.last && ack.received == 1000),
        "{sent:?}"
    );
    assert_eq!(endpoint.stats().get(Counter::DataDuplicate), 1);
    let unknown = wire::Token {
        cookie: Cookie(78),
        ..token
    };
    endpoint.receive(late, &from, answer(&unknown, 0, 1000), &mut io);
    assert_eq!(io.take(), []);
    assert_eq!(endpoint.stats().get(Counter::DataUnknown), 1);
    assert_eq!(io.delivered.len(), 1);
}

/// A sender that answers nothing gets some tokens, and then single ones, ever further apart; each
/// is counted as given up.
#[test]
fn a_silent_sender_gets_single_tokens_ever_further_apart() {
    let config = config();
    let (mut endpoint, mut io, _, now) = begun(&config, 1 << 20);
    let until = now + config.timeout - Nanos::MILLISECOND;
    let all = run(&mut endpoint, &mut io, until);
    let first = all
        .iter()
        .take_while(|(at, _)| *at < now + Nanos(8 * config.base_rtt.0))
        .count();
    assert!((8..=200).contains(&first), "{first} at first");
    // Then at most one in each pause, whose longest is four times `rto`.
    let longest = config.rto.0 * 4;
    let rest = (until - now).0 / (longest / 2) + 10;
    assert!(
        all.len() as u64 <= first as u64 + rest,
        "{} in all",
        all.len()
    );
    let late: Vec<_> = all.iter().rev().take(10).map(|(at, _)| at.0).collect();
    // A fortieth of the time since anything came, of which two round trips are not waited.
    for pair in late.windows(2) {
        let silent = pair[1] - now.0;
        assert!(pair[0] - pair[1] >= silent / 41, "{silent}: {late:?}");
    }
    // All but those that may still be answered.
    let given_up = endpoint.stats().get(Counter::TokenGivenUp);
    let sent = endpoint.stats().get(Counter::TokenSent);
    assert_eq!(sent, all.len() as u64);
    assert!(
        (sent - 1..=sent).contains(&given_up),
        "{given_up} of {sent}"
    );
}

/// A token is for a packet of the announced length: with more for each, a sender would have a
/// multiple of its rate.
#[test]
fn a_token_draws_no_more_than_a_packet() {
    let (mut endpoint, mut io, from, now) = begun(&config(), 1 << 20);
    let mss = u32::from(sync(77, 1).mss);
    let tokens = run(&mut endpoint, &mut io, now + Nanos::MILLISECOND);
    let [(at, first), (_, second), ..] = tokens[..] else {
        panic!("no tokens");
    };
    endpoint.receive(at, &from, answer(&first, 0, mss + 1), &mut io);
    let received = |endpoint: &Messages| endpoint.incoming(at, 0).unwrap().2.received;
    assert_eq!(received(&endpoint), 0);
    assert_eq!(endpoint.stats().get(Counter::DataTooLong), 1);
    endpoint.receive(at, &from, answer(&second, 0, mss), &mut io);
    assert_eq!(received(&endpoint), mss);
}

/// Numbers have to stay unambiguous.
#[test]
fn no_more_tokens_are_under_way_than_there_are_numbers_for() {
    use crate::transport::feedback::Credit;
    use crate::transport::incoming::In;
    let config = config();
    let from = host(1, false);
    let sync = Sync {
        mss: 256,
        ..sync(1, wire::MAX_LENGTH)
    };
    let times = (config.base_rtt, config.rto, config.timeout);
    let credit = Credit::new(&config);
    let window = wire::MAX_LENGTH;
    let mut message = In::new(
        (),
        1,
        0,
        &from,
        &sync,
        window,
        NOW,
        times,
        NOW,
        credit,
        65_000,
    );
    message.proven = true;
    let (base, speed) = (config.base_rtt, &config.speed);
    let fill = |message: &mut In<()>| {
        while message.wants(NOW, base, speed, false) {
            message.token(NOW, base);
        }
        message.ledger.outstanding()
    };
    // What the link carries in four of the shortest round trips. Nothing is known of them at first.
    let trips = |trip| (speed.bytes_in(trip) + 256) * 4 / 256;
    assert_eq!(fill(&mut message).abs_diff(trips(base)), 1);
    message.measured(NOW, Nanos(base.0 / 4), base);
    assert_eq!(fill(&mut message).abs_diff(trips(base)), 1);
    message.measured(NOW, Nanos(base.0 * 2), base);
    assert!(
        !message.wants(NOW, base, speed, false),
        "a longer one says nothing"
    );
    let later = NOW + Nanos(4 * Nanos::SECOND.0);
    message.measured(later, Nanos(base.0 * 2), base);
    assert_eq!(fill(&mut message).abs_diff(trips(Nanos(base.0 * 2))), 1);
    message.measured(later + later, Nanos::SECOND, base);
    assert_eq!(fill(&mut message), MAX_OUTSTANDING);
    assert!(message.ledger.is_full());
    message.ledger.give_up(65_001);
    assert!(message.wants(NOW, base, speed, false));
}

/// On a link with next to no delay any wait would exceed the round-trip time, and all tokens under
/// way would count as lost.
#[test]
fn a_round_trip_is_at_least_half_of_base_rtt() {
    let config = config();
    let (mut endpoint, mut io, from, now) = begun(&config, 1 << 20);
    let [(at, token), ..] = run(&mut endpoint, &mut io, now + config.base_rtt)[..] else {
        panic!("no token");
    };
    let now = at + Nanos(1000);
    endpoint.receive(now, &from, answer(&token, 0, 1000), &mut io);
    let sample = (now.0 as u32).wrapping_sub(token.timestamp);
    let index = endpoint.find_in(Cookie(77), &from).unwrap();
    let message = endpoint.ins.get(index).unwrap();
    assert_eq!(message.rtt.get(), Some(Nanos(sample.into())));
    assert!(u64::from(sample) < config.base_rtt.0 / 4);
    assert_eq!(message.rtt(config.base_rtt), Nanos(config.base_rtt.0 / 2));
}

/// Who reads slowly makes room in small steps. The sender is told when what it may still send is no
/// more than half of the room, and not of each step.
#[test]
fn a_window_is_told_when_half_of_it_is_used() {
    const WINDOW: u32 = 1 << 20;
    const STEP: u32 = 1 << 12;
    let (mut endpoint, mut io, from, mut now) = begun(&config(), 4 * WINDOW);
    let id = endpoint.incoming(now, 0).unwrap().1;
    let mut received = 0;
    while received < WINDOW / 4 * 3 {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
        for packet in io.take() {
            if let Packet::Token(token) = packet {
                endpoint.receive(now, &from, answer(&token, received, 1024), &mut io);
                received += 1024;
            }
        }
    }
    io.take();
    let mut told = Vec::new();
    for read in (0..=received).step_by(STEP as usize) {
        assert!(endpoint.window(now, id, WINDOW + read, &mut io));
        for packet in io.take() {
            if let Packet::Ack(ack) = packet {
                assert_eq!((ack.received, ack.last), (received, false));
                told.push(ack.window);
            }
        }
    }
    assert_eq!(told, [WINDOW / 4 * 5, WINDOW / 4 * 7]);
}

/// The rate of tokens that is shown is the message's part of the link's.
#[test]
fn the_rate_that_is_shown_is_of_tokens() {
    let config = Config {
        link: 1_250_000_000,
        ..Config::DEFAULT
    };
    for initial_rate in [1_000_000_000, 500_000_000, 62_500_000] {
        let part = f64::from(initial_rate) / 1e9;
        let config = Config {
            initial_rate,
            ..config
        };
        let config = config.validate(None).unwrap();
        let (endpoint, ..) = begun(&config, 1 << 20);
        let (.., info, _) = endpoint.incoming(NOW, 0).unwrap();
        // ExpressPass section 3.1: 84 bytes of token for 84 + 1538 bytes.
        let whole = 1.25e9 * 84.0 / 1622.0;
        let is = info.rate as f64;
        assert!((is / (whole * part) - 1.0).abs() < 0.001, "{is}");
    }
}

/// What comes with the SYNC tells by its age how long packets wait on their way: only until there
/// is a sample of a round trip, only if it waited for longer than that, and not if its sender had
/// nothing to send meanwhile.
#[test]
fn the_age_of_the_first_data_counts_until_there_is_a_sample() {
    let config = config();
    let base = config.base_rtt;
    for (age, measured, idle, rtt) in [
        (3, false, false, Nanos(base.0 * 3)),
        (3, true, false, base),
        (3, false, true, base),
        (0, false, false, base),
    ] {
        let (mut endpoint, _, from, now) = begun(&config, 1 << 20);
        let index = endpoint.find_in(Cookie(77), &from).unwrap();
        let message = endpoint.ins.get_mut(index).unwrap();
        if measured {
            message.measured(NOW, base, base);
        }
        if idle {
            message.idle(now, (base, Nanos::ZERO), 0);
        }
        // Less than a round trip, but more than the least that counts.
        let age = Nanos((base.0 * age).max(base.0 * 3 / 4));
        message.waited(now + age, base);
        assert_eq!(message.rtt(base), rtt);
    }
}

/// The rate follows what became of tokens once in each period, as soon as that is over.
#[test]
fn the_rate_is_updated_when_its_period_is_over() {
    let period = Nanos(5 * Nanos::MILLISECOND.0);
    let config = Resolved {
        update_period: Some(period),
        ..config()
    };
    let (mut endpoint, mut io, from, now) = begun(&config, 1 << 20);
    let tokens = run(&mut endpoint, &mut io, now + Nanos(config.base_rtt.0 / 2));
    let answered = |endpoint: &Messages| endpoint.stats().get(Counter::TokenAnswered);
    for (n, (at, all)) in [
        (now + period - Nanos(1), 0),
        (now + period, 2),
        (now + period + Nanos(1), 2),
        (now + period + period - Nanos(1), 2),
        (now + period + period, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let offset = n as u32 * 1000;
        endpoint.receive(at, &from, answer(&tokens[n].1, offset, 1000), &mut io);
        assert_eq!(answered(&endpoint), all, "{n}");
    }
}

/// A message that pauses gets grants again at the moment at which its pause ends.
#[test]
fn a_pause_ends_at_its_time() {
    let (mut endpoint, mut io, from, now) = begun(&config(), 1 << 20);
    let index = endpoint.find_in(Cookie(77), &from).unwrap();
    endpoint.ins.get_mut(index).unwrap().pause = now + Nanos(1);
    let sent = |endpoint: &Messages| endpoint.stats().get(Counter::GrantSent);
    for (now, all) in [(now, 0), (now + Nanos(1), 1)] {
        let (clock, link) = (now.0 as u32, 0);
        let at = At { now, clock, link };
        endpoint.grant(at, index, wire::Mark::Full, &mut io);
        assert_eq!(sent(&endpoint), all);
    }
}

/// Strangers get few tokens each when they have more than a quarter of their places, and not
/// before.
#[test]
fn more_than_a_quarter_of_the_places_is_crowded() {
    let config = Resolved {
        max_half_open: 40,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    for n in 0..20 {
        assert_eq!(endpoint.is_crowded(), n > 10, "{n}");
        let from = host(n << 8, false);
        endpoint.receive(NOW, &from, Packet::Sync(sync(1, 100_000)), &mut io);
    }
    assert_eq!(endpoint.half_open, 20);
}

/// What one more token draws from a sender: packets of data.
fn drawn(endpoint: &mut Messages, io: &mut Io, now: Nanos, cookie: Cookie, number: u32) -> usize {
    let token = wire::Token {
        cookie,
        sequence: number as u16,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    };
    endpoint.receive(now, &host(2, false), Packet::Token(token), io);
    let sent = io.take();
    let data = sent.iter().filter(|it| matches!(it, Packet::Data(_)));
    data.count()
}

/// A message of 256 MiB to host 2.
fn long_message(io: &mut Io, endpoint: &mut Messages) -> Cookie {
    let what = Outgoing {
        length: Some(1 << 28),
        available: 1 << 28,
        ..outgoing()
    };
    endpoint.send(NOW, &host(2, false), &what, (), io).unwrap();
    io.take()[0].cookie()
}

/// Somebody sends an old token again: it draws nothing, and the new ones do as before.
#[test]
fn an_old_token_draws_nothing() {
    let (mut endpoint, mut io) = new(&config());
    let cookie = long_message(&mut io, &mut endpoint);
    let mut number = 0;
    while number < 60_000 {
        let got = drawn(&mut endpoint, &mut io, NOW, cookie, number);
        assert_eq!(got, 1, "token {number}");
        number += 1;
    }
    for ago in [1, 511, 512, 30_000, 33_000, 48_000] {
        let got = drawn(&mut endpoint, &mut io, NOW, cookie, number - ago);
        assert_eq!(got, 0, "{ago} tokens ago");
        for _ in 0..100 {
            let got = drawn(&mut endpoint, &mut io, NOW, cookie, number);
            assert_eq!(got, 1, "token {number} after one of {ago} ago");
            number += 1;
        }
    }
}

/// One that is so old that it looks like a new one draws a packet. New ones are refused then, but
/// not for long.
#[test]
fn a_message_recovers_from_a_token_that_is_too_old_to_tell() {
    let (mut endpoint, mut io) = new(&config());
    let cookie = long_message(&mut io, &mut endpoint);
    for number in 0..60_000 {
        drawn(&mut endpoint, &mut io, NOW, cookie, number);
    }
    let old = drawn(&mut endpoint, &mut io, NOW, cookie, 60_000 - 50_000);
    assert_eq!(old, 1);
    // The receiver gives single ones: one in 128 ms.
    let (mut now, mut number) = (NOW, 60_000);
    while drawn(&mut endpoint, &mut io, now, cookie, number) == 0 {
        now += Nanos(128 * Nanos::MILLISECOND.0);
        number += 1;
    }
    assert!(now - NOW < Nanos(6_400_000_000), "{now:?}");
    let next = drawn(&mut endpoint, &mut io, now, cookie, number + 1);
    assert_eq!(next, 1);
}

/// A sender that answers nothing is given fewer single tokens, and grants, than its replay window
/// grows by in the same time (`seen`): else it would refuse the ones that come then as old.
#[test]
fn single_tokens_are_counted_faster_than_they_are_given() {
    // One for each 2^17 ns.
    const COUNTED: usize = 7629;
    for (policy, feedback, base_rtt) in [(0, 0, 50_000), (0, 0, 1000), (0, 1, 50_000), (2, 0, 1000)]
    {
        let config = Config {
            policy,
            feedback,
            base_rtt,
            rto: 200_000,
            ..Config::DEFAULT
        };
        let (mut endpoint, mut io) = new(&config.validate(None).unwrap());
        let from = host(1, false);
        let opening = Sync {
            ren: policy == 2,
            ..sync(7, 100_000_000)
        };
        endpoint.receive_known(NOW, &from, Packet::Sync(opening), &mut io);
        let mut now = NOW;
        let mut until = |endpoint: &mut Messages, io: &mut Io, end: Nanos| {
            while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
                now = now.max(at);
                endpoint.timer(now, now.0 as u32, io);
            }
            tokens(&io.take())
        };
        let first = until(&mut endpoint, &mut io, NOW + Nanos(1_000_000));
        let later = NOW + Nanos(1_000_000);
        for (token, nth) in first.iter().rev().zip(0..4) {
            endpoint.receive(later, &from, answer(token, nth * 1450, 1450), &mut io);
        }
        // What is under way has a place of its own there: `AHEAD`.
        until(&mut endpoint, &mut io, later + Nanos::SECOND);
        for second in 2..4 {
            let end = later + Nanos(second * Nanos::SECOND.0);
            let given = until(&mut endpoint, &mut io, end).len();
            assert!(
                given > 0 && given < COUNTED / 2,
                "policy {policy}, feedback {feedback}, {base_rtt} ns: {given} in a second"
            );
        }
    }
}

/// A message whose first tokens were all outranked comes after its host's others, and still has a
/// token in its place now and then: when one is answered it has its rank again.
#[test]
fn who_drew_nothing_for_long_is_tried_in_its_place() {
    let config = config();
    let (mut endpoint, mut io) = new(&config);
    let (long, short) = (host(1, false), host(2, false));
    let mut now = NOW + Nanos::SECOND;
    endpoint.receive_known(now, &long, Packet::Sync(sync(1, 1 << 29)), &mut io);
    let mut offset = 0;
    let mut short_tokens = Vec::new();
    // The long one answers each token at once. The short one hears nothing.
    let mut began = false;
    let end = now + Nanos(20_000_000);
    let mut waiting = io.take();
    while now < end {
        if !began && offset > 1_000_000 {
            began = true;
            let first = Packet::Sync(sync(2, 1_000_000));
            endpoint.receive_known(now, &short, first, &mut io);
            waiting.extend(io.take());
        }
        for packet in core::mem::take(&mut waiting) {
            let Packet::Token(token) = packet else {
                continue;
            };
            if token.cookie == Cookie(2) {
                short_tokens.push((now, token));
                continue;
            }
            for token in singles(token) {
                endpoint.receive(now, &long, answer(&token, offset, 1450), &mut io);
                offset += 1450;
            }
        }
        waiting = io.take();
        if waiting.is_empty() {
            let next = endpoint.next_timer().expect("tokens are due");
            now = now.max(next);
            endpoint.timer(now, now.0 as u32, &mut io);
            waiting = io.take();
        }
    }
    // No long time without one; and not so many that the long one would notice.
    let count = short_tokens.len();
    assert!(count > 40 && count < 200, "{count}");
    let gap = |pair: &[(Nanos, wire::Token)]| pair[1].0 - pair[0].0;
    let longest = short_tokens.windows(2).map(gap).max().unwrap();
    assert!(longest < Nanos(2_500_000), "{longest:?}");
    // One is answered: all tokens are its own until it has been served.
    let (_, last) = short_tokens.last().unwrap();
    endpoint.receive(now, &short, answer(last, 0, 1450), &mut io);
    let mut own = 0;
    for _ in 0..20 {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
        own += tokens(&io.take())
            .iter()
            .filter(|token| token.cookie == Cookie(2))
            .count();
    }
    assert!(own > 3, "{own}");
}

/// A message that is being read while others wait behind it has every other token, of the highest
/// priority, though shorter ones are asked for at the same time.
#[test]
fn who_is_read_for_others_has_every_other_token() {
    let config = Config::DEFAULT.validate(None).unwrap();
    let (mut endpoint, mut io, from, mut now) = begun(&config, 20 << 20);
    let first = run(&mut endpoint, &mut io, now + config.base_rtt);
    now += config.base_rtt;
    endpoint.receive(now, &from, answer(&first[0].1, 0, 1001), &mut io);
    let other = host(2, false);
    let length = 4 << 20;
    endpoint.receive_known(now, &other, Packet::Sync(sync(78, length)), &mut io);
    io.take();
    // A round trip: the tokens of the long one, and of how many.
    let mut at = [1001, 0];
    let mut round = |endpoint: &mut Messages, io: &mut Io, now: &mut Nanos| {
        let (mut longs, mut all) = (Vec::new(), 0);
        for _ in 0..16 {
            *now += Nanos(config.base_rtt.0 / 16);
            for (_, token) in run(endpoint, io, *now) {
                all += 1;
                let cookie = token.cookie;
                let (from, at) = match cookie {
                    Cookie(77) => {
                        longs.push(token.priority);
                        (&from, &mut at[0])
                    }
                    _ => (&other, &mut at[1]),
                };
                let Packet::Data(data) = answer(&token, *at, 1000) else {
                    unreachable!()
                };
                endpoint.receive(*now, from, Packet::Data(Data { cookie, ..data }), io);
                *at += 1000;
            }
            io.take();
        }
        (longs, all)
    };
    round(&mut endpoint, &mut io, &mut now);
    let (longs, all) = round(&mut endpoint, &mut io, &mut now);
    assert!(longs.len() < all / 4, "{longs:?} of {all}");
    assert!(longs.iter().all(|priority| *priority != 0), "{longs:?}");
    io.urgent = true;
    let (_, id, ..) = endpoint.incoming(now, 0).unwrap();
    endpoint.hurry(now, id, &mut io);
    // Until its rate is what it was.
    for _ in 0..4 {
        round(&mut endpoint, &mut io, &mut now);
    }
    // Many, as several leave at once.
    let (mut first, mut all) = (0, 0);
    for _ in 0..16 {
        let (longs, tokens) = round(&mut endpoint, &mut io, &mut now);
        first += longs.iter().filter(|priority| **priority == 0).count();
        all += tokens;
    }
    assert!(all > 16 * 16, "{all} tokens");
    assert!(first.abs_diff(all / 2) <= all / 19, "{first} of {all}");
}
