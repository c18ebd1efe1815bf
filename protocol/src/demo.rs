// SPDX-License-Identifier: GPL-2.0
//! What the demonstration finds: `demo.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::messages::Messages;

/// The report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Demo {
    /// Release of the guest's kernel.
    pub kernel: String,
    /// Rate of the bottleneck, bit/s on the wire.
    pub link_bit_s: u64,
    /// How long the load lasted.
    pub duration_s: f64,
    /// What the token group should have of the link.
    pub token_share_percent: f64,
    /// The parts of the load's story.
    pub phases: Vec<Phase>,
    /// The set-ups of the port.
    pub setups: Vec<SetUp>,
    /// The second part.
    #[serde(default)]
    pub messages: Option<Messages>,
}

/// A part of the load's story.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Phase {
    /// What the hosts do, for people.
    pub what: String,
    /// Seconds after the start.
    pub from: f64,
    /// Seconds after the start.
    pub until: f64,
}

/// One way to configure the port.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SetUp {
    /// In a word.
    pub name: String,
    /// For people.
    pub title: String,
    /// The lines to type.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Its classes, highest first.
    pub classes: Vec<Class>,
    /// The rates over time.
    pub samples: Vec<Sample>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One class over the whole run; packets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Came to the port.
    pub offered: u64,
    /// Left the port.
    pub sent: u64,
    /// Came to the receiver.
    pub received: u64,
    /// Dropped, by cause.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Of the link, on the wire, mean over the run.
    pub share_percent: f64,
    /// Mean time in the port; `None` when nothing was sent or it cannot be known.
    pub sojourn_mean_us: Option<f64>,
    /// Longest time in the port.
    pub sojourn_max_us: Option<f64>,
}

/// The rates during one short interval.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sample {
    /// Its middle, seconds after the start.
    pub t: f64,
    /// bit/s on the wire, as received, by class.
    pub rates: BTreeMap<String, f64>,
}

/// Whether a class is one of the token group.
pub fn is_token(class: &str) -> bool {
    class.starts_with("token")
}

impl Demo {
    /// The link's rate, bit/s.
    pub fn link(&self) -> f64 {
        self.link_bit_s as f64
    }

    /// The token group's target, bit/s.
    pub fn target(&self) -> f64 {
        self.link() * self.token_share_percent / 100.0
    }

    /// The token group's share of the link in a phase, percent. The outermost samples of the phase
    /// are left out: they hold the change.
    pub fn group_share(&self, set_up: &SetUp, phase: &Phase) -> Option<f64> {
        let width = set_up.interval()?;
        let inner: Vec<f64> = set_up
            .samples
            .iter()
            .filter(|s| s.t > phase.from + width && s.t < phase.until - width)
            .map(Sample::tokens)
            .collect();
        let mean = inner.iter().sum::<f64>() / inner.len() as f64;
        (!inner.is_empty()).then_some(mean / self.link() * 100.0)
    }
}

impl SetUp {
    /// Seconds from one sample to the next.
    pub fn interval(&self) -> Option<f64> {
        let [first, second, ..] = self.samples.as_slice() else {
            return None;
        };
        Some(second.t - first.t)
    }
}

impl Sample {
    /// The rate of a class, bit/s.
    pub fn rate(&self, class: &str) -> f64 {
        self.rates.get(class).copied().unwrap_or(0.0)
    }

    /// The rate of the token group, bit/s.
    pub fn tokens(&self) -> f64 {
        self.rates
            .iter()
            .filter(|(name, _)| is_token(name))
            .map(|(_, rate)| rate)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

    const EARLIER: &str = r#"{"kernel":"7.2","link_bit_s":20000000,"duration_s":1.0,
        "token_share_percent":5.0,"phases":[{"what":"first","from":0.0,"until":1.0}],
        "setups":[{"name":"x","title":"t","commands":["tc qdisc add"],"notes":["a note"],
          "classes":[{"name":"token0","offered":9,"sent":8,"received":8,
            "drops":{"expired":1,"over-limit":0},"share_percent":1.3,
            "sojourn_mean_us":12.5,"sojourn_max_us":null}],
          "samples":[{"t":0.1,"rates":{"token0":9e9,"data":5e6}},
            {"t":0.3,"rates":{"token0":4e5,"token1":6e5,"data":5e6}},
            {"t":0.5,"rates":{"token0":1e6,"data":5e6}},
            {"t":0.9,"rates":{"token0":9e9,"data":5e6}}]}],
        "messages":null}"#;

    #[test]
    fn figures_of_an_earlier_run_are_read() {
        let demo: Demo = kept(EARLIER);
        assert_eq!(demo.setups[0].classes[0].drops["expired"], 1);
        assert!(demo.messages.is_none());
        assert!(is_token("token7") && !is_token("data"));
    }

    #[test]
    fn the_groups_share_is_that_of_the_phases_inner_samples() {
        let demo: Demo = serde_json::from_str(EARLIER).expect("valid");
        let share = demo.group_share(&demo.setups[0], &demo.phases[0]);
        assert_eq!(share, Some(5.0));
        assert_eq!(demo.target(), 1e6);
    }
}
