// SPDX-License-Identifier: GPL-2.0
//! Who is busy has as much of the link as others who are, and of all that is nothing lost.

use super::*;

/// Keeps queues busy with packets of these lengths until `ns`, and gives the bytes on the wire that
/// each sent.
fn busy(group: &mut Group, lens: &[(u32, u32)], ns: u64) -> Vec<u64> {
    let mut id = 0;
    let mut sent = vec![0; lens.len()];
    let mut seen = 0;
    for at in (0..ns).step_by(2_000) {
        group.run(at);
        for (queue, &(len, segs)) in lens.iter().enumerate() {
            while group.ports[queue].data_bytes() < 200_000 {
                group.put_sized(queue, Band::Data, id, len, segs);
                id += 1;
            }
        }
        for &(_, queue, ..) in &group.left[seen..] {
            let (len, segs) = lens[queue];
            sent[queue] += u64::from(crate::queue::wire_len(len, segs, 24, 84));
        }
        seen = group.left.len();
    }
    sent
}

#[test]
fn bytes_are_shared_equally_whatever_the_packets() {
    for (config, turn) in [
        (shaped(), 1538),
        (
            Config {
                jitter: Nanos(50_000),
                ..shaped()
            },
            62_500,
        ),
    ] {
        let lens = [(60, 1), (1514, 1), (1514 * 8, 8), (700, 1)];
        let mut group = Group::new(lens.len(), config);
        let sent = busy(&mut group, &lens, 10_000_000);
        let all: u64 = sent.iter().sum();
        assert!(all >= 12_500_000 - 3 * turn, "{all} bytes in 10 ms");
        assert!(all <= 12_500_000 + 3 * turn, "{all} bytes in 10 ms");
        for bytes in &sent {
            let off = bytes.abs_diff(all / 4);
            assert!(off <= 2 * turn + 12_304, "{sent:?}");
        }
    }
}

/// With a timer for each packet at most, and not one for each queue.
#[test]
fn who_is_not_next_is_not_asked() {
    let mut group = Group::new(
        16,
        Config {
            jitter: Nanos(50_000),
            ..shaped()
        },
    );
    let lens = [(1514, 1); 16];
    busy(&mut group, &lens, 1_000_000);
    let asked_before = group.vain;
    let left = group.left.len();
    for id in 0..200 {
        for queue in 0..16 {
            group.ports[queue].enqueue(
                group.now,
                Band::Data,
                Bench::packet(id, 1514, 1),
                &mut group.drops,
            );
        }
    }
    group.run(2_000_000);
    let (asked, sent) = (group.vain - asked_before, group.left.len() - left);
    assert!(sent >= 800, "{sent}");
    assert!(asked <= 3 * sent as u64, "{asked} times for {sent} packets");
}

/// Who stops being busy leaves the link to the others at once.
#[test]
fn no_time_is_lost_when_somebody_has_no_more() {
    for jitter in [0, 50_000] {
        let mut group = Group::new(
            8,
            Config {
                jitter: Nanos(jitter),
                ..shaped()
            },
        );
        for queue in 0..8 {
            for id in 0..(20 * queue as u32 + 1) {
                group.put(queue, Band::Data, id);
            }
        }
        group.run(10_000_000);
        for (place, left) in (0..).zip(&group.left) {
            let due = (place * 12_304_u64).div_ceil(10);
            assert_eq!(left.0, due, "{place}: {left:?}, {jitter}");
        }
    }
}

/// What a child has goes as the port's own data, and its length is known.
#[test]
fn children_have_turns_as_well() {
    let mut group = Group::new(2, shaped());
    for queue in 0..2 {
        group.ports[queue].set_grafted(true);
        for id in 0..100 {
            let packet = Bench::packet(id, 1514, 1);
            group.ports[queue].child_offered(packet.meta());
            group.children[queue].push_back(packet);
        }
        group.ask(queue);
    }
    group.run(1_000_000);
    assert_eq!(group.left.len(), 200);
    for (place, left) in (0..).zip(&group.left) {
        assert_eq!(
            left.0,
            (place * 12_304_u64).div_ceil(10),
            "{place}: {left:?}"
        );
    }
    let stats = group.ports[0].stats(Band::Data);
    assert_eq!(
        (
            stats.offered_packets,
            stats.sent_packets,
            stats.queued_packets
        ),
        (100, 100, 0)
    );
    assert_eq!(stats.offered_bytes, stats.sent_bytes);
}

/// A rate that changes counts for all queues from then on, and what is queued stays.
#[test]
fn a_change_is_one_for_all() {
    let mut group = Group::new(4, shaped());
    for id in 0..200 {
        for queue in 0..4 {
            group.put(queue, Band::Data, id);
        }
    }
    group.run(100_000);
    let before = group.left.len() as u64;
    assert!((80..=83).contains(&before), "{before}");
    group.change(Config {
        link: Some(GBIT),
        tokens: Tokens::Share(50_000_000),
        ..shaped()
    });
    group.run(1_100_000);
    let then = group.left.len() as u64 - before;
    assert!((80..=83).contains(&then), "{then}");
    // Unshaped: all that is left goes at once.
    group.change(PAPERS);
    group.run(1_100_001);
    assert_eq!(group.left.len(), 800);
    assert!(group.drops.is_empty());
}

/// What came in unasked has its time once, whichever queue the tokens are in; and signals have one
/// share.
#[test]
fn what_was_not_asked_for_and_signals_count_once() {
    let mut group = Group::new(2, shaped());
    for queue in [0, 1] {
        group.put(queue, Band::Token(7), 0);
        group.put(queue, Band::Token(7), 1);
    }
    let (left, right) = group.ports.split_at_mut(1);
    let slot = Slot::new(Band::Token(7));
    let common = &mut group.common;
    let first = left[0].give_way_with(group.now, 60_000, slot, common);
    let again = right[0].give_way_with(group.now, 60_000 - first, slot, common);
    assert!(first > 0, "{first}");
    assert_eq!(again, 0, "the next token was put off already");
    let meta = Bench::packet(0, 60, 1).meta();
    let mut signals = 0;
    for port in left.iter_mut().chain(right) {
        while port.pay_with(group.now, &meta, || false, common) == Slot::SIGNAL {
            signals += 84;
        }
    }
    let once = 64 << 10;
    assert!(
        (once - 84..once + 3 * 4096).contains(&signals),
        "{signals} bytes at once"
    );
}

/// A device that went down and came up again owes nothing; while others are there, nothing changes.
#[test]
fn a_reset_of_all_forgets_what_was_sent() {
    let slow = Config {
        link: Some(1000),
        ..shaped()
    };
    let mut group = Group::new(2, slow);
    for queue in [0, 1] {
        group.put(queue, Band::Data, 0);
        group.put(queue, Band::Data, 1);
    }
    for (queue, sent) in [(0, 1), (1, 2)] {
        group.ports[queue].reset(&mut group.drops);
        group.common.reset(queue as u32);
        group.put(queue, Band::Data, 2);
        assert_eq!(group.left.len(), sent, "queue {queue}");
        group.ports[queue].reset(&mut group.drops);
        group.common.reset(queue as u32);
    }
}
