// SPDX-License-Identifier: GPL-2.0
//! What cannot be delivered: others are not held up by it, and the sender is told.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::{Failure, Outgoing};

use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// 1000 messages a second to a dead peer, by one user; the same user and another one send to a live
/// peer meanwhile: none of those is refused, and all arrive.
#[test]
fn a_dead_peer_does_not_stop_who_sends_to_others() {
    const SECONDS: u64 = 30;
    let mut network = star(1, &Config::DEFAULT, 3, link(), false);
    network.kill(1);
    let (mut refused, mut good) = (0, Vec::new());
    for i in 0..SECONDS * 1000 {
        network.run_until(BEGIN + i * 1_000_000);
        let what = network.plain(1000);
        refused += u64::from(network.try_send(0, 1, what).is_none());
        if i % 10 == 0 {
            for user in [0, 7] {
                let what = Outgoing { user, ..what };
                good.push(network.try_send(0, 2, what).expect("there is a place"));
            }
        }
    }
    let end = network.now + 20_000_000_000;
    network.run_until(end);
    assert!(refused > SECONDS * 500, "the dead peer's are: {refused}");
    for number in good {
        let message = &network.registry.messages[number];
        let (at, result) = message.result.expect("it ends");
        assert_eq!(result, Ok(()));
        assert!(at - message.began < 1_000_000);
    }
    assert_eq!(network.endpoint(0).counts(), (0, 0, 0));
    assert!(network.endpoint(0).peers(0).is_none());
}
