// SPDX-License-Identifier: GPL-2.0
//! Receivers that know the cookie, answer, and take nothing: what they draw by saying that all of a
//! message is missing, again and again.

use std::cell::Cell;
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Failure;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;

use super::topology::star;
use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const ENDLESS: u32 = 512 << 20;
const POLICIES: [(&str, u32); 5] = [
    ("expresspass", uapi::POLICY_EXPRESSPASS),
    ("top", uapi::POLICY_TOP),
    ("ren", uapi::POLICY_REN),
    ("dcqcn", uapi::POLICY_DCQCN),
    ("timely", uapi::POLICY_TIMELY),
];

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// What the receiver does besides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Also {
    Nothing,
    /// It acknowledges one byte more each time.
    Trickle,
    /// It says that it does not know the message, and then that it does.
    Forget,
}

struct Drawn {
    /// Bytes of data that came again, and that came for the first time.
    again: u64,
    new: u64,
    /// Bytes that the receiver sent.
    asked: u64,
    result: Option<(u64, Result<(), Failure>)>,
}

/// A receiver names everything and gives a token once in `every` ns, for so many.
fn drawn(policy: u32, also: Also, every: u64, until: u64) -> Drawn {
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 3, link(), false);
    network.kill(1);
    let seen = Rc::new(Cell::new((None, 0, 0_u64, 0_u64)));
    let tap = seen.clone();
    network.tap = Some(Box::new(move |_, packet| {
        let (mut cookie, mut end, mut again, mut new) = tap.get();
        match packet.packet {
            Packet::Sync(sync) => cookie = Some(sync.cookie),
            Packet::Data(data) if data.offset + data.len <= end => again += u64::from(data.len),
            Packet::Data(data) => {
                end = data.offset + data.len;
                new += u64::from(data.len);
            }
            _ => {}
        }
        tap.set((cookie, end, again, new));
    }));
    let begin = network.now;
    let message = network.send_at(begin, 0, 1, ENDLESS);
    let (mut sequence, mut received) = (0_u16, 0_u32);
    while network.now < begin + until && network.registry.messages[message].result.is_none() {
        network.run_until(network.now + every);
        let Some(cookie) = seen.get().0 else { continue };
        if also == Also::Forget {
            let code = ResetCode::Unknown;
            network.inject(1, 0, Packet::Reset(Reset { cookie, code }), None);
        }
        if also == Also::Trickle && seen.get().1 > received {
            received += 1;
        }
        let ack = Ack {
            cookie,
            received,
            window: ENDLESS,
            allowance: 0,
            last: false,
            mark: turnstile_core::transport::rate::Mark::None,
            notify: false,
        };
        network.inject(1, 0, Packet::Ack(ack), None);
        let mut spans = Spans::EMPTY;
        spans.push(0, ENDLESS);
        network.inject(1, 0, Packet::Resend(Resend { cookie, spans }), None);
        sequence = sequence.wrapping_add(1);
        let token = Token {
            cookie,
            sequence,
            timestamp: network.now as u32,
            priority: 0,
            grant: (policy == uapi::POLICY_REN).then_some(Mark::Full),
            worth: 1,
        };
        network.inject(1, 0, Packet::Token(token), None);
    }
    let (_, _, again, new) = seen.get();
    Drawn {
        again,
        new,
        asked: network.injected,
        result: network.registry.messages[message].result,
    }
}

/// Everything is sent twice, and then a few packets, which become rare; and the message ends.
#[test]
fn who_names_all_and_takes_nothing_draws_little() {
    for (name, policy) in POLICIES {
        for every in [100_000, 10 * MS, 130 * MS] {
            let it = drawn(policy, Also::Nothing, every, 300 * SECOND);
            let ended = it.result.expect("it has ended");
            println!(
                "{name}, each {} us: {} kB again, {} kB new for {} kB, ended after {:.1} s",
                every / 1000,
                it.again / 1000,
                it.new / 1000,
                it.asked / 1000,
                ended.0 as f64 / 1e9
            );
            assert_eq!(ended.1, Err(Failure::TimedOut));
            assert!(it.again <= 2 * it.new + 30 * 32 * 1450, "{name}");
            // As one that is silent, after shorter packets were tried.
            assert!(ended.0 < 15 * SECOND, "{name}: {}", ended.0);
        }
    }
}

/// A byte of progress each time, or a receiver that forgets the message, changes little.
#[test]
fn who_takes_a_byte_or_forgets_draws_no_more() {
    for (name, policy) in POLICIES {
        for also in [Also::Trickle, Also::Forget] {
            let it = drawn(policy, also, MS, 20 * SECOND);
            println!(
                "{name}, {also:?}: {} kB again, {} kB new for {} kB, {:?}",
                it.again / 1000,
                it.new / 1000,
                it.asked / 1000,
                it.result
            );
            assert!(it.again <= 2 * it.new + 45 * 32 * 1450, "{name}, {also:?}");
        }
    }
}
