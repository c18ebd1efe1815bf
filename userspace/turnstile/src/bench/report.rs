// SPDX-License-Identifier: GPL-2.0
//! Completion times and slowdowns of a run, by size: as a table and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{json, Value};
use turnstile_workload::figures::percentile;

use super::plan::Pattern;
use super::run::{Run, Sample};
use crate::table::{self, Layout};

/// Classes of sizes: bytes, each up to the next.
const CLASSES: &[(u64, u64, &str)] = &[
    (0, 10_000, "< 10 kB"),
    (10_000, 100_000, "10-100 kB"),
    (100_000, 1_000_000, "100 kB-1 MB"),
    (1_000_000, 10_000_000, "1-10 MB"),
    (10_000_000, u64::MAX, ">= 10 MB"),
    (0, u64::MAX, "all"),
];

/// How long a message takes at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ideal {
    /// bytes/s.
    pub(crate) link: u64,
    /// The time for a packet there and an answer back.
    pub(crate) base_rtt: Duration,
}

impl Ideal {
    /// Size / link + base RTT. Headers are not counted, so that 1 is out of reach.
    fn time(&self, size: u64) -> f64 {
        self.base_rtt.as_secs_f64() + size as f64 / self.link as f64
    }

    /// How many times the ideal a message took.
    pub(crate) fn slowdown(&self, size: u64, took: Duration) -> f64 {
        took.as_secs_f64() / self.time(size)
    }
}

