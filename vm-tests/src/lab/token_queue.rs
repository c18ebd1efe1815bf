// SPDX-License-Identifier: GPL-2.0
//! Many token senders at one port: the lengths of token and data queues (TOP sections 4.3 and 5.1).

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded, thinned};
use super::setups::{interval, nested, turnstile, unlimited, SetUp, TOKEN_LIMIT, TOKEN_SHARE};
use super::{Experiment, Lab};
use crate::recorder::{lengths, longest, passages, Passage, Unit};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::{Flow, Packet};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "token-queue",
    title: "queues at a port where the tokens of n hosts converge, with data beside",
    source: "TOP section 4.3: 8 tokens per queue, so that a token waits for at most 8 pacing \
             times; section 5.1: without a limit tokens take the data's bandwidth",
    run,
};

/// bit/s.
const RATE: u64 = 10_000_000_000;
/// How many hosts send tokens, each at the full token rate.
const SENDERS: [usize; 5] = [1, 2, 4, 8, 16];
/// The data's part of the link: nearly all that the tokens' share leaves.
const DATA: f64 = 0.94;
/// For so long.
const SPAN: Duration = Duration::from_micros(500);
/// Propagation delay of the links, ns.
const DELAY: u64 = 1_000;

fn run(lab: &mut Lab) -> Result<()> {
    let set_ups = [turnstile(RATE, ""), nested(RATE), unlimited(RATE)];
    lab.report.setups = set_ups.iter().map(SetUp::report).collect();
    let most = SENDERS[SENDERS.len() - 1];
    // Those that send tokens, one that sends data, one that receives.
    let fabric = Plan::star(most + 2, Link::new(RATE, DELAY)).build()?;
    let mut tokens = Plot::new(
        &format!("token queue, {most} senders"),
        "time, us",
        "tokens",
        Style::Steps,
    )
    .level("8 tokens", TOKEN_LIMIT as f64);
    let mut data = Plot::new(
        &format!("data queue, {most} senders"),
        "time, us",
        "kB",
        Style::Steps,
    );
    for set_up in &set_ups {
        let mut table = Table::new(
            &format!("{}: {}", set_up.name, set_up.title),
            &[
                "senders",
                "token share, %",
                "paper",
                "longest token queue",
                "paper (at most)",
                "longest wait, us",
                "paper (at most) ",
                "tokens dropped, %",
                "longest data queue, kB",
                "data dropped, %",
            ],
        );
        let (mut queue, mut wait, mut data_dropped) = (0, 0, 0.0_f64);
        for senders in SENDERS {
            lab.progress(&format!("{}, {senders} senders", set_up.name));
            let (all, began) = measure(lab, &fabric, set_up, senders)?;
            let is_token = |passage: &Passage| passage.packet == Packet::Token(0);
            let is_data = |passage: &Passage| passage.packet == Packet::Data;
            let token_queue = lengths(&all, Unit::Packets, is_token);
            let data_queue = lengths(&all, Unit::Bytes, is_data);
            let longest_wait = all
                .iter()
                .filter(|passage| is_token(passage))
                .filter_map(Passage::wait)
                .max()
                .unwrap_or(0);
            let share = share(&all, began);
            let limit = interval(RATE) * TOKEN_LIMIT as f64;
            table.row(vec![
                senders.into(),
                number(share, 3),
                number(TOKEN_SHARE * 100.0, 3),
                longest(&token_queue).into(),
                TOKEN_LIMIT.into(),
                number(longest_wait as f64 / 1e3, 3),
                number(limit / 1e3, 3),
                number(dropped(&all, is_token), 1),
                number(longest(&data_queue) as f64 / 1e3, 1),
                number(dropped(&all, is_data), 1),
            ]);
            queue = queue.max(longest(&token_queue));
            wait = wait.max(longest_wait);
            data_dropped = data_dropped.max(dropped(&all, is_data));
            if senders == most {
                let curve = |queue: &[(u64, u64)], unit: f64| {
                    let points: Vec<(f64, f64)> = queue
                        .iter()
                        .map(|&(at, length)| {
                            let at = at.saturating_sub(began) as f64 / 1e3;
                            (rounded(at, 3), length as f64 / unit)
                        })
                        .collect();
                    thinned(&points, 300)
                };
                // Off any scale.
                if set_up.name != "unlimited" {
                    tokens.series(set_up.name, curve(&token_queue, 1.0));
                }
                data.series(set_up.name, curve(&data_queue, 1e3));
            }
        }
        lab.report.tables.push(table);
        if set_up.name == "turnstile" {
            lab.claim(
                format!("no token queue is longer than {TOKEN_LIMIT}: {queue}"),
                queue <= TOKEN_LIMIT,
            );
            lab.claim(
                format!(
                    "no token waits for more than 8 intervals: {wait} ns of {:.0}",
                    8.0 * interval(RATE)
                ),
                wait as f64 <= 8.0 * interval(RATE) + 1.0,
            );
            lab.claim("no data is lost", data_dropped == 0.0);
        }
    }
    lab.report.plots.extend([tokens, data]);
    lab.report.notes.push(format!(
        "each sender sends tokens of one priority at the full token rate for {} us; data from one \
         more host takes {:.0} % of the link",
        SPAN.as_micros(),
        DATA * 100.0
    ));
    Ok(())
}

