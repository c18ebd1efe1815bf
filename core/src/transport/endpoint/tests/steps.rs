// SPDX-License-Identifier: GPL-2.0
//! No packet and no timer takes more than some steps and a logarithm of them, whatever keys an
//! attacker chooses: equal cookies from as many addresses as there are messages, and forged pairs.

use std::{println, vec};

use super::trust::{gives_a_ticket, whole};
use super::*;
use crate::transport::testing::{fills, steps};
use crate::transport::wire::{Challenge, Fin, Mark, Resend, Spans, Token};

const SIZES: [u32; 4] = [100, 1000, 10_000, 100_000];
/// Packets of each type that are looked at, at each size.
const LOOKS: u32 = 300;

mod closed;
mod links;
mod sends;

fn large() -> Resolved {
    Resolved {
        max_incoming: 1 << 18,
        max_outgoing: 1 << 18,
        max_per_peer: 1 << 18,
        max_half_open: 1 << 17,
        max_remembered: 1 << 19,
        ..config()
    }
}

/// The most items of new chunks that a call fills: of each array one chunk, and directories.
const FILL: u64 = 24_000;

/// The most steps that a kind of call took, at each size.
pub(super) struct Watch {
    n: u32,
    what: &'static str,
    worst: u64,
    filled: u64,
}

impl Watch {
    pub(super) fn new(n: u32, what: &'static str) -> Self {
        Self {
            n,
            what,
            worst: 0,
            filled: 0,
        }
    }

    pub(super) fn call<R>(&mut self, what: impl FnOnce() -> R) -> R {
        let before = (steps(), fills());
        let result = what();
        let made = fills() - before.1;
        self.worst = self.worst.max(steps() - before.0 - made);
        self.filled = self.filled.max(made);
        result
    }
}

