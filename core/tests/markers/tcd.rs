// SPDX-License-Identifier: GPL-2.0
//! TCD's marks on packets that leave a port.

use turnstile_core::pfc::scope::Scope;
use turnstile_core::port::config::{MaxOn, Pfc, Tcd};
use turnstile_core::port::marker::tcd::State;
use turnstile_core::port::Hold;

use super::*;

/// A port that obeys pauses, and is congested with two full frames waiting, of 10 Gbit/s.
fn port() -> Port<Fifo> {
    let config = Config {
        tcd: Some(Tcd {
            threshold: 3028,
            max_on: MaxOn::Time(Nanos(30_000)),
        }),
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(1_000_000),
            generate: None,
        }),
        ..common::PAPERS
    };
    let resolved = config.validate(Some(1_250_000_000)).unwrap();
    Port::new(&config, &resolved, Nanos(0))
}

fn put(port: &mut Port<Fifo>, ecn: Option<u8>, writable: bool) {
    let packet = P {
        inner: common::P::new(0, 1514, 1, 24, 84),
        ecn,
        ren: false,
        writable,
    };
    port.enqueue(Nanos(0), Band::Data, packet, &mut Free);
}

/// What leaves at that time.
fn get(port: &mut Port<Fifo>, now: u64) -> Option<u8> {
    match port.dequeue(Nanos(now), &mut FakeChild::default(), &mut Free) {
        Dequeue::Packet(packet, _) => packet.ecn,
        other => panic!("{other:?}"),
    }
}

const ALL: [Option<u8>; 5] = [Some(0), Some(1), Some(2), Some(3), None];

#[test]
fn a_congested_port_marks_what_may_be_marked() {
    let mut port = port();
    for ecn in ALL.into_iter().chain([Some(2), Some(2), Some(2)]) {
        put(&mut port, ecn, true);
    }
    let left = ALL.map(|_| get(&mut port, 0));
    assert_eq!(left, [Some(0), Some(3), Some(3), Some(3), None]);
    // Two wait behind this one, and fewer behind the last two.
    assert_eq!(get(&mut port, 0), Some(3));
    assert_eq!([get(&mut port, 0), get(&mut port, 0)], [Some(2); 2]);
    let stats = port.markers().stats().tcd;
    assert_eq!((stats.seen, stats.ce, stats.ue, stats.kept), (6, 3, 0, 1));
    assert_eq!((stats.unmarked, stats.congestions), (2, 1));
}

#[test]
fn a_port_that_was_paused_cannot_say() {
    let mut port = port();
    for ecn in ALL.into_iter().chain([Some(2); 6]) {
        put(&mut port, ecn, true);
    }
    port.hold((Nanos(0), Nanos(0)), Hold::Until(Nanos(5000)));
    port.hold((Nanos(5000), Nanos(5000)), Hold::Open);
    let left = ALL.map(|_| get(&mut port, 6000));
    assert_eq!(left, [Some(0), Some(1), Some(1), Some(3), None]);
    let stats = port.markers().stats().tcd;
    assert_eq!((stats.seen, stats.ce, stats.ue, stats.kept), (3, 0, 1, 2));
    assert_eq!(get(&mut port, 35_000), Some(1));
    // The queue is long, and has not risen: once more as long.
    assert_eq!(get(&mut port, 35_001), Some(1));
    let now = port.markers().tcd_now(Nanos(40_000), 0).unwrap();
    assert_eq!(now.0, State::Undetermined);
    for _ in 0..20 {
        put(&mut port, Some(2), true);
    }
    // A twentieth of what 10 Gbit/s carry in 30 us are 1875 bytes.
    assert_eq!(get(&mut port, 65_002), Some(3));
    assert_eq!(port.markers().stats().tcd.congestions, 1);
}

/// A queue that does not rise, as others are asked for pauses, or as it drops what comes.
#[test]
fn a_port_that_was_paused_and_cannot_take_what_comes_is_congested() {
    let after = |too_much: &dyn Fn(&mut Port<Fifo>)| {
        let mut port = port();
        for _ in 0..30 {
            put(&mut port, Some(2), true);
        }
        port.hold((Nanos(0), Nanos(0)), Hold::Until(Nanos(5000)));
        port.hold((Nanos(5000), Nanos(5000)), Hold::Open);
        too_much(&mut port);
        get(&mut port, 35_001)
    };
    assert_eq!(after(&|_| {}), Some(1));
    assert_eq!(after(&|port| port.asks_for_pause()), Some(1));
    let twice = |port: &mut Port<Fifo>| (0..2).for_each(|_| port.asks_for_pause());
    assert_eq!(after(&twice), Some(3));
    let meta = common::P::new(0, 1514, 1, 24, 84).meta();
    let dropped = |port: &mut Port<Fifo>| (0..2).for_each(|_| port.refuse_data(&meta));
    assert_eq!(after(&dropped), Some(3));
    let full = |port: &mut Port<Fifo>| (0..10_000).for_each(|_| put(port, Some(2), true));
    assert_eq!(after(&full), Some(3));
}

/// For lack of memory a packet goes as it is, and is counted.
#[test]
fn a_header_that_cannot_be_written_to_stays() {
    let mut port = port();
    for _ in 0..3 {
        put(&mut port, Some(2), false);
    }
    assert_eq!(get(&mut port, 0), Some(2));
    let stats = port.markers().stats();
    assert_eq!((stats.unwritable, stats.tcd.seen, stats.tcd.ce), (1, 1, 0));
}

/// A change while data is held knows of it.
#[test]
fn turned_on_during_a_pause_it_is_undetermined() {
    let mut port = port();
    let config = *port.config();
    let off = Config {
        tcd: None,
        ..config
    };
    let resolved = |config: &Config| config.validate(Some(1_250_000_000)).unwrap();
    port.change(&off, &resolved(&off), Nanos(0), &mut Free);
    port.hold((Nanos(0), Nanos(0)), Hold::Until(Nanos(5000)));
    port.change(&config, &resolved(&config), Nanos(10), &mut Free);
    let state = port.markers().tcd_now(Nanos(20), 0).map(|now| now.0);
    assert_eq!(state, Some(State::Undetermined));
}
