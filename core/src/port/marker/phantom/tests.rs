// SPDX-License-Identifier: GPL-2.0
use super::*;
use std::vec::Vec;

const GBIT: u64 = 125_000_000;
/// A full frame on the wire, and what it takes at 1 Gbit/s.
const FRAME: u32 = 1538;
const FRAME_TIME: u64 = 12_304;

fn rate(bytes_per_sec: u64) -> Rate {
    Rate::from_bytes_per_sec(bytes_per_sec).unwrap()
}

/// On a link of 1 Gbit/s.
fn phantom(drain: Rate, mark: u32) -> Phantom {
    let mut phantom = Phantom::new(drain, Nanos(0));
    phantom.set(drain, rate(GBIT), mark, Nanos(0));
    phantom
}

/// HULL's: 950 Mbit/s, 1 KB (section 6, table 3).
fn hulls() -> Phantom {
    phantom(rate(118_750_000), 1000)
}

fn meta(wire_len: u32, segs: u32) -> Meta {
    Meta {
        wire_len,
        segs,
        ..Meta::default()
    }
}

fn frame() -> Meta {
    meta(FRAME, 1)
}

/// Which of `count` full frames, one every `gap` ns, are marked.
fn marked(phantom: &mut Phantom, gap: u64, count: u64) -> Vec<u64> {
    let marked = |n: &u64| phantom.leaves(Nanos(n * gap), &frame());
    (0..count).filter(marked).collect()
}

/// Section 2: it simulates the queue of a link at 95 %. At line rate it grows by 5 % of what
/// passes: 76.9 bytes a frame.
#[test]
fn hulls_figures() {
    // The 15th frame finds 14 x 76.9 = 1076.6 bytes, the one before it 999.7.
    let found: Vec<u64> = (14..40).collect();
    assert_eq!(marked(&mut hulls(), FRAME_TIME, 40), found);
    let mut phantom = hulls();
    for n in 0..14 {
        assert_eq!(phantom.backlog(Nanos(n * FRAME_TIME)), n * 769 / 10);
        phantom.leaves(Nanos(n * FRAME_TIME), &frame());
    }
    assert_eq!(phantom.max_backlog(), 13 * 769 / 10 + 1538);
    // It drains at 118.75 bytes every microsecond.
    let last = 13 * FRAME_TIME;
    assert_eq!(phantom.backlog(Nanos(last)), 999 + 1538);
    assert_eq!(phantom.backlog(Nanos(last + 8000)), 999 + 1538 - 950);
    assert_eq!(phantom.backlog(Nanos(last + 100_000)), 0);
}

/// "To set aggregate transmission rates to be strictly less than the link capacity": what stays
/// below the drain rate is not marked, however long; what is above it is, however little. At 95 % a
/// frame is due every 12951.58 ns.
#[test]
fn the_drain_rate_is_the_limit() {
    assert_eq!(marked(&mut hulls(), 12_952, 100_000), []);
    assert_eq!(hulls().max_backlog(), 0);
    // 0.06875 bytes more each: above 1000 after 14545.45 of them.
    let above = marked(&mut hulls(), 12_951, 20_000);
    assert_eq!((above[0], above.len() as u64), (14_546, 20_000 - 14_546));
}

/// Section 6.1: "the input rate into the PQ is limited to the line rate (because it's in series)",
/// so that "it takes longer for it to build up as the drain rate increases".
#[test]
fn a_higher_drain_rate_takes_longer_to_mark() {
    let first = |percent: u64| {
        let drain = rate(GBIT / 100 * percent);
        marked(&mut phantom(drain, 1000), FRAME_TIME, 200)[0]
    };
    // 1000 bytes in steps of 1538 x (1 - drain), the first of which exceeds it.
    assert_eq!([80, 90, 95, 99].map(first), [4, 7, 14, 66]);
    // At the link's own rate there is never more than the packet that leaves.
    assert_eq!(marked(&mut phantom(rate(GBIT), 0), FRAME_TIME, 10_000), []);
}

