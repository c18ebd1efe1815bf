// SPDX-License-Identifier: GPL-2.0
//! Children, changes, resets and counters.

use super::*;

#[test]
fn a_child_comes_after_the_own_queue_and_before_unscheduled() {
    let mut b = Bench::new(shaped());
    b.put(Band::Data, 0);
    b.put(Band::Unscheduled, 2);
    b.port.set_grafted(true);
    let grafted = Bench::packet(1, 1514, 1);
    b.port.child_offered(grafted.meta());
    b.child.packets.push_back(grafted);
    b.port.child_offered(Bench::packet(9, 3028, 2).meta());
    b.port.child_refused(Bench::packet(9, 3028, 2).meta());
    let ids: Vec<_> = b.run(100_000).iter().map(|out| out.1).collect();
    assert_eq!(ids, [0, 1, 2]);
    let stats = b.port.stats(Band::Data);
    assert_eq!(
        (stats.offered_packets, stats.sent_packets, stats.refused),
        (4, 2, 2)
    );
    assert_eq!((stats.offered_bytes, stats.sent_bytes), (6056, 3028));
    assert_eq!((stats.sojourn_count, stats.max_packets), (1, 1));
}

#[test]
fn a_throttled_child_does_not_hold_up_what_is_below() {
    let mut b = Bench::new(shaped());
    b.port.set_grafted(true);
    b.child.packets.push_back(Bench::packet(0, 1514, 1));
    b.child.throttled = true;
    b.put(Band::Unscheduled, 1);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Unscheduled));
    assert_eq!(
        b.get(),
        Dequeue::Wait(Nanos(1231)),
        "the child may be ready by then"
    );
    b.at(1231);
    assert_eq!(b.get(), Dequeue::Empty);
    // Its packets' wait is no backlog of the link.
    b.at(900_000);
    b.child.throttled = false;
    b.child.packets.push_back(Bench::packet(2, 1514, 1));
    assert_eq!(b.run(1_000_000), [(900_000, 0), (901_231, 2)]);
}

#[test]
fn a_change_trims_the_oldest() {
    let mut b = Bench::new(Config {
        unscheduled: 2,
        ..PAPERS
    });
    for id in 0..4 {
        b.put(Band::Signal, id);
        b.put(Band::Data, 10 + id);
        b.put(Band::Token(0), 20 + id);
        b.put(Band::Token(5), 30 + id);
    }
    b.put(Band::Unscheduled, 40);
    b.change(Config {
        signal_limit: 2,
        data_limit: 3100,
        token_limit: 3,
        priorities: 5,
        unscheduled: 0,
        ..PAPERS
    });
    let mut trimmed: Vec<_> = b.drops.iter().map(|drop| drop.0).collect();
    trimmed.sort_unstable();
    assert_eq!(trimmed, [0, 1, 10, 11, 20, 30, 31, 32, 33, 40]);
    assert!(b.drops.iter().all(|drop| drop.2 == DropCause::Trimmed));
    assert_eq!(b.port.stats(Band::Token(5)).trimmed, 4);
    assert_eq!(b.port.stats(Band::Unscheduled).queued_packets, 0);
    let out: Vec<_> = b.run(10_000).iter().map(|out| out.1).collect();
    assert_eq!(out, [2, 3, 21, 12, 13, 22, 23]);
}

#[test]
fn a_change_to_what_is_queued_trims_nothing() {
    let mut b = Bench::new(PAPERS);
    b.put_all(Band::Data, 0..2);
    b.put_all(Band::Signal, 2..5);
    b.put_all(Band::Token(0), 5..9);
    b.change(Config {
        data_limit: 2 * 1514,
        signal_limit: 3,
        token_limit: 4,
        ..PAPERS
    });
    assert_eq!(b.drops, []);
    b.change(Config {
        data_limit: 2 * 1514 - 1,
        ..PAPERS
    });
    assert_eq!(b.drops, [(0, Band::Data, DropCause::Trimmed)]);
}

