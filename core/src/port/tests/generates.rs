// SPDX-License-Identifier: GPL-2.0
//! A port that pauses others.

use super::*;
use crate::pfc::scope::Scope;
use crate::port::config::{Delay, Generate, Pfc, Room};
use crate::port::hold::Hold;

fn generating(config: Config) -> Config {
    let auto = Generate {
        xoff: Room::AUTO,
        xon: Room::AUTO,
        headroom: Room::AUTO,
        delay: Delay::ns(500),
        share: None,
    };
    Config {
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(1_000_000),
            generate: Some(auto),
        }),
        unscheduled: 0,
        ..config
    }
}

/// Whoever asks for a packet must find out what is owed, whatever is queued.
#[test]
fn it_never_rests() {
    for config in [PAPERS, shaped()] {
        let mut b = Bench::new(generating(config));
        assert!(b.port.is_empty() && !b.port.rests(false));
        let fresh = Bench::packet(0, 60, 1);
        let fresh = b.port.try_enqueue_fresh(b.now, Slot::DATA, fresh);
        assert!(fresh.is_err());
        b.put(Band::Data, 1);
        assert!(!b.port.is_empty());
        assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
        b.at(10_000);
        assert_eq!(b.get(), Dequeue::Empty);
        assert!(b.port.is_empty() && !b.port.rests(false));
        b.change(config);
        assert!(b.port.rests(false));
        b.change(generating(config));
        assert!(!b.port.rests(false));
    }
}

/// Data that counts elsewhere has no bound here, until it no longer counts.
#[test]
fn data_limit_is_for_its_own() {
    let config = Config {
        data_limit: 4000,
        ..generating(PAPERS)
    };
    let mut b = Bench::new(config);
    let own = Bench::packet(0, 1514, 1).1;
    for at in 0..2 {
        let queued = b.port.data_bytes();
        assert!(b.port.has_room_for_own(queued, &own));
        assert_eq!(b.put(Band::Data, at), Enqueue::Queued);
    }
    assert!(!b.port.has_room_for_own(b.port.data_bytes(), &own));
    // What was charged does not count.
    assert!(b.port.has_room_for_own(0, &own));
    assert_eq!(b.put(Band::Data, 2), Enqueue::Queued);
    b.port.refuse_data(&own);
    let stats = b.port.stats(Band::Data);
    assert_eq!((stats.over_limit, stats.offered_packets), (1, 4));
    b.change(Config {
        unscheduled: 0,
        data_limit: 4000,
        ..PAPERS
    });
    assert_eq!(b.drops, [(0, Band::Data, DropCause::Trimmed)]);
}

/// A control frame leaves, or has to wait.
fn control(b: &mut Bench) -> Option<Nanos> {
    let waits = b.port.control_waits(b.now);
    if waits.is_none() {
        b.port.send_control(b.now, 84);
    }
    waits
}

/// A control frame waits for the frame that is on the link, and then is before all others; those
/// wait for it. No pause holds it up.
#[test]
fn a_control_frame_takes_its_time_on_the_link() {
    let mut b = Bench::new(generating(shaped()));
    assert_eq!(control(&mut b), None);
    b.put(Band::Data, 1);
    // 67.2 ns, and 1230.4 for the frame.
    assert_eq!(b.get(), Dequeue::Wait(Nanos(68)));
    let now = b.now;
    assert_eq!(b.port.control_waits(now), Some(now + Nanos(68)));
    b.at(68);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    b.put(Band::Data, 2);
    b.port.hold((b.now, b.now), Hold::Until(Nanos(2_000_000)));
    let now = b.now;
    let free = b.port.control_waits(now).unwrap() - now;
    assert!((1230..=1231).contains(&free.0), "{free:?}");
    b.at(68 + free.0);
    assert_eq!(control(&mut b), None);
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1_000_000)));
}

/// Without a shaper nothing is in its way.
#[test]
fn a_control_frame_goes_at_once_where_nothing_is_shaped() {
    let mut b = Bench::new(generating(PAPERS));
    b.put(Band::Data, 1);
    assert_eq!(control(&mut b), None);
    assert_eq!(control(&mut b), None);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
}

/// What is charged is given back on the slow path: that is gone when all of it is.
#[test]
fn what_was_counted_leaves_by_the_slow_path() {
    let mut b = Bench::new(generating(PAPERS));
    b.put(Band::Data, 1);
    b.put(Band::Data, 2);
    b.change(PAPERS);
    assert!(b.port.obeys() && !b.port.generates());
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Data));
    b.put(Band::Signal, 3);
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Signal));
    assert!(!b.port.obeys());
    assert_eq!(b.get(), Dequeue::Empty);
    // One that is empty needs none of that.
    b.change(generating(PAPERS));
    b.change(PAPERS);
    assert!(!b.port.obeys());
}
