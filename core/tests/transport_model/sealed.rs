// SPDX-License-Identifier: GPL-2.0
//! Sealed messages: they arrive as others do; and who has no key learns nothing and moves nothing.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use turnstile_core::header::Type;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::{Failure, Unreachable};
use turnstile_core::transport::seal::{Kind, Label, Seal, SEAL_LEN};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;

use super::cipher::{self, psk};
use super::host::{address, Policy};
use super::network::Flying;
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;
const MS: u64 = 1_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// A star of hosts with one key, and what arrives anywhere from now on.
fn sealed(
    seed: u64,
    config: &Config,
    hosts: usize,
    link: Link,
) -> (Network, Rc<RefCell<Vec<Flying>>>) {
    let mut network = star(seed, config, hosts, link, seed % 2 == 1);
    for host in 0..hosts {
        network.set_keys(host, &[psk(1)]);
    }
    let seen: Rc<RefCell<Vec<Flying>>> = Rc::default();
    let tap = seen.clone();
    network.tap = Some(Box::new(move |_, packet: &Flying| {
        assert!(packet.sealed.is_some(), "not sealed: {:?}", packet.packet);
        tap.borrow_mut().push(packet.clone());
    }));
    (network, seen)
}

/// All messages arrived, and their senders know.
#[track_caller]
fn assert_all(network: &Network) {
    for (number, message) in network.registry.messages.iter().enumerate() {
        assert!(
            message.delivered.is_some() && matches!(message.result, Some((_, Ok(())))),
            "{number}: {message:?}"
        );
    }
}

/// Messages of all lengths, to and fro; some of a length that is not known at first.
fn mixed(network: &mut Network, hosts: usize, messages: usize, span: u64) {
    for i in 0..messages {
        let at = BEGIN + network.below(span);
        let longest = [1000, 100_000, 1_000_000][i % 3];
        let length = 1 + network.below(longest) as u32;
        let mut what = network.plain(length);
        if i % 4 == 3 {
            what.length = None;
            what.available = 0;
        }
        network.send_as(at, i % hosts, (i + 1) % hosts, length, what);
    }
}

fn policies() -> [Config; 3] {
    let config = Config::DEFAULT;
    let unscheduled = Config {
        unscheduled: 20,
        ..config
    };
    let ren = Config {
        policy: uapi::POLICY_REN,
        ..config
    };
    [config, unscheduled, ren]
}

#[test]
fn sealed_messages_arrive_whatever_the_network_does() {
    for (seed, config) in (0..).zip(policies().into_iter().cycle().take(9)) {
        let rough = Link {
            loss: 10_000,
            repeat: 10_000,
            reorder: 20_000,
            late: 200_000,
            ..link()
        };
        let link = if seed < 3 { link() } else { rough };
        let (mut network, _seen) = sealed(seed, &config, 3, link);
        mixed(&mut network, 3, 60, 3 * MS);
        network.run_to_the_end(60_000 * MS);
        assert_all(&network);
        for host in 0..3 {
            let stats = network.stats(host);
            for counter in [Counter::SealWrong, Counter::SealKey, Counter::SealMissing] {
                assert_eq!(stats.get(counter), 0, "{}", counter.name());
            }
        }
    }
}

/// No key and number ever seal two different packets.
#[test]
fn no_number_is_used_twice() {
    for (seed, config) in (0..).zip(policies()) {
        let rough = Link {
            loss: 30_000,
            repeat: 10_000,
            ..link()
        };
        let (mut network, seen) = sealed(seed, &config, 2, rough);
        mixed(&mut network, 2, 40, MS);
        network.run_to_the_end(60_000 * MS);
        let mut used = std::collections::HashMap::new();
        for packet in seen.take() {
            let bytes = packet.sealed.unwrap();
            let label = cipher::label(&bytes).unwrap();
            let cookie = packet.packet.cookie().0;
            // The sender's keys follow from the receiver's number, too, which is not in the packet:
            // so this asks for more than is needed.
            let nonce = (
                packet.from,
                cookie,
                label.kind as u8,
                label.random,
                label.number,
            );
            let before = used.entry(nonce).or_insert_with(|| bytes.clone());
            assert_eq!(*before, bytes, "{:?}", packet.packet);
        }
        assert!(used.len() > 1000);
    }
}

