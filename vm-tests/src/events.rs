// SPDX-License-Identifier: GPL-2.0
//! The serial port on which the guest tells the host what happens: an [`Event`] per line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use nix::sys::termios;
pub use turnstile_test_protocol::event::Event;

/// Names the device that events go to; set by init, inherited by everything it starts.
pub const ENV: &str = "TURNSTILE_EVENTS";

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
    pub fn send(&self, event: &Event) {
        let Some(mut port) = self.port.as_ref() else {
            return;
        };
        // One write: lines of several processes do not mix.
        let _ = port.write_all(event.line().as_bytes());
    }

    /// Waits until all of it is on the wire.
    pub fn drain(&self) {
        if let Some(port) = &self.port {
            let _ = termios::tcdrain(port);
        }
    }
}
