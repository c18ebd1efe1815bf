// SPDX-License-Identifier: GPL-2.0
//! Messages that are held open while the application has nothing to write.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Outgoing;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
use super::host::{address, Message, Out};
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;
const HELD: u64 = 3_000_000_000;

fn link(loss: u64) -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        loss,
        ..Link::default()
    }
}

/// A message is held open for three seconds after its first 20 packets, and then goes on for 30
/// more. How many tokens found nothing, and how long the rest took, ns.
fn held(seed: u64, config: &Config, loss: u64, known: bool) -> (u64, u64) {
    let mut network = star(seed, config, 2, link(loss), false);
    let length = 50 * 1450;
    let mut what = network.plain(length);
    what.available = 20 * 1450;
    what.length = known.then_some(length);
    let message = network.send_as(BEGIN, 0, 1, length, what);
    network.hold(message, BEGIN + HELD);
    network.run_until(BEGIN + HELD);
    let idle = network.endpoint(0).stats().get(Counter::TokenIdle);
    let received = network.registry.messages[message].received;
    assert_eq!(received, 20 * 1450, "before it is held");
    network.run_to_the_end(BEGIN + HELD + 10_000_000_000);
    assert_clean(&mut network, 2);
    let delivered = network.registry.messages[message].delivered;
    (idle, delivered.expect("it is delivered") - BEGIN - HELD)
}

#[test]
fn a_message_that_is_held_open_draws_few_tokens() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        let config = Config {
            policy,
            ..Config::DEFAULT
        };
        for known in [false, true] {
            for loss in [0, 10_000, 100_000] {
                // Which words are lost is chance.
                let seeds = if loss == 0 { 1 } else { 50 };
                let (mut idle, mut took) = (0, 0);
                for seed in 0..seeds {
                    let (tokens, time) = held(seed, &config, loss, known);
                    idle += tokens / seeds;
                    took += time / seeds;
                }
                println!("{policy} {known} {loss}: {idle} tokens found nothing, {took} ns more");
                // Without loss: a pause of the application's that is too short to say anything.
                // Where such words are lost, they are said again.
                let most = if loss == 0 { 100 } else { 800 };
                assert!(idle < most, "{idle}");
                assert!(took < 8_000_000, "it goes on at once: {took} ns");
            }
        }
    }
}

/// Of a message that was held open for a while only the end is left to tell. The packet that tells
/// it is lost: how long until the message is delivered, ns.
fn end_alone(policy: u32, hold: u64) -> u64 {
    let length = 20 * 1450;
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 2, link(0), false);
    network.run_until(BEGIN);
    let number = network.registry.messages.len();
    network.registry.messages.push(Message {
        to: 1,
        length,
        began: network.now,
        delivered: None,
        result: None,
        failed_in: None,
        received: 0,
        bytes_by: Vec::new(),
        held: 0,
        written: 0,
    });
    let what = Outgoing {
        length: None,
        available: length,
        ..network.plain(length)
    };
    let to = address(1, 0, false);
    let out = Out {
        message: number,
        acked: 0,
    };
    let id = network.with(0, |endpoint, io, now, _| {
        endpoint.send(nanos(now), &to, &what, out, io).unwrap()
    });
    network.run_until(hold);
    network.set_loss(0, 1_000_000);
    network.with(0, |endpoint, io, now, _| {
        endpoint.written(nanos(now), id, length, true, io)
    });
    network.run_until(hold + 20_000);
    network.set_loss(0, 0);
    network.run_to_the_end(hold + 20_000_000_000);
    network.registry.messages[number].delivered.unwrap() - hold
}

#[test]
fn the_end_alone_is_told_again_soon() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        for hold in (0..10).map(|i| 1_000_000_000 + i * 370_000_000) {
            let took = end_alone(policy, hold);
            // A SYNC is repeated after 2 ms for the first time (`rto`), and so is the end.
            assert!(took < 4_000_000, "{policy}, {hold}: {took} ns");
        }
    }
}

/// An application that writes bit by bit draws no SYNC and no FIN with each write.
#[test]
fn writing_bit_by_bit_repeats_no_sync_and_no_fin() {
    let mut network = star(1, &Config::DEFAULT, 2, link(0), false);
    let length = 100 * 1450;
    let what = Outgoing {
        length: None,
        available: 1450,
        ..network.plain(length)
    };
    let number = network.try_send(0, 1, what).unwrap();
    network.registry.messages[number].length = length;
    let id = network.with(0, |endpoint, _, now, _| {
        endpoint.outgoing(nanos(now), 0).unwrap().1
    });
    for packets in 2..=100 {
        // Faster than tokens come.
        let next = network.now + 500;
        network.run_until(next);
        network.with(0, |endpoint, io, now, _| {
            endpoint.written(nanos(now), id, packets * 1450, packets == 100, io)
        });
    }
    network.run_to_the_end(1_000_000_000);
    let stats = network.endpoint(0).stats();
    let (syncs, fins) = (stats.get(Counter::SyncSent), stats.get(Counter::FinSent));
    println!("{syncs} SYNCs, {fins} FINs");
    assert!(syncs <= 3 && fins <= 3);
    assert_clean(&mut network, 2);
}

/// Pieces of up to 64 KB are written with pauses of up to 400 us, a quarter of what the link
/// carries: tokens for each packet of data, and how long it took from the last piece on, ns.
fn slowly(seed: u64, policy: u32, known: bool, loss: u64) -> (f64, u64) {
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    let mut network = star(seed, &config, 2, link(loss), seed % 2 == 0);
    let length = 5_000_000;
    let mut what = network.plain(length);
    what.available = 2000;
    what.length = known.then_some(length);
    let message = network.send_as(BEGIN, 0, 1, length, what);
    network.run_to_the_end(BEGIN + 10_000_000_000);
    assert_clean(&mut network, 2);
    let stats = network.endpoint(1).stats();
    let (tokens, data) = (
        stats.get(Counter::TokenSent),
        stats.get(Counter::DataReceived),
    );
    let delivered = network.registry.messages[message].delivered;
    let written = network.registry.messages[message].written;
    (
        tokens as f64 / data as f64,
        delivered.expect("it is delivered") - written,
    )
}

/// Tokens find what is written: a receiver is told how much that is.
#[test]
fn who_writes_slowly_is_given_tokens_for_what_is_written() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS] {
        for known in [false, true] {
            for loss in [0, 1000] {
                let (mut tokens, mut last) = (0.0_f64, 0);
                for seed in 0..10 {
                    let (each, time) = slowly(seed, policy, known, loss);
                    tokens += each / 10.0;
                    last = last.max(time);
                }
                println!(
                    "{policy} {known} {loss}: {tokens:.3} tokens per packet; {last} ns at last"
                );
                assert!(
                    tokens < 1.05,
                    "{policy} {known} {loss}: {tokens} tokens per packet"
                );
                assert!(last < 400_000, "{policy} {known} {loss}: {last} ns");
            }
        }
    }
}
