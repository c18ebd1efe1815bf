// SPDX-License-Identifier: GPL-2.0
//! Long flows into one port (HULL fig. 8): queueing delay and throughput.

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::hull::{self, Scheme, Waits, HULL, SCHEMES, SWITCH, UNPACED};
use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::clock;
use crate::recorder::{passages, Recorder};
use crate::scenario::flows::ENDLESS;
use crate::scenario::LEAD;
use crate::topology::Fabric;
use crate::traffic::messages::{places, Message, Messages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hull-static",
    title: "2 to 8 long flows into one port of 1 Gbit/s: queueing delay and throughput with TCP, \
            DCTCP and HULL",
    source: "HULL section 6.1, fig. 8, by what it says of it; without the pacer: sections 4.3 and \
             4.4",
    run,
};

/// Flows.
const COUNTS: [usize; 5] = [2, 3, 4, 6, 8];
/// Warm-up, ns.
const WARM_UP: u64 = 100_000_000;
/// Measured interval, ns.
const SPAN: u64 = 150_000_000;
/// The flows start within this time, ns.
const APART: u64 = 1_000_000;

/// The result of a run.
struct Outcome {
    /// Delays of the data packets.
    waits: Waits,
    /// Data on the wire, Mbit/s.
    throughput: f64,
    dropped: usize,
    /// Parts of the data packets that left with a mark, %.
    marked: f64,
    /// Mean wait of the first sender's packets for the pacer's tokens, us.
    paced: Option<f64>,
}

fn run(lab: &mut Lab) -> Result<()> {
    let most = COUNTS[COUNTS.len() - 1];
    let fabric = hull::build(most)?;
    // Drop tail would hide all others.
    let marking = "of the schemes that mark";
    let mut delay = Plot::new(
        &format!("mean queueing delay {marking}"),
        "flows",
        "us",
        Style::Line,
    );
    let mut tail = Plot::new(
        &format!("queueing delay, 99 %, {marking}"),
        "flows",
        "us",
        Style::Line,
    );
    let mut rate = Plot::new("throughput", "flows", "Mbit/s", Style::Line);
    let mut all = Vec::new();
    for scheme in schemes() {
        scheme.report(lab);
        let mut table = Table::new(
            scheme.name,
            &[
                "flows",
                "delay, mean, us",
                "paper",
                "delay, 99 %, us",
                "paper",
                "throughput, Mbit/s",
                "paper",
                "packets dropped",
                "marked, %",
                "wait in a sender's pacer, mean, us",
            ],
        );
        let mut outcomes = Vec::new();
        let mut curves = [Vec::new(), Vec::new(), Vec::new()];
        for count in COUNTS {
            lab.progress(&format!("{}, {count} flows", scheme.name));
            let outcome = measure(lab, &fabric, &scheme, count)?;
            let (mean, p99) = (outcome.waits.mean(), outcome.waits.percentile(99.0));
            let paper = paper(&scheme, count);
            table.row(vec![
                count.into(),
                number(mean, 1),
                paper[0].into(),
                number(p99, 1),
                paper[1].into(),
                number(outcome.throughput, 0),
                paper[2].into(),
                outcome.dropped.into(),
                number(outcome.marked, 1),
                outcome.paced.map_or_else(|| "".into(), |us| number(us, 1)),
            ]);
            for (curve, value) in curves.iter_mut().zip([mean, p99, outcome.throughput]) {
                curve.push((count as f64, rounded(value, 1)));
            }
            outcomes.push(outcome);
        }
        let [mean, p99, throughput] = curves;
        if scheme.marks() {
            delay.series(scheme.name, mean);
            tail.series(scheme.name, p99);
        }
        rate.series(scheme.name, throughput);
        lab.report.tables.push(table);
        all.push(outcomes);
    }
    lab.report.plots.extend([delay, tail, rate]);
    claims(lab, &all);
    lab.report.notes.push(hull::TESTBED.into());
    lab.report.notes.push(format!(
        "delay: of the data packets in the receiver's port, from {} to {} ms after the flows \
         started within 1 ms; throughput: bytes on the wire, of which \
         1448 of 1538 are payload. The paper's figures are those that it has in words; 4000 and 10 \
         to 15 us are what its factors of 20 and of 2 to 3 make of 200 and 30. Section 4.4 has \"a \
         few hundreds\" of us in the pacer",
        WARM_UP / 1_000_000,
        (WARM_UP + SPAN) / 1_000_000
    ));
    Ok(())
}

/// The schemes of fig. 8, and last HULL without its pacer.
fn schemes() -> impl Iterator<Item = Scheme> {
    SCHEMES.into_iter().chain([UNPACED])
}

