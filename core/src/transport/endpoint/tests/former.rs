// SPDX-License-Identifier: GPL-2.0
//! Tickets that are kept by whoever had an address before: little is sent to its present owner.

use super::trust::{echo, ip_bytes, tokens};
use super::*;
use crate::transport::endpoint::trust::{ANSWERS, TICKET_BITS};
use crate::transport::jitter::Rng;

/// An endpoint, and a ticket of an address.
fn with_ticket(from: &Address) -> (Messages, Io, u64) {
    let (endpoint, io) = new(&config());
    let ticket = endpoint.ticket_of(NOW.0 >> TICKET_BITS, from);
    (endpoint, io, ticket)
}

fn opened(cookie: u64, length: u32, echo: u64) -> Packet {
    Packet::Sync(Sync {
        echo,
        ..sync(cookie, length)
    })
}

/// What is sent until `end`, and the packets.
fn until(endpoint: &mut Messages, end: Nanos, io: &mut Io) -> (u64, Vec<Packet>) {
    let mut now = NOW;
    while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
        now = now.max(at);
        endpoint.timer(now, now.0 as u32, io);
    }
    let sent: Vec<_> = io.sent.drain(..).collect();
    let bytes = sent.iter().map(|(.., bytes)| u64::from(*bytes)).sum();
    (
        bytes,
        sent.into_iter().map(|(_, packet, ..)| packet).collect(),
    )
}

/// One SYNC with a ticket draws 16 KiB at most, and many of one address draw little more together.
#[test]
fn a_ticket_draws_no_more_than_a_few_tokens() {
    for v6 in [false, true] {
        let from = host(1, v6);
        for messages in [1, 2, 60_u64] {
            let (mut endpoint, mut io, ticket) = with_ticket(&from);
            let mut came = 0;
            for cookie in 0..messages {
                let packet = opened(100 + cookie, 10_000_000, ticket);
                came += ip_bytes(&from, &packet);
                endpoint.receive(NOW, &from, packet, &mut io);
            }
            assert_eq!(endpoint.stats().get(Counter::TicketValid), messages);
            let (went, packets) = until(&mut endpoint, NOW + Nanos(20 * Nanos::SECOND.0), &mut io);
            let most: u64 = (1..=messages).map(|nth| 16_384 / nth).sum();
            assert!(went <= most + 3 * came, "{messages}: {went} B for {came}");
            assert!(
                tokens(&packets).len() as u64 >= messages,
                "{}",
                packets.len()
            );
            // All has ended, and what the peer was counted for, too.
            assert_eq!(endpoint.counts().1, 0);
        }
    }
}

/// What answers a token shows that somebody is there: that message is bounded no more, and later
/// ones have more room again. So does the echo of a CHALLENGE, which comes when the room is used up
/// and the sender asks.
#[test]
fn who_answers_is_sent_all() {
    let from = host(1, false);
    let (mut endpoint, mut io, ticket) = with_ticket(&from);
    let at = |times: u64| NOW + Nanos(times * 2 * Nanos::SECOND.0);
    let drawn = |endpoint: &mut Messages, io: &mut Io, cookie: u64, time: u64| {
        let packet = opened(cookie, 10_000_000, ticket);
        endpoint.receive(at(time), &from, packet, io);
        until(endpoint, at(time + 1), io)
    };
    let (first, packets) = drawn(&mut endpoint, &mut io, 100, 0);
    assert!((12_000..16_800).contains(&first), "{first}");
    let (second, _) = drawn(&mut endpoint, &mut io, 101, 1);
    let most = 16_384 + 8_192 + 2 * 3 * 100;
    assert!(
        second > 7_000 && first + second <= most,
        "{first} and {second}"
    );
    // The first one's sender answers, some tokens: one could be guessed.
    for (token, packet) in tokens(&packets).iter().rev().zip(0..ANSWERS.into()) {
        assert!(endpoint.ins.get_mut(0).expect("it").is_bounded());
        endpoint.receive(at(2), &from, answer(token, packet * 1000, 1000), &mut io);
    }
    let (more, _) = until(&mut endpoint, at(3), &mut io);
    assert!(more > first, "{more}");
    // The second one's shows its ticket once more, which is nothing new, and then the echo.
    let show = |endpoint: &mut Messages, io: &mut Io, number: u64| {
        endpoint.receive(at(3), &from, opened(101, 10_000_000, number), io);
        io.sent
            .drain(..)
            .map(|(_, packet, ..)| packet)
            .collect::<Vec<_>>()
    };
    let number = echo(&show(&mut endpoint, &mut io, ticket)).expect("a CHALLENGE");
    let bounded = |endpoint: &mut Messages| {
        let mut is_bounded = |index| {
            endpoint
                .ins
                .get_mut(index)
                .is_some_and(|it| it.is_bounded())
        };
        (0..3).filter(|index| is_bounded(*index)).count()
    };
    assert_eq!(bounded(&mut endpoint), 1);
    show(&mut endpoint, &mut io, number);
    assert_eq!(bounded(&mut endpoint), 0);
    // None is unanswered now.
    let (third, _) = drawn(&mut endpoint, &mut io, 102, 3);
    assert!(third > 12_000, "{third}");
}

