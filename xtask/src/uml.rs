// SPDX-License-Identifier: GPL-2.0
//! The guest in virtual time: its kernel is a program, which is run in the chroot.
//!
//! Everything that the kernel is told is the same in every run, because its command line goes into its random numbers:
//! the same image and the same seed give the same bytes, whatever else the machine does.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::env::OUT;
use crate::guest::Guest;
use crate::image::IMAGE;
use crate::kernel::IN_CHROOT;

/// The simulated clock at boot: 2026-01-01, in ns since 1970.
const START_NS: u64 = 1_767_225_600_000_000_000;
/// Seed of the kernel's random numbers; tests have a seed of their own.
const RNG_SEED: u64 = 1;
/// Memory of the guest. It lies in a file of the chroot's /tmp, which is in memory and takes what is used.
const MEMORY: &str = "1G";

/// `CPU PROGRAM ARGUMENT...`: the consoles are what the kernel finds open as 3 and 4. One CPU runs it: the kernel's
/// threads hand over to each other, and never two of them run.
const RUN: &str = r#"
cpu=$1; shift
cd /out
exec taskset -c "$cpu" "$@" > stdout 2>&1 3>> console.log 4>> events.jsonl
"#;

/// Starts the guest with its serial ports in files.
pub(crate) fn command(guest: &Guest<'_>) -> Command {
    let mut args = vec![
        next_cpu().to_string(),
        format!("{IN_CHROOT}/linux"),
        format!("mem={MEMORY}"),
        format!("initrd={IMAGE}"),
        "time-travel=inf-cpu".into(),
        "seccomp=on".into(),
        format!("time-travel-start={START_NS}"),
        format!("um_rng_seed={RNG_SEED}"),
        "norandmaps".into(),
        "slab_nomerge".into(),
        // The terminals that it does not have, and the serial ports that it does.
        "con=null".into(),
        "con0=null".into(),
        "ssl=null".into(),
        "ssl0=null,fd:3".into(),
        "ssl1=null,fd:4".into(),
        "console=ttyS0".into(),
        "panic=-1".into(),
        // WARN and lockdep's reports are below `quiet`.
        "loglevel=5".into(),
    ];
    if guest.tree.bed.has_detectors() {
        args.push("kasan_multi_shot".into());
    }
    guest
        .tree
        .bind(guest.chroot.enter())
        .bind_rw(guest.run, OUT)
        .env("HOME", OUT)
        .env("TMPDIR", "/tmp")
        .script(RUN, &args)
}

/// The processors that this process may use, in turn: guests that run side by side do not share one.
fn next_cpu() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let allowed = rustix::thread::sched_getaffinity(None).map_or_else(
        |_| vec![0],
        |set| {
            (0..rustix::thread::CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect::<Vec<_>>()
        },
    );
    let turn = NEXT.fetch_add(1, Ordering::Relaxed);
    allowed
        .get(turn % allowed.len().max(1))
        .copied()
        .unwrap_or(0)
}