#[test]
fn a_change_takes_effect_at_once() {
    let mut b = Bench::new(Config {
        link: Some(125),
        ..PAPERS
    });
    b.put(Band::Data, 0);
    b.put(Band::Data, 1);
    b.put(Band::Token(0), 2);
    b.put(Band::Token(0), 3);
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Token(0)));
    // 84 B at 1 kbit/s; and at 5 % of it, 13 s for the next token.
    assert_eq!(b.get(), Dequeue::Wait(Nanos(672_000_000)));
    b.change(shaped());
    assert_eq!(b.port.config(), &shaped());
    assert_eq!(b.port.resolved().link, 10 * GBIT);
    // A frame's time, 1231, and a token's, 1298.
    assert_eq!(b.run(10_000), [(1231, 0), (2462, 3), (2529, 1)]);
    b.change(PAPERS);
    b.put(Band::Data, 4);
    assert_eq!(b.get(), Dequeue::Packet(4, Band::Data), "unshaped");
}

#[test]
fn the_device_speed_sets_the_rates_unless_the_link_is_given() {
    let mut b = Bench::new(PAPERS);
    b.port.note_link_speed(b.now, Some(GBIT));
    assert_eq!(b.port.resolved().token_rate.bytes_per_sec(), 6_473_489);
    b.port.note_link_speed(b.now, None);
    assert_eq!(b.port.resolved().link, GBIT);
    b.put(Band::Token(0), 0);
    b.put(Band::Token(0), 1);
    assert_eq!(b.run(20_000), [(0, 0), (12_977, 1)]);
    let mut b = Bench::new(shaped());
    b.port.note_link_speed(b.now, Some(GBIT));
    assert_eq!(b.port.resolved().link, 10 * GBIT);
}

#[test]
fn a_reset_drops_all_and_starts_anew() {
    let mut b = Bench::new(Config {
        link: Some(125),
        ..PAPERS
    });
    let bands = [
        Band::Signal,
        Band::Token(0),
        Band::Token(5),
        Band::Data,
        Band::Unscheduled,
    ];
    for (id, band) in (0..).zip(bands) {
        b.put(band, id);
    }
    b.get();
    b.get();
    b.port.reset(&mut b.drops);
    assert_eq!(b.drops.len(), 4);
    assert!(b.drops.iter().all(|drop| drop.2 == DropCause::Purged));
    assert!(b.port.is_empty());
    for band in bands {
        let stats = b.port.stats(band);
        assert_eq!(
            stats.offered_packets,
            stats.sent_packets + stats.purged,
            "{band}"
        );
        assert_eq!(b.port.queued(band), Queued::default());
    }
    assert_eq!(b.get(), Dequeue::Empty);
    b.put(Band::Token(0), 9);
    assert_eq!(
        b.get(),
        Dequeue::Packet(9, Band::Token(0)),
        "neither link nor group is busy"
    );
}

#[test]
fn sojourn_times_are_counted() {
    let mut b = Bench::new(shaped());
    b.put_all(Band::Data, 0..3);
    b.run(10_000);
    let stats = b.port.stats(Band::Data);
    assert_eq!((stats.sojourn_total, stats.sojourn_count), (1231 + 2461, 3));
    assert_eq!(
        (stats.sojourn_mean(), stats.sojourn_max),
        (Nanos(1230), 2461)
    );
}

#[test]
fn a_clock_that_runs_backwards_breaks_nothing() {
    let mut b = Bench::new(shaped());
    b.put(Band::Token(0), 0);
    b.put(Band::Token(0), 1);
    b.now = Nanos::ZERO;
    assert_eq!(b.get(), Dequeue::Wait(Nanos(0))); // 1 ms: when it was when the port began
    b.now = Nanos::MAX;
    assert_eq!(b.get(), Dequeue::Empty, "both have expired");
    b.put(Band::Data, 2);
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Data));
    assert_eq!(
        b.port.dequeue(b.now, &mut NoChild, &mut b.drops),
        Dequeue::Empty
    );
}