/// The tokens' part of the link during the load, %. The first interval is left out.
fn share(all: &[Passage], began: u64) -> f64 {
    let (from, until) = (
        began + SPAN.as_nanos() as u64 / 10,
        began + SPAN.as_nanos() as u64,
    );
    let bytes: usize = all
        .iter()
        .filter(|passage| matches!(passage.packet, Packet::Token(_)))
        .filter(|passage| {
            passage
                .left
                .is_some_and(|left| (from..until).contains(&left))
        })
        .map(Passage::wire_bytes)
        .sum();
    bytes as f64 * 8e9 / (until - from) as f64 / RATE as f64 * 100.0
}

fn dropped(all: &[Passage], counts: impl Fn(&Passage) -> bool) -> f64 {
    let mine: Vec<&Passage> = all.iter().filter(|passage| counts(passage)).collect();
    let lost = mine.iter().filter(|passage| passage.left.is_none()).count();
    lost as f64 * 100.0 / mine.len().max(1) as f64
}

/// The packets that passed the port, and when the load began.
fn measure(
    lab: &mut Lab,
    fabric: &Fabric,
    set_up: &SetUp,
    senders: usize,
) -> Result<(Vec<Passage>, u64)> {
    let receiver = fabric.hosts() - 1;
    let to = fabric.address(receiver);
    let mut flows: Vec<(usize, Vec<Flow>)> = Vec::new();
    for sender in 0..senders {
        // Not all in the same instant: each somewhere in its first interval.
        let offset = Duration::from_nanos(lab.rng.range(0..=1_297));
        flows.push((
            sender,
            vec![Flow::new(sender as u16, Packet::Token(0), to)
                .bits_per_s(RATE as f64 * TOKEN_SHARE)
                .window(offset, SPAN)],
        ));
    }
    flows.push((
        receiver - 1,
        vec![Flow::new(1000, Packet::Data, to)
            .bits_per_s(DATA * RATE as f64)
            .window(Duration::ZERO, SPAN)],
    ));
    let dev = format!("h{}", fabric.hosts());
    let outcome = lab.load(fabric, ("s1", &dev), set_up, receiver, flows, SPAN)?;
    if senders == SENDERS[SENDERS.len() - 1] {
        lab.capture(set_up.name, &outcome.captured)?;
    }
    let all = passages(&outcome.captured, &dev, &fabric.hosts_behind("s1", &dev)?)?;
    Ok((all, outcome.began))
}
