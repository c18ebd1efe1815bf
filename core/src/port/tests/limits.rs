// SPDX-License-Identifier: GPL-2.0
//! Expiry and caps.

use super::*;

#[test]
fn expired_tokens_are_dropped_and_cost_no_time() {
    let config = Config {
        token_expiry: Expiry::After(Nanos(2000)),
        ..PAPERS
    };
    let mut b = Bench::new(config);
    b.put_all(Band::Token(0), 0..3);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    b.at(1); // so that they do not all arrive at once
    b.put(Band::Token(1), 3);
    b.at(2001);
    // 1 and 2 have waited 2001 ns, 3 exactly 2000.
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Token(1)));
    assert_eq!(
        b.drops,
        [
            (1, Band::Token(0), DropCause::Expired),
            (2, Band::Token(0), DropCause::Expired)
        ]
    );
    assert_eq!(b.get(), Dequeue::Empty);
    let stats = b.port.stats(Band::Token(0));
    assert_eq!(
        (stats.sent_packets, stats.expired, stats.queued_packets),
        (1, 2, 0)
    );
    assert_eq!(b.port.stats(Band::Token(1)).sojourn_max, 2000);
}

#[test]
fn when_all_tokens_have_expired_data_goes() {
    for order in [Order::TokensFirst, Order::DataFirst] {
        let expiry = Expiry::After(Nanos(10));
        let mut b = Bench::new(Config {
            token_expiry: expiry,
            order,
            ..PAPERS
        });
        b.put(Band::Token(0), 0);
        b.at(11);
        b.put(Band::Unscheduled, 1);
        assert_eq!(b.get(), Dequeue::Packet(1, Band::Unscheduled));
        assert_eq!(b.get(), Dequeue::Empty);
        assert_eq!(b.drops, [(0, Band::Token(0), DropCause::Expired)]);
    }
}

#[test]
fn a_full_token_queue_makes_room_only_by_expiry() {
    let config = Config {
        token_expiry: Expiry::After(Nanos(2000)),
        token_limit: 2,
        ..PAPERS
    };
    let mut b = Bench::new(config);
    b.put(Band::Token(3), 0);
    b.at(100);
    b.put(Band::Token(3), 1);
    b.at(2000);
    assert_eq!(b.put(Band::Token(3), 2), Enqueue::Dropped);
    b.at(2001);
    assert_eq!(b.put(Band::Token(3), 3), Enqueue::Queued);
    let token = Band::Token(3);
    assert_eq!(
        b.drops,
        [
            (2, token, DropCause::OverLimit),
            (0, token, DropCause::Expired)
        ]
    );
    let stats = b.port.stats(token);
    assert_eq!(
        (stats.offered_packets, stats.over_limit, stats.expired),
        (4, 1, 1)
    );
    assert_eq!((stats.queued_packets, stats.max_packets), (2, 2));
}

#[test]
fn a_group_emptied_by_an_arrival_was_idle() {
    let config = Config {
        token_expiry: Expiry::After(Nanos(10)),
        token_limit: 1,
        ..PAPERS
    };
    let mut b = Bench::new(config);
    b.put(Band::Token(0), 0);
    b.at(1_000_000);
    b.put(Band::Token(0), 1); // 0 has expired
    b.put(Band::Token(1), 2);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1_001_298)));
}

#[test]
fn each_band_has_its_cap() {
    let config = Config {
        signal_limit: 2,
        data_limit: 3100,
        unscheduled: 1,
        token_limit: 3,
        ..PAPERS
    };
    let mut b = Bench::new(config);
    for (band, fit) in [
        (Band::Signal, 2),
        (Band::Data, 2),
        (Band::Unscheduled, 1),
        (Band::Token(5), 3),
    ] {
        for id in 0..5 {
            let verdict = if id < fit {
                Enqueue::Queued
            } else {
                Enqueue::Dropped
            };
            assert_eq!(b.put(band, id), verdict, "{band} {id}");
        }
        let stats = b.port.stats(band);
        assert_eq!(
            (stats.offered_packets, stats.over_limit),
            (5, u64::from(5 - fit)),
            "{band}"
        );
        assert_eq!(b.port.queued(band).packets, fit.into());
    }
    // 3028 + 72 bytes fit exactly.
    assert_eq!(b.put_sized(Band::Data, 9, 73, 1), Enqueue::Dropped);
    assert_eq!(b.put_sized(Band::Data, 9, 72, 1), Enqueue::Queued);
    assert_eq!(
        b.port.queued(Band::Data),
        Queued {
            packets: 3,
            bytes: 3100
        }
    );
}

#[test]
fn caps_count_the_segments_of_super_packets() {
    let mut b = Bench::new(Config {
        signal_limit: 10,
        ..PAPERS
    });
    assert_eq!(b.put_sized(Band::Signal, 0, 600, 11), Enqueue::Dropped);
    assert_eq!(b.put_sized(Band::Signal, 1, 600, 8), Enqueue::Queued);
    assert_eq!(b.put_sized(Band::Signal, 2, 600, 3), Enqueue::Dropped);
    assert_eq!(b.put_sized(Band::Signal, 3, 600, 2), Enqueue::Queued);
    let stats = b.port.stats(Band::Signal);
    assert_eq!(
        (
            stats.offered_packets,
            stats.over_limit,
            stats.queued_packets
        ),
        (24, 14, 10)
    );
}

#[test]
fn packets_of_bands_that_are_not_there_go_to_the_next() {
    let mut b = Bench::new(Config {
        priorities: 2,
        unscheduled: 0,
        ..PAPERS
    });
    b.put(Band::Unscheduled, 0);
    b.put(Band::Token(7), 1);
    assert_eq!(b.port.map_band(Band::Token(1)), Band::Token(1));
    assert_eq!(b.port.map_band(Band::Signal), Band::Signal);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Token(1)));
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    assert_eq!(b.port.stats(Band::Data).offered_packets, 1);
    assert_eq!(b.port.stats(Band::Unscheduled).offered_packets, 0);
}
