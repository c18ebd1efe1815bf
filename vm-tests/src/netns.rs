// SPDX-License-Identifier: GPL-2.0
//! Network namespaces: made and named as `ip netns add` does, entered by threads.
//!
//! A namespace is a property of a thread. Work inside one is done by a thread that enters it and
//! ends afterwards; a command that such a thread starts runs in that namespace.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{anyhow, Context, Result};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};

/// Where `ip netns` looks for names.
const FOLDER: &str = "/run/netns";

/// A named network namespace. It is deleted when this is dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
    path: PathBuf,
}

impl Netns {
    /// Makes a namespace of that name, with the loopback device up, IPv6 ready at once (no
    /// duplicate address detection) and nothing sent that the test did not ask for (no router
    /// solicitation, listener reports at once).
    ///
    /// # Errors
    /// When the name is taken, or without root.
    pub fn create(name: &str) -> Result<Self> {
        let path = Path::new(FOLDER).join(name);
        std::fs::create_dir_all(FOLDER).with_context(|| format!("making {FOLDER}"))?;
        File::create_new(&path).with_context(|| format!("making {}", path.display()))?;
        let ns = Self {
            name: name.to_owned(),
            path,
        };
        let place = ns.path.clone();
        std::thread::spawn(move || -> Result<()> {
            unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
            const NONE: Option<&str> = None;
            mount(
                Some("/proc/thread-self/ns/net"),
                &place,
                NONE,
                MsFlags::MS_BIND,
                NONE,
            )
            .with_context(|| format!("binding {}", place.display()))?;
            quieten();
            Ok(())
        })
        .join()
        .map_err(|_| anyhow!("making namespace {name} panicked"))??;
        ns.ip("link set lo up")?;
        Ok(ns)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` inside and waits for it.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or `work` fails.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.join_here()?;
                    work()
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `work` inside, in a thread that goes on by itself.
    pub fn spawn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<R> + Send + 'static,
    ) -> JoinHandle<Result<R>> {
        let path = self.path.clone();
        std::thread::spawn(move || {
            join(&path)?;
            work()
        })
    }

    /// Starts a program inside; it can be waited for or killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, command: &mut Command) -> Result<std::process::Child> {
        self.enter(|| {
            command
                .spawn()
                .with_context(|| format!("starting {command:?}"))
        })
    }

    /// Sets a kernel parameter below /proc/sys, by its path there: `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// When there is no such parameter, or it refuses the value.
    pub fn sysctl(&self, parameter: &str, value: &str) -> Result<()> {
        self.enter(|| {
            std::fs::write(Path::new("/proc/sys").join(parameter), value)
                .with_context(|| format!("{parameter} = {value}"))
        })
    }

    /// Moves the calling thread, for good, into the namespace.
    fn join_here(&self) -> Result<()> {
        join(&self.path)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // The namespace goes with its last user; that the name cannot be removed is no reason to
        // panic.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn join(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("entering {}", path.display()))
}

/// Defaults for the devices of the calling thread's namespace. What a kernel lacks needs no
/// quieting.
fn quieten() {
    for (parameter, value) in [
        ("default/accept_dad", "0"),
        ("all/accept_dad", "0"),
        ("default/accept_ra", "0"),
        ("default/router_solicitations", "0"),
        // Multicast listener reports, else repeated at random moments of the first second.
        ("default/mldv2_unsolicited_report_interval", "1"),
    ] {
        let _ = std::fs::write(Path::new("/proc/sys/net/ipv6/conf").join(parameter), value);
    }
}
