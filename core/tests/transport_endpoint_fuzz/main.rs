// SPDX-License-Identifier: GPL-2.0
//! Fuzzing of an endpoint with ten million packets: from peers that know the cookies and send
//! anything well-formed, and from an attacker who knows everything but the cookies. Nothing panics,
//! memory and answers stay within bounds, no byte of a message is handed over twice, and without a
//! cookie nothing changes.
// Shifts before masks, as everybody reads them; later versions of the lint agree.
#![allow(clippy::precedence)]

#[path = "../common/mod.rs"]
mod common;
mod growing;
mod packets;
mod user;

use common::Rng;
use packets::{packet, Learnt};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::endpoint::Endpoint;
use turnstile_core::transport::host::*;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::{Cookie, Packet, Sync, MAX_LENGTH};
use turnstile_core::units::Nanos;
use user::{peer, In, Io, Out, Std};

const PACKETS: u64 = 10_000_000;
/// The most that one call may send: tokens before and after, and a burst for each timer.
const MOST_PER_CALL: u32 = 32 * 32 + 256;
const PEERS: u8 = 4;
/// Device 0 and a few others have no link of their own.
const DEVICES: u32 = 40;

fn config(policy: u32) -> Config {
    Config {
        policy,
        unscheduled: 8,
        token_expiry: 500_000_000,
        max_incoming: 48,
        max_per_peer: 24,
        max_half_open: 8,
        max_outgoing: 16,
        max_remembered: 64,
        max_orphans: 5,
        orphan_buffer: 1 << 17,
        timeout: 100_000_000,
        ..Config::DEFAULT
    }
}

fn outgoing(rng: &mut Rng) -> Outgoing {
    let random = rng.next();
    let available = (random >> 32) as u32 % 9 * 1450;
    Outgoing {
        source: 1,
        destination: 2,
        length: (random & 3 != 0)
            .then_some(available.max(1) + if random & 4 != 0 { 1000 } else { 0 }),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available,
        user: 0,
    }
}

/// Begins a message.
fn sync(cookie: Cookie) -> Packet {
    Packet::Sync(Sync {
        cookie,
        source: 1,
        destination: 2,
        length: Some(20_000),
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
    })
}

