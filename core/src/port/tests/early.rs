// SPDX-License-Identifier: GPL-2.0
//! Data that no token asked for goes before other data, within bounds.

use super::*;

/// Puts data that no token asked for.
fn put_unasked(b: &mut Bench, id: u32) -> Enqueue {
    let packet = Bench::packet(id, 1514, 1);
    b.port
        .enqueue_at(b.now, Slot::UNASKED, packet, &mut b.drops)
}

/// The first bytes of long messages wait their turn: those of short ones would wait for them.
#[test]
fn what_is_unasked_of_long_messages_is_data_as_any_other() {
    let mut b = Bench::new(PAPERS);
    b.put(Band::Data, 1);
    let packet = Bench::packet(2, 1514, 1);
    let went = b
        .port
        .enqueue_at(b.now, Slot::UNASKED_LONG, packet, &mut b.drops);
    assert_eq!(went, Enqueue::Queued);
    b.put(Band::Data, 3);
    put_unasked(&mut b, 4);
    assert_eq!(order(&mut b), [4, 1, 2, 3]);
    assert_eq!(b.port.stats(Band::Data).sent_packets, 4);
}

fn order(b: &mut Bench) -> Vec<u32> {
    let mut ids = Vec::new();
    while let Dequeue::Packet(id, _) = b.get() {
        ids.push(id);
    }
    ids
}

#[test]
fn what_is_unasked_goes_after_tokens_and_before_data() {
    for (which, ids) in [
        (Order::TokensFirst, [1, 4, 2, 3]),
        (Order::DataFirst, [2, 4, 3, 1]),
    ] {
        let mut b = Bench::new(Config {
            order: which,
            ..PAPERS
        });
        b.put(Band::Data, 3);
        put_unasked(&mut b, if which == Order::TokensFirst { 4 } else { 2 });
        b.put(Band::Token(0), 1);
        if which == Order::DataFirst {
            // One passes the token that is due; then the token's turn comes, and the rest's.
            assert_eq!(order(&mut b), [2, 1, 3]);
            continue;
        }
        put_unasked(&mut b, 2);
        assert_eq!(order(&mut b), ids);
    }
}

/// No more than 64 KiB, and as much again as has left the other queue meanwhile. What is beyond
/// that is in the other queue, where it has its part of the other half.
#[test]
fn a_flood_of_it_leaves_half_to_the_other_queue() {
    let mut b = Bench::new(PAPERS);
    // 0: other data, of which there is always some. Thousands: unasked, of many flows.
    let mut sent = [0_u32; 2];
    for _ in 0..50 {
        b.put(Band::Data, 0);
    }
    for flow in 1..=1000 {
        put_unasked(&mut b, 1000 * flow);
        b.put(Band::Data, 0);
        let Dequeue::Packet(id, Band::Data) = b.get() else {
            panic!("nothing leaves");
        };
        sent[usize::from(id >= 1000)] += 1;
    }
    // Two thirds of what comes into the other queue is other data.
    assert!((333..=370).contains(&sent[0]), "{sent:?}");
    let stats = b.port.stats(Band::Data);
    assert_eq!(stats.offered_packets, 2050);
    assert_eq!(
        stats.offered_packets,
        stats.sent_packets + stats.queued_packets + stats.over_limit
    );
}

/// Both have one limit, and the counters of one band.
#[test]
fn both_queues_have_the_data_limit_together() {
    let mut b = Bench::new(Config {
        data_limit: 10 * 1514,
        ..PAPERS
    });
    for id in 0..6 {
        assert_eq!(put_unasked(&mut b, id), Enqueue::Queued);
    }
    b.put_all(Band::Data, 10..14);
    assert_eq!(b.put(Band::Data, 14), Enqueue::Dropped);
    assert_eq!(put_unasked(&mut b, 6), Enqueue::Dropped);
    assert_eq!(b.port.queued(Band::Data).packets, 10);
    let stats = b.port.stats(Band::Data);
    assert_eq!((stats.max_packets, stats.over_limit), (10, 2));
    // What left makes room for either.
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    assert_eq!(b.put(Band::Data, 15), Enqueue::Queued);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    assert_eq!(put_unasked(&mut b, 7), Enqueue::Queued);
    // A change leaves what there is room for: the oldest of other data go first.
    b.change(Config {
        data_limit: 7 * 1514,
        ..PAPERS
    });
    assert_eq!(order(&mut b), [2, 3, 4, 5, 7, 13, 15]);
    assert_eq!(b.port.stats(Band::Data).trimmed, 3);
}

/// A message whose first packets found no place there has its later ones go after them. Other
/// messages' go first all the same.
#[test]
fn a_message_does_not_overtake_itself() {
    let mut b = Bench::new(PAPERS);
    let short = |b: &mut Bench, id: u32, slot: Slot| {
        let early = b.port.lines[Slot::EARLY.index()].queued().packets;
        let packet = Bench::packet(id, 1514, 1);
        b.port.enqueue_at(b.now, slot, packet, &mut b.drops);
        b.port.lines[Slot::EARLY.index()].queued().packets > early
    };
    for _ in 0..40 {
        b.put(Band::Data, 0);
    }
    // 43 of 50 packets are 64 KiB; the others are behind 40.
    let burst = (0..50)
        .filter(|_| short(&mut b, 1000, Slot::UNASKED))
        .count();
    assert_eq!(burst, 43);
    for _ in 0..60 {
        assert!(matches!(b.get(), Dequeue::Packet(..)));
    }
    // Nor what no token asked for, if it comes now.
    assert!(!short(&mut b, 1000, Slot::UNASKED));
    assert!(!short(&mut b, 1000, Slot::SHORT));
    assert!(short(&mut b, 2000, Slot::SHORT));
    // Those of the other line, and the one that went early.
    for _ in 0..33 {
        assert!(matches!(b.get(), Dequeue::Packet(..)));
    }
    b.put(Band::Data, 0);
    assert!(short(&mut b, 1000, Slot::SHORT));
}

/// The longest super-packet of a short message goes before other data as well, but no second one
/// before as much has left.
#[test]
fn a_super_packet_longer_than_the_bound_goes_before_alone() {
    for (len, segs) in [(62_000, 41), (67_400, 45)] {
        let mut b = Bench::new(PAPERS);
        for id in 0..50 {
            b.put(Band::Data, id);
        }
        let put = |b: &mut Bench, id| {
            let packet = Bench::packet(id, len, segs);
            b.port.enqueue_at(b.now, Slot::SHORT, packet, &mut b.drops)
        };
        for id in [101, 102] {
            assert_eq!(put(&mut b, id), Enqueue::Queued);
        }
        let ids = order(&mut b);
        assert_eq!((ids[0], ids[51]), (101, 102), "{len}: {ids:?}");
    }
}
