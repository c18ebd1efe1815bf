// SPDX-License-Identifier: GPL-2.0
//! What the guest tells the host: one JSON object per line on a serial port of its own.
//!
//! The console carries the kernel's and the programs' text; events go where nothing else writes, so
//! that the host never has to guess which line is a verdict.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use nix::sys::termios;
use serde::Serialize;

/// Names the device that events go to; set by init, inherited by everything it starts.
pub const ENV: &str = "TURNSTILE_EVENTS";

/// One line to the host.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// Init runs.
    Boot {
        /// Release of the running kernel.
        kernel: &'a str,
    },
    /// How many cases will be run.
    Plan {
        /// Their number.
        cases: usize,
    },
    /// A case begins.
    Start {
        /// Its name.
        case: &'a str,
    },
    /// A case ended well.
    Pass {
        /// Its name.
        case: &'a str,
        /// How long it took, in ms of the guest's clock.
        ms: u64,
    },
    /// A case failed.
    Fail {
        /// Its name.
        case: &'a str,
        /// How long it took, in ms of the guest's clock.
        ms: u64,
        /// The reason, possibly of several lines.
        why: &'a str,
    },
    /// A case does not apply to this bed.
    Skip {
        /// Its name.
        case: &'a str,
        /// What the bed lacks.
        why: &'a str,
    },
    /// A file for the host to keep.
    File {
        /// Its name, without a folder.
        name: &'a str,
        /// Its text.
        data: &'a str,
    },
    /// Something to show to the person who waits.
    Progress {
        /// One line.
        text: &'a str,
    },
    /// All is said.
    Done {
        /// Cases that passed.
        passed: usize,
        /// Cases that failed.
        failed: usize,
    },
}

/// The way to the host; silent where there is none (a test run by hand).
#[derive(Debug)]
pub struct Events {
    port: Option<File>,
}

impl Events {
    /// Opens the port that [`ENV`] names; without it, or where it cannot be opened, events go
    /// nowhere.
    pub fn from_env() -> Self {
        let port =
            std::env::var_os(ENV).and_then(|path| OpenOptions::new().write(true).open(path).ok());
        Self { port }
    }

    /// Takes the port into use: no echo and no translation of line ends by the terminal layer.
    ///
    /// To be called once, by init.
    pub fn prepare(path: &Path) {
        let Ok(port) = OpenOptions::new().read(true).write(true).open(path) else {
            return;
        };
        if let Ok(mut attributes) = termios::tcgetattr(&port) {
            termios::cfmakeraw(&mut attributes);
            // A port that cannot be set still carries lines: JSON does not mind a carriage return.
            let _ = termios::tcsetattr(&port, termios::SetArg::TCSANOW, &attributes);
        }
    }

    /// Sends one event. A host that is gone is no reason for the guest to fail.
    pub fn send(&self, event: &Event<'_>) {
        let Some(mut port) = self.port.as_ref() else {
            return;
        };
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            // One write: lines of several processes do not mix.
            let _ = port.write_all(&line);
        }
    }

    /// Waits until all of it is on the wire.
    pub fn drain(&self) {
        if let Some(port) = &self.port {
            let _ = termios::tcdrain(port);
        }
    }
}
