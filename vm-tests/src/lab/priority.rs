// SPDX-License-Identifier: GPL-2.0
//! Urgent messages under a load that saturates the link (TOP section 3.1).

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::number;
use super::{Experiment, Lab};
use crate::scenario::priority::{run as measure, RTT};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "priority",
    title: "urgent messages while three flows of the last priority saturate the link",
    source: "TOP section 3.1 (tokens of higher priority first); the goal is the project's: 1.2 \
             times the time alone",
    run,
};

/// The project's goal: time under the load, as a multiple of the time alone.
const GOAL: f64 = 1.2;

fn run(lab: &mut Lab) -> Result<()> {
    const WAYS: [(&str, &str); 2] = [
        ("top", "policy top unscheduled off"),
        ("expresspass", "policy expresspass"),
    ];
    let mut plot = Plot::new(
        "time under the load",
        "message's length, full packets",
        "times the time alone",
        Style::Line,
    )
    .level("goal", GOAL);
    for (name, words) in WAYS {
        lab.progress(name);
        let outcome = measure(words, &mut lab.rng)?;
        let mut table = Table::new(
            &format!("turnstile transport set {words}"),
            &[
                "full packets",
                "alone, us",
                "under the load, mean, us",
                "longest, us",
                "mean, times alone",
                "goal",
                "longest, times alone",
            ],
        );
        let mut curve = Vec::new();
        for of in &outcome.lengths {
            let alone = of.alone as f64;
            let ratio = of.mean / alone;
            table.row(vec![
                of.packets.into(),
                number(alone / 1e3, 1),
                number(of.mean / 1e3, 1),
                number(of.longest as f64 / 1e3, 1),
                number(ratio, 3),
                number(GOAL, 1),
                number(of.longest as f64 / alone, 3),
            ]);
            curve.push((of.packets as f64, ratio));
            if name == "top" {
                lab.claim(
                    format!(
                        "{} packets: at most {GOAL} times the time alone",
                        of.packets
                    ),
                    of.longest as f64 <= GOAL * alone,
                );
            }
        }
        lab.claim(
            format!("{name}: no data packet is dropped"),
            outcome.seen.data_drops == 0,
        );
        plot.series(name, curve);
        lab.report.tables.push(table);
    }
    lab.report.plots.push(plot);
    lab.report.notes.push(format!(
        "a dumbbell of four pairs, links of 10 Gbit/s, {} us for a token's way and its packet's \
         way back. `expresspass` knows no priorities and is what it is compared with",
        RTT / 1000
    ));
    Ok(())
}
