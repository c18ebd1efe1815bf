// SPDX-License-Identifier: GPL-2.0
//! What the guest tells: one JSON object per line on its second serial port.

use serde::Deserialize;

/// One line of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    /// Its init runs.
    Boot {
        /// Release of its kernel.
        kernel: String,
    },
    /// How many cases will run.
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
        /// How long it took, in ms.
        ms: u64,
    },
    /// A case failed.
    Fail {
        /// Its name.
        case: String,
        /// How long it took, in ms.
        ms: u64,
        /// The reason.
        why: String,
    },
    /// A case was left out.
    Skip {
        /// Its name.
        case: String,
        /// The reason.
        why: String,
    },
    /// A file to keep.
    File {
        /// Its name, without a folder.
        name: String,
        /// Its text.
        data: String,
    },
    /// Something to show.
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
    /// A kind of line that is newer than this xtask.
    #[serde(other)]
    Other,
}

/// Puts lines together from the pieces in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes bytes; returns the lines they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|b| *b == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole)
            .lines()
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect()
    }
}

/// Reads one line. `None` for an empty one.
///
/// # Errors
/// It is not an event: the text holds the line.
pub(crate) fn parse(line: &str) -> Result<Option<Event>, String> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    serde_json::from_str(line)
        .map(Some)
        .map_err(|e| format!("not an event ({e}): {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"event\":").is_empty());
        assert_eq!(lines.push(b"\"done\"}\r\n{\"a"), ["{\"event\":\"done\"}"]);
        assert_eq!(lines.push(b"\":1}\n\n"), ["{\"a\":1}", ""]);
    }

    #[test]
    fn events_of_all_kinds_are_read() {
        let read = |s: &str| parse(s).unwrap();
        assert_eq!(
            read(r#"{"event":"fail","case":"a/b","ms":12,"why":"two\nlines"}"#),
            Some(Event::Fail {
                case: "a/b".into(),
                ms: 12,
                why: "two\nlines".into()
            })
        );
        assert_eq!(
            read(r#"{"event":"file","name":"demo.json","data":"{\"a\":1}"}"#),
            Some(Event::File {
                name: "demo.json".into(),
                data: "{\"a\":1}".into()
            })
        );
        assert_eq!(
            read(r#"{"event":"done","passed":3,"failed":0}"#),
            Some(Event::Done {
                passed: 3,
                failed: 0
            })
        );
        assert_eq!(read(r#"{"event":"news","x":1}"#), Some(Event::Other));
        assert_eq!(read(""), None);
        assert!(parse("garbage").is_err());
    }
}
