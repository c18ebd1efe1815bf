// SPDX-License-Identifier: GPL-2.0
//! Summaries of completion times: slowdowns by length.

use turnstile_test_protocol::messages::Summary;
use turnstile_workload::figures::{mean, percentile};

use super::Done;

/// Times of messages on the idle network, by length: measured for some lengths, interpolated
/// linearly between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alone(Vec<(u64, u64)>);

impl Alone {
    /// From lengths in bytes and times in ns.
    pub fn new(mut measured: Vec<(u64, u64)>) -> Self {
        measured.sort_unstable();
        Self(measured)
    }

    /// ns for a message of so many bytes; beyond what was measured, that of the nearest. 0 when
    /// nothing was.
    pub fn time(&self, bytes: u64) -> f64 {
        let upper = self.0.partition_point(|(length, _)| *length < bytes);
        match (
            upper.checked_sub(1).map(|low| self.0[low]),
            self.0.get(upper),
        ) {
            (Some((low, short)), Some(&(high, long))) => {
                let part = (bytes - low) as f64 / (high - low) as f64;
                short as f64 + (long as f64 - short as f64) * part
            }
            (Some((_, time)), None) | (None, Some(&(_, time))) => time as f64,
            (None, None) => 0.0,
        }
    }
}

/// A class of messages by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// Bytes of the shortest.
    pub from: u64,
    /// The upper bound, exclusive, bytes.
    pub below: u64,
}

/// The figures of the messages of `class` among `done`.
pub fn summary(class: Class, done: &[Done], alone: &Alone) -> Summary {
    let of_class = |done: &&Done| (class.from..class.below).contains(&done.message.bytes);
    let mut times = Vec::new();
    let mut slowdowns = Vec::new();
    let mut messages = 0;
    for done in done.iter().filter(of_class) {
        messages += 1;
        if let Some(took) = done.took {
            times.push(took as f64 / 1e3);
            slowdowns.push(took as f64 / alone.time(done.message.bytes).max(1.0));
        }
    }
    times.sort_by(f64::total_cmp);
    slowdowns.sort_by(f64::total_cmp);
    Summary {
        class: class.name.into(),
        messages,
        missing: messages - times.len(),
        slowdown_mean: mean(&slowdowns),
        slowdown_median: percentile(&slowdowns, 50.0),
        slowdown_p99: percentile(&slowdowns, 99.0),
        slowdown_max: percentile(&slowdowns, 100.0),
        time_mean_us: mean(&times),
        time_median_us: percentile(&times, 50.0),
        time_p99_us: percentile(&times, 99.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::messages::Message;

    #[test]
    fn alone_lies_between_what_was_measured() {
        let alone = Alone::new(vec![(3000, 50), (1000, 10)]);
        assert_eq!(alone.time(1000), 10.0);
        assert_eq!(alone.time(2000), 30.0);
        assert_eq!(alone.time(3000), 50.0);
        assert_eq!(alone.time(1), 10.0);
        assert_eq!(alone.time(9000), 50.0);
        assert_eq!(Alone::default().time(1), 0.0);
    }

    #[test]
    fn a_summary_is_of_its_class() {
        let done = |bytes, took| Done {
            message: Message::new(0, 1, bytes),
            took,
        };
        let alone = Alone::new(vec![(100, 1000)]);
        let mut all: Vec<_> = (1..=100).map(|n| done(100, Some(n * 1000))).collect();
        all.push(done(100, None));
        all.push(done(500, Some(1)));
        let class = Class {
            name: "short",
            from: 0,
            below: 500,
        };
        let short = summary(class, &all, &alone);
        assert_eq!((short.messages, short.missing), (101, 1));
        assert!((short.slowdown_mean - 50.5).abs() < 1e-9);
        assert_eq!(short.slowdown_median, 50.0);
        assert_eq!(short.slowdown_p99, 99.0);
        assert_eq!(short.slowdown_max, 100.0);
        assert_eq!(short.time_p99_us, 99.0);
        let none = Class {
            name: "none",
            from: 1000,
            below: 2000,
        };
        assert_eq!(summary(none, &all, &alone).slowdown_p99, 0.0);
    }
}
