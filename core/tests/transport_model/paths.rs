// SPDX-License-Identifier: GPL-2.0
//! Long paths, and those that become longer under way.

use turnstile_core::port::config::{Config as PortConfig, Expiry, Tokens};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::{OutId, Outgoing};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
use super::topology::{host_port, star, PAPERS};
use super::*;

const MS: u64 = 1_000_000;
const G1: u64 = 125_000_000;

fn link(rate: u64, delay: u64) -> Link {
    Link {
        rate,
        delay,
        ..Link::default()
    }
}

/// Half a second's worth of bytes; after 50 ms each of the two links has another delay.
#[test]
fn a_path_that_becomes_longer_is_full_again_soon() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS] {
        for (from, to) in [(5_000, 5 * MS), (10_000, 500_000), (5_000, 100_000)] {
            let config = Config {
                policy,
                ..Config::DEFAULT
            };
            let mut network = star(1, &config, 2, link(G1, from), false);
            let begin = network.now + 1000;
            let it = network.send_at(begin, 0, 1, (G1 / 2) as u32);
            network.run_until(begin + 50 * MS);
            for node in 0..4 {
                network.set_delay(node, to);
            }
            network.run_to_the_end(begin + 10_000 * MS);
            assert_clean(&mut network, 2);
            let took = network.registry.messages[it].delivered.unwrap() - begin;
            println!("{policy}, {from} to {to} ns: {} ms", took / MS);
            // Alone 560 ms, and some round trips of 20 ms until its rate has grown.
            assert!(took < 680 * MS, "{policy}, {from} to {to} ns: {took} ns");
        }
    }
}

/// 1000 B are written each 16 us, half of what the link carries, in 60 ms; a round trip takes 8 ms.
/// How long the last of them takes, ns, and tokens for each packet.
fn steadily(policy: u32) -> (u64, f64) {
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 2, link(G1, 2 * MS), false);
    let begin = network.now + 1000;
    let steps = 3750;
    let length = steps * 1000;
    let what = Outgoing {
        length: None,
        available: 1000,
        ..network.plain(length)
    };
    let it = network.send_as(begin, 0, 1, length, what);
    network.hold(it, u64::MAX);
    network.run_until(begin);
    let mut id = None;
    for step in 2..=steps {
        let at = begin + u64::from(step) * 16_000;
        if !network.run_until(at) {
            network.now = at;
        }
        network.with(0, |endpoint, io, now, _| {
            // It is the only one.
            let at = |generation| OutId {
                index: 0,
                generation,
            };
            let there = |id: &OutId| endpoint.out_mut(*id).is_some();
            id = id.or_else(|| (0..8).map(at).find(there));
            if let Some(id) = id {
                endpoint.written(nanos(now), id, step * 1000, step == steps, io);
            }
        });
    }
    let written = network.now;
    network.run_to_the_end(begin + 10_000 * MS);
    let stats = network.endpoint(1).stats();
    let (tokens, data) = (
        stats.get(Counter::TokenSent),
        stats.get(Counter::DataReceived),
    );
    let delivered = network.registry.messages[it].delivered.unwrap();
    (delivered - written, tokens as f64 / data as f64)
}

#[test]
fn a_stream_on_a_long_path_keeps_up_with_its_writer() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS] {
        let (last, tokens) = steadily(policy);
        println!("{policy}: {last} ns, {tokens:.3} tokens for each packet");
        assert!(
            last < 20 * MS && tokens < 1.1,
            "{policy}: {last} ns, {tokens}"
        );
    }
}

/// What carries tokens as they come, and data slowly, with much room for it, as a tunnel that
/// encrypts on a slow machine does: answers wait there for far longer than a sender takes for
/// lost, with more tokens on their way than a message remembers.
#[test]
fn a_path_whose_answers_come_far_too_late_is_learnt() {
    const SLOW: u64 = 500_000;
    let fast = link(10 * G1, 5_000);
    let mut network = Network::new(1, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let config = Config::DEFAULT.validate(Some(fast.rate)).unwrap();
    let tunnel = PortConfig {
        tokens: Tokens::Share(500_000_000),
        token_limit: 1024,
        token_expiry: Expiry::Off,
        data_limit: 64 << 20,
        ..PAPERS
    };
    for _ in 0..2 {
        network.host(&config, false);
        network.node(host_port(), fast);
        network.node(tunnel, link(SLOW, 5_000));
    }
    let begin = network.now + 1000;
    let length = 3_000_000;
    let it = network.send_at(begin, 0, 1, length);
    network.run_to_the_end(begin + 60_000 * MS);
    let stats = network.endpoint(1).stats();
    let [tokens, data] = [Counter::TokenSent, Counter::DataReceived].map(|c| stats.get(c));
    let took = network.registry.messages[it].delivered.map(|at| at - begin);
    println!("{took:?} ns, {tokens} tokens for {data} packets");
    assert_clean(&mut network, 2);
    let alone = u64::from(length) * 1_000_000_000 / SLOW;
    assert!(took.unwrap() < 2 * alone && data < 2100);
}

/// On a way that is longer than `base-rtt` the first message finds out how long it is. Those that
/// follow know: nothing is sent twice, and they take a round trip longer than their bytes, for the
/// first tokens.
#[test]
fn later_messages_know_how_long_the_way_is() {
    const LENGTH: u32 = 1_000_000;
    for delay in [250_000, 500_000, 5_000_000] {
        let way = link(1_250_000_000, delay);
        let mut network = star(1, &Config::DEFAULT, 2, way, false);
        for (from, to) in [(0, 1), (1, 0)] {
            network.send_at(network.now, from, to, 1);
            network.run_to_the_end(10_000_000_000);
        }
        let mut beyond = Vec::new();
        let mut resent = Vec::new();
        for _ in 0..4 {
            let at = network.now + 100_000;
            let it = network.send_at(at, 0, 1, LENGTH);
            network.run_to_the_end(at + 10_000_000_000);
            let took = network.registry.messages[it].delivered.unwrap() - at;
            let bytes = u64::from(LENGTH + 88 * LENGTH.div_ceil(1450)) * 1_000_000_000 / way.rate;
            beyond.push((took - bytes - 2 * delay) as f64 / (4 * delay) as f64);
            resent.push(network.endpoint(0).stats().get(Counter::DataResent));
        }
        println!("{delay} ns a link: {beyond:.2?} round trips beyond the wire, resent {resent:?}");
        assert!(beyond[1..].iter().all(|it| *it < 1.1), "{beyond:.2?}");
        assert!(resent[1..].iter().all(|it| *it == resent[0]), "{resent:?}");
    }
}
