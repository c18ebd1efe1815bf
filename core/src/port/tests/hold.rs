// SPDX-License-Identifier: GPL-2.0
//! Data that the next switch holds up.

use super::*;
use crate::pfc::pause::Progress;
use crate::pfc::scope::Scope;
use crate::port::hold::{Heard, Hold};

/// As `config`, and obeying pauses.
fn obeying(config: Config) -> Config {
    Config {
        pfc: Some(config::Pfc {
            data: Scope::one(3),
            watchdog: Nanos(1_000_000),
            generate: None,
        }),
        ..config
    }
}

fn hold(b: &mut Bench, hold: Hold) {
    b.port.hold((b.now, b.now), hold);
}

fn until(ns: u64) -> Hold {
    Hold::Until(Nanos(1_000_000 + ns))
}

#[test]
fn data_waits_and_the_rest_goes() {
    let mut b = Bench::new(obeying(PAPERS));
    hold(&mut b, until(5000));
    b.put(Band::Data, 1);
    b.put(Band::Unscheduled, 2);
    let early = Bench::packet(3, 1514, 1);
    b.port.enqueue_at(b.now, Slot::UNASKED, early, &mut b.drops);
    assert_eq!(b.get(), Dequeue::Wait(Nanos(5000)));
    b.put(Band::Token(0), 4);
    b.put(Band::Signal, 5);
    assert_eq!(b.get(), Dequeue::Packet(5, Band::Signal));
    assert_eq!(b.get(), Dequeue::Packet(4, Band::Token(0)));
    // The next token is due before the end.
    b.put(Band::Token(0), 6);
    let Dequeue::Wait(due) = b.get() else {
        panic!("the token is not due yet");
    };
    assert!(due < Nanos(5000));
    b.at(due.0);
    assert_eq!(b.get(), Dequeue::Packet(6, Band::Token(0)));
    b.at(4999);
    assert_eq!(b.get(), Dequeue::Wait(Nanos(5000)));
    b.at(5000);
    hold(&mut b, Hold::Open);
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Unscheduled));
    assert_eq!(b.get(), Dequeue::Empty);
}

/// Data that came as the only packet, just now, was on its quickest way out.
#[test]
fn a_fresh_packet_waits_too() {
    for config in [PAPERS, shaped()] {
        let mut b = Bench::new(obeying(config));
        // Room is made for the first.
        b.put(Band::Data, 0);
        assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
        b.at(100_000);
        assert_eq!(b.get(), Dequeue::Empty);
        let fresh = Bench::packet(1, 1514, 1);
        let fresh = b.port.try_enqueue_fresh(b.now, Slot::DATA, fresh);
        assert!(fresh.is_ok());
        hold(&mut b, until(103_000));
        assert_eq!(b.get(), Dequeue::Wait(Nanos(103_000)));
        b.at(101_000);
        // A later frame says longer, and another one ends it.
        hold(&mut b, until(109_000));
        assert_eq!(b.get(), Dequeue::Wait(Nanos(109_000)));
        b.at(102_000);
        hold(&mut b, Hold::Open);
        let second = Bench::packet(2, 60, 1);
        let second = b.port.try_enqueue_fresh(b.now, Slot::DATA, second);
        assert!(second.is_err(), "there was one already");
        assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    }
}

/// The link is free when the pause is over, and idle until then: no burst makes up for it.
#[test]
fn a_shaped_link_makes_up_for_no_pause() {
    let mut b = Bench::new(obeying(shaped()));
    b.put_all(Band::Data, 0..3);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    hold(&mut b, until(500_000));
    // Busy with the packet, and held: the later of the two.
    assert_eq!(b.get(), Dequeue::Wait(Nanos(500_000)));
    b.put(Band::Token(0), 9);
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1231)));
    b.at(1231);
    assert_eq!(b.get(), Dequeue::Packet(9, Band::Token(0)));
    b.at(500_000);
    hold(&mut b, Hold::Open);
    assert_eq!(b.run(600_000), [(500_000, 1), (501_231, 2)]);
}

/// A pause that does not end: data is dropped, what is queued and what comes.
#[test]
fn a_storm_drops_data() {
    let mut b = Bench::new(obeying(PAPERS));
    b.put_all(Band::Data, 0..3);
    b.put(Band::Unscheduled, 3);
    b.put(Band::Token(0), 4);
    hold(&mut b, until(5000));
    hold(&mut b, Hold::Storm(Nanos(1_009_000)));
    assert_eq!(b.get(), Dequeue::Packet(4, Band::Token(0)));
    b.put(Band::Data, 5);
    hold(&mut b, Hold::Storm(Nanos(1_009_000)));
    assert_eq!(b.get(), Dequeue::Empty);
    let dropped: Vec<_> = b.drops.iter().map(|(id, _, cause)| (*id, *cause)).collect();
    let stormed = |id| (id, DropCause::Stormed);
    assert_eq!(dropped, [0, 1, 2, 3, 5].map(stormed));
    let stats = b.port.stats(Band::Data);
    assert_eq!((stats.stormed, stats.queued_packets), (4, 0));
    assert_eq!(stats.dropped_bytes, 4 * 1514);
    hold(&mut b, Hold::Open);
    b.put(Band::Data, 6);
    assert_eq!(b.get(), Dequeue::Packet(6, Band::Data));
}

