// SPDX-License-Identifier: GPL-2.0
//! Looks at a queue again and again: for those that do not tell how long they have been at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{anyhow, Result};

use crate::clock;
use crate::raw_netlink::Tc;
use crate::topology::Fabric;

/// Between two looks, ns: some 16 full packets at 10 Gbit/s.
const PAUSE: u64 = 20_000;

/// A thread that looks at a port's queue.
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

    /// The most bytes that it held when it was looked at.
    pub(super) fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("watching a queue panicked"))?
    }
}
