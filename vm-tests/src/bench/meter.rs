// SPDX-License-Identifier: GPL-2.0
//! The measuring module: `knet/bench/knet_bench.c` says what its files take and give.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

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

/// Instructions, summed over all packets.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Measured {
    /// Kind of the root qdisc.
    pub(super) qdisc: String,
    /// How many packets went in.
    packets: u64,
    /// Of enqueue, or of the whole path.
    #[serde(rename = "in")]
    enqueue: u64,
    /// Of dequeues that gave a packet.
    out: u64,
    /// Of those that gave none.
    empty: u64,
    in_min: u64,
    in_max: u64,
    out_min: u64,
    out_max: u64,
    empty_min: u64,
    empty_max: u64,
    /// How many packets came out, called directly: more than went in where they are split.
    out_calls: u64,
}

/// What things are measured as whose cost is known.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Ruler {
    /// 100 instructions.
    #[serde(rename = "nops-100")]
    nops_100: u64,
    /// 64 random numbers of the kernel.
    #[serde(rename = "random-64")]
    random_64: u64,
    /// A reading of the kernel's clock.
    #[serde(rename = "ktime_get")]
    ktime_get: u64,
    /// 10000 instructions and a reading of the clock, by the clock.
    #[serde(rename = "clock-10000")]
    clock_10000: u64,
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
    pub(super) fn measure(&self, ns: &Netns, mode: Mode, packets: u32) -> Result<Measured> {
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

#[cfg(test)]
mod tests {
    use super::{Measured, Ruler};

    #[test]
    fn the_modules_lines_are_read() {
        let line = r#"{"mode":"direct","qdisc":"prio","packets":8,"bracket":21,"in":800,"out":1600,"empty":2400,
            "in-min":90,"in-max":110,"out-min":190,"out-max":210,"empty-min":300,"empty-max":300,"out-calls":8}"#;
        let read: Measured = serde_json::from_str(line).expect("valid");
        assert_eq!(
            (read.qdisc.as_str(), read.enqueue, read.out_calls),
            ("prio", 800, 8)
        );
        let line = r#"{"mode":"ruler","bracket":21,"nops-100":100,"random-64":9000,"ktime_get":40,"clock-10000":10040}"#;
        let read: Ruler = serde_json::from_str(line).expect("valid");
        assert_eq!((read.nops_100, read.ktime_get), (100, 40));
        let again = serde_json::to_string(&read).expect("written");
        assert!(again.contains(r#""clock-10000":10040"#), "{again}");
    }
}
