// SPDX-License-Identifier: GPL-2.0
//! Messages that are held open while the application has nothing to write.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
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
fn held(config: &Config, loss: u64, known: bool) -> (u64, u64) {
    let mut network = star(1, config, 2, link(loss), false);
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
                let (idle, took) = held(&config, loss, known);
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
