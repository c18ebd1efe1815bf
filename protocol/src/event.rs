// SPDX-License-Identifier: GPL-2.0
//! What the guest tells while it runs: one JSON object per line on a serial port of its own.
//!
//! The console carries the kernel's and the programs' text; events go where nothing else writes, so
//! that the host never has to guess which line is a verdict.

use serde::{Deserialize, Serialize};

/// One line to the host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Init runs.
    Boot {
        /// Release of the running kernel.
        kernel: String,
    },
    /// How many cases will be run.
    Plan {
        /// Their number.
        cases: usize,
    },
    /// A case begins.
    Start {
        /// Its name.
        case: String,
    },
    /// A case ended well.
    Pass {
        /// Its name.
        case: String,
        /// How long it took, in ms of the guest's clock.
        ms: u64,
    },
    /// A case failed.
    Fail {
        /// Its name.
        case: String,
        /// How long it took, in ms of the guest's clock.
        ms: u64,
        /// The reason, possibly of several lines.
        why: String,
    },
    /// A case does not apply to this bed.
    Skip {
        /// Its name.
        case: String,
        /// What the bed lacks.
        why: String,
    },
    /// A file for the host to keep.
    File {
        /// Its name, without a folder.
        name: String,
        /// Its text.
        data: String,
    },
    /// Something to show to the person who waits.
    Progress {
        /// One line.
        text: String,
    },
    /// All is said.
    Done {
        /// Cases that passed.
        passed: usize,
        /// Cases that failed.
        failed: usize,
    },
    /// A kind of line that is newer than this reader.
    #[serde(other)]
    Other,
}

impl Event {
    /// Reads one line. `None` for an empty one.
    ///
    /// # Errors
    /// It is not an event: the text holds the line.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(line)
            .map(Some)
            .map_err(|e| format!("not an event ({e}): {line}"))
    }

    /// The line, with its end.
    pub fn line(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

    #[test]
    fn events_of_all_kinds_are_read_and_written() {
        for line in [
            r#"{"event":"boot","kernel":"7.2.12"}"#,
            r#"{"event":"plan","cases":3}"#,
            r#"{"event":"start","case":"a/b"}"#,
            r#"{"event":"pass","case":"a/b","ms":7}"#,
            r#"{"event":"fail","case":"a/b","ms":12,"why":"two\nlines"}"#,
            r#"{"event":"skip","case":"a/b","why":"one CPU"}"#,
            r#"{"event":"file","name":"demo.json","data":"{\"a\":1}"}"#,
            r#"{"event":"progress","text":"still here"}"#,
            r#"{"event":"done","passed":3,"failed":0}"#,
        ] {
            let event: Event = kept(line);
            assert_ne!(event, Event::Other);
            assert_eq!(event.line(), format!("{line}\n"));
            assert_eq!(Event::parse(&event.line()), Ok(Some(event)));
        }
    }

    #[test]
    fn what_is_no_known_event_is_told_apart() {
        assert_eq!(
            Event::parse(r#"{"event":"news","x":1}"#),
            Ok(Some(Event::Other))
        );
        assert_eq!(Event::parse(""), Ok(None));
        assert!(Event::parse("garbage").is_err());
    }
}
