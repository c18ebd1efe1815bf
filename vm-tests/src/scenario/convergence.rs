// SPDX-License-Identifier: GPL-2.0
//! A flow joins another: how soon both have their share (ExpressPass section 3.1).

use std::time::Duration;

use anyhow::{Context, Result};

use super::flows::{self, Id, Passed, ENDLESS};
use super::{delay_for, TOKEN_SHARE};
use crate::topology::{Link, Plan};
use crate::traffic::messages::Message;

/// A token's way to the sender and its packet's way back, ns.
pub const RTT: u64 = 100_000;
/// How long the first flow is alone, round trips.
const ALONE: u64 = 12;
/// How long both are measured, round trips.
const TOGETHER: u64 = 24;
/// How many round trips before the second flow are reported.
const BEFORE: u64 = 4;
/// How far from the fair share is close enough.
const CLOSE: f64 = 0.1;

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// bit/s of the first and the second flow, round trip by round trip, from the second's first
    /// packet on, in the mean of all runs. The first ones are before it.
    pub rates: Vec<(f64, f64)>,
    /// How many of these are before the second's first packet.
    pub before: usize,
    /// Round trips, from the second's first packet on, until both were within a tenth of the fair
    /// share, in the mean of all runs: the first such round trip, whatever follows.
    pub converged: Option<usize>,
    /// The same for each run, shortest first; runs in which that never happened come last.
    pub each: Vec<Option<usize>>,
    /// The part of the later round trips in which both were as close, over all runs.
    pub kept: f64,
    /// Data packets dropped.
    pub drops: u64,
}

/// Number of joins. At 10 Gbit/s a tenth of a share is four packets of a round trip, and chance
/// moves a flow by as many. Each join is at another moment of a round trip; each is reported, and
/// so is the mean.
pub const fn runs(rate: u64) -> u64 {
    match rate {
        0..=40_000_000_000 => 24,
        _ => 2,
    }
}

/// Over a dumbbell of links of `rate` bit/s.
///
/// # Errors
/// When something is refused or a socket fails.
pub fn run(words: &str, rate: u64) -> Result<Outcome> {
    let link = Link::new(rate, delay_for(RTT, 3, rate));
    let fabric = Plan::dumbbell(2, link, link).build()?;
    let words = format!("{words} link {rate}bit base-rtt {RTT}ns");
    let (runs, mut drops) = (runs(rate), 0);
    let mut rates = vec![(0.0, 0.0); (BEFORE + TOGETHER) as usize];
    let fair = rate as f64 * (1.0 - TOKEN_SHARE) / 2.0;
    let is_close = |rate: f64| (rate / fair - 1.0).abs() <= CLOSE;
    let (mut each, mut later, mut close) = (Vec::new(), 0_usize, 0_usize);
    for run in 0..runs {
        let messages = [
            Message::new(0, 2, ENDLESS),
            Message::new(1, 3, ENDLESS).at(ALONE * RTT + run * RTT / runs),
        ];
        let span = Duration::from_nanos((ALONE + 1 + TOGETHER + 4) * RTT);
        let outcome = flows::run(&fabric, ("", &words), &messages, &[("s1", "s2")], span)?;
        drops += outcome.seen.data_drops;
        let passed = outcome.passed.first().context("nothing was recorded")?;
        let first = passed.first().context("nothing passed")?.id;
        let second = passed.iter().find(|packet| packet.id != first);
        let second = *second.context("the second flow has sent nothing")?;
        let begin = second.at.checked_sub(BEFORE * RTT);
        let begin = begin.context("the second flow has sent too early")?;
        let mut together = Vec::new();
        for (round, from) in (0..BEFORE + TOGETHER).zip((begin..).step_by(RTT as usize)) {
            let pair = (
                rate_of(passed, first, from),
                rate_of(passed, second.id, from),
            );
            if let Some(rates) = rates.get_mut(round as usize) {
                rates.0 += pair.0 / runs as f64;
                rates.1 += pair.1 / runs as f64;
            }
            if round >= BEFORE {
                together.push(is_close(pair.0) && is_close(pair.1));
            }
        }
        let touched = together.iter().position(|close| *close);
        each.push(touched.map(|round| round + 1));
        let rest = &together[touched.unwrap_or(together.len())..];
        later += rest.len().saturating_sub(1);
        close += rest.iter().skip(1).filter(|close| **close).count();
    }
    each.sort_by_key(|rounds| rounds.unwrap_or(usize::MAX));
    let mean = rates.iter().skip(BEFORE as usize);
    let converged = mean
        .map(|(one, other)| is_close(*one) && is_close(*other))
        .position(|close| close)
        .map(|round| round + 1);
    Ok(Outcome {
        rates,
        before: BEFORE as usize,
        converged,
        each,
        kept: close as f64 / later.max(1) as f64,
        drops,
    })
}

/// bit/s of a flow in the round trip from `from` on.
fn rate_of(passed: &[Passed], id: Id, from: u64) -> f64 {
    let bytes = flows::bytes_by_message(passed, from, from + RTT);
    bytes.get(&id).copied().unwrap_or(0) as f64 * 8e9 / RTT as f64
}
