// SPDX-License-Identifier: GPL-2.0
//! Bursts of flows that join one on its bottleneck and leave (REN fig. 3 and 11).

use anyhow::Result;
use serde_json::Value;
use turnstile_test_protocol::lab::{Plot, SetUpLines, Style, Table};

use super::report::{number, rounded, thinned};
use super::{Experiment, Lab};
use crate::scenario::bursts::{run as measure, Burst, Outcome, BDP, RATE, RTT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ren-burst",
    title:
        "bursts of 1 to 4 flows come and go: the queue, and what the flow that was there before \
            gets",
    source: "REN fig. 3 and 11; equations (1) and (3): m flows that begin at line rate leave m \
             bandwidth-delay products in the queue of a full link, which carries one \
             each round; equation (6): the rounds until the link is full again",
    run,
};

/// Flows of a burst.
const COUNTS: [usize; 4] = [1, 2, 3, 4];
/// Bursts in a run, each at a random time of the port's sampling period. The worst is shown, unless
/// it says that it is the mean.
const BURSTS: usize = 3;
/// A queue of fewer packets counts as empty.
const EMPTY: u64 = 2;
/// A flow with this part of the link counts as having all of it.
const FULL: f64 = 0.95;
/// Round trips over which the first flow's share beside a burst is taken.
const MEAN: u64 = 10;
/// Round trips by which an equation may be missed: equations count whole rounds, and trains of
/// packets begin anywhere in them.
const ROUNDING: f64 = 0.125;
/// Buffer of the ports without marks, bytes of data.
const BUFFER: u64 = 1_000_000;
/// Bytes of a full frame, as tc counts.
const FRAME: u64 = 1514;

/// Equation (6): rounds until a flow that has this part of a link has all of it.
fn rounds(share: f64) -> u64 {
    let (mut rounds, mut has) = (1, 2.0 * share);
    // Less than one packet per round cannot double.
    while has < 1.0 && rounds < 64 {
        has *= 2.0;
        rounds += 1;
    }
    rounds
}

/// A time in round trips, or "never".
fn trips(time: Option<u64>) -> f64 {
    time.map_or(f64::INFINITY, |time| time as f64 / RTT as f64)
}

/// For a table.
fn in_trips(trips: f64) -> Value {
    match trips.is_finite() {
        true => number(trips, 2),
        false => "never".into(),
    }
}

/// The result of a run: the worst of its bursts, and what they come to on average.
struct Worst {
    /// Packets.
    longest: u64,
    /// Round trips: the worst, and the mean.
    drained: f64,
    mean_drained: f64,
    /// Packets, once it is drained.
    afterwards: u64,
    /// Packets, on average, from the second round on.
    mean: f64,
    /// The first flow's part of the link beside the burst.
    share: f64,
    /// Round trips.
    recovered: f64,
    /// Equation (6)'s value, and whether all bursts kept to it within [`ROUNDING`].
    rounds: u64,
    in_time: bool,
}

impl Worst {
    /// Of bursts of so many flows.
    fn of(outcome: &Outcome, flows: u64) -> Self {
        // The paper's: all have the same.
        let fair = 1.0 / (flows + 1) as f64;
        let mut worst = Self {
            longest: 0,
            drained: 0.0,
            mean_drained: 0.0,
            afterwards: 0,
            mean: 0.0,
            share: 1.0,
            recovered: 0.0,
            rounds: 0,
            in_time: true,
        };
        for burst in &outcome.bursts {
            let Burst { came, gone } = *burst;
            let drained = outcome.drained(burst, EMPTY);
            let share = outcome.share(gone - MEAN * RTT, gone);
            let recovered = trips(outcome.recovered(burst, FULL));
            worst.longest = worst.longest.max(outcome.longest(came, gone));
            worst.drained = worst.drained.max(trips(drained));
            worst.mean_drained += trips(drained) / outcome.bursts.len() as f64;
            let after = drained.map_or(came, |time| came + time);
            worst.afterwards = worst.afterwards.max(outcome.longest(after, gone));
            worst.mean = worst.mean.max(outcome.mean(came + 2 * RTT, gone));
            worst.share = worst.share.min(share);
            worst.recovered = worst.recovered.max(recovered);
            let rounds = rounds(share.min(fair));
            worst.rounds = worst.rounds.max(rounds);
            worst.in_time &= recovered <= rounds as f64 + ROUNDING;
        }
        worst
    }
}

