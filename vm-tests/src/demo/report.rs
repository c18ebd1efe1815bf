// SPDX-License-Identifier: GPL-2.0
//! What the demonstration finds: the file for the host and a table for the log.

use std::collections::BTreeMap;

use serde::Serialize;

use super::load::Phase;
use super::messages::MessagesReport;

/// All of it: `demo.json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) kernel: String,
    pub(super) link_bit_s: u64,
    pub(super) duration_s: f64,
    /// What the token group should have of the link.
    pub(super) token_share_percent: f64,
    pub(super) phases: Vec<Phase>,
    pub(super) setups: Vec<SetUpReport>,
    /// The second part.
    pub(super) messages: Option<MessagesReport>,
}

/// One set-up.
#[derive(Debug, Serialize)]
pub(super) struct SetUpReport {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) commands: Vec<String>,
    pub(super) classes: Vec<ClassReport>,
    pub(super) samples: Vec<Sample>,
    pub(super) notes: Vec<String>,
}

/// One class over the whole run.
#[derive(Debug, Serialize)]
pub(super) struct ClassReport {
    pub(super) name: String,
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) drops: BTreeMap<&'static str, u64>,
    /// Of the link, on the wire, as a mean over the run.
    pub(super) share_percent: f64,
    /// `None` when nothing was sent or it cannot be known.
    pub(super) sojourn_mean_us: Option<f64>,
    pub(super) sojourn_max_us: Option<f64>,
}

/// The rates of all classes during one short interval.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    /// Its middle, seconds after the start.
    pub(super) t: f64,
    /// bit/s on the wire, as received.
    pub(super) rates: BTreeMap<String, f64>,
}

impl SetUpReport {
    /// A table for people.
    pub(super) fn print(&self) {
        println!("\n{}", self.title);
        println!(
            "  {:<12}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10}{:>14}{:>13}",
            "class",
            "offered",
            "sent",
            "received",
            "over-limit",
            "expired",
            "share %",
            "sojourn us",
            "max us"
        );
        for class in &self.classes {
            let number = |value: Option<f64>| {
                value.map_or_else(|| "-".into(), |value| format!("{value:.0}"))
            };
            println!(
                "  {:<12}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10.2}{:>14}{:>13}",
                class.name,
                class.offered,
                class.sent,
                class.received,
                class.drops.get("over-limit").copied().unwrap_or(0),
                class.drops.get("expired").copied().unwrap_or(0),
                class.share_percent,
                number(class.sojourn_mean_us),
                number(class.sojourn_max_us),
            );
        }
        for note in &self.notes {
            println!("  {note}");
        }
    }
}
