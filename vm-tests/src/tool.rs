// SPDX-License-Identifier: GPL-2.0
//! The two programs that configure a port. Tests run with each of them alike.

use anyhow::Result;
use serde_json::Value;

use crate::cmd::{json, Output};
use crate::netns::Netns;

/// A program that configures ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Stock `tc` with Turnstile's plugin.
    Tc,
    /// Turnstile's own command.
    Turnstile,
}

impl Tool {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tc, Self::Turnstile];

    /// The command line for `verb` (`add`, `replace`, `change`) on a device. `place` says where the
    /// port goes, in words that both understand: `root handle 1:`.
    pub fn line(self, verb: &str, dev: &str, place: &str, options: &str) -> String {
        match self {
            Self::Tc => format!("tc qdisc {verb} dev {dev} {place} turnstile {options}"),
            Self::Turnstile => format!("turnstile port {verb} {dev} {place} {options}"),
        }
    }

    /// Runs [`Tool::line`], whether it succeeds or not.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn try_port(
        self,
        ns: &Netns,
        verb: &str,
        dev: &str,
        place: &str,
        options: &str,
    ) -> Result<Output> {
        ns.try_run(&self.line(verb, dev, place, options))
    }

    /// Adds, replaces or changes the root port `1:` of a device.
    ///
    /// # Errors
    /// When it is refused.
    pub fn port(self, ns: &Netns, verb: &str, dev: &str, options: &str) -> Result<()> {
        self.try_port(ns, verb, dev, "root handle 1:", options)?
            .success()
            .map(drop)
    }

    /// Deletes the root port of a device.
    ///
    /// # Errors
    /// When it is refused.
    pub fn delete(self, ns: &Netns, dev: &str) -> Result<()> {
        let line = match self {
            Self::Tc => format!("tc qdisc del dev {dev} root"),
            Self::Turnstile => format!("turnstile port del {dev} root"),
        };
        ns.run(&line).map(drop)
    }

    /// What it shows of a device's port, as text.
    ///
    /// # Errors
    /// When it fails.
    pub fn show(self, ns: &Netns, dev: &str) -> Result<String> {
        ns.run(&self.show_line("", dev))
    }

    /// What it shows of a device's port, as JSON: the object that describes the port.
    ///
    /// # Errors
    /// When it fails, prints no JSON, or shows no port.
    pub fn show_json(self, ns: &Netns, dev: &str) -> Result<Value> {
        let text = ns.run(&self.show_line("-j", dev))?;
        let all = json(&text)?;
        let mut list = all.as_array().into_iter().flatten();
        list.find(|qdisc| qdisc["kind"] == "turnstile")
            .cloned()
            .ok_or_else(|| anyhow::anyhow!("no turnstile port in {text}"))
    }

    fn show_line(self, flags: &str, dev: &str) -> String {
        match self {
            Self::Tc => format!("tc {flags} qdisc show dev {dev}"),
            Self::Turnstile => format!("turnstile {flags} port show {dev}"),
        }
    }
}
