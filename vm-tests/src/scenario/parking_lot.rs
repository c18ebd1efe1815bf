// SPDX-License-Identifier: GPL-2.0
//! A flow over several bottlenecks, each shared with another flow (ExpressPass fig. 2 and 3).

use std::time::Duration;

use anyhow::Result;

use super::flows::{self, ENDLESS};
use super::{delay_for, TOKEN_SHARE};
use crate::topology::{Link, Plan};
use crate::traffic::messages::Message;

/// bit/s of each link.
pub const RATE: u64 = 10_000_000_000;
/// The long flow's round-trip time where there is one bottleneck, ns.
const RTT: u64 = 100_000;
/// Warm-up.
const WARM_UP: Duration = Duration::from_millis(4);
/// Measured interval.
const SPAN: Duration = Duration::from_millis(10);

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Utilization of each bottleneck by data, as a part of what data can have at most: the link
    /// without the tokens' share.
    pub links: Vec<f64>,
    /// The part of a link that the flow over all of them had, on the same terms.
    pub long: f64,
    /// Data packets that were dropped.
    pub drops: u64,
}

impl Outcome {
    /// Of the link that was used least.
    pub fn least(&self) -> f64 {
        self.links.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// A chain of so many bottlenecks, with these options of the ports and of the transport.
///
/// # Errors
/// When something is refused or a socket fails.
pub fn run((ports, words): (&str, &str), bottlenecks: usize) -> Result<Outcome> {
    let link = Link::new(RATE, delay_for(RTT, 3, RATE));
    let fabric = Plan::parking_lot(bottlenecks, link, link).build()?;
    let mut messages = vec![Message::new(0, 1, ENDLESS)];
    messages.extend((0..bottlenecks).map(|link| Message::new(2 + 2 * link, 3 + 2 * link, ENDLESS)));
    let names: Vec<String> = (1..=bottlenecks + 1).map(|n| format!("s{n}")).collect();
    let record: Vec<_> = names
        .windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    let words = format!("{words} link {RATE}bit base-rtt {RTT}ns");
    let outcome = flows::run(&fabric, (ports, &words), &messages, &record, WARM_UP + SPAN)?;
    let from = WARM_UP.as_nanos() as u64;
    let until = from + SPAN.as_nanos() as u64;
    let most = RATE as f64 * (1.0 - TOKEN_SHARE);
    let long = fabric.address(0);
    let links = outcome.passed.iter();
    let of_long = outcome.passed.first().map_or(0, |passed| {
        flows::bytes_by_message(passed, from, until)
            .into_iter()
            .filter(|((host, _), _)| *host == long)
            .map(|(_, bytes)| bytes)
            .sum()
    });
    Ok(Outcome {
        links: links
            .map(|passed| flows::rate(passed, from, until) / most)
            .collect(),
        long: of_long as f64 * 8.0 / SPAN.as_secs_f64() / most,
        drops: outcome.seen.data_drops,
    })
}
