// SPDX-License-Identifier: GPL-2.0
//! How messages begin that their senders pace.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
use super::topology::star;
use super::*;

const MS: u64 = 1_000_000;
const LAWS: [(&str, u32); 2] = [
    ("dcqcn", uapi::POLICY_DCQCN),
    ("timely", uapi::POLICY_TIMELY),
];

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 2_000,
        ..Link::default()
    }
}

fn config(policy: u32, unscheduled: u32) -> Config {
    Config {
        policy,
        unscheduled,
        ..Config::DEFAULT
    }
}

/// Packets of data to a host that answers nothing, by `unscheduled`, and whether it is known.
fn unanswered(policy: u32, unscheduled: u32, known: bool, length: u32) -> u64 {
    let mut network = star(1, &config(policy, unscheduled), 2, link(), false);
    if known {
        network.acquaint([(0, 1)]);
    }
    let sent = |network: &Network| {
        let stats = network.endpoint(0).stats();
        stats.get(Counter::UnscheduledSent)
    };
    let before = sent(&network);
    network.hole = Some(|_| true);
    network.send_at(network.now, 0, 1, length);
    network.run_until(network.now + 1000 * MS);
    sent(&network) - before
}

/// A host that has answered nothing is sent no more than by other policies, and with `unscheduled
/// off` none is.
#[test]
fn who_has_not_answered_is_sent_little() {
    const AUTO: u32 = uapi::UNSCHEDULED_AUTO;
    for (name, policy) in LAWS {
        for known in [false, true] {
            let of = |unscheduled, length| unanswered(policy, unscheduled, known, length);
            let sent = [of(0, 10 << 20), of(0, 100), of(2, 10 << 20)];
            let auto = [of(AUTO, 10 << 20), of(AUTO, 100)];
            println!("{name}, known {known}: {sent:?}, auto {auto:?} packets");
            assert_eq!(sent, [0, 0, 2], "{name}");
            assert_eq!(auto, [if known { 62_500 / 1538 } else { 0 }, 1], "{name}");
        }
    }
}

/// What waits for an answer has it in a round trip, from who is known and from who is not.
#[test]
fn what_waits_for_an_answer_waits_for_a_round_trip() {
    for (name, policy) in LAWS {
        for (unscheduled, known, most) in [
            (uapi::UNSCHEDULED_AUTO, true, 16_000),
            (0, true, 35_000),
            (uapi::UNSCHEDULED_AUTO, false, 60_000),
            (0, false, 60_000),
        ] {
            let mut network = star(1, &config(policy, unscheduled), 2, link(), false);
            if known {
                network.acquaint([(0, 1)]);
            }
            let begin = network.now;
            let it = network.send_at(begin, 0, 1, 10_000);
            network.run_to_the_end(begin + 1000 * MS);
            let took = network.registry.messages[it].delivered.unwrap() - begin;
            println!("{name}, unscheduled {unscheduled}, known {known}: {took} ns");
            assert!(took < most, "{name}, {unscheduled}, {known}: {took}");
            assert_clean(&mut network, 2);
        }
    }
}

/// Hosts that nothing is sent to any more have no part of the link.
#[test]
fn messages_that_have_ended_slow_down_no_other() {
    for (name, policy) in LAWS {
        const OTHERS: usize = 8;
        let config = config(policy, uapi::UNSCHEDULED_AUTO);
        let mut network = star(1, &config, 1 + OTHERS, link(), false);
        network.acquaint((1..=OTHERS).map(|to| (0, to)));
        for to in 1..=OTHERS {
            network.send_at(network.now, 0, to, 20_000);
            network.run_until(network.now + 50_000);
        }
        let begin = network.now;
        let it = network.send_at(begin, 0, 1, 200_000);
        network.run_to_the_end(begin + 1000 * MS);
        let took = network.registry.messages[it].delivered.unwrap() - begin;
        println!(
            "{name}: 200 kB take {} us after {OTHERS} others",
            took / 1000
        );
        // 170 us at the link's rate.
        assert!(took < 200_000, "{name}: {took}");
        assert_clean(&mut network, 1 + OTHERS);
    }
}

/// Messages that stand still leave their part of the link to one that begins.
#[test]
fn messages_that_stand_still_slow_down_no_other() {
    for (name, policy) in LAWS {
        let config = config(policy, uapi::UNSCHEDULED_AUTO);
        let mut network = star(1, &config, 3, link(), false);
        network.acquaint([(0, 1), (0, 2)]);
        // Nobody reads them.
        network.set_window(2, 5000, 1 << 50);
        for _ in 0..200 {
            network.send_at(network.now, 0, 2, 10 << 20);
        }
        network.run_until(network.now + 50 * MS);
        let begin = network.now;
        let it = network.send_at(begin, 0, 1, 100_000);
        network.run_until(begin + 1000 * MS);
        let took = network.registry.messages[it].delivered.unwrap() - begin;
        println!(
            "{name}: 100 kB take {} us beside 200 that stand still",
            took / 1000
        );
        assert!(took < 150_000, "{name}: {took}");
    }
}
