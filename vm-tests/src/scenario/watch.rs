// SPDX-License-Identifier: GPL-2.0
//! Samples the length of a queue, for qdiscs that do not report its maximum.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{anyhow, Result};

use crate::clock;
use crate::raw_netlink::Tc;
use crate::topology::Fabric;

/// Sampling interval, ns: some 16 full packets at 10 Gbit/s.
const PAUSE: u64 = 20_000;

/// A thread that samples a port's queue.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Watch {
    /// At the root qdisc `1:` of a node's device.
    pub(super) fn start(fabric: &Fabric, (node, dev): (&str, &str)) -> Result<Self> {
        let mut tc = Tc::open(&fabric.node(node)?.ns, dev)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            clock::exact_timers();
            let mut longest = 0;
            let mut next = clock::monotonic();
            while !stopped.load(Ordering::Relaxed) {
                longest = longest.max(tc.get(1 << 16)?.stats.backlog.into());
                next += PAUSE;
                clock::sleep_until(next);
            }
            Ok(longest)
        });
        Ok(Self { stop, thread })
    }

    /// The most bytes that were seen.
    pub(super) fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("watching a queue panicked"))?
    }
}
