// SPDX-License-Identifier: GPL-2.0
//! What the host wants of this boot: `/etc/turnstile/run.json`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Where the host puts it.
pub const PATH: &str = "/etc/turnstile/run.json";

/// What to do after boot.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Run the test cases.
    Test,
    /// Run the cases that commit a fault.
    Planted,
    /// Run the demonstration.
    Demo,
    /// Count instructions per packet.
    Bench,
    /// Run the experiment that the filter names.
    Lab,
    /// Give a shell on the console.
    #[default]
    Shell,
}

/// The run's parameters. What is not given takes its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// What to do.
    pub mode: Mode,
    /// Which cases: names or parts of names, separated by commas; empty for all.
    pub filter: String,
    /// Seed of everything random in the tests.
    pub seed: u64,
    /// Factor on every time limit, for slow beds.
    pub timeout_scale: f64,
    /// The device that events go to.
    pub events: String,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            filter: String::new(),
            seed: 1,
            timeout_scale: 1.0,
            events: "/dev/ttyS1".into(),
        }
    }
}

impl RunConfig {
    /// Reads `path`. A missing file means the defaults: a shell.
    ///
    /// # Errors
    /// When the file is there but cannot be read, or is not such an object.
    pub fn load(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a run configuration", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_keys_take_their_defaults() {
        let run: RunConfig =
            serde_json::from_str(r#"{"mode":"test","seed":7,"unknown":1}"#).expect("valid");
        assert_eq!(
            (run.mode, run.seed, run.timeout_scale),
            (Mode::Test, 7, 1.0)
        );
        assert_eq!(run.events, "/dev/ttyS1");
    }
}