/// What a forged or repeated packet may change: counters of what was not taken.
fn refusals() -> impl Iterator<Item = Counter> {
    Counter::ALL.iter().copied().filter(|counter| {
        ["seal_", "malformed_"]
            .iter()
            .any(|p| counter.name().starts_with(p))
    })
}

fn others(network: &Network, host: usize) -> Vec<u64> {
    let refusals: HashSet<_> = refusals().collect();
    let all = Counter::ALL
        .iter()
        .filter(|counter| !refusals.contains(counter));
    all.map(|counter| network.stats(host).get(*counter))
        .collect()
}

fn refused(network: &Network, host: usize) -> u64 {
    refusals()
        .map(|counter| network.stats(host).get(counter))
        .sum()
}

/// A packet comes to a host, and must do nothing.
#[track_caller]
fn does_nothing(network: &mut Network, packet: &Flying, bytes: &[u8]) {
    does_nothing_from(network, packet, packet.from, bytes);
}

/// The same if it comes from this host.
#[track_caller]
fn does_nothing_from(network: &mut Network, packet: &Flying, host: usize, bytes: &[u8]) {
    let from = address(host, packet.to, packet.v6);
    let before = (
        others(network, packet.to),
        network.endpoint(packet.to).counts(),
        network.endpoint(packet.to).next_timer(),
    );
    let count = refused(network, packet.to);
    let drawn = network.open(packet.to, &from, 0, 0, bytes);
    let after = (
        others(network, packet.to),
        network.endpoint(packet.to).counts(),
        network.endpoint(packet.to).next_timer(),
    );
    assert_eq!((drawn, &before), (0, &after), "{:?}", packet.packet);
    assert_eq!(refused(network, packet.to), count + 1, "it is counted once");
}

/// Every bit of packets of every type, each turned over alone, when a packet like it has just come.
#[test]
fn a_packet_with_a_wrong_bit_does_nothing_but_count() {
    let mut types = std::collections::HashMap::new();
    for (seed, config) in (0..).zip(policies()) {
        let rough = Link {
            loss: 30_000,
            ..link()
        };
        let (mut network, seen) = sealed(seed, &config, 2, rough);
        network.set_port(1, 9, Policy::Refuse(ResetCode::NoSocket));
        mixed(&mut network, 2, 12, MS);
        let mut what = network.plain(1000);
        what.destination = 9;
        network.send_as(BEGIN, 0, 1, 1000, what);
        let mut at = BEGIN;
        while at < BEGIN + 20 * MS {
            at += 5_000;
            network.run_until(at);
            for packet in seen.take() {
                let count = types.entry(packet.packet.header().kind).or_insert(0);
                *count += 1;
                if *count % 4 != 1 || *count > 40 {
                    continue;
                }
                let bytes = packet.sealed.clone().unwrap();
                for bit in 0..bytes.len() * 8 {
                    let mut wrong = bytes.clone();
                    wrong[bit / 8] ^= 1 << (bit % 8);
                    does_nothing(&mut network, &packet, &wrong);
                }
                // Another's address, shorter and longer ones.
                does_nothing_from(&mut network, &packet, 77, &bytes);
                for len in 0..bytes.len() {
                    does_nothing(&mut network, &packet, &bytes[..len]);
                }
                does_nothing(&mut network, &packet, &[&bytes[..], &[0]].concat());
            }
        }
    }
    assert_eq!(types.len(), 8, "all types: {types:?}");
    assert!(types.contains_key(&Type::Challenge) && types.contains_key(&Type::Reset));
}

