// SPDX-License-Identifier: GPL-2.0
//! Attacks: floods of SYNCs, forged packets, replayed tokens.

use turnstile_core::header::{FLAG_REN, FLAG_UNSCHEDULED};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::*;

use super::crossing::assert_clean;
use super::host::{bytes_allocated, Payload};
use super::topology::star;
use super::*;

const G10: u64 = 1_250_000_000;

fn link() -> Link {
    Link {
        rate: G10,
        delay: 8_000,
        ..Link::default()
    }
}

fn sync(cookie: u64) -> Packet {
    Packet::Sync(Sync {
        cookie: Cookie(cookie),
        source: 1,
        destination: 2,
        length: Some(1_000_000),
        deadline: 0,
        coflow: (cookie as u32 & 3) * 7,
        unscheduled: 0,
        mss: 1450,
        patience: 100,
        echo: 0,
        priority: Some(0),
        probe: false,
        acked: false,
        ren: cookie & 64 != 0,
        paced: cookie & 192 == 128,
    })
}

/// A million SYNCs from everywhere, all for the highest priority.
#[test]
fn a_flood_of_syncs_leaves_memory_bounded_and_others_served() {
    let mut network = star(1, &Config::DEFAULT, 3, link(), false);
    // One that is under way when it begins, and others that begin with it.
    let long = network.send_at(1_000_000, 2, 0, 40_000_000);
    for i in 0..100 {
        network.send_at(3_000_000 + i * 900_000, 1, 0, 50_000);
    }
    let mut after = Vec::new();
    for round in 0..100 {
        network.run_until(2_000_000 + round * 1_000_000);
        for _ in 0..10_000 {
            let from = 3 + network.below(60_000) as usize;
            let cookie = network.below(u64::MAX);
            network.inject(from, 0, sync(cookie), None);
        }
        after.push(bytes_allocated());
    }
    let (_, incoming, _) = network.endpoint(0).counts();
    assert!(incoming <= Config::DEFAULT.max_half_open + 100);
    // Memory is the same after a tenth of them as after all.
    println!("{} B allocated, {incoming} messages", after[99]);
    assert!(after[99] <= after[9] + 200_000 && after[99] < 16 << 20);
    let stats = network.endpoint(0).stats();
    assert!(stats.get(Counter::HalfOpenChallenged) > 900_000);
    let end = network.now + 100_000_000;
    network.run_to_the_end(end);
    let mut times: Vec<u64> = network
        .registry
        .messages
        .iter()
        .map(|m| m.delivered.expect("it is delivered") - m.began)
        .collect();
    times.sort_unstable();
    let long = network.registry.messages[long].delivered.unwrap() - 1_000_000;
    println!(
        "others took {} us, at most {} us; a long one {} us",
        times[50] / 1000,
        times[100] / 1000,
        long / 1000
    );
    // Ten million in a second are two thirds of what the link carries: most are forgotten before
    // their data could come. Messages that repeat their SYNC come through, and those under way are
    // not disturbed. Alone, it takes 36 ms, and the others 0.1 ms each.
    assert!(times[100] < 300_000_000 && long < 45_000_000);
    // Those that began with it time out, and nothing is left.
    assert_clean(&mut network, 3);
}