#[test]
fn lateness_beyond_the_slack_is_forfeited_and_counted() {
    for (jitter, slack) in [(0, 10_381), (50_000, 60_381)] {
        let mut b = Bench::new(Config {
            token_limit: 100,
            token_expiry: Expiry::Off,
            jitter: Nanos(jitter),
            ..PAPERS
        });
        let counted = |b: &Bench| {
            let stats = b.port.port_stats();
            (stats.slack_forfeits, stats.slack_forfeited)
        };
        b.put_all(Band::Token(0), 0..100);
        assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
        assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)));
        // As late as the slack allows.
        b.at(1298 + slack);
        assert_eq!(b.get(), Dequeue::Packet(1, Band::Token(0)));
        assert_eq!(counted(&b), (0, 0));
        while matches!(b.get(), Dequeue::Packet(..)) {}
        let Dequeue::Wait(due) = b.get() else {
            panic!("tokens are left");
        };
        // And 700 ns more.
        b.at(due.0 + slack + 700);
        assert!(matches!(b.get(), Dequeue::Packet(..)));
        assert_eq!(counted(&b), (1, 700));
        while matches!(b.get(), Dequeue::Packet(..)) {}
        assert_eq!(counted(&b), (1, 700));
    }
}

#[test]
fn a_link_that_was_idle_while_a_timer_was_late_makes_up_for_it() {
    let mut b = Bench::new(shaped());
    b.put_all(Band::Token(0), 0..8);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)));
    // Five are due by now, and go without a timer between them.
    b.at(7000);
    for id in 1..6 {
        assert_eq!(b.get(), Dequeue::Packet(id, Band::Token(0)));
    }
    assert_eq!(b.get(), Dequeue::Wait(Nanos(7786)));
    // A frame that finds an idle link starts a schedule of its own, tokens that are to come or not.
    b.at(7100);
    b.put_all(Band::Data, 10..12);
    assert_eq!(b.get(), Dequeue::Packet(10, Band::Data));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(8331)));
}

#[test]
fn the_floors_follow_the_speed() {
    let mut b = Bench::new(Config::DEFAULT);
    b.put_all(Band::Token(0), 0..103);
    assert_eq!(b.put(Band::Token(0), 103), Enqueue::Dropped);
    // Ten times the speed: ten times as many are due in 50 us.
    b.port.note_link_speed(b.now, Some(100 * GBIT));
    b.put_all(Band::Token(0), 103..450);
    assert_eq!(b.put(Band::Token(0), 450), Enqueue::Dropped);
    // And back: what is queued stays.
    b.port.note_link_speed(b.now, Some(10 * GBIT));
    assert_eq!(b.put(Band::Token(0), 451), Enqueue::Dropped);
    assert_eq!(b.port.queued(Band::Token(0)).packets, 450);
}

#[test]
fn a_token_that_was_asked_for_in_advance_expires_too() {
    let mut b = Bench::new(Config {
        token_expiry: Expiry::After(Nanos(1000)),
        ..PAPERS
    });
    let meta = Meta {
        enqueued: b.now,
        ..Bench::packet(0, 60, 1).meta()
    };
    b.put_all(Band::Token(3), 0..2);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(3)));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)), "the interval");
    b.at(1000);
    assert!(!b.port.recall(b.now, Band::Token(3), &meta));
    assert_eq!(b.port.stats(Band::Token(3)).sent_packets, 1);
    b.at(1001);
    assert!(b.port.recall(b.now, Band::Token(3), &meta));
    let stats = b.port.stats(Band::Token(3));
    assert_eq!(
        (stats.offered_packets, stats.sent_packets, stats.expired),
        (2, 0, 1)
    );
    assert_eq!((stats.sent_bytes, stats.dropped_bytes), (0, 60));
    assert_eq!((stats.sojourn_count, stats.sojourn_total), (1, 0));
    // Its turn is over all the same. (The other one has expired by now, too.)
    b.put(Band::Token(3), 2);
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)));
    b.at(1298);
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Token(3)));
    assert_eq!(b.get(), Dequeue::Empty);
    assert_eq!(b.port.stats(Band::Token(3)).expired, 2);
}

#[test]
fn nothing_but_tokens_expires_in_advance() {
    let mut b = Bench::new(Config {
        token_expiry: Expiry::After(Nanos(1000)),
        ..PAPERS
    });
    b.put(Band::Data, 0);
    let meta = Meta {
        enqueued: b.now,
        ..Bench::packet(0, 1514, 1).meta()
    };
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    b.at(1_000_000);
    assert!(!b.port.recall(b.now, Band::Data, &meta));
    b.port.purge_recalled(Band::Data, &meta);
    let stats = b.port.stats(Band::Data);
    assert_eq!(
        (stats.offered_packets, stats.sent_packets, stats.purged),
        (1, 0, 1)
    );
}
