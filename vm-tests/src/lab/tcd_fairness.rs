// SPDX-License-Identifier: GPL-2.0
//! Four long flows through a port that is undetermined at first and congested afterwards (TCD
//! figure 20).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::lossless::{plan, run as send, Marks, Outcome};
use crate::scenario::lossless::{A0, B0, BESIDE, BUFFER, BURSTING, R0, R1, S1};
use crate::scenario::Carrier;
use crate::traffic::messages::Message;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-fairness",
    title: "four long flows through an undetermined port, and their shares afterwards",
    source: "TCD section 5.2.4, figure 20: their rates are kept while bursts of 64 KB last, about \
             3 ms, and they have 8 Gbit/s each afterwards",
    run,
};

/// bit/s.
const RATE: u64 = 40_000_000_000;
/// Bytes of a burst.
const BURST: u64 = 64_000;
/// When the bursts begin, and for how long they are sent, ns.
const FIRST: u64 = 1_000_000;
const BURSTS: u64 = 3_000_000;
/// The senders, and from when until when shares are measured, ns; the last time ends the run.
/// TIMELY goes up by 10 Mbit/s for each segment: a rate of 1 Gbit/s takes 40 ms until it is 8.
const LAWS: [(&str, [Range<u64>; 2]); 2] = [
    ("dcqcn", [70_000_000..100_000_000, 130_000_000..160_000_000]),
    (
        "timely",
        [100_000_000..130_000_000, 190_000_000..220_000_000],
    ),
];
/// Width of a curve's steps, ns.
const BIN: u64 = 500_000;
/// More than can be sent.
const LONG: u64 = (1 << 30) - 1;
/// How even they are to be.
const FAIR: f64 = 0.95;
/// The text's share, Gbit/s: of five flows.
const SHARE: f64 = 8.0;

fn run(lab: &mut Lab) -> Result<()> {
    let fabric = plan(RATE, RATE, BUFFER).build()?;
    let mut table = Table::new(
        "rates of the four flows and of S1's, Gbit/s",
        &[
            "sender", "from, ms", "until", "flow 1", "flow 2", "flow 3", "flow 4", "text", "Jain",
            "S1's", "all five",
        ],
    );
    for (policy, windows) in LAWS {
        let end = windows[1].end;
        let words = format!("policy {policy} tcd on");
        lab.progress(&words);
        let carrier = Carrier::Turnstile(words);
        let ports = [("t2", "h7"), ("t2", "h8")];
        let outcome = send(
            &fabric,
            (Marks::Tcd, &carrier),
            &messages(),
            &ports,
            Duration::from_nanos(end),
        )?;
        let mut plot = Plot::new(
            &format!("{policy} with TCD: the four flows"),
            "time, us",
            "Gbit/s",
            Style::Steps,
        )
        .level("text", SHARE);
        let all = (B0..B0 + BESIDE).map(|from| (0, from)).chain([(1, S1)]);
        let flows = all.map(|(port, from)| Flow::of(&outcome, port, fabric.address(from)));
        let flows: Vec<Flow> = flows.collect();
        for (number, flow) in flows.iter().take(BESIDE).enumerate() {
            plot.series(&format!("flow {}", number + 1), flow.curve(end));
        }
        lab.report.plots.push(plot);
        let mut jain = 0.0;
        for window in windows {
            let rates: Vec<f64> = flows.iter().map(|flow| flow.rate(&window)).collect();
            let (four, s1) = rates.split_at(BESIDE);
            let sum: f64 = four.iter().sum();
            let squares: f64 = four.iter().map(|rate| rate * rate).sum();
            jain = sum * sum / (BESIDE as f64 * squares);

            let mut row = vec![policy.into()];
            row.extend([window.start, window.end].map(|at| (at / 1_000_000).into()));
            row.extend(four.iter().map(|rate| number(*rate, 2)));
            row.extend([number(SHARE, 0), number(jain, 3)]);
            row.extend(s1.iter().map(|rate| number(*rate, 2)));
            row.push(number(rates.iter().sum(), 2));
            table.row(row);
        }
        lab.claim(
            format!("{policy}: the four share alike, Jain's index {FAIR} or more"),
            jain >= FAIR,
        );
        lab.claim(
            format!("{policy}: no packet is dropped"),
            outcome.dropped == 0,
        );
    }
    lab.report.tables.push(table);
    lab.report.notes.push(format!(
        "S1 to R1 from the start, the four from {} ms on to R0, and so do {BURSTING} hosts burst \
         {} kB each to R1, as often as its link carries that, for {} ms. S1's flow and the four \
         share the link that the bursts make pause",
        FIRST / 1_000_000,
        BURST / 1000,
        BURSTS / 1_000_000
    ));
    Ok(())
}

/// S1's flow from the start, the four and the bursts a little later.
fn messages() -> Vec<Message> {
    let mut messages = vec![Message::new(S1, R1, LONG)];
    let four = B0..B0 + BESIDE;
    messages.extend(four.map(|from| Message::new(from, R0, LONG).at(FIRST)));
    let round = BURST * BURSTING as u64 * 8_000_000 / (RATE / 1000);
    let times = (0..).map(|n: u64| FIRST + n * round);
    for at in times.take_while(|at| *at < FIRST + BURSTS) {
        messages.extend((A0..A0 + BURSTING).map(|from| Message::new(from, R1, BURST).at(at)));
    }
    messages
}

/// Bytes of a flow that passed its last port, by [`BIN`].
struct Flow(BTreeMap<u64, u64>);

impl Flow {
    fn of(outcome: &Outcome, port: usize, from: Ipv4Addr) -> Self {
        let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
        for it in outcome.passed[port].iter().filter(|it| it.from == from) {
            if let Some(left) = it.left {
                let at = left.saturating_sub(outcome.began);
                *bins.entry(at / BIN).or_default() += it.wire_bytes() as u64;
            }
        }
        Self(bins)
    }

    /// The mean over a time of whole bins, Gbit/s.
    fn rate(&self, window: &Range<u64>) -> f64 {
        let bins = self.0.range(window.start / BIN..window.end / BIN);
        let bytes: u64 = bins.map(|(_, bytes)| bytes).sum();
        bytes as f64 * 8.0 / (window.end - window.start) as f64
    }

    /// Gbit/s over time, us.
    fn curve(&self, end: u64) -> Vec<(f64, f64)> {
        let bins = 0..end / BIN;
        let points = bins.map(|bin| {
            let bytes = self.0.get(&bin).copied().unwrap_or(0);
            let at = (bin * BIN) as f64 / 1e3;
            (at, rounded(bytes as f64 * 8.0 / BIN as f64, 2))
        });
        points.collect()
    }
}