/// A ticket that comes later than its message's SYNC counts no more than one that came with it, and
/// guesses of tokens' numbers end.
#[test]
fn late_tickets_and_guesses_draw_no_more() {
    let from = host(1, false);
    let (mut endpoint, mut io, ticket) = with_ticket(&from);
    for number in [0, ticket, ticket] {
        endpoint.receive(NOW, &from, opened(100, 10_000_000, number), &mut io);
    }
    let (went, packets) = until(&mut endpoint, NOW + Nanos::SECOND, &mut io);
    assert!((15_000..17_500).contains(&went), "{went}");
    let token = tokens(&packets)[0];
    for guess in 0..64 {
        let wrong = wire::Token {
            sequence: token.sequence.wrapping_sub(1 + guess),
            ..token
        };
        endpoint.receive(NOW, &from, answer(&wrong, 0, 1), &mut io);
    }
    endpoint.receive(NOW, &from, answer(&token, 0, 1), &mut io);
    assert!(endpoint.ins.get_mut(0).unwrap().is_bounded());
}

/// Who sees nothing of what is sent guesses numbers of tokens, all of which are awaited.
#[test]
fn guesses_of_awaited_tokens_free_no_message() {
    let mut rng = Rng::new(1);
    for evenly in [false, true] {
        let (mut right, mut freed) = (0, 0);
        for run in 0..200_u64 {
            let from = host(1 + run as u32, false);
            let (mut endpoint, mut io, ticket) = with_ticket(&from);
            let packet = opened(100 + run, 10_000_000, ticket);
            endpoint.receive(NOW, &from, packet, &mut io);
            let now = NOW + Nanos(2_000_000);
            until(&mut endpoint, now, &mut io);
            let start = rng.next_u64();
            for guess in 0..64 {
                let number = match evenly {
                    true => start.wrapping_add(guess * 230),
                    false => rng.next_u64(),
                };
                let token = wire::Token {
                    cookie: Cookie(100 + run),
                    sequence: number as u16,
                    timestamp: now.0 as u32,
                    priority: 0,
                    grant: None,
                    worth: 1,
                };
                endpoint.receive(now, &from, answer(&token, 5_000_000, 1), &mut io);
            }
            let message = endpoint.ins.get_mut(0).expect("the message");
            right += u32::from(message.answers != 0);
            freed += u32::from(!message.is_bounded());
        }
        assert!(right != 0, "none was right");
        assert_eq!(freed, 0, "{right} were right");
    }
}

/// Messages with a ticket that end before anything has answered them count as if they were still
/// there: who ends them, and how, changes nothing.
#[test]
fn a_ticket_draws_no_more_by_turns() {
    for v6 in [false, true] {
        for way in 0..3 {
            let from = host(1, v6);
            let (mut endpoint, mut io, ticket) = with_ticket(&from);
            let (mut came, mut went) = (0, 0);
            let mut now = NOW;
            for cookie in 100..300_u64 {
                let first = opened(cookie, 10_000_000, ticket);
                came += ip_bytes(&from, &first);
                endpoint.receive(now, &from, first, &mut io);
                now += Nanos(1_000_000);
                went += until(&mut endpoint, now, &mut io).0;
                let cookie = Cookie(cookie);
                let last = match way {
                    0 => Packet::Fin(wire::Fin { cookie, length: 5 }),
                    1 => Packet::Reset(Reset {
                        cookie,
                        code: ResetCode::Aborted,
                    }),
                    _ => Packet::Reset(Reset {
                        cookie,
                        code: ResetCode::Unknown,
                    }),
                };
                came += ip_bytes(&from, &last);
                endpoint.receive(now, &from, last, &mut io);
                went += until(&mut endpoint, now, &mut io).0;
            }
            assert_eq!(endpoint.counts().1, 0);
            let most: u64 = (1..=200).map(|nth| 16_384 / nth).sum();
            assert!(
                went <= most + 3 * came,
                "way {way}: {went} B for {came} B, of tickets {most}"
            );
            // Others' are counted apart, and this one's are forgotten in time.
            let other = host(2, v6);
            let later = now + Nanos(2 << TICKET_BITS);
            for (from, now) in [(other, now), (from, later)] {
                let ticket = endpoint.ticket_of(now.0 >> TICKET_BITS, &from);
                endpoint.receive(now, &from, opened(1, 10_000_000, ticket), &mut io);
                let (went, _) = until(&mut endpoint, now + Nanos::SECOND, &mut io);
                assert!(went > 12_000, "{went}");
                let reset = Packet::Reset(Reset {
                    cookie: Cookie(1),
                    code: ResetCode::Aborted,
                });
                endpoint.receive(now + Nanos::SECOND, &from, reset, &mut io);
            }
        }
    }
}

