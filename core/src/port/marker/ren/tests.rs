// SPDX-License-Identifier: GPL-2.0
use super::*;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

/// 1 Gbit/s: a full frame takes 12304 ns.
const SLOT: u64 = 12_304;

fn gbit() -> Rate {
    Rate::from_bytes_per_sec(125_000_000).unwrap()
}

/// A marker whose sampling period is so many full frames.
fn ren(frames: u64, now: u64) -> Ren {
    Ren::new(NonZeroU64::new(frames * SLOT).unwrap(), gbit(), Nanos(now))
}

/// A switch's output port on which packets take a slot each, with the marker at its end.
struct Port {
    ren: Ren,
    queue: VecDeque<&'static str>,
    marks: BTreeMap<&'static str, u8>,
    left: Vec<&'static str>,
}

impl Port {
    /// The link has been busy until now, at slot 100.
    fn new(frames: u64) -> Self {
        let mut ren = ren(frames, 99 * SLOT);
        ren.passes(Nanos(99 * SLOT), FRAME_WIRE_LEN);
        Self {
            ren,
            queue: VecDeque::new(),
            marks: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    /// In each slot these packets arrive, and then the first that waits leaves; `came` has the
    /// marks of those that have one.
    fn run(&mut self, slots: &[&[&'static str]], came: &BTreeMap<&'static str, u8>) {
        let last = slots.len() + 10;
        for slot in 0..last {
            self.queue.extend(slots.get(slot).copied().unwrap_or(&[]));
            let Some(packet) = self.queue.pop_front() else {
                continue;
            };
            let now = Nanos((100 + slot as u64) * SLOT);
            self.ren.passes(now, FRAME_WIRE_LEN);
            let mark = self.ren.judge(now, self.queue.len() as u64);
            self.ren.gave(mark, 1);
            let before = came.get(packet).copied().unwrap_or(UNDER);
            self.marks.insert(packet, mark.max(before));
            self.left.push(packet);
        }
    }
}

fn marks(port: &Port, names: &[&'static str]) -> Vec<u8> {
    names.iter().map(|name| port.marks[name]).collect()
}

/// Fig. 5: H0 and H1 start at line rate and send two packets each, at the same time. A1 and B1 are
/// marked.
#[test]
fn figure_5() {
    let mut port = Port::new(8);
    port.run(&[&["A1", "B1"], &["A2", "B2"]], &BTreeMap::new());
    assert_eq!(port.left, ["A1", "B1", "A2", "B2"]);
    assert_eq!(
        marks(&port, &["A1", "B1", "A2", "B2"]),
        [OVER, OVER, FULL, FULL]
    );
}

/// Fig. 6: between A3, A4 and A5 two more packets would fit. A4 and A5 are left under-utilized, so
/// that five packets fill the next round.
#[test]
fn figure_6() {
    let mut port = Port::new(8);
    port.run(&[&["A3"], &[], &["A4"], &[], &["A5"]], &BTreeMap::new());
    assert_eq!(marks(&port, &["A3", "A4", "A5"]), [FULL, UNDER, UNDER]);
}

/// Fig. 7: three ports on a path; the highest mark stays.
#[test]
fn figure_7() {
    // S0: P1 comes right after what was before, P2 after a gap.
    let mut s0 = Port::new(8);
    s0.run(&[&["P1"], &[], &["P2"]], &BTreeMap::new());
    assert_eq!(marks(&s0, &["P1", "P2"]), [FULL, UNDER]);
    // S1: P3 fills the gap.
    let mut s1 = Port::new(8);
    s1.run(&[&["P1"], &["P3"], &["P2"]], &s0.marks);
    assert_eq!(marks(&s1, &["P1", "P2", "P3"]), [FULL, FULL, FULL]);
    // S2: P4 comes from another port, together with P2, of which one has to wait.
    let mut s2 = Port::new(8);
    s2.run(&[&["P1"], &["P3"], &["P2", "P4"]], &s1.marks);
    assert_eq!(s2.left, ["P1", "P3", "P2", "P4"]);
    assert_eq!(
        marks(&s2, &["P1", "P2", "P3", "P4"]),
        [FULL, OVER, FULL, FULL]
    );
}

/// Section 3.2.3: what counts is ql - ti. A queue that forms after gaps is less than it seems, gaps
/// after a queue are.
#[test]
fn queue_and_gaps_are_set_off_against_each_other() {
    let mut port = Port::new(16);
    // Two slots idle, then five packets at once.
    port.run(
        &[&["A"], &[], &[], &["B", "C", "D", "E", "F"]],
        &BTreeMap::new(),
    );
    // ql is 4, 3, 2, 1, 0 and ti 2: two over at first, then even, then under.
    assert_eq!(
        marks(&port, &["A", "B", "C", "D", "E", "F"]),
        [FULL, OVER, FULL, FULL, UNDER, UNDER]
    );
}

/// Flows over one bottleneck: each packet comes back a round trip later as none, one or two, by its
/// mark. How many packets wait at the end of each round, and how many left in it.
fn rounds(frames: u64, bursts: &[u64], ends: &[(usize, u64)], rounds: u64) -> Vec<(usize, u64)> {
    let mut arriving: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (flow, start) in bursts.iter().enumerate() {
        for n in 0..frames {
            arriving.entry(start + n).or_default().push(flow);
        }
    }
    let mut ren = ren(frames, 0);
    let (mut queue, mut seen, mut sent) = (VecDeque::new(), Vec::new(), 0);
    for slot in 0..rounds * frames {
        queue.extend(arriving.remove(&slot).unwrap_or_default());
        if let Some(flow) = queue.pop_front() {
            sent += 1;
            let now = Nanos(slot * SLOT);
            ren.passes(now, FRAME_WIRE_LEN);
            let mark = ren.judge(now, queue.len() as u64);
            ren.gave(mark, 1);
            let over = ends.iter().any(|&(end, at)| end == flow && slot >= at);
            let triggers = match mark {
                _ if over => 0,
                OVER => 0,
                FULL => 1,
                _ => 2,
            };
            let back = arriving.entry(slot + frames).or_default();
            back.extend(vec![flow; triggers]);
        }
        if slot % frames == frames - 1 {
            seen.push((queue.len(), sent));
            sent = 0;
        }
    }
    seen
}

/// Equations (1) and (3): m flows that start together leave a queue of m - 1 bandwidth-delay
/// products, which is one less each round; the link stays full ("without degradation of link
/// utilization").
#[test]
fn a_burst_drains_by_one_bandwidth_delay_product_a_round() {
    for frames in [4, 10, 40] {
        for flows in 2..=5 {
            let mut starts = vec![0];
            starts.extend(vec![3 * frames; flows - 1]);
            let seen = rounds(frames, &starts, &[], 16);
            for (round, &(queue, sent)) in seen.iter().enumerate() {
                let waits = match round {
                    0..=2 => 0,
                    _ => (flows + 2).saturating_sub(round) * frames as usize,
                };
                // Marks under way are counted in whole packets.
                assert!(
                    queue <= waits + 1 && queue + 1 >= waits,
                    "{flows} flows of {frames}, round {round}: {queue} packets wait, not {waits}"
                );
                assert!(
                    sent + 1 >= frames,
                    "{flows} flows of {frames}, round {round}: {sent} packets left"
                );
            }
        }
    }
}

/// That does not depend on when in a sampling period the burst comes.
#[test]
fn a_burst_drains_whenever_it_comes() {
    const FRAMES: u64 = 40;
    for flows in 2..=5 {
        for phase in 0..FRAMES {
            let mut starts = vec![0];
            starts.extend(vec![3 * FRAMES + phase; flows - 1]);
            let seen = rounds(FRAMES, &starts, &[], 20);
            // It comes in round 3, and in round 4 if not at the beginning.
            let empty = &seen[4 + flows..];
            assert!(
                empty
                    .iter()
                    .all(|&(queue, sent)| queue <= 1 && sent + 1 >= FRAMES),
                "{flows} flows, {phase} slots late: {seen:?}"
            );
        }
    }
}

/// Equation (6): when flows leave, the others double what they send until the link is full.
#[test]
fn what_others_leave_is_taken_in_the_rounds_of_equation_6() {
    const FRAMES: u64 = 40;
    for flows in [2_usize, 4, 5] {
        let ends: Vec<(usize, u64)> = (1..flows).map(|flow| (flow, 12 * FRAMES)).collect();
        let seen = rounds(FRAMES, &vec![0; flows], &ends, 24);
        // In round 12 the last packets of the others leave.
        let rest = seen[13].1;
        let mut needed = 1;
        while rest << needed < FRAMES {
            needed += 1;
        }
        // So much comes in that round; in bunches, as two packets follow one grant, so that some of
        // it may wait for the next.
        let (queue, sent) = seen[13 + needed];
        let (_, next) = seen[14 + needed];
        assert!(
            (sent + queue as u64) * 100 >= FRAMES * 95 && next * 100 >= FRAMES * 95,
            "{flows} flows, {rest} packets left: after {needed} rounds {seen:?}"
        );
        assert!(seen[20..]
            .iter()
            .all(|&(queue, sent)| queue <= 2 && sent + 2 >= FRAMES));
    }
}

/// Whenever flows start, no round is so full of marks that nothing is left to go round.
#[test]
fn no_start_stops_everything() {
    const FRAMES: u64 = 12;
    for second in 0..3 * FRAMES {
        for third in 0..3 * FRAMES {
            let seen = rounds(FRAMES, &[0, second, third], &[], 20);
            assert!(
                seen[1..].iter().all(|&(_, sent)| sent * 2 >= FRAMES)
                    && seen[12..]
                        .iter()
                        .all(|&(queue, sent)| queue <= 3 && sent + 3 >= FRAMES),
                "starts at 0, {second}, {third}: {seen:?}"
            );
        }
    }
}

/// A flow that starts at full rate on an idle link is not told to double it; one that sends a
/// packet in a round is.
#[test]
fn what_an_idle_link_says() {
    let seen = rounds(10, &[35], &[], 10);
    assert_eq!(seen[3], (0, 5));
    assert!(seen[4..]
        .iter()
        .all(|&(queue, sent)| queue <= 1 && sent >= 9));
    for gap in [5, 9, 10, 11, 15, 25, 1000] {
        let mut ren = ren(10, 0);
        for n in 1..20 {
            let now = Nanos(n * (gap + 1) * SLOT);
            ren.passes(now, FRAME_WIRE_LEN);
            let mark = ren.judge(now, 0);
            ren.gave(mark, 1);
            assert_eq!(mark, UNDER, "packet {n} after {gap} slots");
        }
    }
}

/// Only what leaves the link idle is a gap: other bands' packets, short ones, and rounding are
/// none.
#[test]
fn a_busy_link_has_no_gaps() {
    // A token of 84 bytes after each frame; 12976 ns together.
    let mut ren = ren(8, 0);
    ren.passes(Nanos(0), 84);
    let mut now = 672;
    for _ in 0..10_000 {
        ren.passes(Nanos(now), FRAME_WIRE_LEN);
        assert_eq!(ren.judge(Nanos(now), 0), FULL);
        ren.passes(Nanos(now + SLOT), 84);
        now += SLOT + 672;
    }
    // At 400 Gbit/s a frame takes 30.76 ns: whole nanoseconds, as a port sends them.
    let link = Rate::from_bytes_per_sec(50_000_000_000).unwrap();
    let mut ren = Ren::new(NonZeroU64::new(10_000).unwrap(), link, Nanos(0));
    for n in 0..100_000_u64 {
        let now = Nanos((n * 3076).div_ceil(100));
        ren.passes(now, FRAME_WIRE_LEN);
        assert_eq!(ren.judge(now, 0), FULL, "packet {n}");
        assert_eq!(ren.last_period(now).idle, Nanos::ZERO);
    }
}

/// Gaps of less than a packet add up, exactly.
#[test]
fn small_gaps_add_up() {
    // A tenth of a frame after each: of ten frames the tenth finds room for one.
    let mut ren = ren(100, 0);
    let mut unders = 0;
    for n in 0..=80_u64 {
        let now = Nanos((n * SLOT * 11).div_ceil(10));
        ren.passes(now, FRAME_WIRE_LEN);
        let mark = ren.judge(now, 0);
        ren.gave(mark, 1);
        unders += u64::from(mark == UNDER);
        assert_eq!(unders, n / 10, "packet {n}");
    }
}

#[test]
fn a_change_keeps_what_was_measured() {
    let mut ren = ren(8, 0);
    ren.passes(Nanos(0), FRAME_WIRE_LEN);
    ren.passes(Nanos(3 * SLOT), FRAME_WIRE_LEN);
    assert_eq!(ren.judge(Nanos(3 * SLOT), 1), UNDER);
    assert_eq!(ren.judge(Nanos(3 * SLOT), 2), FULL);
    ren.set(NonZeroU64::new(100 * SLOT).unwrap(), gbit());
    assert_eq!(ren.judge(Nanos(3 * SLOT), 1), UNDER);
    // On a link of half the rate it is one packet.
    ren.set(
        NonZeroU64::new(100 * SLOT).unwrap(),
        Rate::from_bytes_per_sec(62_500_000).unwrap(),
    );
    assert_eq!(ren.judge(Nanos(3 * SLOT), 0), UNDER);
    assert_eq!(ren.judge(Nanos(3 * SLOT), 1), FULL);
    ren.reset();
    assert_eq!(ren.judge(Nanos(3 * SLOT), 0), FULL);
}

#[test]
fn extremes_do_no_harm() {
    for period in [1, 1_000, 1_000_000_000, u64::MAX] {
        for rate in [1, 125_000_000, Rate::MAX_BYTES_PER_SEC] {
            let link = Rate::from_bytes_per_sec(rate).unwrap();
            let mut ren = Ren::new(NonZeroU64::new(period).unwrap(), link, Nanos(7));
            for now in [0, u64::MAX, 5, u64::MAX - 1, u64::MAX] {
                for queue in [0, 1, u64::MAX] {
                    ren.passes(Nanos(now), u32::MAX);
                    let mark = ren.judge(Nanos(now), queue);
                    ren.gave(mark, u32::MAX);
                    ren.gave(OVER, u32::MAX);
                }
            }
        }
    }
}
