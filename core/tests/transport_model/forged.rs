// SPDX-License-Identifier: GPL-2.0
//! Beginnings of messages that are forged by somebody who has seen the cookie of the right one.

use std::cell::Cell;
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Failure;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::*;

use super::topology::star;
use super::*;

const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// Who has seen the cookie begins the message first, with something of its SYNC changed. The honest
/// SYNC comes 14 us later, with a ticket or without.
#[track_caller]
fn forged(change: impl Fn(Sync) -> Sync) {
    forged_for(true, &change);
    forged_for(false, &change);
}

#[track_caller]
fn forged_for(known: bool, change: impl Fn(Sync) -> Sync) {
    let run = |first: Option<Sync>| {
        let mut network = star(1, &Config::DEFAULT, 4, link(), false);
        if known {
            network.acquaint([(1, 0)]);
        }
        let seen: Rc<Cell<Option<Sync>>> = Rc::default();
        let tap = seen.clone();
        network.tap = Some(Box::new(move |_, packet| {
            if let Some(sync) = sync_of(&packet.packet) {
                tap.set(tap.get().or(Some(sync)));
            }
        }));
        let begin = network.now + 1000;
        let message = network.send_at(begin, 1, 0, 100_000);
        network.run_until(begin + 2000);
        if let Some(sync) = first {
            network.inject(1, 0, Packet::Sync(sync), None);
        }
        network.run_to_the_end(begin + 400 * SECOND);
        let it = &network.registry.messages[message];
        let took = it.delivered.map(|at| (at - begin) / 1000);
        let refused = network.endpoint(1).stats().get(Counter::TokenDuplicate);
        let long = network.endpoint(0).stats().get(Counter::DataTooLong);
        (took, it.result, refused, long, seen.get().unwrap())
    };
    let (took, .., honest) = run(None);
    assert!(took.is_some() && (honest.echo != 0) == known);
    let (took, result, refused, long, _) = run(Some(change(Sync { echo: 0, ..honest })));
    assert!(
        took.is_some_and(|us| us < 10_000),
        "known: {known}; {took:?} us, {result:?}; tokens refused: {refused}; data too long: {long}"
    );
}

#[test]
fn shorter_packets() {
    forged(|sync| Sync { mss: 256, ..sync });
}

#[test]
fn no_length() {
    forged(|sync| Sync {
        length: None,
        unscheduled: 0,
        ..sync
    });
}

#[test]
fn another_length() {
    forged(|sync| Sync {
        length: Some(99_999),
        ..sync
    });
}

#[test]
fn a_shorter_length() {
    for length in [1000, 50_000] {
        forged(|sync| Sync {
            length: Some(length),
            unscheduled: 0,
            ..sync
        });
    }
}

#[test]
fn another_port() {
    forged(|sync| Sync { source: 7, ..sync });
}

#[test]
fn other_wishes() {
    forged(|sync| Sync {
        patience: 1,
        coflow: 9,
        unscheduled: 0,
        ..sync
    });
    forged(|sync| Sync {
        priority: Some(7),
        deadline: 1,
        ..sync
    });
    forged(|sync| Sync {
        ren: true,
        unscheduled: u32::MAX,
        ..sync
    });
}

/// The forged SYNC comes right after the honest one, which has no ticket, and a fifth of all
/// packets is lost: the message arrives all the same.
#[test]
fn among_losses() {
    for seed in 1..=300 {
        let mut network = star(seed, &Config::DEFAULT, 4, link(), false);
        let begin = network.now + 1000;
        let seen: Rc<Cell<Option<Sync>>> = Rc::default();
        let tap = seen.clone();
        network.tap = Some(Box::new(move |_, packet| {
            if let Some(sync) = sync_of(&packet.packet) {
                tap.set(tap.get().or(Some(sync)));
            }
        }));
        for node in 0..4 {
            network.set_loss(node, 200_000);
        }
        let message = network.send_at(begin, 1, 0, 20_000);
        while seen.get().is_none() {
            network.run_until(network.now + 1000);
        }
        let honest = seen.get().unwrap();
        let forged = Sync {
            source: 101,
            echo: 0,
            ..honest
        };
        network.inject(1, 0, Packet::Sync(forged), None);
        network.run_to_the_end(begin + 30 * SECOND);
        let it = &network.registry.messages[message];
        let result = it.result.map(|(_, result)| result);
        assert_eq!(result, Some(Ok(())), "seed {seed}");
    }
}

/// A stranger's or an acquaintance's message whose first packets are lost, all that it sends for
/// some ns, and what somebody who has seen the SYNC sends to the receiver.
struct Attempt {
    network: Network,
    message: usize,
    begin: u64,
    honest: Sync,
}

