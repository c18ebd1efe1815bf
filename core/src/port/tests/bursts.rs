// SPDX-License-Identifier: GPL-2.0
//! How long a token queue may be, where the machine may be late.

use super::*;

/// ns: how long a token of 84 bytes takes, at 5.18 % of 10 Gbit/s.
const INTERVAL: u64 = 1298;
/// A poll, and what falls due in 50 us.
const ROOM: u32 = 64 + 39;

fn late() -> Config {
    Config {
        token_expiry: Expiry::Off,
        ..Config::DEFAULT
    }
}

/// Tokens of one priority, twice as many as leave, for so many intervals: a pair in each.
fn overload(b: &mut Bench, from: u64, intervals: u64) {
    for n in from..from + intervals {
        b.at(n * INTERVAL);
        b.put(Band::Token(1), 1);
        b.get();
        b.at(n * INTERVAL + INTERVAL / 2);
        b.put(Band::Token(1), 2);
    }
}

fn queued(b: &Bench) -> u64 {
    b.port.queued(Band::Token(1)).packets
}

#[test]
fn there_is_room_for_a_burst() {
    let mut b = Bench::new(late());
    b.put_all(Band::Token(1), 0..ROOM);
    assert_eq!(b.put(Band::Token(1), ROOM), Enqueue::Dropped);
    assert_eq!(b.port.resolved().token_limit, ROOM);
}

#[test]
fn there_is_none_for_what_comes_evenly() {
    let mut b = Bench::new(late());
    overload(&mut b, 1, 200);
    assert_eq!(queued(&b), 8);
    assert_eq!(b.port.stats(Band::Token(1)).max_packets, 8);
    // Another priority's queue is another matter.
    b.put_all(Band::Token(0), 0..ROOM);
}

/// Eight flows share the tokens' rate with one that asks for all of it, and come a poll at a time.
#[test]
fn who_comes_in_polls_finds_room_beside_one_that_is_always_there() {
    let mut b = Bench::new(late());
    let mut lost = 0;
    for n in 1..160 * 50 {
        b.at(n * INTERVAL);
        b.get();
        b.put(Band::Token(1), 1);
        if n % 160 == 0 {
            for id in 0..64 {
                b.put(Band::Token(1), 1000 * (2 + id % 8));
            }
        }
    }
    for (id, _, _) in &b.drops {
        lost += u32::from(*id >= 2000);
    }
    // Of 3136; the first poll finds no more than that.
    assert!(lost < 500, "{lost}");
}

#[test]
fn there_is_again_when_it_was_empty() {
    let mut b = Bench::new(late());
    overload(&mut b, 1, 100);
    b.at(200 * INTERVAL);
    let left = queued(&b);
    b.run(300 * INTERVAL);
    assert_eq!((left, queued(&b)), (8, 0));
    b.put_all(Band::Token(1), 0..ROOM);
    assert_eq!(b.put(Band::Token(1), ROOM), Enqueue::Dropped);
}

/// Nobody asks for a packet for five intervals: so many more may wait.
#[test]
fn what_is_due_has_not_stayed_for_good() {
    let mut b = Bench::new(late());
    overload(&mut b, 1, 100);
    assert_eq!(queued(&b), 8);
    for n in 202..=210 {
        b.at(n * INTERVAL / 2);
        b.put(Band::Token(1), 3);
        let due = n / 2 - 101;
        // And none came for half an interval.
        assert!((8 + due..=9 + due).contains(&queued(&b)), "{n}");
    }
}

/// Two devices hand over a poll each, 80 % of what may leave in all, the second while the first
/// one's tokens are there.
#[test]
fn below_the_rate_polls_of_two_devices_pass() {
    for apart in [30, 45, 80] {
        let mut b = Bench::new(late());
        for period in 1..100 {
            for (device, at) in [(1, 0), (2, apart)] {
                let at = (period * 160 + at) * INTERVAL;
                b.run(at - 1);
                b.at(at);
                for id in 0..64 {
                    b.put(Band::Token(1), 1000 * (4 * device + id % 4));
                }
            }
        }
        assert!(b.drops.is_empty(), "{apart}: {}", b.drops.len());
    }
}

/// A flow whose tokens come behind others' in a queue of which the end is not looked at takes
/// nothing from them.
#[test]
fn a_burst_at_the_end_displaces_nobody_before() {
    let mut b = Bench::new(late());
    for period in 1..50 {
        let at = period * 112 * INTERVAL;
        b.run(at - 1);
        b.at(at);
        for id in 0..40 {
            b.put(Band::Token(1), 1000 * (1 + id % 8));
        }
        for _ in 0..300 {
            b.put(Band::Token(1), 9000);
        }
    }
    let lost = b.drops.iter().filter(|(id, _, _)| *id < 9000).count();
    assert!(lost < 20, "{lost} of {}", 49 * 40);
}

/// Bursts of 20 every 16 intervals: the queue is not empty between them, and the port is never
/// without a token.
#[test]
fn what_comes_in_bursts_keeps_the_port_busy() {
    let mut b = Bench::new(late());
    let mut left = 0;
    for burst in 1..200 {
        b.at(burst * 16 * INTERVAL);
        left += b.run(burst * 16 * INTERVAL - 1).len();
        for id in 0..20 {
            b.put(Band::Token(1), id);
        }
        left += b
            .run(burst * 16 * INTERVAL + 15 * INTERVAL + INTERVAL / 2)
            .len();
        if burst > 50 {
            assert!(queued(&b) > 0);
        }
    }
    assert!(left >= 198 * 16, "{left}");
}

#[test]
fn a_change_trims_to_what_a_burst_may_be() {
    let mut b = Bench::new(late());
    b.put_all(Band::Token(1), 0..ROOM);
    let most = |jitter: u64| Config {
        jitter: Nanos(jitter),
        ..late()
    };
    b.change(most(10_000));
    assert_eq!(queued(&b), 64 + 8);
    b.change(most(0));
    assert_eq!(queued(&b), 8);
    assert!(b
        .drops
        .iter()
        .all(|(_, _, cause)| *cause == DropCause::Trimmed));
}

/// A larger `token-limit` holds for what lasts, too.
#[test]
fn the_limit_is_what_is_configured() {
    for limit in [1, 30, 200] {
        let mut b = Bench::new(Config {
            token_limit: limit,
            ..late()
        });
        overload(&mut b, 1, 400);
        assert_eq!(queued(&b), limit.into());
    }
}
