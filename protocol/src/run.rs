// SPDX-License-Identifier: GPL-2.0
//! What the host wants of a boot: `run.json`, which the guest's init reads.

use serde::{Deserialize, Serialize};

/// Where the guest finds it.
pub const PATH: &str = "/etc/turnstile/run.json";

/// What to do after boot.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
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
    /// Run the row of these that the filter names, for whoever counts each instruction.
    Profile,
    /// Run the experiment that the filter names.
    Lab,
    /// Give a shell on the console.
    #[default]
    Shell,
}

impl Mode {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Planted => "planted",
            Self::Demo => "demo",
            Self::Bench => "bench",
            Self::Profile => "profile",
            Self::Lab => "lab",
            Self::Shell => "shell",
        }
    }
}

/// What a whole run takes of the cases, where other beds run them as well.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// All of them.
    #[default]
    All,
    /// Those that a kernel with sanitizers is too slow for.
    Fast,
    /// Those that only this bed can run, and a third of the others, by the seed.
    Third,
}

impl Take {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Fast => "fast",
            Self::Third => "third",
        }
    }
}

impl std::str::FromStr for Take {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::All, Self::Fast, Self::Third];
        let found = all.into_iter().find(|take| take.word() == word);
        found.ok_or_else(|| format!("{word}: all, fast or third"))
    }
}

/// The run's parameters. What is not given takes its default.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct RunConfig {
    /// What to do.
    pub mode: Mode,
    /// Which cases: names or parts of names, separated by commas; empty for all.
    pub filter: String,
    /// Seed of everything random in the tests.
    pub seed: u64,
    /// Which of them, if the filter is empty.
    pub take: Take,
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
            take: Take::default(),
            timeout_scale: 1.0,
            events: "/dev/ttyS1".into(),
        }
    }
}

impl RunConfig {
    /// With this to do, and defaults.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

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

    #[test]
    fn every_mode_has_its_word() {
        for (word, mode) in [
            ("test", Mode::Test),
            ("planted", Mode::Planted),
            ("demo", Mode::Demo),
            ("bench", Mode::Bench),
            ("profile", Mode::Profile),
            ("lab", Mode::Lab),
            ("shell", Mode::Shell),
        ] {
            let run: RunConfig = kept(&format!(
                r#"{{"mode":"{word}","filter":"a,b","seed":1,"timeout_scale":2.5}}"#
            ));
            assert_eq!((run.mode, run.filter.as_str()), (mode, "a,b"));
            assert_eq!(mode.word(), word);
        }
    }
}
