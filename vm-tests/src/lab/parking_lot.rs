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
/// What is compared, by the options of ports and transport: the paper's ports and algorithm 1, the
/// default ports, and the default feedback.
const WAYS: [(&str, &str, &str); 3] = [
    (
        "paper",
        "token-drop last",
        "policy expresspass feedback midpoint",
    ),
    (
        "midpoint",
        "token-drop fair",
        "policy expresspass feedback midpoint",
    ),
    (
        "weighted",
        "token-drop fair",
        "policy expresspass feedback weighted",
    ),
];
/// The least of its max-min share, half of a link, that counts as fair: our goal.
const FAIR: f64 = 0.8 * 0.5;

fn run(lab: &mut Lab) -> Result<()> {
    let mut plot = Plot::new(
        "utilization of the link that is used least",
        "bottlenecks",
        "% of what data can have",
        Style::Line,
    );
    let mut of_all = Plot::new(
        "what the flow over all of them gets",
        "bottlenecks",
        "% of what data can have",
        Style::Line,
    )
    .level("max-min", 50.0);
    for (name, ports, words) in WAYS {
        let mut table = Table::new(
            &format!("{ports}; turnstile transport set {words}"),
            &[
                "bottlenecks",
                "least used link, %",
                "paper",
                "most used link, %",
                "the flow over all, %",
                "data packets dropped",
            ],
        );
        let (mut curve, mut long) = (Vec::new(), Vec::new());
        for bottlenecks in 1..=MOST {
            lab.progress(&format!("{name}, {bottlenecks} bottlenecks"));
            let outcome = measure((ports, words), bottlenecks)?;
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
            long.push((bottlenecks as f64, rounded(100.0 * outcome.long, 2)));
            if name == "weighted" {
                lab.claim(
                    format!("{name}, {bottlenecks} bottlenecks: the flow over all has 40 %"),
                    outcome.long >= FAIR,
                );
            }
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
        of_all.series(name, long);
        lab.report.tables.push(table);
    }
    plot.series(
        "paper",
        PAPER
            .iter()
            .map(|(count, percent)| (*count as f64, *percent))
            .collect(),
    );
    lab.report.plots.extend([plot, of_all]);
    lab.report.notes.push(
        "100 %: the link without the tokens' share, as in the paper. Links of 10 Gbit/s, as many \
         flows of one bottleneck as there are; looked at for 10 ms"
            .into(),
    );
    Ok(())
}
