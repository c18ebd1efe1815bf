// SPDX-License-Identifier: GPL-2.0
//! How soon two flows share a link (ExpressPass fig. 7).

use anyhow::Result;
use serde_json::Value;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::convergence::{run as measure, runs, RTT};
use crate::scenario::TOKEN_SHARE;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "convergence",
    title: "a second flow joins: round trips until both have their fair share",
    source: "ExpressPass section 3.1 and fig. 7: within 3 round trips at 10 and at 100 Gbit/s, 10 \
             % around the fair share",
    run,
};

/// bit/s of the links.
const RATES: [u64; 2] = [10_000_000_000, 100_000_000_000];
/// Round trips (ExpressPass section 3.1).
const PAPER: usize = 3;
/// What is compared.
const WAYS: [(&str, &str); 2] = [
    ("midpoint", "policy expresspass feedback midpoint"),
    ("weighted", "policy expresspass feedback weighted"),
];

fn rounds(rounds: Option<usize>) -> Value {
    rounds.map_or_else(|| "never".into(), Value::from)
}

fn run(lab: &mut Lab) -> Result<()> {
    let mut table = Table::new(
        "round trips from the second flow's first packet on",
        &[
            "feedback",
            "link, Gbit/s",
            "joins",
            "until within 10 % of the fair share, in the mean",
            "paper",
            "each join: least",
            "median",
            "most",
            "as close afterwards, % of round trips",
            "first flow's share afterwards, %",
            "second flow's",
            "data packets dropped",
        ],
    );
    for (name, words) in WAYS {
        for rate in RATES {
            let gbit = rate / 1_000_000_000;
            lab.progress(&format!("{name}, {gbit} Gbit/s"));
            let outcome = measure(words, rate)?;
            let after = &outcome.rates[outcome.before..];
            let rest = &after[outcome.converged.unwrap_or(after.len()).min(after.len())..];
            let data = rate as f64 * (1.0 - TOKEN_SHARE);
            let share = |pick: fn(&(f64, f64)) -> f64| {
                let sum: f64 = rest.iter().map(pick).sum();
                100.0 * sum / data / rest.len().max(1) as f64
            };
            table.row(vec![
                name.into(),
                gbit.into(),
                runs(rate).into(),
                rounds(outcome.converged),
                PAPER.into(),
                rounds(outcome.each.first().copied().flatten()),
                rounds(outcome.each.get(outcome.each.len() / 2).copied().flatten()),
                rounds(outcome.each.last().copied().flatten()),
                number(100.0 * outcome.kept, 1),
                number(share(|pair| pair.0), 1),
                number(share(|pair| pair.1), 1),
                outcome.drops.into(),
            ]);
            let mut plot = Plot::new(
                &format!("{name}, {gbit} Gbit/s"),
                "round trips after the second flow's first packet",
                "Gbit/s",
                Style::Steps,
            )
            .level("fair share", rounded(data / 2e9, 3));
            let curve = |pick: fn(&(f64, f64)) -> f64| {
                let points = outcome.rates.iter().enumerate();
                points
                    .map(|(round, pair)| {
                        let at = round as f64 - outcome.before as f64;
                        (at, rounded(pick(pair) / 1e9, 3))
                    })
                    .collect()
            };
            plot.series("first", curve(|pair| pair.0));
            plot.series("second", curve(|pair| pair.1));
            lab.report.plots.push(plot);
            // The other is the paper's first form, from which the default was developed.
            if name == "weighted" {
                lab.claim(
                    format!("{name}, {gbit} Gbit/s: fair within {PAPER} round trips"),
                    outcome.converged.is_some_and(|rounds| rounds <= PAPER),
                );
            }
            lab.claim(
                format!("{name}, {gbit} Gbit/s: no data packet is dropped"),
                outcome.drops == 0,
            );
        }
    }
    lab.report.tables.push(table);
    lab.report.notes.push(format!(
        "a dumbbell of two pairs; a token's way and its packet's way back take {} us. Rates are of \
         data on the link in the middle, counted in intervals of a round trip. In one round trip a \
         tenth of a share is four packets at 10 Gbit/s, and chance moves a flow by as many: \
         therefore the mean of all joins, and each of them beside it",
        RTT / 1000
    ));
    Ok(())
}
