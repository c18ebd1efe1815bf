// SPDX-License-Identifier: GPL-2.0
//! Messages for which there is no room yet: what is sent and done for them until there is.

use super::trust::echo;
use super::*;
use crate::header::FLAG_UNSCHEDULED;
use crate::transport::config::Policy;

/// A socket's port whose receive buffer is full.
pub(super) const FULL: u16 = 77;

/// The first packet of a message to it.
fn first(number: u64, ren: bool) -> Sync {
    Sync {
        destination: FULL,
        ren,
        ..sync(number, 100_000)
    }
}

fn by(policy: Policy) -> Resolved {
    Resolved { policy, ..config() }
}

/// A stranger is asked for a proof at once; with repetitions, probes, data that nobody asked for
/// and a second of timers after each it draws no more than three times the bytes.
#[test]
fn a_stranger_that_waits_draws_no_more_than_three_times_the_bytes() {
    for (v6, policy) in [false, true]
        .into_iter()
        .flat_map(|v6| [Policy::ExpressPass, Policy::Top, Policy::Ren].map(|policy| (v6, policy)))
    {
        for data in [0, 3, 20] {
            let (mut endpoint, mut io) = new(&by(policy));
            let from = host(1, v6);
            let ip = if v6 { 48 } else { 28 };
            let (mut came, mut now) = (0, NOW);
            for time in 0..6 {
                let sync = Sync {
                    unscheduled: 1450,
                    probe: time == 3,
                    ..first(7, policy == Policy::Ren)
                };
                let unasked = (0..data).map(|offset| {
                    Packet::Data(Data {
                        cookie: Cookie(7),
                        token: 0,
                        timestamp: 0,
                        offset,
                        len: 1,
                        flags: FLAG_UNSCHEDULED,
                        more: 0,
                    })
                });
                for packet in core::iter::once(Packet::Sync(sync)).chain(unasked) {
                    came += packet.bytes() + ip;
                    endpoint.receive(now, &from, packet, &mut io);
                }
                if time == 0 {
                    let sent: Vec<_> = io.sent.iter().map(|it| it.1).collect();
                    assert!(echo(&sent).is_some(), "no CHALLENGE: {sent:?}");
                }
                let end = now + Nanos::SECOND;
                while let Some(next) = endpoint.next_timer().filter(|at| *at < end) {
                    now = now.max(next) + Nanos(1000);
                    endpoint.timer(now, now.0 as u32, &mut io);
                }
                now = end;
                let went: u32 = io.sent.iter().map(|it| it.2).sum();
                assert!(went <= 3 * came, "{policy:?}: {went} bytes for {came}");
            }
        }
    }
}

/// What waits costs a few timers, not one for each round trip.
#[test]
fn who_waits_keeps_no_timer_busy() {
    for policy in [Policy::ExpressPass, Policy::Top, Policy::Ren] {
        for proved in [false, true] {
            let (mut endpoint, mut io) = new(&by(policy));
            let from = host(1, false);
            let sync = first(7, policy == Policy::Ren);
            for _ in 0..3 {
                endpoint.receive(NOW, &from, Packet::Sync(sync), &mut io);
            }
            if proved {
                let echo = echo(&io.take()).unwrap();
                let sync = Sync { echo, ..sync };
                endpoint.receive(NOW, &from, Packet::Sync(sync), &mut io);
                assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
            }
            let (mut now, end) = (NOW, NOW + Nanos(Nanos::SECOND.0 / 10));
            let mut timers = 0;
            while let Some(next) = endpoint.next_timer().filter(|at| *at < end) {
                now = now.max(next) + Nanos(1000);
                endpoint.timer(now, now.0 as u32, &mut io);
                timers += 1;
            }
            assert!(
                timers < 30,
                "{policy:?}, {proved}: {timers} timers in 100 ms"
            );
        }
    }
}

/// With REN, who has waited is granted data as soon as there is room.
#[test]
fn who_waited_is_granted_data_at_once() {
    let (mut endpoint, mut io) = new(&by(Policy::Ren));
    let from = host(1, false);
    let sync = first(7, true);
    endpoint.receive(NOW, &from, Packet::Sync(sync), &mut io);
    let echo = echo(&io.take()).unwrap();
    let sync = Sync { echo, ..sync };
    endpoint.receive(NOW, &from, Packet::Sync(sync), &mut io);
    let mut now = NOW;
    let end = NOW + Nanos(Nanos::SECOND.0 / 10);
    let mut run = |endpoint: &mut Messages, io: &mut Io, end: Nanos| {
        while let Some(next) = endpoint.next_timer().filter(|at| *at < end) {
            now = now.max(next);
            endpoint.timer(now, now.0 as u32, io);
        }
        now = end;
    };
    run(&mut endpoint, &mut io, end);
    let grants = |io: &mut Io| {
        let sent = io.take();
        let grants = sent.iter().filter(|it| matches!(it, Packet::Token(_)));
        grants.count()
    };
    assert_eq!(grants(&mut io), 0);
    let id = endpoint.in_id(0);
    endpoint.window(end, id, 100_000, &mut io);
    run(&mut endpoint, &mut io, end + Nanos(1));
    assert_eq!(grants(&mut io), 1);
}

