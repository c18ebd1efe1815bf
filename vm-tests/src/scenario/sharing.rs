// SPDX-License-Identifier: GPL-2.0
//! Many flows share a link: fairness and utilization (ExpressPass section 3.2).

use std::time::Duration;

use anyhow::{Context, Result};
use turnstile_workload::figures::jain;

use super::delay_for;
use super::flows::{self, Passed, ENDLESS};
use crate::rng::Rng;
use crate::topology::{Link, Plan};
use crate::traffic::messages::Message;

/// A token's way to the sender and its packet's way back, ns.
const RTT: u64 = 100_000;
/// How many pairs of hosts there are at most.
const HOSTS: usize = 16;

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Data packets on the link in the middle.
    pub passed: Vec<Passed>,
    /// How many flows there were.
    pub flows: usize,
    /// Beginning of the measured interval, ns after the start.
    pub from: u64,
    /// Its end.
    pub until: u64,
    /// Rate of the links, bit/s.
    pub rate: u64,
    /// Data packets that were dropped.
    pub drops: u64,
}

impl Outcome {
    /// Jain's index of what the flows got in intervals of `width` ns: the mean over all of them.
    pub fn jain(&self, width: u64) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let mut from = self.from;
        while from + width <= self.until {
            let bytes = flows::bytes_by_message(&self.passed, from, from + width);
            let values: Vec<f64> = bytes.values().map(|bytes| *bytes as f64).collect();
            sum += jain(&values, self.flows);
            count += 1.0;
            from += width;
        }
        sum / f64::max(count, 1.0)
    }

    /// The data's part of the link, preambles and gaps included.
    pub fn utilization(&self) -> f64 {
        flows::rate(&self.passed, self.from, self.until) / self.rate as f64
    }
}

/// So many flows over a dumbbell of links of `rate` bit/s, looked at for `span` once `warm_up` has
/// passed. They start one after the other within the first round trip.
///
/// # Errors
/// When something is refused or a socket fails.
pub fn run(
    (ports, words): (&str, &str),
    rate: u64,
    count: usize,
    warm_up: Duration,
    span: Duration,
    rng: &mut Rng,
) -> Result<Outcome> {
    let link = Link::new(rate, delay_for(RTT, 3, rate));
    let pairs = count.min(HOSTS);
    let fabric = Plan::dumbbell(pairs, link, link).build()?;
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let total = warm_up + span;
    // One flow alone must not end before the measurement.
    let endless = ENDLESS.max(rate / 8000 * nanos(total) / 1_000_000);
    let messages: Vec<_> = (0..count)
        .map(|flow| {
            let host = flow % pairs;
            Message::new(host, pairs + host, endless).at(rng.range(0..=RTT))
        })
        .collect();
    // A socket's buffer is far larger than what a flow has under way, so that the application
    // limits nothing.
    let buffer = ((16 << 20) / count.max(1)).clamp(256 << 10, 4 << 20);
    let words = format!("{words} link {rate}bit base-rtt {RTT}ns send-buffer {buffer}");
    let outcome = flows::run(&fabric, (ports, &words), &messages, &[("s1", "s2")], total)?;
    Ok(Outcome {
        passed: outcome.passed.into_iter().next().context("no record")?,
        flows: count,
        from: nanos(warm_up),
        until: nanos(total),
        rate,
        drops: outcome.seen.data_drops,
    })
}
