// SPDX-License-Identifier: GPL-2.0
//! The lengths of the messages that come to a host, and the priorities that follow from them.
//!
//! With strict priority a message waits for all that has its priority or a higher one, and the
//! messages of one priority take tokens from each other. So what shares a priority should be alike,
//! and be little: as the cutoffs of Homa (Montazeri et al., SIGCOMM 2018, section 3.4) these follow
//! from the load that each carries. But not the same for each: a message that is to take no longer
//! for others in proportion to its length should share with less, the shorter it is ([`PARTS`]).
//! With equal parts messages of 15 KB shared a priority with ones of 300 KB in the lab's web
//! search, and took up to eleven times as long as alone.
//!
//! Receivers learn apart from each other, and a few long messages decide about half of the load: of
//! two that know some dozens of messages each, one had a last priority from 2 MB on and the other
//! from 10 MB. Over a link that both come by one's message of 1.6 MB then waited for the other's of
//! 18 MB. So the cutoffs begin as those of two octaves each, for all alike, and move away from
//! these as more is known ([`PRIOR`]).
//!
//! Nor do receivers that know much agree if they get different messages. One that mostly gets short
//! ones gives its long ones the last priority. At a sender that also has messages of ten times that
//! length for a receiver that gets nothing else, these went first, and the first receiver's link
//! was idle until they had ended. So cutoffs stay near those of two octaves: above, all alike
//! ([`AWAY`]); below, the last ones ([`NEAREST`]), as equal messages of few packets go the shortest
//! first only if their priorities are as fine as they are short.
//!
//! A message sends its last packets, of which no more than `T` are left then, with the priority of
//! `T`: together those of all messages are the sum of `min(length, T)`.

use core::num::NonZeroU64;

use super::priority::OCTAVES;
use super::PriorityFunction;
use crate::transport::wire::MAX_PRIORITY;

/// Four for each octave, up to 2^20 packets of 1024 bytes: the longest message that there is.
const BUCKETS: usize = 84;
const PER_OCTAVE: u32 = 4;
/// The load that the first priority carries, that the first two carry, and so on, of [`WHOLE`].
const PARTS: [u64; MAX_PRIORITY as usize] = [1, 3, 7, 14, 24, 36, 49];
const WHOLE: u64 = 64;
/// The cutoffs are worked out once so many messages have ended.
const EACH: u32 = 32;
/// The cutoffs of two octaves weigh as much as so many messages.
const PRIOR: u64 = 64;
/// A cutoff is at most so many times that of two octaves.
const AWAY: u64 = 8;
/// And at least this, packets: the last one an eighth of that of two octaves.
const NEAREST: [u64; MAX_PRIORITY as usize] = [1, 2, 6, 24, 128, 1024, 4096];
/// When so many messages are known, each counts for a half from then on: what was long ago counts
/// little.
const MOST: u32 = 4096;

/// How long messages were.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Messages of so many packets.
    counts: [u32; BUCKETS],
    all: u32,
    /// Messages since the cutoffs were worked out.
    since: u32,
}

/// 1/256 octaves: the logarithm of so many packets, not 0, as if it were straight in between.
fn log(packets: u64) -> u64 {
    let octave = packets.max(1).ilog2();
    let part = packets.wrapping_shl(63_u32.wrapping_sub(octave)) >> 55;
    u64::from(octave).wrapping_shl(8) | (part & 0xff)
}

/// What [`log`] is of.
fn exp(log: u64) -> u64 {
    let octave = (log >> 8).min(48) as u32;
    (0x100 | (log & 0xff)).wrapping_shl(octave) >> 8
}

/// The bucket of a length in packets.
fn bucket(packets: u32) -> usize {
    let packets = packets.max(1);
    let octave = packets.ilog2();
    // The two bits behind the first one.
    let part = match octave {
        0 => 0,
        1 => (packets & 1) << 1,
        _ => packets.wrapping_shr(octave.wrapping_sub(2)) & 3,
    };
    let index = octave.saturating_mul(PER_OCTAVE).saturating_add(part);
    (index as usize).min(BUCKETS - 1)
}

