// SPDX-License-Identifier: GPL-2.0
//! Cases that fail: each commits one fault, and the detector that it is for has to notice.
//!
//! A detector that was never seen to work may be off. The host runs these in a boot of their own
//! and expects every one of them to fail for the reason that it knows (`xtask/src/detectors.rs`).
//! They are run in this order: lockdep reports once, KASAN switches it off, and the last one ends
//! the machine.

use std::process::Command;
use std::time::Duration;

use anyhow::{ensure, Context, Result};

use crate::clock;
use crate::harness::{Case, Ctx};

/// All of them, in the order in which they can be run in one boot.
pub const CASES: &[Case] = &[
    // The machine itself is well: this one passes.
    Case::new("planted/nothing", |_| Ok(())),
    Case::new("planted/error", |_| anyhow::bail!("planted")),
    Case::new("planted/panic", |_| panic!("planted")),
    Case::new("planted/hang", hang).timeout_s(1),
    Case::new("planted/process", process),
    Case::new("planted/namespace", namespace),
    Case::new("planted/module-in-use", module_in_use),
    Case::new("planted/rcu", fault),
    Case::new("planted/atomic-sleep", fault),
    Case::new("planted/warn", fault),
    Case::new("planted/active-timer", fault),
    Case::new("planted/lock-order", fault),
    Case::new("planted/use-after-free", fault),
    Case::new("planted/out-of-bounds", fault),
    Case::new("planted/leak", fault),
    Case::new("planted/spin", spin),
    Case::new("planted/bug", fault),
];

/// Loads the kernel module that commits the fault of the case's name.
fn fault(ctx: &mut Ctx) -> Result<()> {
    let name = ctx.name.trim_start_matches("planted/").replace('-', "_");
    let status = Command::new("modprobe")
        .arg(format!("fault_{name}"))
        .status()
        .context("starting modprobe")?;
    ensure!(status.success(), "fault_{name} cannot be loaded");
    Ok(())
}

/// Takes longer than it may.
fn hang(_: &mut Ctx) -> Result<()> {
    std::thread::sleep(Duration::from_secs(3600));
    Ok(())
}

/// Never waits: in virtual time no clock of the guest can end this, only the host's.
fn spin(_: &mut Ctx) -> Result<()> {
    loop {
        std::hint::spin_loop();
    }
}

/// Leaves a process behind that its group's end does not reach.
fn process(_: &mut Ctx) -> Result<()> {
    Command::new("setsid")
        .args(["sleep", "3600"])
        .spawn()
        .context("starting setsid")?;
    settle();
    Ok(())
}

/// Leaves a network namespace behind, with a name among the machine's own mounts.
fn namespace(_: &mut Ctx) -> Result<()> {
    on_the_machine("--mount=/proc/1/ns/mnt", "ip netns add planted")
}

/// Leaves a port behind: its module cannot be unloaded.
fn module_in_use(_: &mut Ctx) -> Result<()> {
    on_the_machine(
        "--net=/proc/1/ns/net",
        "modprobe sch_turnstile && modprobe dummy && ip link add planted0 type dummy && \
         tc qdisc add dev planted0 root turnstile link 1gbit",
    )
}

/// Runs a script in a namespace of the machine's own, which does not end with the case.
fn on_the_machine(namespace: &str, script: &str) -> Result<()> {
    // Not busybox: its shell would take its own ip and tc.
    let status = Command::new("nsenter")
        .args([namespace, "dash", "-c", script])
        .status()
        .context("starting nsenter")?;
    ensure!(status.success(), "{script}: {status}");
    Ok(())
}

/// Lets a child that was just started get to where it stays.
fn settle() {
    clock::sleep_until(clock::monotonic() + 200_000_000);
}
