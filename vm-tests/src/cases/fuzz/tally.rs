// SPDX-License-Identifier: GPL-2.0
//! How many calls of each kind were made, and how many the kernel did as asked.

use std::collections::BTreeMap;

/// Of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// Calls that were made.
    pub(super) tried: u64,
    /// Calls that were not refused.
    pub(super) done: u64,
}

/// Of all kinds, and the modules' own counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    calls: BTreeMap<&'static str, Count>,
    counters: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// A call was made.
    pub(super) fn count(&mut self, what: &'static str, done: bool) {
        let count = self.calls.entry(what).or_default();
        count.tried += 1;
        count.done += u64::from(done);
    }

    /// A counter of the modules' rose by so much.
    pub(super) fn counter(&mut self, what: &'static str, by: u64) {
        *self.counters.entry(what).or_default() += by;
    }

    /// Adds another one's numbers.
    pub(super) fn add(&mut self, other: &Self) {
        for (what, count) in &other.calls {
            let sum = self.calls.entry(what).or_default();
            sum.tried += count.tried;
            sum.done += count.done;
        }
        for (what, by) in &other.counters {
            self.counter(what, *by);
        }
    }

    /// Calls of this kind.
    pub(super) fn of(&self, what: &str) -> Count {
        self.calls.get(what).copied().unwrap_or_default()
    }

    /// A counter.
    pub(super) fn counted(&self, what: &str) -> u64 {
        self.counters.get(what).copied().unwrap_or(0)
    }

    /// All kinds that there were.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.calls.keys().copied()
    }

    /// In a few words.
    pub(super) fn summary(&self) -> String {
        let (mut tried, mut done) = (0, 0);
        for count in self.calls.values() {
            tried += count.tried;
            done += count.done;
        }
        format!(
            "{tried} calls, {done} of them done, {} messages begun, {} delivered",
            self.counted("out_opened"),
            self.counted("in_delivered")
        )
    }

    /// A line for each kind, and one for all counters that are not 0.
    pub(super) fn table(&self) -> Vec<String> {
        let mut lines = vec![self.summary()];
        for (what, count) in &self.calls {
            lines.push(format!("{what}: {} of {}", count.done, count.tried));
        }
        let risen = self.counters.iter().filter(|(_, by)| **by > 0);
        let risen: Vec<_> = risen.map(|(what, by)| format!("{what} {by}")).collect();
        lines.push(risen.join(", "));
        lines
    }
}