fn run(lab: &mut Lab) -> Result<()> {
    let mut queues = Table::new(
        "the queue while the burst is there",
        &[
            "flows",
            "marks",
            "longest, packets",
            "paper (eq. 1)",
            "below 2 packets after, round trips: mean",
            "worst",
            "paper (eq. 3)",
            "longest afterwards",
            "mean from the 2nd round trip on",
            "data packets dropped",
        ],
    );
    let mut first = Table::new(
        "the first flow",
        &[
            "flows",
            "marks",
            "share beside the burst, %",
            "95 % again after, round trips",
            "paper (eq. 6)",
            "left under-utilized",
            "marked fully",
            "marked over",
        ],
    );
    let most = COUNTS[COUNTS.len() - 1];
    let level = (most as u64 * BDP) as f64;
    let mut queue = Plot::new(
        &format!("queue, {most} flows come"),
        "round trips after the first packet",
        "packets",
        Style::Steps,
    )
    .level("eq. 1", level);
    let mut share = Plot::new(
        &format!("the first flow, {most} others go"),
        "round trips after the last packet",
        "% of the link",
        Style::Steps,
    )
    .level("95 %", 100.0 * FULL);
    for count in COUNTS {
        let offsets: Vec<u64> = (0..BURSTS).map(|_| lab.rng.range(0..=RTT)).collect();
        let product = RATE / 8 * RTT / 1_000_000_000;
        for (name, marks, buffer) in [
            // One bandwidth-delay product for each flow, and the packet that comes in the instant
            // in which another leaves.
            ("REN", true, count as u64 * product + FRAME),
            ("none", false, BUFFER),
        ] {
            lab.progress(&format!("{count} flows, marks: {name}"));
            let outcome = measure(count, &offsets, marks, u32::try_from(buffer)?)?;
            let flows = count as u64;
            let worst = Worst::of(&outcome, flows);
            queues.row(vec![
                count.into(),
                name.into(),
                worst.longest.into(),
                (flows * BDP).into(),
                in_trips(worst.mean_drained),
                in_trips(worst.drained),
                (flows + 1).into(),
                worst.afterwards.into(),
                number(worst.mean, 1),
                outcome.seen.data_drops.into(),
            ]);
            let [under, full, over] = outcome.marks;
            first.row(vec![
                count.into(),
                name.into(),
                number(100.0 * worst.share, 1),
                in_trips(worst.recovered),
                worst.rounds.into(),
                under.into(),
                full.into(),
                over.into(),
            ]);
            if marks {
                claims(lab, &worst, count, outcome.seen.data_drops);
            }
            if count == most {
                let lines = outcome.lines.clone();
                let title = format!("marks: {name}");
                lab.report.setups.push(SetUpLines { title, lines });
                if let Some(burst) = outcome.bursts.first() {
                    queue.series(name, waiting(&outcome, burst));
                    share.series(name, shares(&outcome, burst));
                }
            }
        }
    }
    lab.report.tables.extend([queues, first]);
    lab.report.plots.extend([queue, share]);
    lab.report.notes.extend(NOTES.map(String::from));
    Ok(())
}

const NOTES: [&str; 5] = [
    "at the end the queue falls by what the first flow leaves of the link, so that a packet more \
     or less moves the time at which it is below 2 packets: equation (3) is for the mean of the \
     bursts, and the worst is shown beside it",
    "dumbbells of 2 to 5 pairs of hosts, links of 10 Gbit/s, 48 us for a grant's way and its \
     packet's way back: 39 full packets a round trip. The worst of three bursts, which come \
     at random times of the port's sampling period and stay for 40 round trips",
    "m flows at line rate beside one that fills the link bring m bandwidth-delay products more \
     than the link can carry in that round trip; an idle sender could not empty the queue \
     before m more have passed. \"Within 2 round trips\" can therefore be said of bursts of one \
     flow only; of all, that it takes no longer than the link does",
    "equation (6) is for the lesser of what the first flow had and its fair share, which the \
     paper's analysis gives it. The round in which the others leave is not one of those \
     counted, and what of it is over before there is a gap cannot be marked: hence the eighth",
    "the same transport without marks: every packet arrives as its sender made it, \
     \"under-utilized\". A message has no more under way than its own link carries in base-rtt, \
     and what \
     is acknowledged at once: that is what stays in the queue, as in REN's fig. 3 with pHost and \
     Homa, and why the first flow has the link again at once",
];

fn claims(lab: &mut Lab, worst: &Worst, count: usize, dropped: u64) {
    let least = count + 1;
    let flows = match count {
        1 => "1 flow".to_owned(),
        _ => format!("{count} flows"),
    };
    lab.claim(
        format!(
            "{flows}: on average, the queue is below 2 packets within {least} round trips of their \
                 first packet, to an eighth"
        ),
        worst.mean_drained <= least as f64 + ROUNDING,
    );
    lab.claim(
        format!("{flows}: it stays so until they go"),
        worst.afterwards < EMPTY,
    );
    lab.claim(
        format!(
            "{flows}: when they are gone, the first has 95 % of the link within the rounds of \
                 equation (6), to an eighth"
        ),
        worst.in_time,
    );
    lab.claim(
        format!(
            "{flows}: no data packet is dropped where the ports hold so many bandwidth-delay \
                 products, and one packet"
        ),
        dropped == 0,
    );
}

/// The queue while a burst comes: round trips after its first packet, and packets.
fn waiting(outcome: &Outcome, burst: &Burst) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = outcome
        .queue
        .iter()
        .filter(|(at, _)| (burst.came - RTT..burst.came + 12 * RTT).contains(at))
        .map(|&(at, length)| {
            let after = (at as f64 - burst.came as f64) / RTT as f64;
            (rounded(after, 3), length as f64)
        })
        .collect();
    thinned(&points, 300)
}

/// The first flow's part of the link when a burst goes: round trips after its last packet, and per
/// cent in each.
fn shares(outcome: &Outcome, burst: &Burst) -> Vec<(f64, f64)> {
    (0..12)
        .map(|round| {
            let from = burst.gone + round * RTT - 4 * RTT;
            let share = 100.0 * outcome.share(from, from + RTT);
            (round as f64 - 4.0, rounded(share, 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::rounds;

    #[test]
    fn equation_6() {
        let of = [1.0, 0.5, 0.49, 0.25, 0.24, 0.125, 0.1].map(rounds);
        assert_eq!(of, [1, 1, 2, 2, 3, 3, 4]);
        assert_eq!(rounds(0.0), 64);
    }
}