/// All that two hosts ever sent each other comes again: at once, when the messages are over, and
/// when they are forgotten. Nothing is delivered twice, nothing that is under way is disturbed, and
/// no more bytes are drawn than come.
#[test]
fn old_packets_do_nothing() {
    for (seed, config) in (0..).zip(policies()) {
        let (mut network, seen) = sealed(seed, &config, 2, link());
        mixed(&mut network, 2, 24, 2 * MS);
        let mut all = Vec::new();
        let mut at = BEGIN;
        while at < BEGIN + 3 * MS {
            at += 20_000;
            network.run_until(at);
            let mut more = seen.take();
            // Of messages that are under way: they do nothing at all.
            for packet in &more {
                let known = network
                    .endpoint(packet.to)
                    .owner(&address(packet.from, packet.to, packet.v6), &packet.packet);
                let under_way = !matches!(known, turnstile_core::transport::host::Owner::Nobody);
                let bytes = packet.sealed.clone().unwrap();
                if under_way {
                    does_nothing(&mut network, packet, &bytes);
                }
            }
            all.append(&mut more);
        }
        network.run_to_the_end(60_000 * MS);
        all.append(&mut seen.take());
        assert_all(&network);
        let delivered = |network: &Network| -> u64 {
            (0..2)
                .map(|host| network.stats(host).get(Counter::InDelivered))
                .sum()
        };
        let before = delivered(&network);
        for wait in [0, 40_000 * MS] {
            // Remembered ones are forgotten by then, and peers are not known any more.
            network.run_until(network.now + wait);
            let drawn = Rc::new(RefCell::new(0_u64));
            let tap = drawn.clone();
            network.tap = Some(Box::new(move |_, packet: &Flying| {
                *tap.borrow_mut() += ip_len(packet);
            }));
            let mut came = 0;
            for packet in &all {
                let bytes = packet.sealed.as_ref().unwrap();
                let label = cipher::label(bytes).unwrap();
                came += if label.kind == Kind::First {
                    ip_len(packet)
                } else {
                    0
                };
                let from = address(packet.from, packet.to, packet.v6);
                network.open(packet.to, &from, 0, 0, bytes);
            }
            network.run_until(network.now + 30_000 * MS);
            assert_eq!(delivered(&network), before);
            let drawn = *drawn.borrow();
            println!("{seed}, after {wait} ns: {drawn} bytes for {came}");
            // Only what can be opened counts: what was sealed before the receiver answered.
            assert!(drawn <= 3 * came);
            for host in 0..2 {
                let (outgoing, incoming, _) = network.endpoint(host).counts();
                assert_eq!((outgoing, incoming), (0, 0), "nothing stays");
            }
        }
    }
}

/// Bytes of its IP packet.
fn ip_len(packet: &Flying) -> u64 {
    let payload = packet.payload.map_or(0, |payload| payload.len);
    let header = packet.packet.write(&mut [0; MAX_HEADER]) + SEAL_LEN;
    u64::from(payload) + header as u64 + if packet.v6 { 48 } else { 28 }
}

/// Every type of packet, of a message that the attacker makes up.
fn forged(cookie: u64) -> Vec<Packet> {
    let cookie = Cookie(cookie);
    let mut spans = Spans::default();
    spans.push(0, 1450);
    let sync = Sync {
        cookie,
        source: 1,
        destination: 2,
        length: Some(100_000),
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1450,
        patience: 100,
        echo: 0,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    };
    let ack = |last| {
        Packet::Ack(Ack {
            cookie,
            received: 1000,
            window: 1000,
            allowance: 0,
            last,
            mark: turnstile_core::transport::rate::Mark::None,
            notify: false,
        })
    };
    let mut all = vec![
        Packet::Sync(sync),
        Packet::Sync(Sync {
            probe: true,
            ..sync
        }),
        Packet::Token(Token {
            cookie,
            sequence: 0,
            timestamp: 0,
            priority: 0,
            grant: None,
            worth: 1,
        }),
        Packet::Data(Data {
            cookie,
            token: 0,
            timestamp: 0,
            offset: 0,
            len: 1000,
            flags: 0,
            more: 0,
        }),
        Packet::Resend(Resend { cookie, spans }),
        Packet::Fin(Fin {
            cookie,
            length: 100,
        }),
        ack(false),
        ack(true),
        Packet::Challenge(Challenge {
            cookie,
            echo: 1,
            ticket: false,
        }),
        Packet::Challenge(Challenge {
            cookie,
            echo: 1,
            ticket: true,
        }),
    ];
    all.extend(ResetCode::ALL.map(|code| Packet::Reset(Reset { cookie, code })));
    all
}

/// Seals with a key that is not the hosts', or says that it is theirs.
fn with_another_key(packet: &Packet, id: u32, random: u64) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    header[2] |= packet.header().kind.sealed();
    let kind = match packet {
        Packet::Token(_) | Packet::Resend(_) | Packet::Challenge(_) => Kind::Receiver,
        Packet::Ack(ack) if !ack.last => Kind::Receiver,
        _ => Kind::First,
    };
    let label = Label {
        word: id,
        kind,
        number: 0,
        random,
    };
    let key = psk(66).key;
    cipher::seal(&header[..len], None, &Seal { key, label })
}

