// SPDX-License-Identifier: GPL-2.0
//! Messages that do not go on while others wait for them.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::*;

use super::crossing::assert_clean;
use super::host::Payload;
use super::topology::star;
use super::*;

/// 100 Mbit/s.
const RATE: u64 = 12_500_000;
const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: RATE,
        delay: 8_000,
        ..Link::default()
    }
}

fn config() -> Config {
    Config {
        link: RATE,
        timeout: SECOND,
        ..Config::DEFAULT
    }
}

/// Begins a message and sends one packet of it; then repeats nothing but its SYNC.
fn forge(network: &mut Network, message: usize, from: usize, data: bool) {
    forge_of(network, message, from, data, 1_000_000);
}

/// The same of a message of some length.
fn forge_of(network: &mut Network, message: usize, from: usize, data: bool, length: u32) {
    let cookie = Cookie(77);
    let sync = Sync {
        cookie,
        source: 1,
        destination: 2,
        length: Some(length),
        deadline: 0,
        coflow: 0,
        unscheduled: if data { 1450 } else { 0 },
        mss: 1450,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        patience: 100,
        echo: 0,
        paced: false,
    };
    network.inject(from, 0, Packet::Sync(sync), None);
    if data {
        let data = Data {
            cookie,
            token: 0,
            timestamp: 0,
            offset: 0,
            len: 1450,
            flags: 0,
            more: 0,
        };
        let payload = Payload {
            message,
            offset: 0,
            len: 1450,
        };
        network.inject(from, 0, Packet::Data(data), Some(payload));
    }
}

/// A sender that begins and does not go on keeps its place for less than a sixth of the timeout,
/// however often it says that it is alive; unless nobody minds.
#[test]
fn a_message_that_stands_still_is_given_up_when_others_wait() {
    for wanted in [false, true] {
        let mut network = star(1, &config(), 3, link(), false);
        if wanted {
            network.want(0, 1000);
        }
        let honest = network.send_at(2_000_000, 1, 0, 1_450);
        network.run_until(1_500_000);
        forge(&mut network, honest, 70, wanted);
        let mut gone = None;
        while network.now < 2 * SECOND && gone.is_none() {
            let next = network.now + 10_000_000;
            network.run_until(next);
            forge(&mut network, honest, 70, false);
            let (_, incoming, _) = network.endpoint(0).counts();
            if network.endpoint(0).stats().get(Counter::InTimeout) != 0 {
                gone = Some(network.now);
            } else {
                assert_eq!(incoming, 1, "at {}", network.now);
            }
        }
        match gone {
            Some(at) => assert!(wanted && at < SECOND / 6, "given up at {at} ns"),
            None => assert!(!wanted, "it is still there"),
        }
    }
}

/// Who has not proved its address, and so is sent next to nothing, keeps its place no longer: with
/// nothing of its message, a part or all of it.
#[test]
fn a_stranger_keeps_its_place_no_longer_than_others() {
    for (data, length) in [(false, 1_000_000), (true, 1_000_000), (true, 1450)] {
        let config = Config {
            unscheduled: 8,
            ..config()
        };
        let mut network = star(1, &config, 3, link(), false);
        network.want(0, 1000);
        let honest = network.send_at(2_000_000, 1, 0, 1_450);
        network.run_until(1_500_000);
        forge_of(&mut network, honest, 70, data, length);
        network.run_until(SECOND / 6);
        let stats = network.endpoint(0).stats();
        let gone = stats.get(Counter::InTimeout);
        assert_eq!(gone, 1, "{length} bytes, with data: {data}");
        assert_eq!(network.endpoint(0).counts().1, 0);
    }
}

/// A long message that gets no tokens, because shorter ones come first, is not blamed for that.
#[test]
fn a_message_that_gets_no_tokens_is_not_given_up() {
    let mut network = star(1, &config(), 3, link(), false);
    network.want(0, 100_000);
    let long = network.send_at(2_000_000, 1, 0, 5_000_000);
    // All of the link for two timeouts.
    let short = 100_000;
    let each = SECOND / (RATE / u64::from(short));
    for i in 0..2 * SECOND / each {
        network.send_at(3_000_000 + i * each, 2, 0, short);
    }
    network.run_to_the_end(10 * SECOND);
    assert_eq!(network.registry.messages[long].failed_in, None);
    for message in &network.registry.messages {
        assert!(message.delivered.is_some(), "{message:?}");
    }
    assert_eq!(network.endpoint(0).stats().get(Counter::InTimeout), 0);
    assert_clean(&mut network, 2);
}
