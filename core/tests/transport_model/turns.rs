// SPDX-License-Identifier: GPL-2.0
//! Turns of senders that do not answer: whoever has ended keeps nobody waiting.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::wire::*;

use super::topology::star;
use super::*;

const SECOND: u64 = 1_000_000_000;
const CONFIG: Config = Config {
    unscheduled: 0,
    ..Config::DEFAULT
};

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

fn opening(cookie: u64) -> Sync {
    Sync {
        cookie: Cookie(cookie),
        source: 1,
        destination: 2,
        length: Some(60_000),
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
    }
}

/// After `before` and 50 ms of rest host 3 sends 3.6 GB to host 0. 2 ms later host 1 sends 1 MB,
/// of which nothing gets through for 300 us. ns that it takes: 1.6 ms if all is well.
fn after_an_outage(config: &Config, before: impl FnOnce(&mut Network)) -> u64 {
    let mut network = star(1, config, 4, link(), false);
    network.acquaint([(1, 0), (3, 0)]);
    before(&mut network);
    let begin = network.now + 50_000_000;
    network.run_until(begin);
    for _ in 0..4 {
        network.send_at(begin, 3, 0, 900_000_000);
    }
    let short = network.send_at(begin + 2_000_000, 1, 0, 1_000_000);
    network.run_until(begin + 2_200_000);
    network.set_loss(2, 1_000_000);
    network.run_until(begin + 2_500_000);
    network.set_loss(2, 0);
    let end = begin + 6 * SECOND;
    while network.registry.messages[short].result.is_none() && network.now < end {
        network.run_until(network.now + 100_000);
    }
    let it = &network.registry.messages[short];
    it.delivered.unwrap_or(end) - it.began
}

/// 40 000 SYNCs in a second, of addresses that are nobody's, and a RESET for each 15 ms later.
#[test]
fn strangers_that_end_take_no_turns() {
    let took = after_an_outage(&Config::DEFAULT, |network| {
        let (end, mut n, mut old) = (network.now + SECOND, 0_u64, VecDeque::new());
        while network.now < end {
            for _ in 0..4 {
                n += 1;
                let from = 1000 + (n % 60_000) as usize;
                network.inject(from, 0, Packet::Sync(opening(n)), None);
                old.push_back((network.now, from, n));
            }
            while old
                .front()
                .is_some_and(|it| it.0 + 15_000_000 < network.now)
            {
                let (_, from, n) = old.pop_front().unwrap();
                let (cookie, code) = (Cookie(n), ResetCode::Aborted);
                network.inject(from, 0, Packet::Reset(Reset { cookie, code }), None);
            }
            network.run_until(network.now + 100_000);
        }
    });
    assert!(took < 10_000_000, "{} us", took / 1000);
}

/// The same after nothing but honest messages: 20 KB each 50 us for a second, a third of the link.
#[test]
fn honest_messages_take_no_turns() {
    for count in [0, 20_000] {
        let took = after_an_outage(&CONFIG, |network| {
            let begin = network.now;
            for n in 0..count {
                network.send_at(begin + n * 50_000, 1, 0, 20_000);
            }
            network.run_to_the_end(begin + 3 * SECOND);
        });
        println!("after {count} honest messages: {} us", took / 1000);
        assert!(
            took < 10_000_000,
            "after {count} honest messages: {} us",
            took / 1000
        );
    }
}

/// A peer that has proved its address leaves so many messages open, and has answered five tokens of
/// each, so that it is silent from then on.
fn silent(network: &mut Network, peer: usize, count: u64) {
    let ticket: Rc<Cell<u64>> = Rc::default();
    let tokens: Rc<RefCell<Vec<Token>>> = Rc::default();
    let (shown, sent) = (ticket.clone(), tokens.clone());
    network.tap = Some(Box::new(move |_, packet| match packet.packet {
        Packet::Challenge(it) if it.ticket && packet.to == peer => shown.set(it.echo),
        Packet::Token(token) if packet.to == peer => sent.borrow_mut().push(token),
        _ => {}
    }));
    network.acquaint([(peer, 0)]);
    network.kill(peer);
    tokens.borrow_mut().clear();
    let mut answered: BTreeMap<u64, u32> = BTreeMap::new();
    let end = network.now + SECOND;
    let mut left = count;
    while network.now < end {
        for _ in 0..left.min(20) {
            left -= 1;
            let sync = Sync {
                echo: ticket.get(),
                ..opening(10_000_000 + left)
            };
            network.inject(peer, 0, Packet::Sync(sync), None);
        }
        let at = network.now + 1_000_000;
        network.run_until(at);
        for token in tokens.take() {
            let count = answered.entry(token.cookie.0).or_default();
            if *count == 5 {
                continue;
            }
            let data = Data {
                cookie: token.cookie,
                token: token.sequence,
                timestamp: token.timestamp,
                offset: *count,
                len: 1,
                flags: 0,
                more: 0,
            };
            let payload = host::Payload {
                message: host::RIVAL,
                offset: *count,
                len: 1,
            };
            *count += 1;
            network.inject(peer, 0, Packet::Data(data), Some(payload));
        }
    }
    network.tap = None;
    assert_eq!(network.endpoint(0).counts().1, count as u32);
}

/// A peer's thousand silent messages keep another's waiting no longer than one.
#[test]
fn a_peers_silent_messages_have_its_turns() {
    for count in [0, 1000] {
        let took = after_an_outage(&CONFIG, |network| silent(network, 2, count));
        println!("beside {count} silent messages: {} us", took / 1000);
        assert!(took < 5_000_000, "beside {count}: {} us", took / 1000);
    }
}