/// The right answer for which there is no memory draws no other question, or the two would go to
/// and fro at the speed of the line. With the next SYNC there may be some.
#[test]
fn a_proof_without_memory_is_not_asked_for_again() {
    let (mut endpoint, mut io) = new(&config());
    let from = host(1, false);
    let sync = first(7, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync), &mut io);
    let echo_of = echo(&io.take()).unwrap();
    io.unproven = true;
    let again = Sync {
        echo: echo_of,
        ..sync
    };
    endpoint.receive(NOW, &from, Packet::Sync(again), &mut io);
    assert_eq!(echo(&io.take()), None);
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 0);
    io.unproven = false;
    endpoint.receive(NOW, &from, Packet::Sync(again), &mut io);
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
}

/// Whoever has seen a cookie can begin a message with it first, in its sender's name. That neither
/// sends questions to and fro without end nor decides what the message is.
#[test]
fn a_forged_beginning_does_not_keep_the_right_one_out() {
    let right = sync(7, 3000);
    let other_port = Sync {
        destination: right.destination + 1,
        ..right
    };
    let without_length = Sync {
        length: None,
        ..right
    };
    let other_coflow = Sync { coflow: 9, ..right };
    for forged in [other_port, sync(7, 2999), without_length, other_coflow] {
        let (mut endpoint, mut io) = new(&config());
        let from = host(1, false);
        endpoint.receive(NOW, &from, Packet::Sync(forged), &mut io);
        io.take();
        endpoint.receive(NOW, &from, Packet::Sync(right), &mut io);
        let echo = echo(&io.take()).expect("a CHALLENGE");
        let shown = Sync { echo, ..right };
        endpoint.receive(NOW, &from, Packet::Sync(shown), &mut io);
        assert_eq!(endpoint.stats().get(Counter::EchoWrong), 0);
        assert_eq!(
            endpoint.stats().get(Counter::SenderProven),
            0,
            "it is known from its SYNC"
        );
        let message = endpoint.ins.get(endpoint.in_id(0).index).unwrap();
        let ports = (right.source, right.destination);
        assert_eq!(
            (message.ports(), message.length, message.proven),
            (ports, right.length, true)
        );
        // Now it is the one that is forged that has no effect.
        endpoint.receive(NOW, &from, Packet::Sync(forged), &mut io);
        let message = endpoint.ins.get(endpoint.in_id(0).index).unwrap();
        assert_eq!((message.ports(), message.length), (ports, right.length));
    }
}

/// A forged beginning with shorter packets, or other patience, is corrected by the right SYNC, also
/// if its sender has answered the tokens of the forged one before.
#[test]
fn a_forged_beginning_is_corrected() {
    let right = sync(7, 3000);
    let forged = Sync {
        mss: 200,
        patience: 1,
        deadline: 5,
        ..right
    };
    for answers in [false, true] {
        let (mut endpoint, mut io) = new(&config());
        let from = host(1, false);
        endpoint.receive(NOW, &from, Packet::Sync(forged), &mut io);
        let token = io.take().into_iter().find_map(|packet| match packet {
            Packet::Token(token) => Some(token),
            _ => None,
        });
        if answers {
            let token = token.expect("a token");
            let data = answer(&token, 0, 100);
            endpoint.receive(NOW, &from, data, &mut io);
            assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
            io.take();
        }
        endpoint.receive(NOW, &from, Packet::Sync(right), &mut io);
        let echo = echo(&io.take()).expect("a CHALLENGE");
        let message = endpoint.ins.get(endpoint.in_id(0).index).unwrap();
        assert_eq!(message.mss, 200);
        let shown = Sync { echo, ..right };
        endpoint.receive(NOW, &from, Packet::Sync(shown), &mut io);
        let message = endpoint.ins.get(endpoint.in_id(0).index).unwrap();
        assert_eq!(
            (message.mss, message.patience),
            (right.mss.into(), right.patience)
        );
        assert!(message.proven && message.deadline.get().is_none());
        // Whoever has no proof changes nothing any more.
        endpoint.receive(NOW, &from, Packet::Sync(forged), &mut io);
        let message = endpoint.ins.get(endpoint.in_id(0).index).unwrap();
        assert_eq!(message.mss, u32::from(right.mss));
    }
}
