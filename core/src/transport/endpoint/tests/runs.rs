// SPDX-License-Identifier: GPL-2.0
//! A row of DATA that is taken as one: nothing else follows from it than from its packets.

use std::format;
use std::string::String;

use super::*;
use crate::header::FLAG_UNASKED;
use crate::transport::wire::{Run, Token};

const LEN: u32 = 1000;

/// All that can be told of an endpoint from without.
type Seen = (Vec<String>, Vec<(u32, u32)>, Option<Nanos>, Vec<u64>, u32);

fn seen(endpoint: &Messages, io: &mut Io, now: Nanos) -> Seen {
    let messages =
        core::iter::successors(endpoint.incoming(now, 0), |it| endpoint.incoming(now, it.0));
    let messages = messages.map(|it| (it.2.received, *it.3)).collect();
    let mut sent: Vec<_> = io.take().iter().map(|it| format!("{it:?}")).collect();
    sent.sort();
    let stats = Counter::ALL.iter();
    let stats = stats.map(|&it| endpoint.stats().get(it)).collect();
    let progress = core::mem::take(&mut io.progress);
    (sent, messages, endpoint.next_timer(), stats, progress)
}

fn datas(packets: &[Packet]) -> impl Iterator<Item = &Data> {
    packets.iter().map(|packet| match packet {
        Packet::Data(data) => data,
        other => panic!("{other:?}"),
    })
}

fn run_of(packets: &[Packet]) -> Run {
    let mut datas = datas(packets);
    let mut run = Run::new(*datas.next().unwrap());
    assert!(datas.all(|data| run.push(data)));
    run
}

/// A message of `length` bytes, of whose beginning so much comes unasked, and its tokens answered
/// until there are `answers` to be given at once; those, in order.
fn until(
    (length, unasked): (u32, u32),
    known: bool,
    answers: usize,
) -> (Messages, Io, Nanos, Vec<Packet>) {
    let config = Config {
        worth: 8,
        jitter: 0,
        base_rtt: 100_000,
        ..Config::DEFAULT
    };
    let (mut endpoint, mut io) = new(&config.validate(None).unwrap());
    let from = host(1, false);
    let mut now = NOW + Nanos::SECOND;
    let sync = Sync {
        unscheduled: unasked,
        ..sync(77, length)
    };
    match known {
        true => endpoint.receive_known(now, &from, Packet::Sync(sync), &mut io),
        false => endpoint.receive(now, &from, Packet::Sync(sync), &mut io),
    }
    if unasked != 0 {
        let first = (0..unasked / LEN).map(|number| {
            Packet::Data(Data {
                cookie: Cookie(77),
                token: 0,
                timestamp: 0,
                offset: number * LEN,
                len: LEN,
                flags: FLAG_UNASKED,
                more: 0,
            })
        });
        return (endpoint, io, now, first.collect());
    }
    let mut offset = 0;
    loop {
        now = now.max(endpoint.next_timer().unwrap());
        endpoint.timer(now, now.0 as u32, &mut io);
        let mut packets = Vec::new();
        for packet in io.take() {
            let Packet::Token(token) = packet else {
                continue;
            };
            for number in 0..token.worth.into() {
                let one = Token {
                    sequence: token.sequence.wrapping_add(number),
                    ..token
                };
                let len = LEN.min(length - offset);
                packets.push(answer(&one, offset, len));
                offset += len;
            }
        }
        if packets.len() >= answers || offset == length {
            return (endpoint, io, now, packets);
        }
        for packet in packets {
            endpoint.receive(now, &from, packet, &mut io);
        }
    }
}

/// What follows from these packets, all at once, if they are taken as one or one by one.
fn both(begin: impl Fn() -> (Messages, Io, Nanos, Vec<Packet>)) -> (Seen, Option<Seen>) {
    let from = host(1, false);
    let (mut endpoint, mut io, now, packets) = begin();
    io.take();
    io.progress = 0;
    endpoint.begin_train();
    for packet in &packets {
        endpoint.receive(now, &from, *packet, &mut io);
    }
    endpoint.end_train(now, now.0 as u32, 0, &mut io);
    let one_by_one = seen(&endpoint, &mut io, now);
    let (mut endpoint, mut io, now, packets) = begin();
    io.take();
    io.progress = 0;
    let before = seen(&endpoint, &mut io, now);
    let run = run_of(&packets);
    let taken = endpoint.run(now, now.0 as u32, &from, 0, &run, (), &mut io);
    let after = seen(&endpoint, &mut io, now);
    if taken.is_err() {
        assert_eq!(before, after, "what is not taken changes nothing");
    }
    (one_by_one, taken.ok().map(|()| after))
}

#[test]
fn what_answers_a_token_is_taken_as_if_it_came_one_by_one() {
    for length in [1 << 20, 20_500, 33_300] {
        let (one_by_one, run) = both(|| until((length, 0), true, 8));
        assert_eq!(Some(one_by_one), run, "{length}");
    }
}

#[test]
fn what_came_unasked_is_taken_as_if_it_came_one_by_one() {
    for known in [true, false] {
        for (length, unasked) in [(1 << 20, 8000), (5000, 5000), (100_000, 2000)] {
            let (mut one_by_one, run) = both(|| until((length, unasked), known, 0));
            let mut run = run.expect("it is taken");
            // Of who has not proved its address nothing waits for what comes with it, but at that
            // time nobody could tell.
            if !known {
                (one_by_one.4, run.4) = (0, 0);
            }
            assert_eq!(one_by_one, run, "{length} {known}");
        }
    }
}

/// What is not as usual is not taken, and has to be looked at packet by packet.
#[test]
fn what_is_unusual_is_looked_at_packet_by_packet() {
    let usual = || until((1 << 20, 0), true, 8);
    type Change = fn(&mut Messages, &mut Io, Nanos, &mut Vec<Packet>);
    let changes: [(&str, Change); 7] = [
        ("nothing", |_, _, _, _| {}),
        ("the first is missing", |_, _, _, packets| {
            packets.remove(0);
        }),
        ("the first came before", |endpoint, io, now, packets| {
            endpoint.receive(now, &host(1, false), packets[0], io);
        }),
        ("the last came before", |endpoint, io, now, packets| {
            endpoint.receive(now, &host(1, false), packets[7], io);
        }),
        ("tokens that were never sent", |_, _, _, packets| {
            for packet in packets {
                if let Packet::Data(data) = packet {
                    data.token = data.token.wrapping_add(1);
                }
            }
        }),
        ("another message", |_, _, _, packets| {
            for packet in packets {
                if let Packet::Data(data) = packet {
                    data.cookie = Cookie(78);
                }
            }
        }),
        ("no memory", |_, io, _, _| io.full = true),
    ];
    for (what, change) in changes {
        let (_, run) = both(|| {
            let (mut endpoint, mut io, now, mut packets) = usual();
            packets.truncate(8);
            change(&mut endpoint, &mut io, now, &mut packets);
            (endpoint, io, now, packets)
        });
        assert_eq!(run.is_some(), what == "nothing", "{what}");
    }
    // Neither is what claims to be of another's message.
    let (mut endpoint, mut io, now, packets) = usual();
    let run = run_of(&packets[..8]);
    let other = host(2, false);
    let taken = endpoint.run(now, now.0 as u32, &other, 0, &run, (), &mut io);
    assert!(taken.is_err());
}
