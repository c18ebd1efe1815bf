// SPDX-License-Identifier: GPL-2.0
//! Senders that have proved their address, and are gone: what is sent there because somebody else
//! goes on in their name; and those that only had nothing to send.

use std::cell::RefCell;
use std::rc::Rc;

use turnstile_core::header::FLAG_UNASKED;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Outgoing;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;

use super::crossing::assert_clean;
use super::topology::star;
use super::*;

const SECOND: u64 = 1_000_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// A sender answers its tokens, all but for `back` bytes, and is gone; then a byte of it comes once
/// more each 9 s. `wanted`: others wait for its message. Bytes that are sent to it in 900 s, from
/// 9 s on, and bytes that come in its name.
fn drawn(back: u32, wanted: bool) -> (u64, u64) {
    let config = Config {
        unscheduled: 0,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 4, link(), false);
    if wanted {
        network.want(0, 1000);
    }
    network.kill(2);
    let tokens: Rc<RefCell<Vec<Token>>> = Rc::default();
    let sent = tokens.clone();
    network.tap = Some(Box::new(move |_, packet| match packet.packet {
        Packet::Token(token) if packet.to == 2 => sent.borrow_mut().push(token),
        _ => {}
    }));
    let begin = network.now;
    let length = 5 * 1450;
    let sync = Sync {
        cookie: Cookie(1000),
        source: 1,
        destination: 2,
        length: Some(length),
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
    };
    network.inject(2, 0, Packet::Sync(sync), None);
    let mut offset = 0;
    let data = |network: &mut Network, token: u16, timestamp, offset, len, flags| {
        let data = Data {
            cookie: Cookie(1000),
            token,
            timestamp,
            offset,
            len,
            flags,
            more: 0,
        };
        let payload = host::Payload {
            message: host::RIVAL,
            offset,
            len,
        };
        network.inject(2, 0, Packet::Data(data), Some(payload));
    };
    while network.now < begin + 2_000_000 {
        step_to(&mut network, 10_000);
        for token in tokens.take() {
            let len = (length - back - offset).min(1450);
            if len != 0 {
                let (sequence, timestamp) = (token.sequence, token.timestamp);
                data(&mut network, sequence, timestamp, offset, len, 0);
                offset += len;
            }
        }
    }
    assert_eq!(offset, length - back);
    // As long as it may be back at any moment it is asked for the rest.
    data(&mut network, 0, 0, 0, 1, FLAG_UNASKED);
    step_to(&mut network, 9 * SECOND);
    let (sent, came) = (network.sent, network.injected);
    for _ in 0..100 {
        data(&mut network, 0, 0, 0, 1, FLAG_UNASKED);
        step_to(&mut network, 9 * SECOND);
    }
    (network.sent - sent, network.injected - came)
}

fn step_to(network: &mut Network, time: u64) {
    let at = network.now + time;
    if !network.run_until(at) {
        network.now = at;
    }
}

/// To an address that answered once no more is sent than to a stranger's.
#[test]
fn who_answered_once_draws_no_more_than_three_for_one() {
    for (back, wanted) in [(0, true), (0, false), (1, true), (1, false)] {
        let (sent, came) = drawn(back, wanted);
        println!("{back} bytes kept back, others wait: {wanted}: {sent} bytes for {came}");
        assert!(sent <= 3 * came + 500, "{back} {wanted}: {sent} {came}");
    }
}

/// So many streams of one host rest for 10 s, and then go on all at once: how long the longest of
/// them takes for the rest, ns.
fn rested(count: u64, rest: u64) -> u64 {
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    let begin = 2_000_000;
    let what = Outgoing {
        length: None,
        available: 3000,
        ..network.plain(20_000)
    };
    let all: Vec<usize> = (0..count)
        .map(|n| network.send_as(begin + n * 10_000, 0, 1, 20_000, what))
        .collect();
    for message in &all {
        network.hold(*message, begin + rest);
    }
    network.run_to_the_end(begin + rest + 10 * SECOND);
    assert_clean(&mut network, 2);
    let times = all.iter().map(|message| {
        let it = &network.registry.messages[*message];
        it.delivered.expect("it is delivered") - begin - rest
    });
    times.max().unwrap_or(0)
}