/// The packets that messages of a bucket are taken to have: at its middle.
fn packets_of(bucket: usize) -> u64 {
    let (octave, part) = ((bucket as u32) / PER_OCTAVE, (bucket as u32) % PER_OCTAVE);
    // In eighths of the octave's beginning.
    let eighths = u64::from(part).saturating_mul(2).saturating_add(9);
    if octave < 2 {
        return match (octave, part) {
            (0, _) => 1,
            (_, part) if part < 2 => 2,
            _ => 3,
        };
    }
    eighths.wrapping_shl(octave) / 8
}

impl Lengths {
    pub(crate) const fn new() -> Self {
        Self {
            counts: [0; BUCKETS],
            all: 0,
            since: 0,
        }
    }

    /// A message of so many packets has come. `true`: it is time for other cutoffs.
    pub(crate) fn note(&mut self, packets: u32) -> bool {
        if self.all >= MOST {
            self.all = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.all = self.all.saturating_add(*count);
            }
        }
        if let Some(count) = self.counts.get_mut(bucket(packets)) {
            *count = count.saturating_add(1);
            self.all = self.all.saturating_add(1);
        }
        self.since = self.since.saturating_add(1);
        let due = self.since >= EACH;
        if due {
            self.since = 0;
        }
        due
    }

    /// The priorities by which each carries its part of the load, the more messages are known.
    /// Before enough have come: those for all lengths alike.
    pub(crate) fn priorities(&self) -> PriorityFunction {
        let counts = || (0..BUCKETS).zip(&self.counts);
        let load =
            |(bucket, count): (usize, &u32)| packets_of(bucket).saturating_mul((*count).into());
        let all: u64 = counts().map(load).fold(0, u64::saturating_add);
        let Some(_) = NonZeroU64::new(all).filter(|_| self.all >= EACH) else {
            return PriorityFunction::octaves();
        };
        let mut cutoffs = [u64::MAX; MAX_PRIORITY as usize];
        let mut next = cutoffs.iter_mut().zip(PARTS).peekable();
        // Of messages in the buckets before: their packets; and how many messages are longer.
        let (mut below, mut longer) = (0_u64, u64::from(self.all));
        for (bucket, count) in counts() {
            let packets = packets_of(bucket);
            while let Some((cutoff, part)) = next.peek_mut() {
                let goal = all.saturating_mul(*part) / WHOLE;
                if below.saturating_add(packets.saturating_mul(longer)) < goal {
                    break;
                }
                // below + cutoff x longer = goal
                let rest =
                    NonZeroU64::new(longer).map(|longer| goal.saturating_sub(below) / longer);
                **cutoff = rest.unwrap_or(packets);
                next.next();
            }
            below = below.saturating_add(load((bucket, count)));
            longer = longer.saturating_sub((*count).into());
        }
        let known = u64::from(self.all);
        let weight = NonZeroU64::new(known.saturating_add(PRIOR)).unwrap_or(NonZeroU64::MIN);
        for ((cutoff, octaves), least) in cutoffs.iter_mut().zip(OCTAVES).zip(NEAREST) {
            let learned = log(*cutoff).saturating_mul(known);
            let both = log(octaves).saturating_mul(PRIOR).saturating_add(learned);
            let most = octaves.saturating_mul(AWAY);
            // Not `clamp`, which panics if its bounds are the wrong way round.
            *cutoff = exp(both / weight).max(least).min(most);
        }
        PriorityFunction::cut(&cutoffs)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::transport::jitter::Rng;
    use std::vec::Vec;

    #[test]
    fn buckets_are_in_order_and_hold_their_lengths() {
        let mut last = 0;
        for packets in 1..100_000 {
            let at = bucket(packets);
            assert!(at == last || at > last && at - last <= 4, "{packets}: {at}");
            last = at;
            let middle = packets_of(at) as f64;
            assert!(
                (middle / f64::from(packets) - 1.0).abs() < 0.26,
                "{packets}"
            );
        }
        assert_eq!(bucket(u32::MAX), BUCKETS - 1);
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn each_priority_carries_its_part_of_the_load() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut lengths = Lengths::new();
            let mut all = Vec::new();
            for _ in 0..MOST {
                // From 1 to some ten thousands, of all magnitudes.
                let packets = 1 + (rng.next_u64() % (1 << (rng.next_u64() % 16))) as u32;
                lengths.note(packets);
                all.push(u64::from(packets));
            }
            let function = lengths.priorities();
            let mut loads = [0.0; 8];
            for length in &all {
                for left in 1..=*length {
                    loads[usize::from(function.of(left))] += 1.0;
                }
            }
            let whole: f64 = loads.iter().sum();
            let mut sum = 0.0;
            for (upto, load) in PARTS.iter().zip(loads) {
                sum += load / whole;
                let part = *upto as f64 / WHOLE as f64;
                assert!((sum - part).abs() < 0.02, "{seed}: {sum} instead of {part}");
            }
        }
    }

    #[test]
    fn with_few_messages_all_magnitudes_are_apart() {
        let mut lengths = Lengths::new();
        for _ in 1..EACH {
            assert!(!lengths.note(1000));
        }
        assert_eq!(lengths.priorities(), PriorityFunction::octaves());
        assert!(lengths.note(1000));
        assert_ne!(lengths.priorities(), PriorityFunction::octaves());
    }

    /// Two receivers of the same load that know some dozens of messages, one of them the longest by
    /// far: their cutoffs are within two octaves of each other.
    #[test]
    fn two_that_know_little_do_not_differ_much() {
        let both = [None, Some(16_000)].map(|longest| {
            let mut lengths = Lengths::new();
            for packets in (0..40).map(|n| 1 << (n % 11)).chain(longest) {
                lengths.note(packets);
            }
            lengths.priorities()
        });
        for octave in 0..20 {
            let [one, other] = both.map(|function| function.of(1 << octave));
            assert!(one.abs_diff(other) <= 1, "{octave}: {one}, {other}");
        }
    }

    #[test]
    fn logarithms_are_undone() {
        for packets in (1..1000).chain([1 << 20, (1 << 22) - 1, u64::MAX]) {
            let back = exp(log(packets));
            let most = packets.min(1 << 49);
            assert!(
                back <= most && back >= most - most / 128,
                "{packets}: {back}"
            );
        }
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let mut lengths = Lengths::new();
        for _ in 0..MOST {
            lengths.note(1);
        }
        assert_eq!(lengths.priorities().of(7000), 7);
        for _ in 0..3 * MOST {
            lengths.note(10_000);
        }
        // 49/64 of their load are in the last 7656 packets.
        let function = lengths.priorities();
        assert_eq!([7000, 9000].map(|left| function.of(left)), [6, 7]);
    }

    /// One knows short messages alone, and the other long ones alone: what is 256 times as long
    /// never goes first.
    #[test]
    fn two_that_know_different_lengths_do_not_differ_much() {
        let [short, long] = [1, 100_000].map(|packets| {
            let mut lengths = Lengths::new();
            for _ in 0..MOST {
                lengths.note(packets);
            }
            lengths.priorities()
        });
        for packets in 1..10_000 {
            let (one, other) = (short.of(packets), long.of(256 * packets));
            assert!(one <= other, "{packets}: {one}, {other}");
        }
    }

    #[test]
    fn any_lengths_give_priorities_in_order() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut lengths = Lengths::new();
            for _ in 0..rng.next_u64() % 300 {
                lengths.note((rng.next_u64() >> (32 + rng.next_u64() % 32)) as u32);
            }
            let function = lengths.priorities();
            let mut last = 0;
            for shift in 0..64 {
                let priority = function.of(1 << shift);
                assert!(priority >= last && priority <= MAX_PRIORITY);
                last = priority;
            }
        }
    }
}
