// SPDX-License-Identifier: GPL-2.0
//! Looks for the reason behind the kernel's short answers, and for what helps.
//!
//! "Specified qdisc kind is unknown" may mean that no module is installed for this kernel, or that
//! its signature was refused; "Address already in use", that some program has the transport's UDP
//! port. Which of these it is can be read off the machine. [`Machine`] is where it is read, so that
//! tests can bring one of their own.

mod module;
mod port;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::Command;

/// What is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The kernel does not know what this module would bring.
    NoModule(&'static str),
    /// Somebody else has the transport's UDP port.
    PortTaken,
}

/// Tries to load the module of this name; an error is in modprobe's words.
type Modprobe = dyn Fn(&str) -> Result<(), String>;

/// What is asked for the reason.
pub(crate) struct Machine {
    /// Where `/proc`, `/sys` and `/lib/modules` are.
    root: PathBuf,
    modprobe: Box<Modprobe>,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        Self {
            root: "/".into(),
            modprobe: Box::new(modprobe),
        }
    }

    /// Why, and what helps: a part of a sentence that can follow the kernel's answer.
    pub(crate) fn explain(&self, obstacle: Obstacle) -> String {
        match obstacle {
            Obstacle::NoModule(name) => self.module(name),
            Obstacle::PortTaken => self.port_taken(),
        }
    }

    /// A small file, without the white space around it; empty if it cannot be read.
    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path))
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    }

    /// The running kernel's release, as `uname -r` prints it.
    fn release(&self) -> String {
        self.read("proc/sys/kernel/osrelease")
    }

    /// Whether this process has a capability (number of linux/capability.h).
    fn capable(&self, capability: u32) -> bool {
        let status = self.read("proc/self/status");
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        effective.is_some_and(|set| (set >> capability) & 1 == 1)
    }
}

/// Runs modprobe. It heeds the blacklist, as it does when the kernel asks for a module.
fn modprobe(name: &str) -> Result<(), String> {
    // sudo's and cron's PATH may have no sbin.
    let found = ["modprobe", "/sbin/modprobe", "/usr/sbin/modprobe"]
        .iter()
        .find_map(|program| {
            let mut command = Command::new(program);
            command.args(["--use-blacklist", name]).output().ok()
        });
    let output = found.ok_or("there is no modprobe on this machine")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or_default();
    // "modprobe: FATAL: Module x not found ...": who says it, and how loudly, is known.
    let words = ["modprobe: ", "FATAL: ", "ERROR: "];
    let bare = words
        .iter()
        .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    Err(bare.trim().to_owned())
}
