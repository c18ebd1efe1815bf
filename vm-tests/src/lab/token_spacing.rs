// SPDX-License-Identifier: GPL-2.0
//! The spacing of tokens that leave a port: 84 bytes of every 1622 on the wire (ExpressPass section
//! 2.1).

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::setups::{interval, limiter_per_queue, nested, turnstile, SetUp, TOKEN_SHARE};
use super::{Experiment, Lab};
use crate::topology::{Fabric, Link, Plan, Shaper};
use crate::traffic::{Flow, Packet};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "token-spacing",
    title: "spacing of the tokens that leave a port",
    source: "ExpressPass section 2.1: tokens are limited to 84/(84+1538) of the link",
    run,
};

/// bit/s.
const RATES: [u64; 3] = [10_000_000_000, 40_000_000_000, 100_000_000_000];
/// Tokens that are measured.
const TOKENS: u32 = 1000;
/// Of them, so many are in the plots.
const PLOTTED: usize = 300;
/// The first ones are not measured: they meet an empty port.
const SKIPPED: usize = 10;

/// The regularity of departures.
struct Spacing {
    /// The slope of a straight line through all departures, ns per token: a frame in front of the
    /// first or the last does not count.
    mean: f64,
    least: u64,
    greatest: u64,
    /// (token, ns behind the schedule of the first).
    behind: Vec<(f64, f64)>,
}

fn run(lab: &mut Lab) -> Result<()> {
    for rate in RATES {
        let ideal = interval(rate);
        let fabric = Plan::pair(Link::new(rate, 1_000).shaper(Shaper::Off)).build()?;
        let set_ups = [turnstile(rate, ""), nested(rate), limiter_per_queue(rate)];
        if lab.report.setups.is_empty() {
            lab.report.setups = set_ups.iter().map(SetUp::report).collect();
        }
        for saturated in [false, true] {
            let load = if saturated {
                "data saturates the link"
            } else {
                "tokens alone"
            };
            let name = format!("{} Gbit/s, {load}", rate / 1_000_000_000);
            lab.progress(&name);
            let mut table = Table::new(
                &name,
                &[
                    "port",
                    "mean gap, ns",
                    "paper",
                    "error, ppm",
                    "least gap, ns",
                    "greatest gap, ns",
                    "off schedule, ns",
                ],
            );
            let mut plot = Plot::new(
                &format!("{name}: behind the schedule"),
                "token",
                "ns",
                Style::Line,
            );
            for set_up in &set_ups {
                let spacing = measure(lab, &fabric, rate, saturated, set_up)?;
                let off = spacing
                    .behind
                    .iter()
                    .fold(0.0_f64, |off, (_, behind)| off.max(behind.abs()));
                table.row(vec![
                    set_up.name.into(),
                    number(spacing.mean, 3),
                    number(ideal, 3),
                    number((spacing.mean / ideal - 1.0) * 1e6, 1),
                    spacing.least.into(),
                    spacing.greatest.into(),
                    number(off, 1),
                ]);
                if set_up.name == "turnstile" {
                    judge(lab, rate, saturated, &name, &spacing, off);
                }
                // A sixth of the rate is off any scale.
                if set_up.name != "limiter-per-queue" {
                    plot.series(
                        set_up.name,
                        spacing.behind[..PLOTTED.min(spacing.behind.len())].to_vec(),
                    );
                }
            }
            lab.report.tables.push(table);
            lab.report.plots.push(plot);
        }
    }
    lab.report.notes.push(format!(
        "{TOKENS} tokens of one priority, offered at twice their rate; a gap is between the first \
         bits of two tokens, the mean gap \
         the slope of a straight line through all departures. limiter-per-queue gives one priority \
         a sixth of the rate"
    ));
    Ok(())
}

fn judge(lab: &mut Lab, rate: u64, saturated: bool, name: &str, spacing: &Spacing, off: f64) {
    // A token waits for the frame in service; the schedule does not move with it.
    let frame = if saturated {
        1538.0 * 8e9 / rate as f64
    } else {
        0.0
    };
    lab.claim(
        format!(
            "{name}: turnstile's tokens leave within 1 ns of the schedule{}",
            if saturated {
                " and the frame in service"
            } else {
                ""
            }
        ),
        off <= frame + 1.0,
    );
    // A slope through points that are off by so much at most.
    let slack = 3.0 * (frame + 1.0) / spacing.behind.len() as f64;
    lab.claim(
        format!("{name}: turnstile's mean gap is the paper's"),
        (spacing.mean - interval(rate)).abs() <= slack,
    );
}

fn measure(
    lab: &mut Lab,
    fabric: &Fabric,
    rate: u64,
    saturated: bool,
    set_up: &SetUp,
) -> Result<Spacing> {
    let to = fabric.address(1);
    // This set-up lets a sixth through: fewer tokens, or it would take as long as all others
    // together.
    let tokens = if set_up.name == "limiter-per-queue" {
        TOKENS / 4
    } else {
        TOKENS
    };
    let part = if set_up.name == "limiter-per-queue" {
        6.0
    } else {
        1.0
    };
    let span = interval(rate) * part * f64::from(tokens + SKIPPED as u32) / 1e9;
    let span = Duration::from_secs_f64(span);
    let mut flows = vec![Flow::new(1, Packet::Token(0), to)
        .bits_per_s(2.0 * rate as f64 * TOKEN_SHARE / part)
        .window(Duration::ZERO, span)];
    if saturated {
        flows.push(
            Flow::new(2, Packet::Data, to)
                .bits_per_s(1.2 * rate as f64)
                .window(Duration::ZERO, span),
        );
    }
    let outcome = lab.load(fabric, ("h1", "h2"), set_up, 1, vec![(0, flows)], span)?;
    if rate == RATES[0] {
        let load = if saturated { "saturated" } else { "alone" };
        lab.capture(&format!("{}-{load}", set_up.name), &outcome.captured)?;
    }
    let dev = outcome.captured.sent_by("h2")?;
    let left: Vec<u64> = dev
        .filter(|packet| crate::recorder::what(packet) == Some(Packet::Token(0)))
        .map(|packet| packet.at)
        .skip(SKIPPED)
        .take(tokens as usize)
        .collect();
    ensure!(
        left.len() > tokens as usize / 2,
        "{}: {} tokens left",
        set_up.name,
        left.len()
    );
    let gaps: Vec<u64> = left.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let ideal = interval(rate) * part;
    Ok(Spacing {
        mean: slope(&left),
        least: gaps.iter().copied().min().unwrap_or(0),
        greatest: gaps.iter().copied().max().unwrap_or(0),
        behind: left
            .iter()
            .enumerate()
            .map(|(token, at)| {
                let behind = (at - left[0]) as f64 - token as f64 * ideal;
                (token as f64, rounded(behind, 1))
            })
            .collect(),
    })
}

/// Of the straight line that fits best through points of equal distance.
fn slope(times: &[u64]) -> f64 {
    let middle = (times.len() as f64 - 1.0) / 2.0;
    let (mut over, mut under) = (0.0, 0.0);
    for (index, &time) in times.iter().enumerate() {
        let distance = index as f64 - middle;
        over += distance * (time - times[0]) as f64;
        under += distance * distance;
    }
    over / under
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn the_ends_hardly_count_for_the_slope() {
        let mut times: Vec<u64> = (0..1000).map(|n| 5000 + n * 100).collect();
        assert!((slope(&times) - 100.0).abs() < 1e-9);
        times[999] += 100;
        assert!((slope(&times) - 100.0).abs() < 0.001);
    }
}
