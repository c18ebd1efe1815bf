// SPDX-License-Identifier: GPL-2.0
//! How evenly many flows share a link, and how much of it they use together (ExpressPass fig. 5 and
//! 9).

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::number;
use super::{Experiment, Lab};
use crate::scenario::sharing::run as measure;
use crate::scenario::TOKEN_SHARE;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    title: "1 to 256 flows over one link: Jain's index and what data gets of the link",
    source: "ExpressPass section 3.2 and fig. 9 (Jain's index over intervals of 100 ms, near 1), \
             section 3.1 (data gets 94.82 % of the link)",
    run,
};

const RATE: u64 = 10_000_000_000;
/// Flows.
const COUNTS: [usize; 4] = [1, 4, 32, 256];
/// Intervals over which Jain's index is taken, ms: the paper's (ExpressPass section 3.2), and
/// shorter ones.
const INTERVALS: [u64; 3] = [100, 10, 1];
/// The project's goal: the least Jain's index that counts as fair.
const FAIR: f64 = 0.95;
/// How far utilization may be below what the tokens' share leaves: the error at both ends of the
/// interval.
const ROUNDING: f64 = 0.001;

/// Ports: what their table is called, their options, and up to how many flows, but for one, the
/// goal is kept in each millisecond, too.
const PORTS: [(&str, &str, usize); 2] = [
    ("the papers' ports", "jitter 0", 4),
    ("ports as shipped", "jitter 50us", 32),
];

fn run(lab: &mut Lab) -> Result<()> {
    for ports in PORTS {
        with_ports(lab, ports)?;
    }
    lab.report.notes.push(
        "a dumbbell of up to 16 pairs of hosts, links of 10 Gbit/s, 100 us for a token's way and \
         its packet's way back; looked at from 20 ms after the start on. In 1 ms \
         256 flows can have 3 packets each: the index is then that of numbers like 2, 3 and 4"
            .into(),
    );
    Ok(())
}

fn with_ports(lab: &mut Lab, (name, ports, few): (&str, &str, usize)) -> Result<()> {
    const WORDS: &str = "policy expresspass";
    let most = 1.0 - TOKEN_SHARE;
    let mut table = Table::new(
        &format!("{name}, {ports}; turnstile transport set {WORDS}"),
        &[
            "flows",
            "Jain's index, 100 ms",
            "goal",
            "10 ms",
            "1 ms",
            "data, % of the link",
            "paper",
            "data packets dropped",
        ],
    );
    let mut plot = Plot::new(
        &format!("Jain's index, {name}"),
        "flows",
        "index",
        Style::Line,
    )
    .level("goal", FAIR);
    let mut curves = vec![Vec::new(); INTERVALS.len()];
    for count in COUNTS {
        lab.progress(&format!("{count} flows"));
        let outcome = measure(
            (ports, WORDS),
            RATE,
            count,
            Duration::from_millis(20),
            Duration::from_millis(100),
            &mut lab.rng,
        )?;
        let jain: Vec<f64> = INTERVALS
            .iter()
            .map(|interval| outcome.jain(interval * 1_000_000))
            .collect();
        let data = outcome.utilization();
        table.row(vec![
            count.into(),
            number(jain[0], 4),
            number(FAIR, 2),
            number(jain[1], 4),
            number(jain[2], 4),
            number(100.0 * data, 2),
            number(100.0 * most, 2),
            outcome.drops.into(),
        ]);
        for (curve, jain) in curves.iter_mut().zip(&jain) {
            curve.push((count as f64, *jain));
        }
        lab.claim(
            format!("{name}, {count} flows: Jain's index over 100 ms is above {FAIR}"),
            jain[0] > FAIR,
        );
        if count <= few {
            lab.claim(
                format!("{name}, {count} flows: Jain's index over 1 ms is above {FAIR}"),
                jain[2] > FAIR,
            );
        }
        lab.claim(
            format!("{name}, {count} flows: no data packet is dropped"),
            outcome.drops == 0,
        );
        if count == 1 {
            lab.claim(
                format!("{name}, one flow: data gets what the tokens' share leaves, 94.82 %"),
                data >= most - ROUNDING,
            );
        }
    }
    for (interval, curve) in INTERVALS.iter().zip(curves) {
        plot.series(&format!("{interval} ms"), curve);
    }
    lab.report.tables.push(table);
    lab.report.plots.push(plot);
    Ok(())
}
