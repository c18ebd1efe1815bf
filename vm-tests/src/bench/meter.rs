// SPDX-License-Identifier: GPL-2.0
//! The measuring module: `knet/bench/knet_bench.c` says what its files take and give.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use turnstile_test_protocol::bench::{Ruler, Sums};

use crate::cmd::run_here;
use crate::netns::Netns;

/// The device that the module brings.
pub(super) const DEV: &str = "bench0";
const FOLDER: &str = "/sys/kernel/debug/knet_bench";

/// What is called for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The root qdisc's own functions.
    Direct,
    /// The whole transmit path.
    Xmit,
}

/// The module, loaded.
#[derive(Debug)]
pub(super) struct Meter(());

impl Meter {
    /// Loads it; the random pool is ready afterwards.
    ///
    /// # Errors
    /// When the guest was not made for this, and has no such module.
    pub(super) fn load() -> Result<Self> {
        run_here("modprobe knet_bench seed_pool=1", "")?
            .success()
            .context("the measuring module; `cargo xtask bench` boots a guest that has it")?;
        Ok(Self(()))
    }

    /// Sets what is sent, in turn: a line for each packet.
    pub(super) fn set_packets(&self, lines: &[String]) -> Result<()> {
        let path = Path::new(FOLDER).join("packets");
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        for line in lines {
            // One packet for each write.
            let written = file.write(line.as_bytes());
            written.with_context(|| format!("packet {line}"))?;
        }
        Ok(())
    }

    /// Sends `packets` through the root qdisc of [`DEV`].
    ///
    /// # Errors
    /// When the qdisc keeps or drops one: then there is nothing to compare.
    pub(super) fn measure(&self, ns: &Netns, mode: Mode, packets: u32) -> Result<Sums> {
        let word = match mode {
            Mode::Direct => "direct",
            Mode::Xmit => "xmit",
        };
        // The module looks for the device in the namespace of whoever writes.
        ns.enter(|| self.run(&format!("{word} {DEV} {packets}")))
    }

    /// Measures what is known.
    pub(super) fn ruler(&self) -> Result<Ruler> {
        self.run("ruler")
    }

    fn run<R: for<'a> Deserialize<'a>>(&self, line: &str) -> Result<R> {
        let folder = Path::new(FOLDER);
        if let Err(error) = fs::write(folder.join("run"), line) {
            let why = match error.raw_os_error() {
                Some(libc::ETIME) => ": the qdisc held a packet back, or dropped it",
                _ => "",
            };
            return Err(error).with_context(|| format!("running `{line}`{why}"));
        }
        let text = fs::read_to_string(folder.join("result")).context("reading the result")?;
        serde_json::from_str(&text).with_context(|| format!("not a result: {text}"))
    }
}