/// Who sees everything and has no key, or another one, beside honest messages: not sealed at all;
/// sealed with another key; of made-up messages, and of those under way; from its own address and
/// from others'. Not a byte is drawn, nothing is kept, and all honest messages arrive in time.
#[test]
fn without_the_key_nothing_moves() {
    for (seed, config) in (0..).zip(policies()) {
        let run = |attack: bool| {
            let (mut network, seen) = sealed(seed, &config, 2, link());
            mixed(&mut network, 2, 40, 2 * MS);
            let mut at = BEGIN;
            while at < BEGIN + 4 * MS && attack {
                at += 100_000;
                network.run_until(at);
                let cookies = seen.take();
                let cookies = cookies.iter().rev().take(4).map(|p| p.packet.cookie().0);
                for cookie in cookies.chain([at]) {
                    for packet in forged(cookie) {
                        for (from, to) in [(0, 1), (1, 0), (1000, 0)] {
                            let v6 = seed % 2 == 1;
                            let flying = network.flying(from, to, v6, &packet);
                            let mut plain = [0; MAX_HEADER];
                            let len = packet.write(&mut plain);
                            let payload = if matches!(packet, Packet::Data(_)) {
                                1000
                            } else {
                                0
                            };
                            let plain = [&plain[..len], &vec![0; payload]].concat();
                            does_nothing(&mut network, &flying, &plain);
                            for id in [psk(1).id, psk(66).id] {
                                let random = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                                let bytes = with_another_key(&packet, id, random);
                                does_nothing(&mut network, &flying, &bytes);
                            }
                        }
                    }
                    // ICMP says that nobody is there.
                    let to = address(1, 0, seed % 2 == 1);
                    network.with(0, |endpoint, io, now, _| {
                        let what = Unreachable::Port;
                        endpoint.unreachable(Nanos(now), &to, Cookie(cookie), what, io);
                    });
                }
            }
            network.run_to_the_end(60_000 * MS);
            assert_all(&network);
            assert_eq!(network.reflected(), 0);
            let messages = &network.registry.messages;
            let took = messages.iter().map(|it| it.delivered.unwrap() - it.began);
            took.sum::<u64>()
        };
        let (alone, attacked) = (run(false), run(true));
        assert!(attacked * 10 <= alone * 11, "{attacked} {alone}");
    }
}

/// A peer with another key, one without any, and one that seals while this does not.
#[test]
fn ends_that_do_not_agree_time_out() {
    for (ours, theirs) in [
        (vec![psk(1)], vec![psk(2)]),
        (vec![psk(1)], vec![]),
        (vec![], vec![psk(1)]),
    ] {
        let mut network = star(4, &Config::DEFAULT, 2, link(), false);
        network.set_keys(0, &ours);
        network.set_keys(1, &theirs);
        let number = network.send_at(BEGIN, 0, 1, 10_000);
        network.run_to_the_end(60_000 * MS);
        let message = &network.registry.messages[number];
        assert_eq!(message.delivered, None);
        let result = message.result.map(|(_, result)| result);
        assert_eq!(result, Some(Err(Failure::TimedOut)));
        let sent: u64 = [
            Counter::AckSent,
            Counter::ResetSentUnknown,
            Counter::ChallengeSent,
        ]
        .map(|counter| network.stats(1).get(counter))
        .iter()
        .sum();
        assert_eq!(sent, 0, "not a byte is drawn");
        let counter = if ours.is_empty() {
            Counter::SealMissing
        } else {
            Counter::SealKey
        };
        assert!(network.stats(1).get(counter) > 2);
    }
}

/// Another key takes over, host by host, while messages are under way: none is lost, and none waits
/// for a time-out.
#[test]
fn keys_change_without_loss() {
    let rough = Link {
        loss: 5_000,
        ..link()
    };
    let (mut network, _seen) = sealed(6, &Config::DEFAULT, 3, rough);
    mixed(&mut network, 3, 150, 12 * MS);
    let steps: [&[_]; 3] = [&[psk(1), psk(2)], &[psk(2), psk(1)], &[psk(2)]];
    let mut at = BEGIN;
    for keys in steps {
        for host in 0..3 {
            at += MS;
            network.run_until(at);
            network.set_keys(host, keys);
        }
        // Until all messages under a key that is not sent with any more have ended: their last
        // ACK may have to be asked for once more.
        let since = at;
        let mut under_way = true;
        while under_way {
            at += MS;
            network.run_until(at);
            let messages = &network.registry.messages;
            under_way = messages
                .iter()
                .any(|it| it.began <= since && it.result.is_none());
        }
    }
    network.run_to_the_end(60_000 * MS);
    assert_all(&network);
    for message in &network.registry.messages {
        let took = message.result.unwrap().0 - message.began;
        assert!(took < 1000 * MS, "{message:?}");
    }
}

