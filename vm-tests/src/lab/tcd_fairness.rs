// SPDX-License-Identifier: GPL-2.0
//! Four long flows through a port that is undetermined at first and congested afterwards (TCD
//! figure 20).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::recorder::Passage;
use crate::scenario::lossless::{plan, run as send, Marks};
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
/// The senders, and from when until when shares are measured, ns. TIMELY goes up by 10 Mbit/s for
/// each segment: a rate of 1 Gbit/s takes 40 ms until it is 8.
const LAWS: [(&str, Range<u64>); 2] = [
    ("dcqcn", 70_000_000..100_000_000),
    ("timely", 190_000_000..220_000_000),
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
        "rates of the four flows, Gbit/s",
        &[
            "sender", "from, ms", "until", "flow 1", "flow 2", "flow 3", "flow 4", "text", "Jain",
        ],
    );
    for (policy, settled) in LAWS {
        let words = format!("policy {policy} tcd on");
        lab.progress(&words);
        let mut messages = vec![Message::new(S1, R1, LONG)];
        let flows = B0..B0 + BESIDE;
        messages.extend(
            flows
                .clone()
                .map(|from| Message::new(from, R0, LONG).at(FIRST)),
        );
        let round = BURST * BURSTING as u64 * 8_000_000 / (RATE / 1000);
        let times = (0..).map(|n: u64| FIRST + n * round);
        for at in times.take_while(|at| *at < FIRST + BURSTS) {
            messages.extend((A0..A0 + BURSTING).map(|from| Message::new(from, R1, BURST).at(at)));
        }
        let carrier = Carrier::Turnstile(words);
        let port = ("t2", "h7");
        let span = Duration::from_nanos(settled.end);
        let outcome = send(&fabric, (Marks::Tcd, &carrier), &messages, &[port], span)?;
        let mut plot = Plot::new(
            &format!("{policy} with TCD: the four flows"),
            "time, us",
            "Gbit/s",
            Style::Steps,
        )
        .level("text", SHARE);
        let mut rates = Vec::new();
        for (number, from) in flows.enumerate() {
            let from = fabric.address(from);
            let its = outcome.passed.iter().flatten().filter(|it| it.from == from);
            let its: Vec<&Passage> = its.collect();
            let (curve, rate) = curve(&its, outcome.began, &settled);
            plot.series(&format!("flow {}", number + 1), curve);
            rates.push(rate);
        }
        lab.report.plots.push(plot);
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let jain = sum * sum / (rates.len() as f64 * squares);
        let mut row = vec![policy.into()];
        row.extend([settled.start, settled.end].map(|at| (at / 1_000_000).into()));
        row.extend(rates.iter().map(|rate| number(*rate, 2)));
        row.extend([number(SHARE, 0), number(jain, 3)]);
        table.row(row);
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

/// What passed, by [`BIN`], and the mean in the time when they have settled, Gbit/s.
fn curve(passed: &[&Passage], began: u64, settled: &Range<u64>) -> (Vec<(f64, f64)>, f64) {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sum = 0;
    for it in passed {
        let Some(at) = it.left.map(|left| left.saturating_sub(began)) else {
            continue;
        };
        let bytes = it.wire_bytes() as u64;
        *bins.entry(at / BIN).or_default() += bytes;
        if settled.contains(&at) {
            sum += bytes;
        }
    }
    let points = (0..settled.end / BIN).map(|bin| {
        let bytes = bins.get(&bin).copied().unwrap_or(0);
        let at = (bin * BIN) as f64 / 1e3;
        (at, rounded(bytes as f64 * 8.0 / BIN as f64, 2))
    });
    let mean = sum as f64 * 8.0 / (settled.end - settled.start) as f64;
    (points.collect(), mean)
}