fn fuzz(policy: u32, packets: u64) {
    let config = config(policy);
    let resolved = config.validate(None).unwrap();
    let mut io = Io::new(u64::from(policy), 30_000);
    let mut rng = Rng(u64::from(policy) << 32 | 7);
    let mut now = Nanos(1_000_000_000);
    let mut endpoint = Endpoint::<Std, Out, In>::new(now, &resolved, [1, 2, 1]).unwrap();
    let mut outs: Vec<OutId> = Vec::new();
    let mut received = 0;
    for _ in 0..packets {
        let random = rng.next();
        // Mostly some us, sometimes long enough for timers, rarely for timeouts.
        now += Nanos(match random % 4096 {
            0 => random >> 37,
            1..=63 => random >> 44,
            _ => random >> 52,
        });
        io.sent = 0;
        match random >> 8 & 63 {
            0 => {
                let what = outgoing(&mut rng);
                let out = Out {
                    available: what.available,
                    acked: 0,
                };
                let to = peer((random >> 16) as u8 % PEERS);
                if let Ok(id) = endpoint.send(now, &to, &what, out, &mut io) {
                    outs.push(id);
                }
            }
            1 => {
                if let Some(&id) = outs.last() {
                    let more = (random >> 40) as u32 % 5000;
                    if let Some(out) = endpoint.out_mut(id) {
                        // Valid or not.
                        out.available = out.available.saturating_add(more);
                        let available = out.available;
                        endpoint.written(now, id, available, random >> 20 & 1 != 0, &mut io);
                    }
                    if random >> 21 & 3 == 0 || outs.len() > 64 {
                        outs.pop();
                        if random >> 23 & 1 == 0 {
                            endpoint.orphan(now, id, &mut io);
                        } else {
                            endpoint.abort(now, id, &mut io);
                        }
                    }
                }
            }
            2 => {
                if let Some((_, id, info, _)) = endpoint.incoming(now, 0) {
                    let window = info.received.saturating_add(30_000).min(MAX_LENGTH);
                    if let Some(message) = endpoint.in_mut(id) {
                        message.window = message.window.max(window);
                    }
                    if random >> 20 & 7 == 0 {
                        endpoint.refuse(now, id, &mut io);
                    } else {
                        endpoint.window(now, id, window, &mut io);
                    }
                }
            }
            3 if random >> 20 & 255 == 0 => {
                // Strangers, of whom each is another one.
                for n in 0..12 {
                    let mut from = peer(n);
                    from.ip[14] = (random >> 32) as u8 | 1;
                    let sync = sync(Cookie(rng.next()));
                    endpoint.packet(now, 0, &from, 0, 0, &sync, (), &mut io);
                }
            }
            _ => {
                let (cookie, from) = match io.cookies.get((random >> 16) as usize % 33) {
                    Some(&known) => known,
                    None => (Cookie(rng.next()), peer((random >> 24) as u8 % PEERS)),
                };
                let from = if random >> 32 & 31 == 0 {
                    peer((random >> 40) as u8 % PEERS)
                } else {
                    from
                };
                let learnt = io.learnt(cookie);
                let packet = packet(
                    &mut rng,
                    cookie,
                    learnt,
                    (random >> 48) as u16 % 64,
                    now.0 as u32,
                );
                endpoint.packet(
                    now,
                    now.0 as u32,
                    &from,
                    (random >> 56) as u32 % DEVICES,
                    random as u8 & 3,
                    &packet,
                    (),
                    &mut io,
                );
                received += 1;
            }
        }
        assert!(io.sent <= MOST_PER_CALL, "{} packets in one call", io.sent);
        if endpoint.next_timer().is_some_and(|at| at <= now) {
            io.sent = 0;
            endpoint.timer(now, now.0 as u32, &mut io);
            assert!(io.sent <= MOST_PER_CALL, "{} packets by a timer", io.sent);
        }
        let (going, coming, remembered) = endpoint.counts();
        assert!(going <= config.max_outgoing && coming <= config.max_incoming);
        assert!(remembered <= config.max_remembered);
        let (orphans, bytes) = endpoint.orphans();
        assert!(orphans <= config.max_orphans.min(going) && bytes <= config.orphan_buffer.into());
    }
    assert!(received > packets / 64 * 60);
    // It did not refuse everything.
    let stats = endpoint.stats();
    for counter in [
        Counter::InDelivered,
        Counter::InTimeout,
        Counter::InAborted,
        Counter::OutDelivered,
        Counter::OutReset,
        Counter::OutRefused,
        Counter::DataDuplicate,
        Counter::DataBeyondLength,
        Counter::DataBeyondWindow,
        Counter::DataNoMemory,
        Counter::TokenDuplicate,
        Counter::TokenExpired,
        Counter::TokenIdle,
        Counter::SignalAddress,
        Counter::SignalContradiction,
        Counter::HalfOpenChallenged,
        Counter::DataResent,
        Counter::OrphanLimit,
    ] {
        assert!(
            stats.get(counter) != 0,
            "policy {policy}: no {}",
            counter.name()
        );
    }
    assert!(io.taken > 1 << 20 && io.sent_data > 1000 && io.ended > 1000);
    // In the end everything is freed.
    while endpoint.clear(now, &mut io) {}
    while let Some(at) = endpoint.next_timer() {
        now = now.max(at);
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    assert_eq!(endpoint.counts(), (0, 0, 0));
    assert!(endpoint.peers(0).is_none());
}

#[test]
fn expresspass_takes_whatever_peers_say() {
    fuzz(uapi::POLICY_EXPRESSPASS, PACKETS / 3);
}

#[test]
fn top_takes_whatever_peers_say() {
    fuzz(uapi::POLICY_TOP, PACKETS / 3);
}

#[test]
fn ren_takes_whatever_peers_say() {
    fuzz(uapi::POLICY_REN, PACKETS / 3);
}

/// The facts of a message, except its age.
fn facts(endpoint: &Endpoint<Std, Out, In>) -> Vec<Info> {
    let mut facts = Vec::new();
    let mut next = 0;
    while let Some((after, _, info, _)) = endpoint.outgoing(Nanos::ZERO, next) {
        facts.push(info);
        next = after;
    }
    next = 0;
    while let Some((after, _, info, _)) = endpoint.incoming(Nanos::ZERO, next) {
        facts.push(info);
        next = after;
    }
    facts
}

#[test]
fn who_does_not_know_the_cookie_or_has_another_address_moves_nothing() {
    let config = Config {
        max_half_open: 64,
        ..config(uapi::POLICY_TOP)
    };
    let resolved = config.validate(None).unwrap();
    let mut io = Io::new(3, 30_000);
    let mut rng = Rng(11);
    let now = Nanos(1_000_000_000);
    let mut endpoint = Endpoint::<Std, Out, In>::new(now, &resolved, [1, 2, 1]).unwrap();
    for n in 0..8 {
        let what = Outgoing {
            available: 60_000,
            length: Some(60_000),
            // Each has a place for one.
            user: n as u32,
            ..outgoing(&mut rng)
        };
        let out = Out {
            available: 60_000,
            acked: 0,
        };
        assert!(endpoint.send(now, &peer(0), &what, out, &mut io).is_ok());
        let sync = sync(Cookie(0x1234_5678_9abc_0000 + n));
        // It may be refused; once is enough.
        endpoint.packet(now, 0, &peer(0), 0, 0, &sync, (), &mut io);
    }
    let secrets = io.cookies.clone();
    let (before, bytes, data) = (facts(&endpoint), io.taken, io.sent_data);
    assert!(before.len() > 12);
    io.sent = 0;
    for _ in 0..1_000_000 {
        let random = rng.next();
        let (known, at) = secrets[random as usize % secrets.len()];
        let (cookie, from) = match random >> 32 & 3 {
            // Right address, and a cookie that is a bit off, or not at all like it.
            0 => (Cookie(known.0 ^ 1 << (random >> 40 & 63)), at),
            1 => (Cookie(rng.next()), at),
            // Right cookie, and an address that is a bit off.
            2 => (known, peer(1)),
            _ => {
                let mut from = at;
                from.scope = 1;
                (known, from)
            }
        };
        let learnt = Learnt::default();
        let packet = packet(&mut rng, cookie, learnt, (random >> 48) as u16 % 64, 0);
        let secret = secrets.contains(&(cookie, from));
        if secret || matches!(packet, Packet::Sync(_) | Packet::First(_)) {
            continue;
        }
        endpoint.packet(now, 0, &from, 0, 0, &packet, (), &mut io);
    }
    assert_eq!(facts(&endpoint), before);
    assert_eq!((io.taken, io.sent_data, io.ended), (bytes, data, 0));
    // The only answers are RESETs, within their limit.
    let stats = endpoint.stats();
    assert_eq!(u64::from(io.sent), stats.get(Counter::ResetSentUnknown));
    // Two kinds of strays, each with a limit of its own.
    assert!(io.sent <= 2 * 256 && stats.get(Counter::ResetSuppressed) > 1000);
    for counter in [
        Counter::TokenUnknown,
        Counter::TokenAddress,
        Counter::DataUnknown,
        Counter::SignalUnknown,
        Counter::SignalAddress,
    ] {
        assert!(stats.get(counter) > 10_000, "{}", counter.name());
    }
}