/// The receiver forgets a message, as one does that is restarted. Its sender is told so, by a RESET
/// that is sealed; and what the receiver said before does not come back.
#[test]
fn a_receiver_that_forgot_says_so_under_seal() {
    let (mut network, seen) = sealed(2, &Config::DEFAULT, 2, link());
    let number = network.send_at(BEGIN, 0, 1, 50_000_000);
    network.run_until(BEGIN + MS);
    let before = seen.take();
    network.with(1, |endpoint, io, now, _| {
        // As if it had never been: nothing is told to the sender.
        let told = io.sent.len();
        while endpoint.clear(Nanos(now), io) {}
        io.sent.truncate(told);
    });
    for packet in before.iter().filter(|packet| packet.to == 0) {
        does_nothing(&mut network, packet, packet.sealed.as_ref().unwrap());
    }
    network.run_to_the_end(60_000 * MS);
    let message = &network.registry.messages[number];
    let (at, result) = message.result.unwrap();
    assert_eq!(result, Err(Failure::Reset(ResetCode::Unknown)));
    assert!(at < BEGIN + 1000 * MS);
    assert_ne!(network.stats(1).get(Counter::ResetSentUnknown), 0);
}

/// What is not sealed is malformed to nobody, and is parsed as before.
#[test]
fn a_sealed_packet_is_malformed_to_who_does_not_know_seals() {
    for packet in forged(1) {
        let bytes = with_another_key(&packet, 1, 2);
        assert!(is_sealed(&bytes, bytes.len()));
        assert!(parse(&bytes, bytes.len()).is_err());
    }
}

/// Seals are turned on when a message is over that was not sealed, but its last ACK was lost: its
/// sender still gets one, and does not take the message for lost.
#[test]
fn what_was_not_sealed_is_confirmed_when_seals_are_on() {
    let mut network = star(3, &Config::DEFAULT, 2, link(), true);
    let cookies = Rc::new(RefCell::new(Vec::new()));
    let tap = cookies.clone();
    network.tap = Some(Box::new(move |_, packet: &Flying| {
        tap.borrow_mut().push(packet.packet.cookie());
    }));
    let number = network.send_at(BEGIN, 0, 1, 10_000);
    network.run_until(BEGIN + 20 * MS);
    assert!(network.registry.messages[number].delivered.is_some());
    for host in 0..2 {
        network.set_keys(host, &[psk(1)]);
    }
    let (from, cookie) = (address(0, 1, true), cookies.borrow()[0]);
    let mut ask = |packet: Packet| {
        let mut plain = [0; MAX_HEADER];
        let len = packet.write(&mut plain);
        network.open(1, &from, 0, 0, &plain[..len])
    };
    let length = 10_000;
    assert_eq!(ask(Packet::Fin(Fin { cookie, length })), 1);
    let cookie = Cookie(cookie.0 ^ 1);
    assert_eq!(ask(Packet::Fin(Fin { cookie, length })), 0, "of no message");
}

/// A sealed message is over, and remembered: who asks about it without a seal is told nothing, even
/// where messages need not be sealed.
#[test]
fn what_was_sealed_is_not_told_to_others() {
    let (mut network, seen) = sealed(3, &Config::DEFAULT, 2, link());
    let number = network.send_at(BEGIN, 0, 1, 10_000);
    network.run_until(BEGIN + 20 * MS);
    assert!(network.registry.messages[number].delivered.is_some());
    let cookie = seen.take()[0].packet.cookie();
    network.tap = None;
    for host in 0..2 {
        network.seal_some(host);
    }
    let fin = Packet::Fin(Fin {
        cookie,
        length: 10_000,
    });
    let flying = network.flying(0, 1, true, &fin);
    let mut plain = [0; MAX_HEADER];
    let len = fin.write(&mut plain);
    does_nothing(&mut network, &flying, &plain[..len]);
}
