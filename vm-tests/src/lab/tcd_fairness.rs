// SPDX-License-Identifier: GPL-2.0
//! Four long flows through a port that is undetermined at first and congested afterwards (TCD
//! figure 20).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::lossless::{plan, run_beside as send, Beside, Marks, Told};
use crate::scenario::lossless::{A0, B0, BESIDE, BUFFER, BURSTING, R0, R1, S1};
use crate::scenario::{Carrier, FULL_PAYLOAD, FULL_WIRE};
use crate::topology::Fabric;
use crate::traffic::messages::Message;
use crate::traffic::{self, Packet};

/// With DCQCN.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-fairness",
    title: "four long flows of DCQCN through an undetermined port, and their shares afterwards",
    source: SOURCE,
    run: |lab| run(lab, &DCQCN),
};

/// With TIMELY.
pub(super) const TIMELY: Experiment = Experiment {
    name: "tcd-fairness-timely",
    title: "the same with TIMELY",
    source: SOURCE,
    run: |lab| run(lab, &OF_TIMELY),
};

const SOURCE: &str = "TCD section 5.2.4, figure 20: their rates are kept while bursts of 64 KB \
                      last, about 3 ms, and they have 8 Gbit/s each afterwards";

/// bit/s.
const RATE: u64 = 40_000_000_000;
/// Bytes of a burst.
const BURST: u64 = 64_000;
/// When the bursts begin, and for how long they are sent, ns.
const FIRST: u64 = 1_000_000;
const BURSTS: u64 = 3_000_000;
/// A policy, and from when until when shares are measured, ns; the last time ends the run.
struct Law {
    policy: &'static str,
    windows: [Range<u64>; 2],
}
const DCQCN: Law = Law {
    policy: "dcqcn",
    windows: [40_000_000..100_000_000, 100_000_000..160_000_000],
};
/// It goes up by 10 Mbit/s for each segment: a rate of 1 Gbit/s takes 40 ms until it is 8.
const OF_TIMELY: Law = Law {
    policy: "timely",
    windows: [100_000_000..160_000_000, 160_000_000..220_000_000],
};
/// From when until when rates are to be kept, and how often they are looked at, ns: P2 has been
/// paused by then.
const KEPT: (u64, u64) = (FIRST + 250_000, FIRST + BURSTS);
const LOOKS: u64 = 250_000;
/// Until when they are asked.
const END: u64 = FIRST + 2 * BURSTS;
/// What S1 sends beside, bit/s, and where to: nobody reads it.
const BESIDE_RATE: f64 = 10e9;
const DISCARD: u16 = 9;
/// Width of a curve's steps, ns.
const BIN: u64 = 1_000_000;
/// More than can be sent.
const LONG: u64 = (1 << 30) - 1;
/// How even they are to be.
const FAIR: f64 = 0.95;
/// The text's share, Gbit/s: of five flows.
const SHARE: f64 = 8.0;