impl Attempt {
    fn new(known: bool, length: u32, lost: u64) -> Self {
        let begin = |network: &mut Network| {
            if known {
                network.acquaint([(1, 0)]);
            }
            let begin = network.now + 1000;
            (network.send_at(begin, 1, 0, length), begin)
        };
        // The cookie is that of a twin.
        let mut twin = star(1, &Config::DEFAULT, 4, link(), false);
        let seen: Rc<Cell<Option<Sync>>> = Rc::default();
        let tap = seen.clone();
        begin(&mut twin);
        twin.tap = Some(Box::new(move |_, packet| {
            if let Some(sync) = sync_of(&packet.packet) {
                tap.set(tap.get().or(Some(sync)));
            }
        }));
        twin.run_until(twin.now + 100_000);
        let mut network = star(1, &Config::DEFAULT, 4, link(), false);
        let (message, begin) = begin(&mut network);
        if lost != 0 {
            network.set_loss(2, 1_000_000);
            network.run_until(begin + lost);
            network.set_loss(2, 0);
        }
        network.run_until(begin + 2000);
        Self {
            network,
            message,
            begin,
            honest: seen.get().unwrap(),
        }
    }

    fn end(mut self) -> (Option<u64>, Option<Result<(), Failure>>) {
        self.network.run_to_the_end(self.begin + 400 * SECOND);
        let it = &self.network.registry.messages[self.message];
        let took = it.delivered.map(|at| (at - self.begin) / 1000);
        (took, it.result.map(|(_, result)| result))
    }
}

/// The SYNC that a packet is, or has with it.
fn sync_of(packet: &Packet) -> Option<Sync> {
    match packet {
        Packet::Sync(sync) => Some(*sync),
        Packet::First(first) => Some(first.sync),
        _ => None,
    }
}

/// The right SYNC is lost, and what comes before its repetition is forged.
#[test]
fn the_right_one_is_lost() {
    type Change = fn(Sync) -> Sync;
    let changes: [(&str, Change); 8] = [
        ("source", |sync| Sync { source: 7, ..sync }),
        ("port", |sync| Sync {
            destination: 8,
            ..sync
        }),
        ("coflow", |sync| Sync { coflow: 9, ..sync }),
        ("shorter", |sync| Sync {
            length: sync.length.map(|length| length / 2),
            unscheduled: 0,
            ..sync
        }),
        ("longer", |sync| Sync {
            length: sync.length.map(|length| length * 2),
            ..sync
        }),
        ("none", |sync| Sync {
            length: None,
            unscheduled: 0,
            ..sync
        }),
        ("mss", |sync| Sync { mss: 256, ..sync }),
        ("same", |sync| sync),
    ];
    for known in [true, false] {
        for length in [1000, 100_000, 5_000_000] {
            for lost in [500, 0] {
                let (alone, _) = Attempt::new(known, length, lost).end();
                let alone = alone.unwrap();
                for (name, change) in changes {
                    let mut it = Attempt::new(known, length, lost);
                    let forged = change(Sync {
                        echo: 0,
                        ..it.honest
                    });
                    it.network.inject(1, 0, Packet::Sync(forged), None);
                    let (took, result) = it.end();
                    assert!(
                        result == Some(Ok(())) && took.is_some_and(|us| us < 2 * alone + 5000),
                        "known {known}, {length} bytes, lost {lost}, {name}: {result:?} after \
                         {took:?} us; alone {alone}"
                    );
                }
            }
        }
    }
}

/// A message that the port refuses is not delivered to another port.
#[test]
fn to_another_port() {
    for lost in [500, 0] {
        for length in [1000, 100_000] {
            let mut it = Attempt::new(false, length, lost);
            let forged = Sync {
                destination: 8,
                ..it.honest
            };
            let port = it.honest.destination;
            it.network
                .set_port(0, port, host::Policy::Refuse(ResetCode::NoSocket));
            it.network.inject(1, 0, Packet::Sync(forged), None);
            let (took, result) = it.end();
            let refused = Some(Err(Failure::Reset(ResetCode::NoSocket)));
            assert!(
                took.is_none() && result == refused,
                "{length} bytes, lost {lost}: {result:?} after {took:?} us"
            );
        }
    }
}

/// Somebody guesses at tokens in a stranger's name until guesses count no more, and for a while
/// nothing reaches the stranger.
#[test]
fn guesses_and_an_outage() {
    for outage in [100, 1000, 10_000, 100_000] {
        let mut it = Attempt::new(false, 20_000, 0);
        it.network.run_until(it.begin + 16_500);
        for token in 0..64 {
            let data = Data {
                cookie: it.honest.cookie,
                token,
                timestamp: 1,
                offset: 0,
                len: 1,
                flags: 0,
                more: 0,
            };
            let payload = host::Payload {
                message: it.message,
                offset: 0,
                len: 1,
            };
            it.network.inject(1, 0, Packet::Data(data), Some(payload));
        }
        for node in [0, 3] {
            it.network.set_loss(node, 1_000_000);
        }
        it.network.run_until(it.begin + 16_500 + outage * 1000);
        for node in [0, 3] {
            it.network.set_loss(node, 0);
        }
        let (took, result) = it.end();
        assert!(
            result == Some(Ok(())) && took.is_some_and(|us| us < 3 * outage + 20_000),
            "outage {outage} us: {result:?} after {took:?} us"
        );
    }
}

