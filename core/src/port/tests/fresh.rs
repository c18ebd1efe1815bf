// SPDX-License-Identifier: GPL-2.0
//! Packets that somebody will ask for at once. The clock that these tests hand to a dequeue is
//! wrong on purpose: nobody may look at it.

use super::*;

/// Much longer than anything lasts here.
const WRONG: u64 = 800_000;
const DATA: Slot = Slot::DATA;

fn token() -> Slot {
    Slot::new(Band::Token(0))
}

impl Bench {
    /// Puts one in with the promise to ask at once, at a time or at none.
    fn put_fresh(&mut self, now: Nanos, slot: Slot, id: u32) {
        let packet = Self::packet(id, 60, 1);
        assert!(
            self.port.try_enqueue_fresh(now, slot, packet).is_ok(),
            "{id}"
        );
    }

    /// Room for one packet in each band, and the length of a token is known.
    fn warmed(config: Config) -> Self {
        let mut b = Bench::new(config);
        for band in [Band::Signal, Band::Token(0), Band::Data] {
            b.put_sized(band, 0, 60, 1);
            assert_eq!(b.get(), Dequeue::Packet(0, band));
            b.now += Nanos(20_000);
        }
        assert!(b.port.is_empty());
        b
    }
}

#[test]
fn a_fresh_token_leaves_at_the_time_at_which_it_came() {
    for config in [Config::DEFAULT, shaped()] {
        let mut b = Bench::warmed(config);
        let at = b.now;
        b.put_fresh(at, token(), 7);
        assert!(b.port.is_fresh());
        b.now = Nanos(at.0 + WRONG);
        assert_eq!(b.get(), Dequeue::Packet(7, Band::Token(0)));
        let stats = b.port.stats(Band::Token(0));
        assert_eq!((stats.sojourn_count, stats.expired), (2, 0));
        assert_eq!(stats.sojourn_max, 0);
        // The next is due an interval after that one, and not after the wrong clock.
        b.now = at;
        b.put_sized(Band::Token(0), 8, 60, 1);
        assert_eq!(b.get(), Dequeue::Wait(Nanos(at.0 - 1_000_000 + 1298)));
    }
}

#[test]
fn a_second_arrival_makes_it_one_like_any_other() {
    let mut b = Bench::warmed(Config::DEFAULT);
    b.put_fresh(b.now, token(), 7);
    b.put_sized(Band::Token(1), 8, 60, 1);
    assert!(!b.port.is_fresh());
    b.now += Nanos(WRONG);
    assert_eq!(b.get(), Dequeue::Empty, "both have expired");
    assert_eq!(b.drops.len(), 2);
}

#[test]
fn one_that_is_asked_for_in_vain_waits_like_any_other() {
    let mut b = Bench::warmed(Config::DEFAULT);
    let at = b.now;
    b.put_fresh(at, token(), 7);
    assert_eq!(b.get(), Dequeue::Packet(7, Band::Token(0)));
    b.put_fresh(at, token(), 8);
    let due = Nanos(at.0 - 1_000_000 + 1298);
    assert_eq!(b.get(), Dequeue::Wait(due));
    assert!(!b.port.is_fresh());
    b.now = Nanos(due.0 + 1_000_000);
    assert_eq!(b.get(), Dequeue::Packet(8, Band::Token(0)));
    assert_eq!(b.port.stats(Band::Token(0)).sojourn_max, 1298);
}

#[test]
fn where_nothing_is_shaped_signals_and_data_need_no_time() {
    let mut b = Bench::warmed(Config::DEFAULT);
    for (slot, band) in [(DATA, Band::Data), (Slot::new(Band::Signal), Band::Signal)] {
        assert!(b.port.needs_no_clock(slot));
        b.put_fresh(Port::<Fifo>::NO_TIME, slot, 7);
        assert!(!b.port.needs_no_clock(slot), "something is queued");
        assert_eq!(b.port.fresh_time(), None);
        assert_eq!(b.get(), Dequeue::Packet(7, band));
        assert_eq!(b.port.stats(band).sojourn_max, 0);
        assert_eq!(b.port.stats(band).sojourn_count, 2);
    }
    assert!(!b.port.needs_no_clock(token()));
    assert!(!Bench::new(shaped()).port.needs_no_clock(DATA));
}

#[test]
fn one_without_a_time_gets_that_of_the_next_arrival() {
    let mut b = Bench::warmed(Config::DEFAULT);
    b.put_fresh(Port::<Fifo>::NO_TIME, DATA, 7);
    let waited = 5000;
    b.put_sized(Band::Signal, 8, 60, 1);
    b.now += Nanos(waited);
    assert_eq!(b.get(), Dequeue::Packet(8, Band::Signal));
    assert_eq!(b.get(), Dequeue::Packet(7, Band::Data));
    assert_eq!(b.port.stats(Band::Data).sojourn_max, waited);
}

#[test]
fn only_a_single_packet_that_is_alone_and_has_room_is_fresh() {
    let mut b = Bench::warmed(Config::DEFAULT);
    let port = &mut b.port;
    let now = b.now;
    let super_packet = Bench::packet(7, 3000, 2);
    assert!(port.try_enqueue_fresh(now, DATA, super_packet).is_err());
    let longest_yet = Bench::packet(7, 61, 1);
    assert!(port.try_enqueue_fresh(now, DATA, longest_yet).is_err());
    b.put(Band::Signal, 8);
    let second = Bench::packet(7, 60, 1);
    assert!(b.port.try_enqueue_fresh(now, DATA, second).is_err());
    assert_eq!(
        b.port.stats(Band::Data).offered_packets,
        1,
        "nothing has changed"
    );
}

#[test]
fn a_change_and_a_reset_leave_nothing_fresh() {
    let mut b = Bench::warmed(Config::DEFAULT);
    b.put_fresh(b.now, token(), 7);
    b.change(shaped());
    assert!(!b.port.is_fresh());
    assert_eq!(b.get(), Dequeue::Packet(7, Band::Token(0)));
    b.change(Config::DEFAULT);
    b.now += Nanos(WRONG);
    b.put_fresh(b.now, token(), 8);
    b.port.reset(&mut b.drops);
    assert!(!b.port.is_fresh() && b.port.is_empty());
    assert_eq!(b.get(), Dequeue::Empty);
}