/// Messages with a ticket of which nothing comes hold no room that others wait for: that they may
/// have no more tokens is no excuse.
#[test]
fn tickets_hold_no_room_that_others_wait_for() {
    for (keep, v6) in [(false, false), (true, false), (true, true)] {
        let from = host(1, v6);
        let (mut endpoint, mut io, ticket) = with_ticket(&from);
        io.wanted = Some(1 << 16);
        for cookie in 100..500_u64 {
            endpoint.receive(NOW, &from, opened(cookie, 1 << 20, ticket), &mut io);
        }
        for seconds in 1..=20_u64 {
            let now = NOW + Nanos(seconds * Nanos::SECOND.0);
            until(&mut endpoint, now, &mut io);
            let all: Vec<_> = (100..500).map(Cookie).collect();
            for cookie in all.into_iter().filter(|_| keep && seconds % 9 == 0) {
                if endpoint.find_in(cookie, &from).is_some() {
                    let length = 1 << 20;
                    let fin = Packet::Fin(wire::Fin { cookie, length });
                    endpoint.receive(now, &from, fin, &mut io);
                }
            }
        }
        assert_eq!(endpoint.counts().1, 0, "kept by FINs: {keep}");
        assert!(io.failed.len() >= 400);
        assert!(io.failed.iter().all(|why| *why == Failure::Stalled));
        // And their sender is known for it, for minutes, but nobody else, of its /64 neither.
        let later = NOW + Nanos(20 * Nanos::SECOND.0);
        let much_later = later + Nanos(2 << TICKET_BITS);
        let next = later + Nanos(1 << TICKET_BITS);
        for (n, now, stalled) in [
            (1, later, true),
            (2, later, false),
            (1, next, true),
            (1, much_later, false),
        ] {
            if now == next {
                // Somebody else's stall in the meantime changes nothing.
                endpoint.stalled.note_host(now.0 >> TICKET_BITS, 77, None);
            }
            endpoint.receive(now, &host(n, v6), opened(600, 1000, 0), &mut io);
            assert_eq!(io.stalled, stalled, "host {n} at {now:?}");
            until(&mut endpoint, now + Nanos(300 * Nanos::SECOND.0), &mut io);
        }
    }
}

/// A host is not to blame for what others begin in its name, whether it is given up because others
/// wait or because nobody answers.
#[test]
fn what_ends_in_the_name_of_a_host_is_not_its_stall() {
    for wanted in [Some(1 << 16), None] {
        let from = host(1, false);
        let (mut endpoint, mut io, ticket) = with_ticket(&from);
        io.wanted = wanted;
        for cookie in 100..110_u64 {
            endpoint.receive(NOW, &from, opened(cookie, 1 << 20, 0), &mut io);
        }
        let later = NOW + Nanos(20 * Nanos::SECOND.0);
        until(&mut endpoint, later, &mut io);
        let why = match wanted {
            Some(_) => Failure::Stalled,
            None => Failure::TimedOut,
        };
        assert_eq!(io.failed, [why; 10]);
        io.stalled = true;
        endpoint.receive(later, &from, opened(600, 1000, ticket), &mut io);
        assert!(!io.stalled, "others waited: {}", wanted.is_some());
    }
}

/// But who was asked for nothing yet, as others' messages come first, is not blamed.
#[test]
fn who_has_a_ticket_and_no_turn_is_not_blamed() {
    let from = host(1, false);
    let (mut endpoint, mut io, ticket) = with_ticket(&from);
    io.wanted = Some(1 << 16);
    endpoint.receive(NOW, &from, opened(100, 1 << 20, ticket), &mut io);
    let message = endpoint.ins.get_mut(0).expect("the message");
    message.pause = NOW + Nanos(8 * Nanos::SECOND.0);
    until(&mut endpoint, NOW + Nanos(8 * Nanos::SECOND.0), &mut io);
    assert_eq!(endpoint.counts().1, 1);
}
