// SPDX-License-Identifier: GPL-2.0
//! Strict priority among tokens under overload, and how long tokens wait (TOP sections 3.1 and
//! 4.1).

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::setups::{
    interval, limiter_per_queue, nested, turnstile, SetUp, PRIORITIES, TOKEN_LIMIT, TOKEN_SHARE,
};
use super::{Experiment, Lab};
use crate::recorder::{passages, Passage};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::{Flow, Packet};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "token-priority",
    title: "who is served, and who waits, when tokens of six priorities overload a port",
    source: "TOP section 3.1: strict priority, a token is dropped when it waited for 8 packet \
             transmission times; section 4.1",
    run,
};

/// bit/s.
const RATE: u64 = 10_000_000_000;
/// What each priority offers, as a part of the token rate.
const OFFERED: f64 = 0.4;
/// All priorities send.
const BUSY: Duration = Duration::from_micros(2500);
/// Then the lowest alone goes on, at this part of the token rate.
const LOW_ALONE: Duration = Duration::from_micros(500);
/// Hosts: one for each priority, one for data.
const SENDERS: usize = PRIORITIES as usize + 1;
/// Propagation delay of the links, ns.
const DELAY: u64 = 1_000;

fn run(lab: &mut Lab) -> Result<()> {
    let set_ups = [turnstile(RATE, ""), nested(RATE), limiter_per_queue(RATE)];
    lab.report.setups = set_ups.iter().map(SetUp::report).collect();
    let fabric = Plan::star(SENDERS + 1, Link::new(RATE, DELAY)).build()?;
    let threshold = 8.0 * interval(RATE);
    let mut served = Plot::new("sent of what was offered", "priority", "%", Style::Line);
    let mut waits = Plot::new("longest wait", "priority", "us", Style::Line)
        .level("8 intervals", rounded(threshold / 1e3, 3));
    for set_up in &set_ups {
        lab.progress(set_up.name);
        let passages = measure(lab, &fabric, set_up)?;
        let mut table = Table::new(
            &format!("{}: {}", set_up.name, set_up.title),
            &[
                "priority",
                "offered",
                "sent",
                "sent, %",
                "paper",
                "wait mean, us",
                "wait max, us",
                "paper (at most)",
                "stale tokens sent",
            ],
        );
        let mut points = (Vec::new(), Vec::new());
        let (mut off, mut stale_in_all, mut longest) = (0.0_f64, 0, 0.0_f64);
        for priority in 0..PRIORITIES {
            let mine: Vec<&Passage> = passages
                .iter()
                .filter(|passage| passage.packet == Packet::Token(priority))
                .collect();
            let waited: Vec<u64> = mine.iter().filter_map(|passage| passage.wait()).collect();
            // In the first part all send: there the shares are compared.
            let busy: Vec<_> = mine
                .iter()
                .filter(|passage| passage.came < first(&passages) + BUSY.as_nanos() as u64)
                .collect();
            let in_time = busy.iter().filter(|passage| {
                passage
                    .left
                    .is_some_and(|left| left < first(&passages) + BUSY.as_nanos() as u64)
            });
            let served_now = in_time.count();
            let sent = served_now as f64 * 100.0 / busy.len().max(1) as f64;
            let max = waited.iter().copied().max().unwrap_or(0) as f64;
            let mean = waited.iter().sum::<u64>() as f64 / waited.len().max(1) as f64;
            let stale = waited
                .iter()
                .filter(|&&wait| wait as f64 > threshold + 1.0)
                .count();
            off = off.max((sent - ideal(priority)).abs());
            stale_in_all += stale;
            longest = longest.max(max);
            table.row(vec![
                priority.into(),
                busy.len().into(),
                served_now.into(),
                number(sent, 1),
                number(ideal(priority), 1),
                number(mean / 1e3, 3),
                number(max / 1e3, 3),
                number(threshold / 1e3, 3),
                stale.into(),
            ]);
            points.0.push((f64::from(priority), rounded(sent, 2)));
            points.1.push((f64::from(priority), rounded(max / 1e3, 3)));
        }
        served.series(set_up.name, points.0);
        waits.series(set_up.name, points.1);
        lab.report.tables.push(table);
        if set_up.name == "turnstile" {
            lab.claim(
                format!(
                    "each priority is served as strict priority has it (within 2 points; {off:.2})"
                ),
                off <= 2.0,
            );
            lab.claim(
                "no token that is sent has waited for more than 8 intervals",
                stale_in_all == 0,
            );
        } else {
            lab.report.notes.push(format!(
                "{}: up to {off:.1} points off strict priority, {stale_in_all} stale tokens sent, \
                 longest wait {:.0} intervals",
                set_up.name,
                longest / interval(RATE)
            ));
        }
    }
    served.series(
        "strict priority",
        (0..PRIORITIES).map(|p| (f64::from(p), ideal(p))).collect(),
    );
    lab.report.plots.extend([served, waits]);
    lab.report.notes.push(format!(
        "{PRIORITIES} hosts send tokens of one priority each at {OFFERED} of the token rate for {} \
         us, a seventh saturates the link with data; then \
         the lowest priority alone goes on. Token queues hold {TOKEN_LIMIT}. Stale: sent after \
         more than 8 intervals",
        BUSY.as_micros()
    ));
    Ok(())
}

/// The part of a priority's tokens that strict priority serves, %.
fn ideal(priority: u8) -> f64 {
    let left = 1.0 - OFFERED * f64::from(priority);
    (left / OFFERED).clamp(0.0, 1.0) * 100.0
}

/// When the first packet came, ns.
fn first(passages: &[Passage]) -> u64 {
    passages.first().map_or(0, |passage| passage.came)
}

fn measure(lab: &mut Lab, fabric: &Fabric, set_up: &SetUp) -> Result<Vec<Passage>> {
    let to = fabric.address(SENDERS);
    let tokens = RATE as f64 * TOKEN_SHARE;
    let all = BUSY + LOW_ALONE;
    let mut flows: Vec<(usize, Vec<Flow>)> = Vec::new();
    for priority in 0..PRIORITIES {
        let host = usize::from(priority);
        // Senders do not start at the same instant: each somewhere in its first interval.
        let offset = Duration::from_nanos(lab.rng.range(0..=3_000));
        let until = if priority == PRIORITIES - 1 {
            all
        } else {
            BUSY
        };
        flows.push((
            host,
            vec![Flow::new(u16::from(priority), Packet::Token(priority), to)
                .bits_per_s(OFFERED * tokens)
                .window(offset, until)],
        ));
    }
    flows.push((
        SENDERS - 1,
        vec![Flow::new(100, Packet::Data, to)
            .bits_per_s(RATE as f64)
            .window(Duration::ZERO, all)],
    ));
    let dev = format!("h{}", SENDERS + 1);
    let outcome = lab.load(fabric, ("s1", &dev), set_up, SENDERS, flows, all)?;
    lab.capture(set_up.name, &outcome.captured)?;
    passages(&outcome.captured, &dev, &fabric.hosts_behind("s1", &dev)?)
}
