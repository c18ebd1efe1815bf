// SPDX-License-Identifier: GPL-2.0
//! Utilization of several bottlenecks in a row (ExpressPass fig. 3).

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::parking_lot::run as measure;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "parking-lot",
    title: "a flow over 1 to 6 bottlenecks, each shared with another flow: utilization",
    source: "ExpressPass section 2.2 and fig. 3: 96.7 % with two bottlenecks, 92.2 % with six \
             (83.3 and 60 % without feedback)",
    run,
};

/// The paper's figures, percent, by number of bottlenecks; between these it has a curve.
const PAPER: [(usize, f64); 2] = [(2, 96.7), (6, 92.2)];
/// Bottlenecks.
const MOST: usize = 6;
/// The feedback to compare: algorithm 1, and the default.
const WAYS: [(&str, &str); 2] = [
    ("midpoint", "policy expresspass feedback midpoint"),
    ("weighted", "policy expresspass feedback weighted"),
];

fn run(lab: &mut Lab) -> Result<()> {
    let mut plot = Plot::new(
        "utilization of the link that is used least",
        "bottlenecks",
        "% of what data can have",
        Style::Line,
    );
    for (name, words) in WAYS {
        let mut table = Table::new(
            &format!("turnstile transport set {words}"),
            &[
                "bottlenecks",
                "least used link, %",
                "paper",
                "most used link, %",
                "the flow over all, %",
                "data packets dropped",
            ],
        );
        let mut curve = Vec::new();
        for bottlenecks in 1..=MOST {
            lab.progress(&format!("{name}, {bottlenecks} bottlenecks"));
            let outcome = measure(words, bottlenecks)?;
            let least = 100.0 * outcome.least();
            let paper = PAPER.iter().find(|(count, _)| *count == bottlenecks);
            table.row(vec![
                bottlenecks.into(),
                number(least, 1),
                paper.map_or_else(|| "".into(), |(_, percent)| (*percent).into()),
                number(100.0 * outcome.links.iter().copied().fold(0.0, f64::max), 1),
                number(100.0 * outcome.long, 1),
                outcome.drops.into(),
            ]);
            curve.push((bottlenecks as f64, rounded(least, 2)));
            // The other is the paper's first form of the feedback, which has no target for the
            // loss.
            if let (Some((_, percent)), "weighted") = (paper, name) {
                lab.claim(
                    format!("{name}, {bottlenecks} bottlenecks: at least the paper's {percent} %"),
                    least >= *percent,
                );
            }
            lab.claim(
                format!("{name}, {bottlenecks} bottlenecks: no data packet is dropped"),
                outcome.drops == 0,
            );
        }
        plot.series(name, curve);
        lab.report.tables.push(table);
    }
    plot.series(
        "paper",
        PAPER
            .iter()
            .map(|(count, percent)| (*count as f64, *percent))
            .collect(),
    );
    lab.report.plots.push(plot);
    lab.report.notes.push(
        "100 %: the link without the tokens' share, as in the paper. Links of 10 Gbit/s, as many \
         flows of one bottleneck as there are; looked at for 10 ms"
            .into(),
    );
    Ok(())
}