/// The messages of a class.
#[derive(Debug)]
struct Class {
    name: &'static str,
    from: u64,
    to: u64,
    /// Ascending.
    times: Vec<Duration>,
    /// Ascending; empty without an ideal.
    slowdowns: Vec<f64>,
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Four digits, and a unit.
fn brief(value: f64, units: &[(f64, &str)]) -> String {
    let unit = units.iter().rev().find(|(scale, _)| value >= *scale);
    let (scale, name) = unit.or(units.first()).copied().unwrap_or((1.0, ""));
    let shown = value / scale;
    let decimals = match shown {
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    format!("{shown:.decimals$}{name}")
}

fn brief_time(time: Duration) -> String {
    const UNITS: &[(f64, &str)] = &[(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")];
    brief(time.as_secs_f64(), UNITS)
}

fn brief_rate(bytes: u64) -> String {
    const UNITS: &[(f64, &str)] = &[(1.0, "bit"), (1e3, "kbit"), (1e6, "mbit"), (1e9, "gbit")];
    brief(bytes as f64 * 8.0, UNITS)
}

/// What there is to say about a run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    run: &'a Run,
    classes: Vec<Class>,
    /// Of an incast: how long each round took.
    rounds: Vec<Duration>,
    /// What was asked for: members of the JSON.
    about: Value,
}

/// When a message was there, from the beginning of the run.
fn end(sample: &Sample) -> Option<Duration> {
    let took = sample.took.as_ref().ok()?;
    Some(sample.began + *took)
}

fn rounds(samples: &[Sample]) -> Vec<Duration> {
    let last = samples.iter().map(|sample| sample.job.round).max();
    (0..=last.unwrap_or(0))
        .filter_map(|round| {
            let of = || samples.iter().filter(|sample| sample.job.round == round);
            let began = of().map(|sample| sample.began).min()?;
            // A round with a message that failed did not end.
            let ends: Option<Vec<Duration>> = of().map(end).collect();
            Some(ends?.into_iter().max()? - began)
        })
        .collect()
}

impl<'a> Report<'a> {
    pub(crate) fn new(run: &'a Run, pattern: Pattern, ideal: Option<Ideal>, about: Value) -> Self {
        let classes = CLASSES.iter().map(|&(from, to, name)| {
            let within = run
                .samples
                .iter()
                .filter(|sample| (from..to).contains(&sample.job.size));
            let good: Vec<(u64, Duration)> = within
                .filter_map(|sample| Some((sample.job.size, *sample.took.as_ref().ok()?)))
                .collect();
            let mut times: Vec<Duration> = good.iter().map(|(_, took)| *took).collect();
            times.sort_unstable();
            let mut slowdowns: Vec<f64> = ideal.map_or_else(Vec::new, |ideal| {
                let each = good.iter().map(|(size, took)| ideal.slowdown(*size, *took));
                each.collect()
            });
            slowdowns.sort_unstable_by(f64::total_cmp);
            Class {
                name,
                from,
                to,
                times,
                slowdowns,
            }
        });
        Self {
            classes: classes.filter(|class| !class.times.is_empty()).collect(),
            rounds: match pattern {
                Pattern::Incast => rounds(&run.samples),
                _ => Vec::new(),
            },
            run,
            about,
        }
    }

    /// Why messages were not delivered, and how many for each reason: the most frequent first.
    pub(crate) fn failures(&self) -> Vec<(&str, usize)> {
        let mut causes: Vec<(&str, usize)> = Vec::new();
        let samples = self.run.samples.iter();
        for why in samples.filter_map(|sample| sample.took.as_ref().err()) {
            match causes.iter_mut().find(|(cause, _)| cause == why) {
                Some((_, count)) => *count += 1,
                None => causes.push((why, 1)),
            }
        }
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        causes
    }

    fn failed(&self) -> usize {
        self.failures().iter().map(|(_, count)| count).sum()
    }

    fn delivered_bytes(&self) -> u64 {
        let good = self.run.samples.iter().filter(|sample| sample.took.is_ok());
        good.map(|sample| sample.job.size).sum()
    }

    /// bytes/s.
    fn goodput(&self) -> u64 {
        let seconds = self.run.lasted.as_secs_f64();
        if seconds == 0.0 {
            return 0;
        }
        (self.delivered_bytes() as f64 / seconds) as u64
    }

    /// A table; empty if no message was delivered, of which the failures say all.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let good = self.run.samples.iter().filter(|s| s.took.is_ok()).count();
        if good == 0 {
            return out;
        }
        let _ = writeln!(
            out,
            "{good} messages, {} bytes in {}: {}",
            self.delivered_bytes(),
            brief_time(self.run.lasted),
            brief_rate(self.goodput())
        );
        let mut rows = vec![[
            "size", "messages", "mean", "p50", "p95", "p99", "max", "slowdown", "p50", "p99",
        ]
        .map(str::to_owned)];
        for class in &self.classes {
            let slowdown = |percent| match class.slowdowns.as_slice() {
                [] => String::new(),
                all => format!("{:.2}", percentile(all, percent)),
            };
            let at = |percent| brief_time(percentile(&class.times, percent));
            let mean_time = mean(class.times.iter().map(Duration::as_secs_f64));
            rows.push([
                class.name.to_owned(),
                class.times.len().to_string(),
                brief_time(Duration::from_secs_f64(mean_time)),
                at(50.0),
                at(95.0),
                at(99.0),
                at(100.0),
                match class.slowdowns.as_slice() {
                    [] => String::new(),
                    all => format!("{:.2}", mean(all.iter().copied())),
                },
                slowdown(50.0),
                slowdown(99.0),
            ]);
        }
        if self.classes.iter().all(|class| class.slowdowns.is_empty()) {
            rows[0][7..].fill(String::new());
        }
        let layout = Layout {
            indent: 0,
            gap: 2,
            names: 1,
        };
        out += &table::text(rows, layout);
        if let [_, ..] = self.rounds.as_slice() {
            let mut sorted = self.rounds.clone();
            sorted.sort_unstable();
            let time = |percent| brief_time(percentile(&sorted, percent));
            let _ = writeln!(
                out,
                "{} rounds: p50 {} p99 {} max {}",
                sorted.len(),
                time(50.0),
                time(99.0),
                time(100.0)
            );
        }
        out
    }

    /// All of it. Times in ns, rates in bytes/s.
    pub(crate) fn json(&self, with_messages: bool) -> Value {
        let mut all = self.about.clone();
        all["messages"] = self.run.samples.len().into();
        all["failed"] = self.failed().into();
        let failures = self.failures().into_iter();
        all["failures"] = failures
            .map(|(cause, count)| json!({"cause": cause, "messages": count}))
            .collect();
        all["bytes"] = self.delivered_bytes().into();
        all["elapsed"] = ns(self.run.lasted).into();
        all["goodput"] = self.goodput().into();
        all["classes"] = self.classes.iter().map(Class::json).collect();
        if !self.rounds.is_empty() {
            let list: Value = self
                .rounds
                .iter()
                .map(|round| Value::from(ns(*round)))
                .collect();
            all["rounds"] = list;
        }
        if with_messages {
            let each = self.run.samples.iter().map(|sample| {
                let took = sample.took.as_ref();
                json!({
                    "began": ns(sample.began), "length": sample.job.size, "to": sample.job.to,
                    "elapsed": took.ok().map(|took| ns(*took)), "error": took.err(),
                })
            });
            all["samples"] = each.collect();
        }
        all
    }
}

impl Class {
    fn json(&self) -> Value {
        let at = |percent| ns(percentile(&self.times, percent));
        let mean_time = mean(self.times.iter().map(Duration::as_secs_f64));
        let mut value = json!({
            "from": self.from,
            "to": (self.to != u64::MAX).then_some(self.to),
            "messages": self.times.len(),
            "time": {
                "mean": (mean_time * 1e9).round() as u64,
                "p50": at(50.0), "p95": at(95.0), "p99": at(99.0), "max": at(100.0),
            },
        });
        if let [_, ..] = self.slowdowns.as_slice() {
            let at = |percent| percentile(&self.slowdowns, percent);
            value["slowdown"] = json!({
                "mean": mean(self.slowdowns.iter().copied()),
                "p50": at(50.0), "p95": at(95.0), "p99": at(99.0), "max": at(100.0),
            });
        }
        value
    }
}

#[cfg(test)]
pub(super) mod tests;
