// SPDX-License-Identifier: GPL-2.0
use super::*;

fn meta(len: u32, segs: u32) -> Meta {
    Meta {
        len,
        segs,
        ..Meta::default()
    }
}

#[test]
fn a_super_packet_counts_as_its_segments() {
    let mut stats = BandStats::default();
    for m in [meta(3000, 2), meta(100, 1)] {
        stats.offered(&m);
        stats.queued(&m);
    }
    assert_eq!((stats.offered_packets, stats.offered_bytes), (3, 3100));
    assert_eq!((stats.queued_packets, stats.queued_bytes), (3, 3100));
    stats.unqueued(&meta(3000, 2));
    stats.sent(&meta(3000, 2));
    assert_eq!((stats.queued_packets, stats.queued_bytes), (1, 100));
    assert_eq!((stats.sent_packets, stats.sent_bytes), (2, 3000));
    assert_eq!((stats.max_packets, stats.max_bytes), (3, 3100));
}

#[test]
fn drops_are_counted_by_cause() {
    let mut stats = BandStats::default();
    stats.lost(&meta(1, 1), DropCause::OverLimit);
    stats.lost(&meta(1, 2), DropCause::Expired);
    stats.lost(&meta(1, 4), DropCause::Trimmed);
    stats.lost(&meta(700, 8), DropCause::Purged);
    assert_eq!(
        (stats.over_limit, stats.expired, stats.trimmed, stats.purged),
        (1, 2, 4, 8)
    );
    assert_eq!((stats.dropped(), stats.dropped_bytes), (15, 703));
}

#[test]
fn the_mean_of_nothing_is_zero() {
    assert_eq!(BandStats::default().sojourn_mean(), Nanos::ZERO);
}

#[test]
fn mean_and_maximum_of_the_waits() {
    let mut stats = BandStats::default();
    for ns in [10, 30, 21] {
        stats.waited(Nanos(ns));
    }
    assert_eq!(stats.sojourn_mean(), Nanos(20));
    assert_eq!(stats.sojourn_max, 30);
    assert_eq!((stats.sojourn_total, stats.sojourn_count), (61, 3));
}

#[test]
fn a_sum_beyond_64_bits_keeps_the_mean() {
    let mut stats = BandStats::default();
    let century = Nanos(3_155_760_000_000_000_000);
    for _ in 0..1000 {
        stats.waited(century);
    }
    let mean = stats.sojourn_mean().0;
    assert!(mean.abs_diff(century.0) < century.0 / 10, "{mean}");
    assert!(stats.sojourn_count < 10);
    assert_eq!(stats.sojourn_max, century.0);
}
