// SPDX-License-Identifier: GPL-2.0
//! What the demonstration measured, as the guest sends it in `demo.json`, and what follows from it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::demo_messages::Messages;

/// A class that gets less than this part of what it offers starves.
const STARVING: f64 = 0.05;
/// How far from its target, as a part of it, the token group's share may be to count as on it.
const ON_TARGET: f64 = 0.1;

/// All of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Demo {
    /// Release of the guest's kernel.
    pub(crate) kernel: String,
    /// Rate of the bottleneck, bit/s on the wire.
    pub(crate) link_bit_s: f64,
    /// How long the load lasted.
    pub(crate) duration_s: f64,
    /// What the token group should have of the link.
    pub(crate) token_share_percent: f64,
    /// The parts of the load's story.
    pub(crate) phases: Vec<Phase>,
    /// The ways to configure the port.
    pub(crate) setups: Vec<SetUp>,
    /// The second part.
    #[serde(default)]
    pub(crate) messages: Option<Messages>,
}

/// A part of the load's story.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Phase {
    /// What the hosts do.
    pub(crate) what: String,
    /// Seconds after the start.
    pub(crate) from: f64,
    /// Seconds after the start.
    pub(crate) until: f64,
}

/// One way to configure the port.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SetUp {
    /// For people.
    pub(crate) title: String,
    /// The lines to type.
    #[serde(default)]
    pub(crate) commands: Vec<String>,
    /// Its classes, highest first.
    pub(crate) classes: Vec<Class>,
    /// The rates over time.
    pub(crate) samples: Vec<Sample>,
    /// What to know about it.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// One class over the whole run; packets.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Class {
    /// Its name.
    pub(crate) name: String,
    /// Came to the port.
    pub(crate) offered: u64,
    /// Left the port.
    pub(crate) sent: u64,
    /// Dropped, by cause.
    #[serde(default)]
    pub(crate) drops: BTreeMap<String, u64>,
    /// Of the link, mean over the run.
    pub(crate) share_percent: f64,
    /// Mean time in the port.
    pub(crate) sojourn_mean_us: Option<f64>,
    /// Longest time in the port.
    pub(crate) sojourn_max_us: Option<f64>,
}

/// The rates during one short interval.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sample {
    /// Its middle, seconds after the start.
    pub(crate) t: f64,
    /// bit/s on the wire by class.
    pub(crate) rates: BTreeMap<String, f64>,
}

/// Whether a class is one of the token group.
pub(crate) fn is_token(class: &str) -> bool {
    class.starts_with("token")
}

impl Demo {
    /// Reads a `demo.json`.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    /// The token group's target, bit/s.
    pub(crate) fn target(&self) -> f64 {
        self.link_bit_s * self.token_share_percent / 100.0
    }

    /// The token group's share of the link in a phase, percent. The outermost samples of the phase
    /// are left out: they hold the change.
    pub(crate) fn group_share(&self, set_up: &SetUp, phase: &Phase) -> Option<f64> {
        let width = set_up.interval()?;
        let inner: Vec<f64> = set_up
            .samples
            .iter()
            .filter(|s| s.t > phase.from + width && s.t < phase.until - width)
            .map(Sample::tokens)
            .collect();
        let mean = inner.iter().sum::<f64>() / inner.len() as f64;
        (!inner.is_empty()).then_some(mean / self.link_bit_s * 100.0)
    }

    /// What a share of the token group's is, in a word.
    pub(crate) fn judge(&self, share: f64) -> &'static str {
        let ratio = share / self.token_share_percent;
        if share < 0.01 {
            "none"
        } else if ratio > 1.0 + ON_TARGET {
            "above"
        } else if ratio < 1.0 - ON_TARGET {
            "below"
        } else {
            "on target"
        }
    }
}

impl SetUp {
    /// Seconds from one sample to the next.
    pub(crate) fn interval(&self) -> Option<f64> {
        let [first, second, ..] = self.samples.as_slice() else {
            return None;
        };
        Some(second.t - first.t)
    }