#[test]
fn above_means_more_than_the_threshold() {
    // A byte drains in 10 ns.
    let slow = rate(GBIT * 8 / 10);
    for (mark, at, expected) in [
        (538, 10_000, false),
        (537, 10_000, true),
        (538, 9_999, true),
        (0, 15_380, false),
        (0, 15_379, true),
    ] {
        let mut phantom = phantom(slow, mark);
        assert!(!phantom.leaves(Nanos(0), &frame()));
        assert_eq!(phantom.leaves(Nanos(at), &frame()), expected, "{mark} {at}");
    }
}

/// A super-packet is what its segments are, one after the other on the link.
#[test]
fn super_packets_count_as_their_segments() {
    for segs in [2, 5, 44] {
        let (mut whole, mut split) = (hulls(), hulls());
        let mut now = 0;
        for n in 0..6 {
            // A short last segment, and sometimes a pause.
            let last = [FRAME, 84, 700][n % 3];
            let len = (segs - 1) * FRAME + last;
            let any = (0..u64::from(segs)).fold(false, |any, at| {
                let len = if at == u64::from(segs - 1) {
                    last
                } else {
                    FRAME
                };
                split.leaves(Nanos(now + at * FRAME_TIME), &meta(len, 1)) || any
            });
            // The port knows only all of it: the last segment is taken for as long as the others.
            if last == FRAME {
                assert_eq!(whole.leaves(Nanos(now), &meta(len, segs)), any);
            } else {
                whole.leaves(Nanos(now), &meta(len, segs));
            }
            now += u64::from(segs) * FRAME_TIME + [0, 3000, 90_000][n % 3];
            assert_eq!(whole.backlog(Nanos(now)), split.backlog(Nanos(now)));
        }
    }
    // The 15th of 15 finds too much.
    assert!(!hulls().leaves(Nanos(0), &meta(14 * FRAME, 14)));
    assert!(hulls().leaves(Nanos(0), &meta(15 * FRAME, 15)));
}

#[test]
fn a_change_keeps_what_is_queued() {
    let mut phantom = hulls();
    phantom.leaves(Nanos(0), &meta(100_000, 1));
    phantom.set(rate(GBIT / 2), rate(GBIT), 5_000, Nanos(8_000));
    assert_eq!(phantom.backlog(Nanos(8_000)), 99_050);
    assert_eq!(phantom.backlog(Nanos(16_000)), 98_550);
    assert_eq!(phantom.max_backlog(), 100_000);
    assert!(phantom.leaves(Nanos(16_000), &frame()));
    phantom.set(rate(GBIT / 2), rate(GBIT), 200_000, Nanos(16_000));
    assert!(!phantom.leaves(Nanos(16_000), &frame()));
    phantom.reset();
    assert_eq!(phantom.backlog(Nanos(16_000)), 0);
    assert_eq!(phantom.max_backlog(), 98_550 + 2 * u64::from(FRAME));
}

#[test]
fn extremes_do_no_harm() {
    for drain in [rate(1), rate(Rate::MAX_BYTES_PER_SEC), rate(999_999_937)] {
        let mut phantom = phantom(drain, u32::MAX);
        for n in 0..100_000 {
            // Backwards, too.
            let now = Nanos(if n % 2 == 0 { 5 } else { 0 });
            phantom.leaves(now, &meta(u32::MAX, 1 + n % 3 * (u32::MAX / 2)));
        }
        assert!(phantom.leaves(Nanos(1), &meta(0, 1)) || drain.bytes_per_sec() > GBIT);
        assert!(phantom.max_backlog() >= u64::from(u32::MAX));
        if drain.bytes_per_sec() > GBIT {
            assert_eq!(phantom.backlog(Nanos::MAX), 0);
        }
        phantom.leaves(Nanos::MAX, &meta(u32::MAX, u32::MAX));
        phantom.leaves(Nanos::MAX, &meta(u32::MAX, 0));
    }
}