/// A sender that is still there is asked once more for its address, which costs next to nothing.
#[test]
fn streams_that_rested_go_on_at_once() {
    for count in [1, 30, 1000] {
        let (short, long) = (rested(count, SECOND), rested(count, 10 * SECOND));
        println!("{count} streams: {short} ns after 1 s, {long} ns after 10 s");
        assert!(
            long < short + short / 10 + 100_000,
            "{count}: {short} {long}"
        );
    }
}

/// Streams of a host that rest, or were aborted after a rest, do not keep its messages waiting.
#[test]
fn who_has_streams_that_rest_sends_others_as_fast() {
    let beside = |streams: u64, aborted: bool| {
        let config = Config {
            unscheduled: 0,
            ..Config::DEFAULT
        };
        let mut network = star(1, &config, 2, link(), false);
        network.acquaint([(0, 1)]);
        let begin = network.now + 1000;
        let what = Outgoing {
            length: None,
            available: 20_000,
            ..network.plain(40_000)
        };
        let end = begin + 20 * SECOND;
        let open: Vec<usize> = (0..streams)
            .map(|n| network.send_as(begin + n * 20_000, 0, 1, 40_000, what))
            .collect();
        for message in &open {
            network.hold(*message, end + SECOND);
        }
        network.run_until(end);
        if aborted {
            network.with(
                0,
                |endpoint, io, now, _| {
                    while endpoint.clear(nanos(now), io) {}
                },
            );
        }
        let it = network.send_at(end + 1_000_000, 0, 1, 20_000);
        network.run_until(end + 500_000_000);
        network.registry.messages[it]
            .delivered
            .expect("it is delivered")
            - end
            - 1_000_000
    };
    let alone = beside(0, false);
    for streams in [100, 300, 1000] {
        for aborted in [false, true] {
            let took = beside(streams, aborted);
            println!("{streams} streams, aborted: {aborted}: {took} ns; alone {alone}");
            assert!(
                took < alone + alone / 5,
                "{streams} {aborted}: {took}, alone {alone}"
            );
        }
    }
}

/// A stream that only a ticket has proved so far is asked for more when it tells its end: it does
/// not wait for tokens that it may not have.
#[test]
fn streams_with_tickets_do_not_hang() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        let config = Config {
            policy,
            ..Config::DEFAULT
        };
        let mut network = star(1, &config, 3, link(), false);
        network.acquaint([(0, 2), (1, 2)]);
        let begin = network.now + 1000;
        let what = Outgoing {
            length: None,
            ..network.plain(100_000)
        };
        for n in 0..200 {
            network.send_as(begin, n % 2, 2, 100_000, what);
        }
        network.run_to_the_end(begin + 60 * SECOND);
        assert_clean(&mut network, 3);
        let all = network.registry.messages.iter();
        let last = all.map(|it| it.delivered.expect("it is delivered") - begin);
        let last = last.max().unwrap_or(0);
        println!("policy {policy}: the last after {} us", last / 1000);
        assert!(last < 60_000_000, "{policy}: {last} ns");
    }
}

/// All of a stream is written at once, and its end with it.
#[test]
fn a_stream_that_is_written_at_once_waits_for_nothing() {
    for length in [100, 1000, 10_000, 100_000] {
        let mut network = star(1, &Config::DEFAULT, 2, link(), false);
        network.acquaint([(0, 1)]);
        let begin = network.now + 1000;
        let what = Outgoing {
            length: None,
            ..network.plain(length)
        };
        let it = network.send_as(begin, 0, 1, length, what);
        network.run_to_the_end(begin + SECOND);
        let took = network.registry.messages[it]
            .delivered
            .expect("it is delivered")
            - begin;
        println!("{length} B: {took} ns");
        assert!(took < 80_000 + u64::from(length), "{length} B: {took} ns");
    }
}
