// SPDX-License-Identifier: GPL-2.0
//! The guest in virtual time: its kernel is a program, which is run in the chroot.
//!
//! Everything that the kernel is told is the same in every run, because its command line goes into
//! its random numbers: the same image and the same seed give the same bytes, whatever else the
//! machine does.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::env::OUT;
use crate::guest::Guest;
use crate::image::IMAGE;
use crate::kernel::IN_CHROOT;

/// The simulated clock at boot: 2026-01-01, in ns since 1970.
const START_NS: u64 = 1_767_225_600_000_000_000;
/// Seed of the kernel's random numbers; tests have a seed of their own.
const RNG_SEED: u64 = 1;
/// Memory of the guest. It lies in a file of the chroot's /tmp, which is in memory and takes what
/// is used. Where there are no detectors it is several machines': a lab's hosts share it, and their
/// receive buffers a twentieth of it.
const MEMORY: &str = "12G";
const MEMORY_OF_ONE: &str = "1G";

/// `CPU PROGRAM ARGUMENT...`: the consoles are what the kernel finds open as 3 and 4. One CPU runs
/// it: the kernel's threads hand over to each other, and never two of them run.
const RUN: &str = r#"
cpu=$1; shift
cd /out
exec taskset -c "$cpu" "$@" > stdout 2>&1 3>> console.log 4>> events.jsonl
"#;

/// Starts the guest with its serial ports in files.
pub(crate) fn command(guest: &Guest<'_>, processor: &Processor) -> Command {
    let memory = match guest.tree.bed.has_detectors() {
        true => MEMORY_OF_ONE,
        false => MEMORY,
    };
    let mut args = vec![
        processor.0.to_string(),
        format!("{IN_CHROOT}/linux"),
        format!("mem={memory}"),
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

/// A processor that runs a guest, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Processor(usize);

/// How many guests each processor runs.
static GUESTS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

impl Processor {
    /// Of those that this process may use, the one with the fewest guests: one that ends leaves its
    /// processor to the next.
    pub(crate) fn least_used() -> Self {
        let mut allowed: Vec<usize> = rustix::thread::sched_getaffinity(None).map_or_else(
            |_| Vec::new(),
            |set| {
                (0..rustix::thread::CpuSet::MAX_CPU)
                    .filter(|cpu| set.is_set(*cpu))
                    .collect()
            },
        );
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.sort_by_key(|cpu| guests.get(cpu).copied().unwrap_or(0));
        let cpu = allowed.first().copied().unwrap_or(0);
        *guests.entry(cpu).or_default() += 1;
        Self(cpu)
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = guests.get_mut(&self.0) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_spread_over_the_processors() {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut all: Vec<Processor> = (0..count).map(|_| Processor::least_used()).collect();
        let mut cpus: Vec<usize> = all.iter().map(|one| one.0).collect();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), count);
        // The one that is free again is taken again.
        let free = all.swap_remove(count / 2).0;
        assert_eq!(Processor::least_used().0, free);
    }
}
