// SPDX-License-Identifier: GPL-2.0
//! What TCD's experiments with messages have in common: senders, and how slow messages are.

use crate::scenario::lossless::Marks;
use crate::scenario::{Carrier, FULL_PAYLOAD, FULL_WIRE, RTO};
use crate::traffic::messages::Done;

/// The one that the text has figures of.
pub(super) const TIMELY: &str = "TIMELY";

/// The kernel's own.
pub(super) const DCTCP: &str = "DCTCP";

/// A sender, with and without TCD.
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) plain: (Marks, Carrier),
    pub(super) tcd: (Marks, Carrier),
}

/// All of them.
pub(super) fn pairs() -> [Pair; 3] {
    let turnstile = |words: &str| Carrier::Turnstile(words.into());
    [
        Pair {
            name: TIMELY,
            plain: (Marks::None, turnstile("policy timely tcd off")),
            tcd: (Marks::Tcd, turnstile("policy timely tcd on")),
        },
        Pair {
            name: "DCQCN",
            plain: (Marks::Ecn, turnstile("policy dcqcn tcd off")),
            tcd: (Marks::Tcd, turnstile("policy dcqcn tcd on")),
        },
        Pair {
            name: DCTCP,
            plain: (Marks::Ecn, Carrier::Tcp("dctcp", RTO)),
            tcd: (Marks::Tcd, Carrier::Tcp("dctcp", RTO)),
        },
    ]
}

/// A way between hosts, all of whose links are alike but for the first one.
pub(super) struct Way {
    /// bit/s.
    pub(super) rate: u64,
    /// bit/s of the first one, no more than of the others.
    pub(super) first: u64,
    /// Propagation delay of a link, ns.
    pub(super) delay: u64,
    /// Links.
    pub(super) hops: u64,
}

impl Way {
    /// The shortest time that a message could take, ns: payload and headers at the first link's
    /// rate, the last packet once more for each further link, propagation.
    fn ideal(&self, bytes: u64) -> f64 {
        let (full, rest) = (bytes / FULL_PAYLOAD, bytes % FULL_PAYLOAD);
        let headers = FULL_WIRE - FULL_PAYLOAD;
        let part = if rest == 0 { 0 } else { rest + headers };
        let last = if rest == 0 { FULL_WIRE } else { part };
        let time = |bytes: u64, rate: u64| bytes as f64 * 8e9 / rate as f64;
        time(full * FULL_WIRE + part, self.first)
            + time((self.hops - 1) * last.max(84), self.rate)
            + (self.hops * self.delay) as f64
    }
}

/// Of messages of that length; those that did not arrive took for ever.
pub(super) fn slowdowns(done: &[Done], way: &Way, (from, below): (u64, u64)) -> Vec<f64> {
    let mut all: Vec<f64> = done
        .iter()
        .filter(|it| (from..below).contains(&it.message.bytes))
        .map(|it| {
            let took = it.took.map_or(f64::INFINITY, |took| took as f64);
            took / way.ideal(it.message.bytes)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Their mean.
pub(super) fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Their 99th percentile.
pub(super) fn percentile(all: &[f64]) -> f64 {
    let index = (all.len() * 99).div_ceil(100).saturating_sub(1);
    all.get(index).copied().unwrap_or(0.0)
}
