// SPDX-License-Identifier: GPL-2.0
//! What came in by the port's link though no token asked for it.

use super::*;
use crate::port::arrivals::HALF;

/// The first of the lower half of the priorities.
const LOW: Slot = Slot::new(Band::Token(4));

/// How many bytes on the wire a link of 10 Gbit/s carries in a microsecond.
const PER_US: u32 = 1250;

/// Tokens' packets, in bytes on the wire with their tokens, in a millisecond in which `offered` of
/// 100 of the tokens' rate come, and each microsecond so many bytes came in unasked. And what of
/// those is owed at the end.
fn run(offered: u32, unasked: u32) -> (u64, u32) {
    let mut b = Bench::new(PAPERS);
    let (mut owed, mut asked, mut due) = (0_u32, 0_u64, 0_u32);
    for us in 1..=1000 {
        b.at(us * 1000);
        owed += unasked;
        due += PER_US * offered / 100;
        while due >= FRAME_WIRE_LEN + TOKEN_WIRE_LEN {
            due -= FRAME_WIRE_LEN + TOKEN_WIRE_LEN;
            if owed != 0 {
                owed -= b.port.give_way(b.now, owed, LOW);
            }
            b.put(Band::Token(4), 0);
        }
        while let Dequeue::Packet(..) = b.port.dequeue(b.now, &mut b.child, &mut b.drops) {
            asked += u64::from(FRAME_WIRE_LEN + TOKEN_WIRE_LEN);
        }
    }
    (asked, owed)
}

/// Where more tokens come than may pass, what comes unasked and what they ask for fill the link,
/// and no more.
#[test]
fn tokens_give_way_to_what_nobody_asked_for() {
    let all = u64::from(PER_US) * 1000;
    for unasked in [0, 4, 40, 400] {
        let (asked, owed) = run(200, unasked);
        let sum = asked + u64::from(unasked) * 1000 - u64::from(owed);
        assert!(sum <= all + 8 * 1622, "{unasked}: {sum} of {all}");
        assert!(sum >= all * 99 / 100, "{unasked}: {sum} of {all}");
        // As much of 64 KiB as tokens give way of their time.
        let part = u64::from(unasked) << HALF;
        let most = part / u64::from(PER_US - unasked) + 2 * 1622;
        assert!(u64::from(owed) <= most, "{unasked}: {owed} owed");
    }
}

/// The same over IPv6, whose tokens take more of the link.
#[test]
fn longer_tokens_give_way_as_well() {
    let mut b = Bench::new(PAPERS);
    let (mut owed, mut asked) = (0_u32, 0_u64);
    for us in 1..=10_000 {
        b.at(us * 1000);
        owed += 4;
        if owed != 0 {
            owed -= b.port.give_way(b.now, owed, LOW);
        }
        let token = Bench::packet(0, 80, 1);
        b.port.enqueue(b.now, Band::Token(4), token, &mut b.drops);
        while let Dequeue::Packet(..) = b.port.dequeue(b.now, &mut b.child, &mut b.drops) {
            asked += u64::from(FRAME_WIRE_LEN + 104);
        }
    }
    let all = u64::from(PER_US) * 10_000;
    let sum = asked + 4 * 10_000 - u64::from(owed);
    assert!(sum <= all + 8 * 1642, "{sum} of {all}");
}

/// The same where tokens come in bursts, with pauses in which those that are queued leave.
#[test]
fn tokens_that_are_queued_ask_for_time() {
    let interval = FRAME_WIRE_LEN + TOKEN_WIRE_LEN;
    let mut b = Bench::new(PAPERS);
    let (mut owed, mut asked) = (0_u32, 0_u64);
    for us in 1..=10_000 {
        b.at(us * 1000);
        owed += 4;
        // One and a quarter of what may pass in 8 us.
        for _ in 0..if us % 8 == 0 { 8 } else { 0 } {
            if owed != 0 {
                owed -= b.port.give_way(b.now, owed, LOW);
            }
            b.put(Band::Token(4), 0);
        }
        while let Dequeue::Packet(..) = b.port.dequeue(b.now, &mut b.child, &mut b.drops) {
            asked += u64::from(interval);
        }
    }
    let all = u64::from(PER_US) * 10_000;
    let sum = asked + 4 * 10_000 - u64::from(owed);
    assert!(sum <= all + 8 * u64::from(interval), "{sum} of {all}");
}

/// However much comes unasked, tokens have half of the link.
#[test]
fn tokens_keep_half_of_the_link() {
    let all = u64::from(PER_US) * 1000;
    for unasked in [PER_US, 10 * PER_US] {
        let (asked, _) = run(200, unasked);
        assert!(asked >= all * 49 / 100, "{asked} of {all}");
        // It is some time until enough is owed.
        assert!(asked <= all * 54 / 100, "{asked} of {all}");
    }
}

/// Where tokens leave time, what comes unasked has that, and no token waits for it.
#[test]
fn what_has_time_between_tokens_is_in_nobodys_way() {
    let (asked, owed) = run(60, 400);
    let free = run(60, 0).0;
    assert_eq!(asked, free);
    assert!(owed <= 2 * 1622, "{owed} owed");
    let mut b = Bench::new(PAPERS);
    b.at(5_000_000);
    let settled = b.port.give_way(b.now, 1 << 30, LOW);
    assert_eq!(settled, 1 << 30);
    b.put(Band::Token(4), 0);
    assert!(matches!(
        b.port.dequeue(b.now, &mut b.child, &mut b.drops),
        Dequeue::Packet(_, Band::Token(4))
    ));
}

/// Of a link whose speed nobody knows nothing can be said.
#[test]
fn a_port_of_unknown_speed_owes_nothing() {
    let mut b = Bench::on(
        None,
        Config {
            link: None,
            ..PAPERS
        },
    );
    assert_eq!(b.port.give_way(b.now, 1000, LOW), 1000);
}

/// Tokens of the first half of the priorities do not give way while others do: 64 in a row at most.
#[test]
fn the_first_priorities_leave_it_to_the_others() {
    let mut b = Bench::new(PAPERS);
    let interval = u64::from(FRAME_WIRE_LEN + TOKEN_WIRE_LEN) * 1000 / u64::from(PER_US);
    let mut gaps = |priority: u8, count: u32| {
        let slot = Slot::new(Band::Token(priority));
        let mut longer = 0;
        for _ in 0..count {
            b.port.give_way(b.now, 40_000, slot);
            b.put(Band::Token(priority), 0);
            let mut waited = 0;
            while !matches!(
                b.port.dequeue(b.now, &mut b.child, &mut b.drops),
                Dequeue::Packet(..)
            ) {
                b.now += Nanos(1);
                waited += 1;
            }
            longer += u32::from(waited > interval + 1);
        }
        longer
    };
    assert!(gaps(7, 10) >= 9);
    // The last of those before still has its time.
    assert!(gaps(3, 64) <= 1);
    assert_eq!(gaps(3, 64), 64);
    assert!(gaps(4, 10) >= 9);
    assert!(gaps(0, 64) <= 1);
}
