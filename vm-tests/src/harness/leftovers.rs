// SPDX-License-Identifier: GPL-2.0
//! What a case must not leave behind: processes, network namespaces, references to the modules.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// What is in use at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usage {
    namespaces: BTreeSet<PathBuf>,
    named: BTreeSet<PathBuf>,
    references: Vec<String>,
}

impl Usage {
    /// Looks now.
    pub(super) fn now() -> Self {
        Self {
            namespaces: processes()
                .filter_map(|(pid, _)| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok())
                .collect(),
            named: std::fs::read_dir("/run/netns")
                .map(|folder| folder.flatten().map(|entry| entry.path()).collect())
                .unwrap_or_default(),
            // Cases load and unload modules as they like; what counts is that nobody holds one.
            references: ["sch_turnstile", "turnstile"]
                .iter()
                .filter_map(|module| {
                    let count = std::fs::read_to_string(format!("/sys/module/{module}/refcnt"));
                    let count = count.ok()?;
                    (count.trim() != "0").then(|| format!("{} to {module}", count.trim()))
                })
                .collect(),
        }
    }

    /// What differs from `before`, waiting a while for the kernel to take namespaces apart.
    pub(super) fn difference(before: &Self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            let now = Self::now();
            if now == *before {
                return None;
            }
            if Instant::now() >= deadline {
                return Some(format!("left behind: {now:?}; before: {before:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends and reaps every child that this process has inherited from a dead one.
pub(super) fn reap_orphans() -> Vec<String> {
    let me = Pid::this().as_raw();
    let mut ended = Vec::new();
    for (pid, parent) in processes() {
        if parent == me {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let pid = Pid::from_raw(pid);
            if kill(pid, Signal::SIGKILL).is_ok() && nix::sys::wait::waitpid(pid, None).is_ok() {
                ended.push(name.trim().to_owned());
            }
        }
    }
    ended
}

/// All processes with their parents.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // "pid (name) state parent …": the name may hold anything, also parentheses.
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((pid, parent))
        })
}
