// SPDX-License-Identifier: GPL-2.0
//! Watches the kernel's log.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};

use crate::complaints;

/// Whether a message of the kernel's log is a complaint, by the list that the host uses for the
/// console.
#[cfg(test)]
fn is_bad(message: &str) -> bool {
    complaints::complaint(message, Some(message)).is_some()
}

/// Reads what the kernel logs from a moment on.
#[derive(Debug)]
pub struct Watch {
    log: File,
    reader: complaints::Reader,
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// When /dev/kmsg cannot be opened: not root, or no devtmpfs.
    pub fn start() -> Result<Self> {
        let mut log = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("opening /dev/kmsg")?;
        log.seek(SeekFrom::End(0))
            .context("going to the end of /dev/kmsg")?;
        Ok(Self {
            log,
            reader: complaints::Reader::default(),
        })
    }

    /// The complaints since the start or since the last call.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn complaints(&mut self) -> Result<Vec<String>> {
        let mut record = [0; 8192];
        let mut found = Vec::new();
        loop {
            match self.log.read(&mut record) {
                Ok(0) => return Ok(found),
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]).into_owned();
                    // "priority,sequence,time,flags;message", then lines of key=value.
                    let message = text
                        .split_once(';')
                        .map_or(text.as_str(), |(_, message)| message);
                    let line = message.lines().next().unwrap_or_default();
                    if self.reader.complaint(line, Some(line)).is_some() {
                        found.push(line.to_owned());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(found),
                // Records were overwritten before they were read: go on with the oldest one kept.
                // That may be in the midst of the trace of a failure that a test wanted.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    self.reader.complaint(complaints::INJECTED, None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("reading /dev/kmsg"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_bad;
    use crate::complaints::PLANTED;

    #[test]
    fn every_planted_complaint_is_found() {
        for message in PLANTED {
            assert!(is_bad(message), "missed: {message}");
        }
    }

    #[test]
    fn complaints_are_told_from_chatter() {
        assert!(is_bad("WARNING: CPU: 0 PID: 1 at net/sched/sch_api.c:1"));
        assert!(is_bad(
            "WARNING: possible circular locking dependency detected"
        ));
        assert!(is_bad(
            "unregister_netdevice: waiting for veth0 to become free. Usage count = 2"
        ));
        assert!(!is_bad(
            "sch_turnstile: loading out-of-tree module taints kernel."
        ));
        assert!(!is_bad(
            "IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready"
        ));
    }
}
