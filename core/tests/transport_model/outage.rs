// SPDX-License-Identifier: GPL-2.0
//! Outages that one end has the patience for, and the other has not; and ends whose policies
//! differ.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Failure;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::ResetCode;

use super::crossing::assert_clean;
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;
const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// Gives one host another configuration.
fn configure(network: &mut Network, host: usize, config: &Config) {
    let resolved = config.validate(Some(link().rate)).unwrap();
    network.with(host, |endpoint, io, now, _| {
        endpoint.configure(nanos(now), &resolved, io);
    });
}

/// The sender tries for 60 s, the receiver for 10 s, and for 15 s nothing gets through, beginning
/// at any moment of the message's life. It is delivered once and its sender is told so, or, if the
/// receiver has lost a part that was confirmed, never and its sender is told that.
#[test]
fn an_outage_between_the_ends_timeouts_delivers_once() {
    let mut ends = [0; 3];
    for v6 in [false, true] {
        for policy in [uapi::POLICY_TOP, uapi::POLICY_REN] {
            for step in 0..60 {
                let config = Config {
                    policy,
                    ..Config::DEFAULT
                };
                let mut network = star(step, &config, 2, link(), v6);
                let patient = Config {
                    timeout: 60 * SECOND,
                    ..config
                };
                configure(&mut network, 0, &patient);
                let message = network.send_at(BEGIN, 0, 1, 60_000);
                let outage = BEGIN + step * 2500;
                network.run_until(outage);
                for node in 0..4 {
                    network.set_loss(node, 1_000_000);
                }
                network.run_until(outage + 15 * SECOND);
                for node in 0..4 {
                    network.set_loss(node, 0);
                }
                let there = network.registry.messages[message].delivered.is_some();
                network.run_until(outage + 200 * SECOND);
                // The model fails if a byte of it is handed over twice.
                let it = &network.registry.messages[message];
                let (_, result) = it.result.expect("it ends");
                match result {
                    Ok(()) => assert!(it.delivered.is_some()),
                    Err(Failure::Reset(ResetCode::Unknown)) => {
                        assert!(!there && it.delivered.is_none(), "{policy} {step}");
                    }
                    Err(why) => panic!("{policy} {step}: {why:?}"),
                }
                ends[match (result, there) {
                    (Ok(()), true) => 0,
                    (Ok(()), false) => 1,
                    _ => 2,
                }] += 1;
                assert_eq!(network.endpoint(0).counts(), (0, 0, 0));
            }
        }
    }
    println!("before, after the outage, told to have failed: {ends:?}");
    assert!(ends.iter().all(|&count| count > 10), "{ends:?}");
}

/// A host is suspended for longer or shorter than `timeout`, at any moment of a message's life. The
/// last that came before is handled when it wakes up, before any timer, or something is written
/// then; all answers since are lost. A message that was delivered meanwhile, and is forgotten, does
/// not begin once more.
#[test]
fn a_sender_that_was_suspended_delivers_once() {
    let mut ends = [0; 3];
    for policy in [uapi::POLICY_TOP, uapi::POLICY_REN] {
        for unscheduled in [0, 8] {
            for (seconds, written) in [(3, false), (12, false), (12, true), (40, true)] {
                for step in 0..40 {
                    let config = Config {
                        policy,
                        unscheduled,
                        ..Config::DEFAULT
                    };
                    let mut network = star(step, &config, 2, link(), step % 2 != 0);
                    if unscheduled != 0 {
                        network.acquaint([(0, 1), (1, 0)]);
                    }
                    let mut what = network.plain(6000);
                    if written {
                        (what.length, what.available) = (None, 3000);
                    }
                    let message = network.send_as(BEGIN, 0, 1, 6000, what);
                    let asleep = BEGIN + step * 4000;
                    network.run_until(asleep);
                    let wake = asleep + seconds * SECOND;
                    network.hold(message, wake);
                    network.sleep(0, wake);
                    network.run_until(asleep + step % 4 * 12_000);
                    network.set_loss(1, 1_000_000);
                    network.run_until(wake - 1);
                    network.set_loss(1, 0);
                    let there = network.registry.messages[message].delivered.is_some();
                    // The model fails if a byte of it, or all, is handed over twice.
                    network.run_until(wake + 400 * SECOND);
                    let it = &network.registry.messages[message];
                    let (_, result) = it.result.expect("it ends");
                    assert!(result.is_err() || it.delivered.is_some());
                    let late = seconds > 10 && it.delivered.is_none_or(|at| at > wake);
                    assert!(!late || result.is_err(), "{policy} {step}: {result:?}");
                    ends[match (result, there) {
                        (Ok(()), _) => 0,
                        (Err(_), true) => 1,
                        (Err(_), false) => 2,
                    }] += 1;
                    assert_eq!(network.endpoint(0).counts().0, 0);
                }
            }
        }
    }
    println!("delivered, delivered and told to have failed, failed: {ends:?}");
    assert!(ends.iter().all(|&count| count > 10), "{ends:?}");
}

/// A sender with policy `ren` and a receiver that gives tokens, and the reverse: whose policy
/// counts is the receiver's.
#[test]
fn the_receivers_policy_decides_where_the_ends_differ() {
    for (here, there) in [
        (uapi::POLICY_REN, uapi::POLICY_TOP),
        (uapi::POLICY_REN, uapi::POLICY_EXPRESSPASS),
        (uapi::POLICY_TOP, uapi::POLICY_REN),
        (uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN),
    ] {
        for loss in [0, 10_000] {
            let mut network = star(7, &Config::DEFAULT, 2, Link { loss, ..link() }, false);
            for (host, policy) in [(0, here), (1, there)] {
                let config = Config {
                    policy,
                    ..Config::DEFAULT
                };
                configure(&mut network, host, &config);
            }
            for n in 0..20 {
                network.send_at(BEGIN + n * 100_000, 0, 1, 1 + n as u32 * 50_000);
            }
            network.run_to_the_end(BEGIN + 20 * SECOND);
            let receiver = network.endpoint(1).stats();
            assert_eq!(receiver.get(Counter::InDelivered), 20);
            // A sender that did not ask for grants gets none.
            assert_eq!(receiver.get(Counter::GrantSent), 0, "{here} {there}");
            assert!(receiver.get(Counter::TokenSent) > 0);
            let ignored = receiver.get(Counter::SyncWishIgnored);
            assert_eq!(ignored >= 20, here == uapi::POLICY_REN, "{ignored}");
            assert_clean(&mut network, 2);
        }
    }
}
