// SPDX-License-Identifier: GPL-2.0
//! Notices when the machine itself stands still.
//!
//! An emulated machine on a busy host stops for tens of milliseconds now and then. Nothing that a
//! qdisc can do makes up for that, and a test that measures rates must know it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use crate::clock;

/// One thread per CPU that sleeps and looks how late it wakes up.
#[derive(Debug)]
pub struct StallMeter {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl StallMeter {
    const TICK: u64 = 10_000_000;

    /// Starts to look for moments in which a CPU stood still for longer than `stall`.
    pub fn start(stall: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cpus)
            .map(|cpu| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || measure(cpu, clock::nanos(stall), &stop))
            })
            .collect();
        Self { stop, threads }
    }

    /// For how long the CPUs stood still, all together.
    pub fn finish(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let lost = self
            .threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0))
            .sum();
        Duration::from_nanos(lost)
    }
}

fn measure(cpu: usize, stall: u64, stop: &AtomicBool) -> u64 {
    clock::exact_timers();
    let mut set = CpuSet::new();
    // A CPU that cannot be bound to is measured by whichever runs this.
    let _ = set
        .set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    let (mut lost, mut next) = (0, clock::monotonic());
    while !stop.load(Ordering::Relaxed) {
        next += StallMeter::TICK;
        clock::sleep_until(next);
        let now = clock::monotonic();
        let late = now.saturating_sub(next);
        if late > stall {
            lost += late;
            next = now;
        }
    }
    lost
}