    /// The classes that got next to nothing of what they offered.
    pub(crate) fn starving(&self) -> Vec<&str> {
        self.classes
            .iter()
            .filter(|c| c.offered > 0 && (c.sent as f64) < STARVING * c.offered as f64)
            .map(|c| c.name.as_str())
            .collect()
    }
}

impl Sample {
    /// The rate of a class, bit/s.
    pub(crate) fn rate(&self, class: &str) -> f64 {
        self.rates.get(class).copied().unwrap_or(0.0)
    }

    /// The rate of the token group, bit/s.
    pub(crate) fn tokens(&self) -> f64 {
        self.rates
            .iter()
            .filter(|(name, _)| is_token(name))
            .map(|(_, rate)| rate)
            .sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A demonstration of two set-ups: one on target, one with tokens at a sixth of it.
    pub(crate) fn example() -> Demo {
        Demo::read(example_json().as_bytes()).expect("the example is a demo.json")
    }

    fn example_json() -> String {
        let samples = |rate: f64| {
            (0..20)
                .map(|i| {
                    format!(
                        r#"{{"t":{},"rates":{{"signal":1e5,"token0":{},"token1":{},"data":5e6}}}}"#,
                        f64::from(i) * 0.2 + 0.1,
                        rate / 4.0,
                        rate * 3.0 / 4.0
                    )
                })
                .collect::<Vec<_>>()
                .join(",")
        };
        let set_up = |title: &str, rate: f64| {
            format!(
                r#"{{"name":"x","title":"{title}","commands":["tc qdisc add"],"notes":["a note"],
                "classes":[
                 {{"name":"signal","offered":10,"sent":10,"received":10,"drops":{{}},"share_percent":0.5,"sojourn_mean_us":null,"sojourn_max_us":null}},
                 {{"name":"token0","offered":1000,"sent":900,"received":900,"drops":{{"expired":40,"over-limit":60}},"share_percent":1.3,"sojourn_mean_us":12.5,"sojourn_max_us":100.0}},
                 {{"name":"token1","offered":1000,"sent":20,"received":20,"drops":{{"expired":980}},"share_percent":3.9,"sojourn_mean_us":2500.0,"sojourn_max_us":8000.0}},
                 {{"name":"data","offered":500,"sent":400,"received":400,"drops":{{"over-limit":100}},"share_percent":25.0,"sojourn_mean_us":1.0,"sojourn_max_us":2.0}}],
                "samples":[{}]}}"#,
                samples(rate)
            )
        };
        let target = 20e6 * 84.0 / 1622.0;
        format!(
            r#"{{"kernel":"7.2","link_bit_s":20000000,"duration_s":4.0,"token_share_percent":{},
            "phases":[{{"what":"first","from":0.0,"until":2.0}},{{"what":"second","from":2.0,"until":4.0}}],
            "setups":[{},{}]}}"#,
            84.0 / 16.22,
            set_up("turnstile: one shaper", target),
            set_up("stock: one limiter each", target / 6.0)
        )
    }

    #[test]
    fn the_groups_share_is_that_of_the_phases_inner_samples() {
        let mut demo = example();
        demo.setups[0].samples[0].rates.insert("token0".into(), 1e9);
        let share = demo.group_share(&demo.setups[0], &demo.phases[0]);
        assert!((share.unwrap() - 84.0 / 16.22).abs() < 1e-9);
        assert_eq!(demo.judge(share.unwrap()), "on target");
        let low = demo.group_share(&demo.setups[1], &demo.phases[1]).unwrap();
        assert_eq!(demo.judge(low), "below");
        assert_eq!(demo.judge(3.0 * 5.18), "above");
        assert_eq!(demo.judge(0.0), "none");
    }

    #[test]
    fn a_class_starves_that_gets_less_than_a_twentieth() {
        assert_eq!(example().setups[0].starving(), ["token1"]);
    }
}
