// SPDX-License-Identifier: GPL-2.0
//! A receiver restarts, and forgets everything, while a message is under way and packets overtake
//! each other: what was sent in its former life comes into the new one.

use std::collections::BTreeMap;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::uapi;

use super::topology::star;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// How messages end whose receiver restarts within their first 400 us: so many well and later than
/// 100 ms, and how many in which other way.
fn ends(policy: u32, known: bool, length: u32, seeds: u64) -> (u32, u32, BTreeMap<String, u32>) {
    let (mut well, mut slow) = (0, 0);
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 1..=seeds {
        let config = Config {
            policy,
            ..Config::DEFAULT
        };
        let link = Link {
            rate: 1_250_000_000,
            delay: 8_000,
            ..Link::default()
        };
        let mut network = star(seed, &config, 3, link, false);
        if known {
            network.acquaint([(1, 0)]);
        }
        for node in 0..4 {
            network.set_reorder(node, 200_000, 300_000);
        }
        let begin = network.now + 1000;
        let it = network.send_at(begin, 1, 0, length);
        let at = begin + network.below(400_000);
        network.run_until(at);
        if network.registry.messages[it].delivered.is_none() {
            network.reboot(0, &config.validate(Some(link.rate)).unwrap());
        }
        network.run_to_the_end(begin + 400 * SECOND);
        match network.registry.messages[it].result {
            Some((at, Ok(()))) => {
                well += 1;
                slow += u32::from(at - begin > 100_000_000);
            }
            Some((at, Err(why))) => {
                let seconds = (at - begin) / SECOND;
                *failures
                    .entry(format!("{why:?} after {seconds} s"))
                    .or_default() += 1;
            }
            None => *failures.entry("nothing".into()).or_default() += 1,
        }
    }
    (well, slow, failures)
}

/// Its sender is told soon that the receiver has lost a part, or it is delivered soon.
#[test]
fn a_message_ends_soon_when_its_receiver_restarts() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_REN] {
        for known in [false, true] {
            for length in [1400, 100_000, 1_000_000] {
                let (well, slow, failures) = ends(policy, known, length, 400);
                println!("{policy} {known} {length}: {well} well, {slow} slow; {failures:?}");
                let soon = failures.keys().all(|why| why == "Reset(Unknown) after 0 s");
                assert!(soon, "{policy} {known} {length}: {failures:?}");
                // A number of the former life that comes late hides those of the new one.
                assert!(slow <= 2, "{policy} {known} {length}: {slow} slow");
            }
        }
    }
}