/// A long queue is not dropped in one call, and nothing of it is left.
#[test]
fn a_storm_drops_some_at_a_time() {
    let mut b = Bench::new(obeying(PAPERS));
    b.put_all(Band::Data, 0..600);
    hold(&mut b, Hold::Storm(Nanos(9_000_000)));
    let mut calls = 0;
    while let Dequeue::Wait(time) = b.get() {
        assert_eq!(time, Nanos::ZERO);
        calls += 1;
        assert!(b.drops.len() <= 256 * calls);
    }
    assert_eq!((calls, b.drops.len()), (2, 600));
}

/// Data first: data that is held does not go before tokens, and costs them nothing.
#[test]
fn with_data_first_tokens_go() {
    let mut b = Bench::new(Config {
        order: Order::DataFirst,
        ..obeying(PAPERS)
    });
    hold(&mut b, until(9000));
    b.put_all(Band::Data, 0..2);
    b.put(Band::Token(0), 2);
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(9000)));
    b.at(9000);
    b.put(Band::Token(0), 3);
    hold(&mut b, Hold::Open);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Token(0)));
}

/// Pauses that come and go between two packets are seen all the same.
#[test]
fn a_port_obeys_what_was_heard() {
    use crate::pfc::frame::Frame;
    use crate::pfc::pause::Pauses;
    let config = Config {
        tcd: Some(config::Tcd {
            threshold: 1,
            max_on: config::MaxOn::Time(Nanos(1000)),
        }),
        ..obeying(PAPERS)
    };
    let mut b = Bench::new(config);
    let rate = config.validate(Some(10 * GBIT)).unwrap().link_rate;
    let mut pauses = Pauses::new(Scope::one(3), rate, Nanos(1_000_000));
    // 51.2 ns each, rounded up: 1024 ns.
    pauses.heard(Nanos(1_000_000), &Frame::one(2, 0xffff));
    pauses.heard(Nanos(1_000_000), &Frame::one(3, 20));
    b.put(Band::Data, 0);
    b.at(500);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1024)));
    b.at(1024);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    // One that nobody noticed.
    pauses.heard(Nanos(1_005_000), &Frame::Pause { quanta: 1 });
    b.at(9000);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    let tcd = b.port.markers().tcd_now(b.now, 0).unwrap().1;
    assert_eq!(tcd.pauses, 2);
    // Undetermined for the pause, and 1000 ns after its end. (1, and 52 for the quantum.)
    assert_eq!(tcd.undetermined, 1024 + 1000 + 52 + 1000);
    // The watchdog.
    pauses.heard(Nanos(1_010_000), &Frame::one(3, 0xffff));
    b.at(1_000_000);
    pauses.heard(b.now, &Frame::one(3, 0xffff));
    b.put(Band::Data, 1);
    b.at(1_010_000);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert!(matches!(b.port.held(), Hold::Storm(_)));
    assert_eq!(b.get(), Dequeue::Empty);
    assert_eq!(b.drops, [(1, Band::Data, DropCause::Stormed)]);
    // Turned off, it obeys nobody.
    b.change(PAPERS);
    b.put(Band::Data, 2);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Data));
}

/// Somebody may still hear a pause when none is obeyed any more.
#[test]
fn what_is_heard_after_pauses_are_off_holds_nothing() {
    use crate::pfc::frame::Frame;
    use crate::pfc::pause::Pauses;
    let config = obeying(PAPERS);
    let mut b = Bench::new(config);
    let rate = config.validate(Some(10 * GBIT)).unwrap().link_rate;
    let mut pauses = Pauses::new(Scope::one(3), rate, Nanos(1_000_000));
    pauses.heard(b.now, &Frame::one(3, 20));
    b.put(Band::Data, 1);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert!(matches!(b.get(), Dequeue::Wait(_)));
    b.change(PAPERS);
    b.port.obey(b.now, &Heard::of(&pauses, b.now));
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
}

/// What the watchdog asks: whether something of data has left, and since when the rest waits.
/// Tokens are nothing to it, nor is what it drops.
#[test]
fn a_port_tells_what_became_of_data() {
    let mut b = Bench::new(obeying(PAPERS));
    let start = b.now;
    let tells = |b: &mut Bench, child, moved, since: Option<Nanos>| {
        let waits_since = since;
        assert_eq!(b.port.progress(child), Progress { moved, waits_since });
    };
    tells(&mut b, 0, false, None);
    tells(&mut b, 3, false, Some(Nanos::ZERO));
    b.put(Band::Token(0), 1);
    b.put(Band::Data, 2);
    b.at(100);
    b.put(Band::Unscheduled, 3);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Token(0)));
    tells(&mut b, 0, false, Some(start));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Data));
    tells(&mut b, 0, true, Some(start + Nanos(100)));
    tells(&mut b, 0, false, Some(start + Nanos(100)));
    hold(&mut b, Hold::Storm(Nanos(9_000_000)));
    assert_eq!(b.get(), Dequeue::Empty);
    tells(&mut b, 0, false, None);
    // What has just come may have no time yet.
    hold(&mut b, Hold::Open);
    let fresh = Bench::packet(4, 1514, 1);
    let fresh = b.port.try_enqueue_fresh(b.now, Slot::DATA, fresh);
    assert!(fresh.is_ok());
    let since = b.port.progress(0).waits_since;
    assert!(since >= Some(b.now), "{since:?}");
    assert_eq!(b.get(), Dequeue::Packet(4, Band::Data));
    tells(&mut b, 0, true, None);
}
