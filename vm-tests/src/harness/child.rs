// SPDX-License-Identifier: GPL-2.0
//! The process that a case runs in.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use anyhow::{anyhow, Context, Result};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};

use super::case::{Case, Ctx};

/// Runs `case` in this process, which must have one thread and ends afterwards.
///
/// The process first gets a network namespace of its own and a private `/run/netns`: whatever the
/// case makes vanishes with its last process, and a case run by hand leaves the user's namespaces
/// alone.
///
/// # Errors
/// The case's error, a panic's text, or that the namespaces could not be made.
pub fn run_here(case: &Case, seed: u64) -> Result<()> {
    isolate()?;
    let mut ctx = Ctx::new(case.name, seed);
    catch_unwind(AssertUnwindSafe(|| (case.run)(&mut ctx))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        Err(anyhow!("panicked: {text}"))
    })
}

/// Gives this process, which must have one thread, namespaces of its own for the network and for
/// mounts.
///
/// # Errors
/// Without root.
pub fn isolate() -> Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .context("making namespaces (this needs root)")?;
    mount(
        NONE,
        Path::new("/"),
        NONE,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NONE,
    )
    .context("making mounts private")?;
    std::fs::create_dir_all("/run/netns").context("making /run/netns")?;
    mount(
        Some("tmpfs"),
        Path::new("/run/netns"),
        Some("tmpfs"),
        MsFlags::empty(),
        NONE,
    )
    .context("mounting a private /run/netns")
}