/// What section 6.1 concludes from fig. 8, by the outcomes of [`schemes`] at each of [`COUNTS`].
fn claims(lab: &mut Lab, all: &[Vec<Outcome>]) {
    let [tcp, dctcp, low, hull, unpaced] = all else {
        return;
    };
    let mean = |outcome: &Outcome| outcome.waits.mean();
    let p99 = |outcome: &Outcome| outcome.waits.percentile(99.0);
    let each = |a: &[Outcome], b: &[Outcome], holds: &dyn Fn(&Outcome, &Outcome) -> bool| {
        a.iter().zip(b).all(|(a, b)| holds(a, b))
    };
    lab.claim(
        "the mean delay with DCTCP-30K is more than 10 times lower than with TCP (\"more than an \
         order of magnitude\")",
        each(dctcp, tcp, &|dctcp, tcp| 10.0 * mean(dctcp) < mean(tcp)),
    );
    let few = COUNTS.iter().filter(|count| **count < 4).count();
    lab.claim(
        "fewer than 4 flows: the mean delay with HULL is at least 2 times lower than with DCTCP-6K \
         and the pacer",
        each(&hull[..few], low, &|hull, low| 2.0 * mean(hull) <= mean(low)),
    );
    lab.claim(
        "fewer than 4 flows: the 99th percentile with HULL is at least 3 times lower than with \
         DCTCP-6K and the pacer, and 10 times lower than with DCTCP-30K",
        each(&hull[..few], low, &|hull, low| 3.0 * p99(hull) <= p99(low))
            && each(&hull[..few], dctcp, &|hull, dctcp| {
                10.0 * p99(hull) <= p99(dctcp)
            }),
    );
    lab.claim(
        "with HULL the flows together get at most the phantom queue's 950 Mbit/s, and at least the \
         paper's 870",
        hull.iter().all(|o| (870.0..=950.0).contains(&o.throughput)),
    );
    let most = COUNTS.iter().filter(|count| **count <= 4).count();
    lab.claim(
        "up to 4 flows: without the pacer HULL's flows get less of the link, and wait at least \
         twice as long (section 4.3)",
        each(&hull[..most], unpaced, &|hull, unpaced| {
            hull.throughput > unpaced.throughput && 2.0 * mean(hull) <= mean(unpaced)
        }),
    );
    lab.claim(
        "with marks nothing is dropped",
        [dctcp, low, hull, unpaced]
            .into_iter()
            .flatten()
            .all(|o| o.dropped == 0),
    );
}

/// What section 6.1 says of fig. 8: mean and 99th percentile of the delay, throughput.
fn paper(scheme: &Scheme, count: usize) -> [&'static str; 3] {
    match (scheme.name, count) {
        ("tcp-drop-tail", _) => ["~4000", "", ""],
        // The 99th percentiles are those of "less than 4" flows.
        ("dctcp-30k", ..4) => ["~200", "> 300", ""],
        ("dctcp-30k", _) => ["~200", "", ""],
        ("dctcp-6k-pacer", ..4) => ["~30", "~100", ""],
        ("dctcp-6k-pacer", _) => ["~30", "", ""],
        (name, ..4) if name == HULL.name => ["10 to 15", "~30", "~870"],
        // Section 4.4: "slightly lower" than that.
        (name, 2) if name == UNPACED.name => ["", "", "< ~770"],
        _ => ["", "", ""],
    }
}

fn measure(lab: &mut Lab, fabric: &Fabric, scheme: &Scheme, count: usize) -> Result<Outcome> {
    let transport = scheme.apply(fabric)?;
    let to = fabric.hosts() - 1;
    let pairs: Vec<_> = (0..count).map(|from| (from, to)).collect();
    let messages: Vec<_> = pairs
        .iter()
        .map(|&(from, to)| Message::new(from, to, ENDLESS).at(lab.rng.range(0..=APART)))
        .collect();
    let places = places(fabric);
    let mut sockets = Messages::open(transport, &places, &pairs, 1)?;
    let recorder = Recorder::start(&fabric.node(SWITCH)?.ns)?;
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    sockets.run(&messages, start, Duration::from_nanos(WARM_UP + SPAN))?;
    let paced = scheme.paced(fabric)?;
    let captured = recorder.finish()?;
    let dev = hull::receiver(fabric);
    let passages = passages(&captured, &dev, &fabric.hosts_behind(SWITCH, &dev)?)?;
    let (from, until) = (began + WARM_UP, began + WARM_UP + SPAN);
    let sent = |left: Option<u64>| left.is_some_and(|left| (from..until).contains(&left));
    let bytes: usize = passages
        .iter()
        .filter(|p| sent(p.left))
        .map(|p| p.wire_bytes())
        .sum();
    let came = || passages.iter().filter(|p| (from..until).contains(&p.came));
    let (all, marked) = (came().count(), came().filter(|p| p.marked).count());
    Ok(Outcome {
        waits: hull::of_data(&passages, from, until),
        throughput: bytes as f64 * 8e3 / SPAN as f64,
        dropped: came().filter(|p| p.left.is_none()).count(),
        marked: 100.0 * marked as f64 / all.max(1) as f64,
        paced,
    })
}