/// An attacker who knows everything but the cookie, and can forge addresses, moves no byte and ends
/// nothing.
#[test]
fn who_does_not_know_the_cookie_moves_no_byte() {
    let mut network = star(1, &Config::DEFAULT, 3, link(), false);
    let message = network.send_at(2_000_000, 0, 1, 5_000_000);
    let mut guess = 1_u64;
    let mut injected = 0;
    while network.registry.messages[message].result.is_none() {
        let next = network.now + 10_000;
        network.run_until(next);
        guess = guess.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let cookie = Cookie(guess);
        let mut spans = Spans::EMPTY;
        spans.push(0, 5_000_000);
        let data = Data {
            cookie,
            token: 5,
            timestamp: 0,
            offset: 1450,
            len: 1450,
            flags: 0,
            more: 0,
        };
        let token = Token {
            cookie,
            sequence: 3,
            timestamp: 0,
            priority: 0,
            grant: None,
            worth: 1,
        };
        let grant = Token {
            grant: Some(Mark::Under),
            worth: 1,
            ..token
        };
        let reset = |code| Packet::Reset(Reset { cookie, code });
        let ack = |last| {
            Packet::Ack(Ack {
                cookie,
                received: 5_000_000,
                window: 5_000_000,
                allowance: 0,
                last,
                mark: turnstile_core::transport::rate::Mark::None,
                notify: false,
            })
        };
        let all = [
            Packet::Token(token),
            Packet::Token(grant),
            Packet::Data(data),
            Packet::Data(Data {
                flags: FLAG_REN,
                ..data
            }),
            Packet::Data(Data {
                flags: FLAG_UNSCHEDULED,
                token: 0,
                ..data
            }),
            Packet::Resend(Resend { cookie, spans }),
            Packet::Fin(Fin { cookie, length: 9 }),
            ack(true),
            ack(false),
            reset(ResetCode::Aborted),
            reset(ResetCode::Unknown),
            reset(ResetCode::Protocol),
        ];
        let sent = network.endpoint(0).stats().get(Counter::DataSent);
        for packet in all {
            for (from, to) in [(0, 1), (1, 0)] {
                let payload = Some(Payload {
                    message,
                    offset: 1450,
                    len: 1450,
                });
                network.inject(from, to, packet, payload);
                injected += 1;
            }
        }
        assert_eq!(network.endpoint(0).stats().get(Counter::DataSent), sent);
    }
    let stats = network.endpoint(0).stats();
    assert!(injected > 5_000 && stats.get(Counter::TokenUnknown) >= injected / 12);
    assert!(network.endpoint(1).stats().get(Counter::DataUnknown) >= injected / 8);
    assert_clean(&mut network, 2);
}

/// An attacker has seen the cookie, but cannot forge the address.
#[test]
fn who_has_the_cookie_but_not_the_address_moves_no_byte() {
    let mut network = star(1, &Config::DEFAULT, 3, link(), false);
    let seen = std::rc::Rc::new(std::cell::Cell::new(None));
    let tap = seen.clone();
    network.tap = Some(Box::new(move |_, packet| {
        tap.set(Some(packet.packet.cookie()))
    }));
    let message = network.send_at(2_000_000, 0, 1, 5_000_000);
    network.run_until(2_500_000);
    let cookie = seen.get().unwrap();
    let sent = network.endpoint(0).stats().get(Counter::DataSent);
    let token = Token {
        cookie,
        sequence: 60_000,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    };
    network.inject(2, 0, Packet::Token(token), None);
    let data = Data {
        cookie,
        token: 5,
        timestamp: 0,
        offset: 4_000_000,
        len: 1450,
        flags: 0,
        more: 0,
    };
    let received = network.registry.messages[message].received;
    network.inject(2, 1, Packet::Data(data), None);
    for code in ResetCode::ALL {
        network.inject(2, 0, Packet::Reset(Reset { cookie, code }), None);
        network.inject(2, 1, Packet::Reset(Reset { cookie, code }), None);
    }
    network.inject(2, 1, Packet::Fin(Fin { cookie, length: 1 }), None);
    assert_eq!(network.registry.messages[message].received, received);
    let stats = network.endpoint(0).stats();
    assert_eq!(stats.get(Counter::DataSent), sent);
    assert_eq!(stats.get(Counter::TokenAddress), 1);
    assert_eq!(network.endpoint(1).stats().get(Counter::DataUnknown), 1);
    network.run_to_the_end(1_000_000_000);
    assert_clean(&mut network, 2);
}

/// Duplicate and late tokens draw nothing, and are counted.
#[test]
fn tokens_that_come_again_draw_nothing() {
    let link = Link {
        repeat: 1_000_000,
        ..link()
    };
    let mut network = star(1, &Config::DEFAULT, 2, link, false);
    network.send_at(2_000_000, 0, 1, 1_450_000);
    network.run_to_the_end(1_000_000_000);
    let stats = network.endpoint(0).stats();
    // Each would come four times, as two links duplicate everything; the switch's port has no room
    // for most.
    let stats = (
        stats.get(Counter::DataSent),
        stats.get(Counter::TokenDuplicate),
    );
    println!("{stats:?}");
    assert!(stats.0 < 1020 && stats.1 >= 500);
    assert_clean(&mut network, 2);
}
