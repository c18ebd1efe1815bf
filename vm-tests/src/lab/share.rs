// SPDX-License-Identifier: GPL-2.0
//! The shares of tokens and data in TOP's two work modes (fig. 3), and with stock qdiscs (section
//! 4.1).

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::setups::{data_shaped, limiter_per_queue, nested, turnstile, SetUp, TOKEN_SHARE};
use super::{Experiment, Lab};
use crate::recorder::{passages, Passage};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::{Flow, Packet};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "share",
    title: "what tokens and data get of a port, over time",
    source: "TOP fig. 3 (modes a and b) and section 4.1, ExpressPass section 2.1: 5.18 % for \
             tokens, 94.82 % for data",
    run,
};

/// bit/s.
const RATE: u64 = 10_000_000_000;
/// How long each phase lasts.
const PHASE: Duration = Duration::from_millis(1);
/// Width of the plot's bins, ns: some 19 tokens.
const BIN: u64 = 25_000;
/// Left out at the beginning of a phase, when packets of the one before still leave.
const SETTLING: u64 = 60_000;
/// Propagation delay of the links, ns.
const DELAY: u64 = 1_000;

/// The offered load, as a part of the link.
struct Phase {
    what: &'static str,
    tokens: f64,
    data: f64,
}

const PHASES: [Phase; 5] = [
    Phase {
        what: "tokens alone, 3 times their share",
        tokens: 3.0 * TOKEN_SHARE,
        data: 0.0,
    },
    Phase {
        what: "data takes half",
        tokens: 3.0 * TOKEN_SHARE,
        data: 0.5,
    },
    Phase {
        what: "data saturates the link",
        tokens: 3.0 * TOKEN_SHARE,
        data: 1.0,
    },
    Phase {
        what: "few tokens, data saturates",
        tokens: 0.5 * TOKEN_SHARE,
        data: 1.0,
    },
    Phase {
        what: "no tokens, data saturates",
        tokens: 0.0,
        data: 1.0,
    },
];

fn run(lab: &mut Lab) -> Result<()> {
    let mut data_first = turnstile(RATE, "order data-first");
    (data_first.name, data_first.title) = ("data-first", "turnstile, TOP fig. 3a");
    let mut tokens_first = turnstile(RATE, "order tokens-first");
    (tokens_first.name, tokens_first.title) = ("tokens-first", "turnstile, TOP fig. 3b");
    let set_ups = [
        tokens_first,
        data_first,
        nested(RATE),
        data_shaped(RATE),
        limiter_per_queue(RATE),
    ];
    lab.report.setups = set_ups.iter().map(SetUp::report).collect();
    let fabric = Plan::star(4, Link::new(RATE, DELAY)).build()?;
    let columns = |first| {
        let mut columns = vec![first, "paper"];
        columns.extend(set_ups.iter().map(|set_up| set_up.name));
        columns
    };
    let mut token_table = Table::new("tokens, % of the link", &columns("phase"));
    let mut data_table = Table::new("data, % of the link", &columns("phase"));
    let mut token_plot = Plot::new("tokens", "time, us", "% of the link", Style::Steps)
        .level("5.18 %", rounded(TOKEN_SHARE * 100.0, 3));
    let mut data_plot = Plot::new("data", "time, us", "% of the link", Style::Steps)
        .level("94.82 %", rounded(100.0 - TOKEN_SHARE * 100.0, 3));
    let mut found = Vec::new();
    for set_up in &set_ups {
        lab.progress(set_up.name);
        let (all, began) = measure(lab, &fabric, set_up)?;
        let share = |tokens: bool, from: u64, until: u64| {
            let bytes: usize = all
                .iter()
                .filter(|passage| matches!(passage.packet, Packet::Token(_)) == tokens)
                .filter(|p| p.left.is_some_and(|left| (from..until).contains(&left)))
                .map(Passage::wire_bytes)
                .sum();
            bytes as f64 * 8e9 / (until - from) as f64 / RATE as f64 * 100.0
        };
        let width = PHASE.as_nanos() as u64;
        let phases: Vec<[f64; 2]> = (0..PHASES.len() as u64)
            .map(|phase| {
                let (from, until) = (
                    began + phase * width + SETTLING,
                    began + (phase + 1) * width,
                );
                [share(true, from, until), share(false, from, until)]
            })
            .collect();
        for (plot, tokens) in [(&mut token_plot, true), (&mut data_plot, false)] {
            let bins = PHASES.len() as u64 * width / BIN;
            let points = (0..bins)
                .map(|bin| {
                    let from = began + bin * BIN;
                    let value = share(tokens, from, from + BIN);
                    ((bin * BIN) as f64 / 1e3, rounded(value, 2))
                })
                .collect();
            plot.series(set_up.name, points);
        }
        found.push(phases);
    }
    for (index, phase) in PHASES.iter().enumerate() {
        let tokens = phase.tokens.min(TOKEN_SHARE) * 100.0;
        let data = (phase.data * 100.0).min(100.0 - tokens);
        for (table, which, ideal) in [(&mut token_table, 0, tokens), (&mut data_table, 1, data)] {
            let mut row = vec![phase.what.into(), number(ideal, 2)];
            row.extend(found.iter().map(|phases| number(phases[index][which], 2)));
            table.row(row);
        }
        for (set_up, phases) in set_ups.iter().zip(&found).take(2) {
            let [of_tokens, of_data] = phases[index];
            // One token, or one frame, more or less is 0.1 % of a phase.
            lab.claim(
                format!(
                    "{}, {}: tokens {of_tokens:.2} %, data {of_data:.2} %",
                    set_up.name, phase.what
                ),
                (of_tokens - tokens).abs() <= 0.05 && (of_data - data).abs() <= 0.3,
            );
        }
    }
    lab.report.tables.extend([token_table, data_table]);
    lab.report.plots.extend([token_plot, data_plot]);
    lab.report.notes.push(format!(
        "phases of {} us one after the other, each without its first {} us; two priorities of \
         tokens, the higher at half the token rate at most. \
         In the column `paper` is what the paper's switch would give: tokens their share or what \
         they offer, data the rest or what it offers",
        PHASE.as_micros(),
        SETTLING / 1000
    ));
    Ok(())
}

/// The packets that passed the port, and when the load began.
fn measure(lab: &mut Lab, fabric: &Fabric, set_up: &SetUp) -> Result<(Vec<Passage>, u64)> {
    let to = fabric.address(3);
    let (mut high, mut low, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for (index, phase) in (0_u32..).zip(&PHASES) {
        let (from, until) = (PHASE * index, PHASE * (index + 1));
        let flow = |stream: u16, packet, part: f64| {
            Flow::new(stream, packet, to)
                .bits_per_s(part * RATE as f64)
                .window(from, until)
        };
        let stream = index as u16 * 10;
        let high_part = phase.tokens.min(TOKEN_SHARE) / 2.0;
        if phase.tokens > 0.0 {
            high.push(flow(stream, Packet::Token(1), high_part));
            low.push(flow(stream + 1, Packet::Token(4), phase.tokens - high_part));
        }
        if phase.data > 0.0 {
            data.push(flow(stream + 2, Packet::Data, phase.data));
        }
    }
    let flows = vec![(0, high), (1, low), (2, data)];
    let span = PHASE * PHASES.len() as u32;
    let outcome = lab.load(fabric, ("s1", "h4"), set_up, 3, flows, span)?;
    lab.capture(set_up.name, &outcome.captured)?;
    let all = passages(&outcome.captured, "h4", &fabric.hosts_behind("s1", "h4")?)?;
    Ok((all, outcome.began))
}