fn run(lab: &mut Lab, law: &Law) -> Result<()> {
    let fabric = plan(RATE, RATE, BUFFER).build()?;
    let _deaf = fabric.host(R1).enter(|| {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DISCARD)).context("binding the receiver")
    })?;
    let mut table = Table::new(
        "rates of the four flows and of S1's, Gbit/s",
        &[
            "sender",
            "from, ms",
            "until",
            "flow 1",
            "flow 2",
            "flow 3",
            "flow 4",
            "text",
            "Jain",
            "S1's",
            "all five",
            "farthest from a fifth, %",
        ],
    );
    let mut held = Table::new(
        "what the four say of their rates while bursts last, Gbit/s",
        &[
            "sender",
            "flow",
            "at first",
            "0.25 ms later",
            "least",
            "most",
            "as bursts end",
            "notified since",
            "held",
            "3 ms later",
        ],
    );
    let Law { policy, windows } = law;
    let end = windows[1].end;
    let words = format!("policy {policy} tcd on");
    lab.progress(&words);
    let carrier = Carrier::Turnstile(words);
    // No captures: a process of the virtual bed has 256 MB at most, and goes no further with more.
    let mut asked: Vec<usize> = (B0..B0 + BESIDE).collect();
    asked.extend([R0, R1]);
    let looks = (FIRST..=END).step_by(LOOKS as usize);
    let bins = (1..end / BIN).map(|bin| bin * BIN);
    let mut looks: Vec<u64> = looks.chain(bins).collect();
    looks.sort_unstable();
    looks.dedup();
    let outcome = send(
        &fabric,
        (Marks::Tcd, &carrier),
        &messages(),
        &[],
        Beside {
            asked: (&asked, &looks),
            flows: vec![(S1, vec![beside(&fabric)])],
        },
        Duration::from_nanos(end),
    )?;
    let mut plot = Plot::new(
        &format!("{policy} with TCD: the four flows"),
        "time, us",
        "Gbit/s",
        Style::Steps,
    )
    .level("text", SHARE);
    let all = (B0..B0 + BESIDE).map(|from| (BESIDE, from));
    let all = all.chain([(BESIDE + 1, S1)]);
    let flows = all.map(|(at, from)| Flow::of(&outcome.told[at], fabric.address(from)));
    let flows: Vec<Flow> = flows.collect();
    for (number, flow) in flows.iter().take(BESIDE).enumerate() {
        plot.series(&format!("flow {}", number + 1), flow.curve(end));
    }
    lab.report.plots.push(plot);
    for (number, told) in outcome.told.iter().take(BESIDE).enumerate() {
        let kept = told.iter().filter(|it| (KEPT.0..=KEPT.1).contains(&it.at));
        let kept: Vec<&Told> = kept.collect();
        let last_told = told.iter().rfind(|it| it.at <= END);
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            bail!("nobody was asked");
        };
        let gbit = |bytes: u64| self::number(bytes as f64 * 8.0 / 1e9, 3);
        let rates = || kept.iter().map(|it| it.rate);
        held.row(vec![
            (*policy).into(),
            (number + 1).into(),
            gbit(told.first().map_or(0, |it| it.rate)),
            gbit(first.rate),
            gbit(rates().min().unwrap_or(0)),
            gbit(rates().max().unwrap_or(0)),
            gbit(last.rate),
            (last.notified - first.notified).into(),
            (last.held - first.held).into(),
            gbit(last_told.map_or(0, |it| it.rate)),
        ]);
        // TIMELY cuts above T_high whatever the mark is.
        if *policy == DCQCN.policy {
            lab.claim(
                format!("{policy}, flow {}: its rate is kept", number + 1),
                last.rate >= first.rate,
            );
        }
    }
    let mut jain = 0.0;
    for window in windows {
        let rates: Vec<f64> = flows.iter().map(|flow| flow.rate(window)).collect();
        let (four, s1) = rates.split_at(BESIDE);
        let sum: f64 = four.iter().sum();
        let squares: f64 = four.iter().map(|rate| rate * rate).sum();
        jain = sum * sum / (BESIDE as f64 * squares);

        let mut row = vec![(*policy).into()];
        row.extend([window.start, window.end].map(|at| (at / 1_000_000).into()));
        row.extend(four.iter().map(|rate| number(*rate, 2)));
        row.extend([number(SHARE, 0), number(jain, 3)]);
        row.extend(s1.iter().map(|rate| number(*rate, 2)));
        let all: f64 = rates.iter().sum();
        let fifth = all / rates.len() as f64;
        let far = |rate: &f64| (rate / fifth - 1.0).abs() * 100.0;
        row.push(number(all, 2));
        row.push(number(rates.iter().map(far).fold(0.0, f64::max), 1));
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
    lab.report.tables.extend([held, table]);
    lab.report.notes.push(format!(
        "S1 to R1 from the start, the four from {} ms on to R0, and so do {BURSTING} hosts burst \
         {} kB each to R1, as often as its link carries that, for {} ms, and S1 sends UDP there \
         that heeds nothing, 10 Gbit/s. S1's flow and the four \
         share the link that the bursts make pause",
        FIRST / 1_000_000,
        BURST / 1000,
        BURSTS / 1_000_000
    ));
    Ok(())
}

/// What S1 sends beside its flow while bursts last, and heeds nothing: S1's flow slows down, and
/// then P2 is paused no more, but congested by the four.
fn beside(fabric: &Fabric) -> traffic::Flow {
    let stream = u16::try_from(S1).unwrap_or(u16::MAX);
    let mut flow = traffic::Flow::new(stream, Packet::Other, fabric.address(R1));
    flow.to.set_port(DISCARD);
    flow.bits_per_s(BESIDE_RATE).window(
        Duration::from_nanos(FIRST),
        Duration::from_nanos(FIRST + BURSTS),
    )
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

/// Bytes of a flow on the wire that had come, by the time, ns.
struct Flow(BTreeMap<u64, u64>);

impl Flow {
    fn of(told: &[Told], from: Ipv4Addr) -> Self {
        let from = from.to_string();
        let came = told.iter().map(|it| {
            let bytes = it.came.get(&from).copied().unwrap_or(0);
            (it.at, bytes * FULL_WIRE / FULL_PAYLOAD)
        });
        Self(came.collect())
    }

    /// What had come by then, where somebody was asked.
    fn by(&self, at: u64) -> u64 {
        let before = self.0.range(..=at).next_back();
        before.map_or(0, |(_, bytes)| *bytes)
    }

    /// The mean over a time, Gbit/s.
    fn rate(&self, window: &Range<u64>) -> f64 {
        // The last one to be asked is a little before the end of the run.
        let bytes = self
            .by(window.end - BIN)
            .saturating_sub(self.by(window.start));
        bytes as f64 * 8.0 / (window.end - BIN - window.start) as f64
    }

    /// Gbit/s over time, us.
    fn curve(&self, end: u64) -> Vec<(f64, f64)> {
        let points = (1..end / BIN).map(|bin| {
            let from = (bin - 1) * BIN;
            let bytes = self.by(bin * BIN).saturating_sub(self.by(from));
            (
                from as f64 / 1e3,
                rounded(bytes as f64 * 8.0 / BIN as f64, 2),
            )
        });
        points.collect()
    }
}
