// SPDX-License-Identifier: GPL-2.0
//! The bucket's rate follows HULL's equation 4, and packets leave when it says so, to the
//! nanosecond.

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::{option, stat, KIND};

use super::bench::{of, Bench, Flow, FULL, PACER, WIRE};
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u32, attribute_u64, Request, ROOT};

/// T_r, ns; eta; beta, 1/s; bytes/s to begin with; bytes of the bucket.
struct Law {
    interval: u64,
    eta: f64,
    beta: f64,
    initial: u64,
    bucket: f64,
}

/// Packets that come at one instant. The first is not paced.
struct Burst {
    at: u64,
    paced: usize,
}

/// A pacer's rate is a whole number of 1/256 bytes/s: it is less than two of them from what real
/// numbers give, or, after intervals without a packet, less than 16 of them. This is that, in
/// bytes/s.
const RATE_OFF: f64 = 16.0 / 256.0;

/// What is found when packets left at the times that are given.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// This packet should have left then, and did not.
    Wrong { packet: usize, due: u64 },
    /// All left when they should; for so many of them that could be one nanosecond or the next, for
    /// [`RATE_OFF`].
    Right { either: usize },
}

/// Follows equation 4 and a bucket in real numbers, interval by interval. Times are in ns since the
/// pacer was made.
///
/// Beside the tokens it knows how far the pacer's may be from them: by as much as the rate is, for
/// as long as the bucket was not full. So a packet may leave at one of two times where the time at
/// which it is due is that near to a nanosecond's end; the one that was seen is taken. The
/// difference does not grow from burst to burst, since a full bucket is full.
fn follow(law: &Law, bursts: &[Burst], seen: impl Fn(usize) -> Option<u64>) -> Found {
    let wire = WIRE as f64;
    let mut rate = law.initial as f64;
    let (mut tokens, mut tokens_off, mut clock, mut end) = (law.bucket, 0.0, 0_u64, law.interval);
    let (mut arrived, mut queue, mut packet, mut either) = (0, 0, 0, 0);
    let mut bursts = bursts.iter().peekable();
    loop {
        let missing = wire - tokens;
        let wait = (missing / rate).max(0.0);
        let off = (tokens_off + wait * RATE_OFF) / rate;
        let after = |seconds: f64| clock.saturating_add((seconds.max(0.0) * 1e9).ceil() as u64);
        let at_least = after(wait - off);
        let at_most = match missing + tokens_off {
            enough if enough <= 0.0 => clock,
            _ => after(wait + off),
        };
        let left = seen(packet);
        let due = match left {
            Some(left) if (at_least..=at_most).contains(&left) => left,
            _ => at_least,
        };
        let due = (queue > 0).then_some(due);
        // What happens at one instant, happens in this order.
        let burst = bursts.peek().map(|burst| burst.at);
        let at = [Some(end), burst, due].into_iter().flatten().min();
        let Some(at) = at.filter(|_| queue > 0 || burst.is_some()) else {
            return Found::Right { either };
        };
        let passed = (at - clock) as f64 / 1e9;
        tokens += rate * passed;
        tokens_off += RATE_OFF * passed;
        if tokens - tokens_off >= law.bucket {
            tokens_off = 0.0;
        }
        tokens = tokens.min(law.bucket);
        clock = at;
        if at == end {
            let sample = arrived as f64 * wire / law.interval as f64 * 1e9;
            rate = (1.0 - law.eta) * rate + law.eta * sample + law.beta * queue as f64 * wire;
            arrived = 0;
            end += law.interval;
        } else if Some(at) == burst {
            let paced = bursts.next().map_or(0, |burst| burst.paced);
            queue += paced;
            arrived += paced + 1;
        } else {
            if left != Some(at) {
                return Found::Wrong { packet, due: at };
            }
            either += usize::from(at_least != at_most);
            tokens -= wire;
            queue -= 1;
            packet += 1;
        }
    }
}

pub(super) fn is_followed(ctx: &mut Ctx) -> Result<()> {
    for (interval, eta, beta, initial, bucket) in [
        (64_000_u64, 125_000_000_u32, 16_u32, 125_000_000_u64, 3_072),
        (7_200, 125_000_000, 375, 1_250_000_000, 3_072),
        // Numbers that divide nothing evenly.
        (49_999, 333_333_333, 977, 12_345_678, 20_011),
    ] {
        let law = Law {
            interval,
            eta: f64::from(eta) / 1e9,
            beta: beta.into(),
            initial,
            bucket: f64::from(bucket),
        };
        let mut bench = Bench::bare()?;
        bench.quiet();
        bench.capture()?;
        let options = [
            attribute_u64(option::INTERVAL, interval),
            attribute_u32(option::ETA, eta),
            attribute_u32(option::BETA, beta),
            attribute_u32(option::BUCKET, bucket),
            attribute_u64(option::INITIAL_RATE64, initial),
            attribute_u32(option::ASSOCIATE, 1_000_000_000),
            attribute_u64(option::IDLE, 60_000_000_000),
            attribute_u32(option::LIMIT, 1 << 24),
        ]
        .concat();
        let not_before = clock::realtime();
        bench
            .tc
            .qdisc(Request::AddQdisc, ROOT, PACER, KIND, &options)?
            .success()?;
        let not_after = clock::realtime();
        let (paced, marker) = (Flow::v4(7), Flow::v4(8));
        bench.associate(&[paced])?;
        let counts = [90, 3, 200, 40];
        let mut sequence = 0;
        for (number, count) in (0..).zip(counts) {
            // The marker passes by, and so tells when this was.
            bench.send(marker, number, 1, FULL)?;
            bench.send(paced, sequence, count, FULL)?;
            sequence += count;
            std::thread::sleep(Duration::from_nanos(ctx.rng.range(300_000..=3_000_000)));
        }
        let arrivals = bench.arrivals()?;
        let times: Vec<u64> = of(&arrivals, paced)?.iter().map(|one| one.at).collect();
        let markers = of(&arrivals, marker)?;
        ensure!(
            times.len() == sequence as usize && markers.len() == counts.len(),
            "{} of {sequence} came",
            times.len()
        );
        // The kernel read the clock once between the two times that we did: at one of them all
        // times must be right.
        let as_if_made_at = |start: u64| {
            let bursts: Vec<Burst> = markers
                .iter()
                .zip(counts)
                .map(|(marker, count)| Burst {
                    at: marker.at - start,
                    paced: count as usize,
                })
                .collect();
            follow(&law, &bursts, |packet| {
                times.get(packet).map(|time| time - start)
            })
        };
        let mut furthest = (0, not_before, 0);
        let right = (not_before..=not_after).find_map(|start| match as_if_made_at(start) {
            Found::Right { either } => Some(either),
            Found::Wrong { packet, due } => {
                furthest = furthest.max((packet, start, start + due));
                None
            }
        });
        let Some(either) = right else {
            let (packet, start, due) = furthest;
            anyhow::bail!(
                "T_r {interval} ns: whenever the pacer was made, times are wrong; if at {start}, \
                 packet {packet} should have left at {due}, and left at {}",
                times.get(packet).copied().unwrap_or(0)
            )
        };
        ensure!(
            either * 20 <= times.len(),
            "what could be one nanosecond or the next proves little, and that were {either} packets"
        );
        ctx.note(format!(
            "T_r {interval} ns, eta {eta} ppb, beta {beta}: {sequence} packets left when they \
             should, {either} of them too near to the end of a nanosecond to tell; {} updates of \
             the rate",
            bench.stat(stat::UPDATES)?
        ));
    }
    Ok(())
}