/// What was measured at each size. The bounds are about twice what is measured at the largest, so
/// that a look at each entry of a table is noticed.
#[derive(Default)]
pub(super) struct Measured(Vec<(&'static str, u64)>);

impl Measured {
    /// No call took more than so many steps.
    pub(super) fn end(&mut self, watch: Watch, most: u64) {
        let Watch {
            n,
            what,
            worst,
            filled,
        } = watch;
        println!("{n} entries, {what}: at most {worst} of {most} steps, {filled} filled");
        assert!(worst <= most, "{n} entries, {what}: {worst} steps");
        assert!(filled <= FILL, "{n} entries, {what}: {filled} items filled");
        // From the smallest size to the largest, as logarithms grow, and some: hash chains are not
        // all equally long, and with few entries there is less to do in a call.
        match self.0.iter().find(|it| it.0 == what) {
            Some(&(_, least)) => {
                let rise = least * u64::from(n.ilog2()) / u64::from(SIZES[0].ilog2());
                let steps = rise + most / 2;
                assert!(
                    worst <= steps,
                    "{n} entries, {what}: {worst} steps, few: {least}"
                );
            }
            None => self.0.push((what, worst)),
        }
    }
}

/// All packets that have this cookie.
fn all(cookie: Cookie) -> Vec<(&'static str, Packet)> {
    let token = Token {
        cookie,
        sequence: 3,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    };
    let mut spans = Spans::EMPTY;
    assert!(spans.push(0, 1450));
    let data = Data {
        cookie,
        token: 0,
        timestamp: 9,
        offset: 1450,
        len: 1450,
        flags: 0,
        more: 0,
    };
    let ack = Ack {
        cookie,
        received: 0,
        window: 90_000,
        allowance: 0,
        last: false,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    };
    vec![
        ("TOKEN", Packet::Token(token)),
        (
            "grant",
            Packet::Token(Token {
                grant: Some(Mark::Under),
                worth: 1,
                ..token
            }),
        ),
        ("DATA", Packet::Data(data)),
        ("RESEND", Packet::Resend(Resend { cookie, spans })),
        ("ACK", Packet::Ack(ack)),
        (
            "ACK of a sender",
            Packet::Ack(Ack {
                received: 1450,
                window: 0,
                ..ack
            }),
        ),
        ("last ACK", Packet::Ack(Ack { last: true, ..ack })),
        (
            "FIN",
            Packet::Fin(Fin {
                cookie,
                length: 100_000,
            }),
        ),
        (
            "CHALLENGE",
            Packet::Challenge(Challenge {
                cookie,
                echo: 3,
                ticket: false,
            }),
        ),
        (
            "RESET",
            Packet::Reset(Reset {
                cookie,
                code: ResetCode::Unknown,
            }),
        ),
    ]
}

/// As many messages with one cookie as there are addresses, and as many to those addresses.
fn filled(n: u32, measured: &mut Measured) -> (Messages, Io) {
    let (mut endpoint, mut io) = new(&large());
    let mut opening = Watch::new(n, "SYNC");
    let mut sending = Watch::new(n, "a message that begins");
    for i in 0..n {
        let from = host(i, false);
        let sync = Packet::Sync(Sync {
            coflow: i,
            ..sync(7, 100_000)
        });
        opening.call(|| endpoint.receive(NOW, &from, sync, &mut io));
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
        sending
            .call(|| endpoint.send(NOW, &from, &what, (), &mut io))
            .unwrap();
        io.sent.clear();
    }
    assert_eq!(endpoint.counts(), (n, n, 0));
    measured.end(opening, 54);
    measured.end(sending, 56);
    (endpoint, io)
}

#[test]
fn no_packet_takes_more_steps_than_a_logarithm() {
    let mut measured = Measured::default();
    for n in SIZES {
        let (mut endpoint, mut io) = filled(n, &mut measured);
        let cookies: Vec<Cookie> = (0..LOOKS)
            .filter_map(|i| {
                endpoint
                    .outs
                    .get(i * (n / LOOKS.min(n)))
                    .map(|out| out.cookie)
            })
            .collect();
        for kind in 0..all(Cookie(7)).len() {
            let name = all(Cookie(7))[kind].0;
            let mut watch = Watch::new(n, name);
            for i in 0..LOOKS {
                // From known addresses and others, with the cookie of all and with our own.
                let known = host(i * (n / LOOKS.min(n)) % n, false);
                let other = host(n + i, false);
                let own = cookies.get(i as usize).copied().unwrap_or(Cookie(1));
                for (from, cookie) in [
                    (known, Cookie(7)),
                    (other, Cookie(7)),
                    (known, own),
                    (other, own),
                ] {
                    let packet = all(cookie)[kind].1;
                    watch.call(|| endpoint.receive(NOW, &from, packet, &mut io));
                    io.sent.clear();
                }
            }
            measured.end(watch, if name == "RESET" { 64 } else { 20 });
        }
    }
}

#[test]
fn no_timer_takes_more_steps_than_a_logarithm() {
    let mut measured = Measured::default();
    for n in SIZES {
        let (mut endpoint, mut io) = filled(n, &mut measured);
        let mut watch = Watch::new(n, "timer");
        let mut now = NOW;
        // Probes, repetitions, and in the end all time out.
        let mut calls = 0;
        while endpoint.counts() != (0, 0, 0) {
            let due = endpoint.next_timer().unwrap();
            // Late, so that everything is due.
            now = now.max(due) + Nanos(if calls < 2000 { 0 } else { Nanos::SECOND.0 });
            calls += 1;
            watch.call(|| endpoint.timer(now, now.0 as u32, &mut io));
            io.sent.clear();
        }
        // 32 timers of each kind, 64 packets, 256 looks.
        measured.end(watch, 4200);
    }
}

#[test]
fn what_is_dumped_and_what_is_cleared_takes_constant_time_each() {
    let mut measured = Measured::default();
    for n in SIZES {
        let (mut endpoint, mut io) = filled(n, &mut measured);
        let mut watch = Watch::new(n, "dump");
        let mut next = 0;
        while let Some((after, ..)) = watch.call(|| endpoint.outgoing(NOW, next)) {
            next = after;
        }
        next = 0;
        while let Some((after, ..)) = watch.call(|| endpoint.incoming(NOW, next)) {
            next = after;
        }
        next = 0;
        while let Some((after, _)) = watch.call(|| endpoint.peers(next)) {
            next = after;
        }
        measured.end(watch, 140);
        let mut watch = Watch::new(n, "clear");
        while watch.call(|| endpoint.clear(NOW, &mut io)) {
            io.sent.clear();
        }
        measured.end(watch, 284);
        assert_eq!(endpoint.counts(), (0, 0, 0));
    }
}

/// Finished messages of as many addresses, all with one cookie, are remembered; as many peers as
/// may be have given tickets and have no messages. What ends, what comes of finished messages, and
/// forgetting them.
#[test]
fn what_is_remembered_and_who_is_idle_takes_no_more_steps_than_a_logarithm() {
    let mut measured = Measured::default();
    for n in SIZES {
        let config = Resolved {
            unscheduled: Unscheduled::Packets(8),
            ..large()
        };
        let (mut endpoint, mut io) = new(&config);
        let mut proving = Watch::new(n, "a peer that gives a ticket");
        let mut ending = Watch::new(n, "a message that ends");
        for i in 0..n {
            // Of as many networks as there are, and of one.
            let from = if i % 2 == 0 { i * 128 } else { i };
            let from = host(from, false);
            proving.call(|| gives_a_ticket(&mut endpoint, &from, &mut io));
            for packet in whole(7) {
                ending.call(|| endpoint.receive_known(NOW, &from, packet, &mut io));
            }
            io.sent.clear();
        }
        let (_, coming, remembered) = endpoint.counts();
        assert_eq!((coming, remembered), (0, n));
        assert!(endpoint.peers.all.len() >= (n / 2).min(1000));
        measured.end(proving, 154);
        measured.end(ending, 80);
        for kind in 0..all(Cookie(7)).len() {
            let name = all(Cookie(7))[kind].0;
            let mut watch = Watch::new(n, name);
            for i in 0..LOOKS {
                let known = host(i * (n / LOOKS.min(n)) * 2 % n * 128, false);
                for from in [known, host(n + i, true)] {
                    let packet = all(Cookie(7))[kind].1;
                    watch.call(|| endpoint.receive(NOW, &from, packet, &mut io));
                    io.sent.clear();
                }
            }
            measured.end(watch, if name == "last ACK" { 32 } else { 12 });
        }
        let mut again = Watch::new(n, "SYNC of a finished message");
        for i in (0..n).step_by((n / 50) as usize) {
            let from = host(i / 2 * 2 * 128, false);
            let [sync, _] = whole(7);
            again.call(|| endpoint.receive(NOW, &from, sync, &mut io));
            io.sent.clear();
        }
        measured.end(again, 10);
        let mut watch = Watch::new(n, "forgetting");
        let mut calls = 0;
        let mut now = NOW;
        while endpoint.counts().2 != 0 {
            now = now.max(endpoint.next_timer().unwrap()) + Nanos::SECOND;
            watch.call(|| endpoint.timer(now, 0, &mut io));
            calls += 1;
        }
        assert!(calls >= n / 32);
        measured.end(watch, 1500);
    }
}
