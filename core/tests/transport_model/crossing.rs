// SPDX-License-Identifier: GPL-2.0
//! Messages of all kinds arrive over networks that lose, reorder and duplicate.

use turnstile_core::transport::config::Config;

use super::topology::star;
use super::*;

/// What is known of a message when it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Plain,
    UnknownSize,
}

const G10: u64 = 1_250_000_000;

fn plain(rate: u64) -> Link {
    Link {
        rate,
        delay: 10_000,
        ..Link::default()
    }
}

#[test]
fn any_size_crosses_a_perfect_network() {
    for v6 in [false, true] {
        for length in [1, 1449, 1450, 1451, 14_500, 1_000_000, 20_000_000] {
            let mut network = star(u64::from(length), &Config::DEFAULT, 2, plain(G10), v6);
            let message = network.send_at(2_000_000, 0, 1, length);
            network.run_to_the_end(1_000_000_000);
            let message = &network.registry.messages[message];
            let (end, result) = message.result.expect("it ends");
            assert_eq!(result, Ok(()));
            let took = message.delivered.unwrap() - message.began;
            println!(
                "{length} bytes: {took} ns, {end}, {} events",
                network.handled
            );
            for host in 0..2 {
                for (counter, value) in network.endpoint(host).stats().iter() {
                    if value != 0 {
                        println!("  {host} {} {value}", counter.name());
                    }
                }
            }
        }
    }
}

/// Checks that all messages were delivered and that no state is left.
#[track_caller]
pub(crate) fn assert_clean(network: &mut Network, hosts: usize) {
    for (number, message) in network.registry.messages.iter().enumerate() {
        let (_, result) = message
            .result
            .unwrap_or_else(|| panic!("{number} never ends: {message:?}"));
        assert_eq!(result, Ok(()), "{number}");
        assert_eq!(message.failed_in, None, "{number}");
    }
    // By then late retransmissions are over, and finished messages forgotten.
    let end = network.now + 13_000_000_000;
    assert!(
        !network.run_until(end),
        "timers fire though there is nothing to do"
    );
    for host in 0..hosts {
        let endpoint = network.endpoint(host);
        assert_eq!(endpoint.counts(), (0, 0, 0), "host {host}");
        assert_eq!(endpoint.next_timer(), None);
        assert!(endpoint.peers(0).is_none());
    }
}

/// Messages of all kinds between all hosts of a star.
pub(crate) fn all_kinds(seed: u64, config: &Config, link: Link, v6: bool, count: usize) -> Network {
    const HOSTS: usize = 4;
    let mut network = star(seed, config, HOSTS, link, v6);
    for host in 0..HOSTS {
        let window = 20_000 + network.below(2_000_000) as u32;
        let delay = network.below(100_000);
        network.set_window(host, window, delay);
    }
    network.set_no_memory(3, 50);
    for _ in 0..count {
        let at = 1_000_000 + network.below(3_000_000);
        let from = network.below(HOSTS as u64) as usize;
        let to = network.below(HOSTS as u64) as usize;
        let digits = network.below(6) as u32;
        let length = 1 + network.below(9 * 10_u64.pow(digits)) as u32;
        let mut what = network.plain(length);
        match network.below(4) {
            // Written in pieces; of unknown length, too.
            0 => what.available = network.below(u64::from(length)) as u32,
            1 => {
                what.length = None;
                what.available = network.below(u64::from(length) + 1) as u32;
            }
            _ => {}
        }
        what.mss = 256 + network.below(1194) as u16;
        what.coflow = network.below(3) as u32;
        network.send_as(at, from, to, length, what);
    }
    network.run_to_the_end(60_000_000_000);
    network
}

pub(crate) fn configs() -> Vec<(&'static str, Config)> {
    use turnstile_core::transport::uapi;
    let top = Config {
        unscheduled: 8,
        rto: 1_000_000,
        ..Config::DEFAULT
    };
    let mut all = vec![("top", top)];
    for (name, schedule) in [
        ("las", uapi::SCHEDULE_LAS),
        ("coflow", uapi::SCHEDULE_COFLOW),
    ] {
        all.push((name, Config { schedule, ..top }));
    }
    let expresspass = uapi::POLICY_EXPRESSPASS;
    let feedback = uapi::FEEDBACK_MIDPOINT;
    all.push((
        "expresspass",
        Config {
            policy: expresspass,
            feedback,
            ..top
        },
    ));
    all.push((
        "ren",
        Config {
            policy: uapi::POLICY_REN,
            ..top
        },
    ));
    for (name, policy) in [
        ("dcqcn", uapi::POLICY_DCQCN),
        ("timely", uapi::POLICY_TIMELY),
    ] {
        all.push((name, Config { policy, ..top }));
    }
    all
}

#[test]
fn whatever_is_lost_repeated_or_late_each_message_arrives_once() {
    let ways: [(&str, u64, u64, u64); 6] = [
        ("nothing", 0, 0, 0),
        ("loss 1 %", 10_000, 0, 0),
        ("loss 5 %", 50_000, 0, 0),
        ("repeats 5 %", 0, 50_000, 0),
        ("reorders 10 %", 0, 0, 100_000),
        ("all", 30_000, 30_000, 100_000),
    ];
    // More runs on request.
    let rounds = std::env::var("TURNSTILE_MODEL_ROUNDS").map_or(1, |r| r.parse().unwrap());
    for round in 0..rounds {
        for (name, config) in configs() {
            for (number, (way, loss, repeat, reorder)) in ways.into_iter().enumerate() {
                let seed = round * 100 + number as u64;
                let link = Link {
                    loss,
                    repeat,
                    reorder,
                    late: 100_000,
                    ..plain(G10)
                };
                println!("{name}, {way}, {seed}");
                let mut network = all_kinds(seed, &config, link, number % 2 == 1, 60);
                let took = network.now;
                assert_clean(&mut network, 4);
                // Nothing waits for long: what is lost is repeated soon.
                assert!(took < 200_000_000, "{took} ns");
            }
        }
    }
}