/// A FIN that comes before the SYNC is answered with RESET: what was sent before that comes all the
/// same, and the sender believes that it has.
#[test]
fn an_end_before_the_beginning() {
    for length in [1000, 20_000, 100_000] {
        let mut it = Attempt::new(true, length, 0);
        let fin = Fin {
            cookie: it.honest.cookie,
            length: length + 1,
        };
        it.network.inject(1, 0, Packet::Fin(fin), None);
        let begin = it.begin;
        let message = it.message;
        it.network.run_to_the_end(begin + 400 * SECOND);
        let it = &it.network.registry.messages[message];
        let ended = it.result.map(|(at, result)| ((at - begin) / 1000, result));
        assert!(
            matches!(ended, Some((us, Ok(()))) if us < 10_000),
            "{length} bytes: {ended:?}; delivered {:?}",
            it.delivered
        );
    }
}

/// A stream of a stranger, and a forged FIN before a SYNC has shown whose it is: it ends where its
/// sender says.
#[test]
fn an_end_before_the_proof() {
    for length in [100, 20_000, 1_000_000] {
        for after in [0, 1000, 10_000, 18_000, 24_000] {
            let mut network = star(1, &Config::DEFAULT, 4, link(), false);
            let seen: Rc<Cell<Option<Sync>>> = Rc::default();
            let tap = seen.clone();
            network.tap = Some(Box::new(move |_, packet| {
                if let Some(sync) = sync_of(&packet.packet) {
                    tap.set(tap.get().or(Some(sync)));
                }
            }));
            let begin = network.now + 1000;
            let what = turnstile_core::transport::host::Outgoing {
                length: None,
                available: 20_000,
                ..network.plain(40_000)
            };
            let message = network.send_as(begin, 1, 0, 40_000, what);
            while seen.get().is_none() {
                network.run_until(network.now + 100);
            }
            network.run_until(network.now + after);
            let fin = Fin {
                cookie: seen.get().unwrap().cookie,
                length,
            };
            let proven = network.endpoint(0).stats().get(Counter::EchoReceived);
            assert_eq!(proven, 0, "{after} ns");
            network.inject(1, 0, Packet::Fin(fin), None);
            network.run_to_the_end(begin + 400 * SECOND);
            let it = &network.registry.messages[message];
            let took = it.delivered.map(|at| (at - begin) / 1000);
            let result = it.result.map(|(_, result)| result);
            assert!(
                result == Some(Ok(())) && took.is_some_and(|us| us < 5000),
                "FIN of {length} bytes after {after} ns: {result:?} after {took:?} us"
            );
        }
    }
}

/// No attacker: the receiver's options change while a stranger's message is under way.
#[test]
fn options_that_change_are_no_contradiction() {
    use turnstile_core::transport::uapi;
    let top = Config::DEFAULT;
    let ren = Config {
        policy: uapi::POLICY_REN,
        ..top
    };
    let wish = Config {
        sender_priority: 1,
        ..top
    };
    for (name, before, after) in [
        ("ren to top", ren, top),
        ("top to ren", top, ren),
        ("sender-priority to ignore", wish, top),
        ("ignore to sender-priority", top, wish),
    ] {
        for known in [true, false] {
            let mut network = star(1, &before, 4, link(), false);
            if known {
                network.acquaint([(1, 0)]);
            }
            let begin = network.now + 1000;
            let what = turnstile_core::transport::host::Outgoing {
                priority: Some(3),
                ..network.plain(5_000_000)
            };
            let message = network.send_as(begin, 1, 0, 5_000_000, what);
            network.run_until(begin + 2_000_000);
            let config = after.validate(Some(1_250_000_000)).unwrap();
            network.with(0, |endpoint, io, now, _| {
                endpoint.configure(Nanos(now), &config, io);
            });
            for (loss, until) in [(1_000_000, 6_000_000), (0, 400 * SECOND)] {
                for node in [0, 2] {
                    network.set_loss(node, loss);
                }
                network.run_until(begin + until);
            }
            let it = &network.registry.messages[message];
            let result = it.result.map(|(_, result)| result);
            assert_eq!(result, Some(Ok(())), "{name}, known {known}");
        }
    }
}
