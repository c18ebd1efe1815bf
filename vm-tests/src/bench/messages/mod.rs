// SPDX-License-Identifier: GPL-2.0
//! What messages cost, both ends and the way between them: two namespaces on one link, without
//! qdiscs, one processor for all. The shipped settings; beside Turnstile TCP and UDP.
//!
//! What a byte of a long message costs as it comes depends on how the two ends take turns on the
//! one processor. At a rate that the processor has time for, each packet is dealt with when it
//! comes, and the figure is that of the code alone.

mod ends;
mod idler;
mod loads;
mod rows;
mod wire;

use std::time::Duration;

use anyhow::{Context, Result};
use turnstile_test_protocol::bench::Messages;

use crate::cmd::run_here;
use crate::limits::more_files;
use crate::topology::{Builder, Net};
use ends::Ends;
use idler::{with_idler, Idler};
use rows::{Load, Root, Row, Shape, Transport};

/// The rate of what is paced, bit/s.
const PACE: u32 = 100_000_000;
/// Long enough for everything that is going to happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the ends exchange before, for what is set up once: pairs of messages, bytes of a long one.
const WARM_UP: u32 = 20;
const BULK_WARM_UP: usize = 1 << 20;
/// Files that may be open: both ends of 4000 pairs.
const FILES: u64 = 20_000;

/// Names of all rows.
pub(super) fn names() -> Vec<String> {
    rows::all(false).iter().map(Row::name).collect()
}

/// Measures all rows, or those of a quick run.
///
/// # Errors
/// Something could not be set up, or did not arrive.
pub(super) fn run(quick: bool) -> Result<Vec<Messages>> {
    measure(&rows::all(quick), false)
}

/// Measures one row, with marks for whoever counts each instruction.
///
/// # Errors
/// As [`run`]; or there is no such row.
pub(super) fn profile(name: &str) -> Result<Messages> {
    let row = rows::all(false).into_iter().find(|row| row.name() == name);
    let row = row.with_context(|| format!("there is no row {name}"))?;
    let mut measured = measure(&[row], true)?;
    measured.pop().context("nothing was measured")
}

fn measure(rows: &[Row], marks: bool) -> Result<Vec<Messages>> {
    run_here("modprobe turnstile", "")?.success()?;
    more_files(FILES)?;
    let measure = |idler: &Idler<'_>| {
        let mut all = Vec::new();
        // Devices of several queues: only where they are needed, and after the others are measured
        // and gone.
        for several in [false, true] {
            let its = rows
                .iter()
                .filter(|row| (row.load.root == Root::Queues) == several);
            let its: Vec<&Row> = its.collect();
            if its.is_empty() {
                continue;
            }
            let queues = if several { 4 } else { 1 };
            let net = Builder::pair().queues(queues).build()?;
            let bench = Bench { net, marks };
            for row in its {
                all.push(bench.row(row, idler).with_context(|| row.name())?);
            }
        }
        Ok(all)
    };
    with_idler(marks, measure).context("what messages cost")
}

/// Where it is measured.
struct Bench {
    net: Net,
    /// Each batch counts, not the median.
    marks: bool,
}

impl Bench {
    fn everywhere(&self, command: &str) -> Result<()> {
        let mut hosts = self.net.hosts.iter();
        hosts.try_for_each(|host| host.ns.run(command).map(drop))
    }

    fn row(&self, row: &Row, idler: &Idler<'_>) -> Result<Messages> {
        let plain = row.transport == Transport::TcpPlain;
        if plain {
            self.everywhere(&format!("ethtool -K eth0 {}", offloads("off")))?;
        }
        match row.load.root {
            Root::None => {}
            Root::Port => self.everywhere("tc qdisc add dev eth0 root turnstile")?,
            Root::Queues => {
                self.everywhere("tc qdisc add dev eth0 root turnstile_mq link 10gbit")?;
            }
        }
        let measured = self.measure(row, idler);
        if row.load.root != Root::None {
            self.everywhere("tc qdisc del dev eth0 root")?;
        }
        if plain {
            self.everywhere(&format!("ethtool -K eth0 {}", offloads("on")))?;
        }
        measured
    }

    fn measure(&self, row: &Row, idler: &Idler<'_>) -> Result<Messages> {
        let load = row.load;
        let ends = ends::open(&self.net, row)?;
        let paced = load.shape == Shape::Bulk { paced: true };
        if paced {
            ends.pace(Some(PACE))?;
        }
        once(&*ends, &warm_up(load), &|work| work().map(|()| 0))?;
        let mut batches = Vec::new();
        for _ in 0..load.batches {
            let before = wire::packets(&self.net, load.v6)?;
            let spent = once(&*ends, load, &|work| idler.instructions(work))?;
            let packets = wire::packets(&self.net, load.v6)? - before;
            batches.push((spent, packets));
        }
        println!("bench: {}: {batches:?}", row.name());
        if paced {
            ends.pace(None)?;
        }
        let (messages, bytes) = load.amount();
        let times = if self.marks { load.batches as u64 } else { 1 };
        let (instructions, packets) = if self.marks {
            let sum = |(a, b), (c, d): &(u64, u64)| (a + c, b + d);
            batches.iter().fold((0, 0), sum)
        } else {
            *batches.select_nth_unstable(load.batches / 2).1
        };
        Ok(Messages {
            transport: row.transport.name().into(),
            load: load.name.into(),
            title: load.title.into(),
            unit: load.unit(),
            instructions,
            messages: messages * times,
            bytes: bytes * times,
            packets,
        })
    }
}

/// What a pair of veth has without being asked: not GRO, which only makes super-packets of single
/// ones.
fn offloads(on: &str) -> String {
    ["tx", "rx", "sg", "tso", "gso"]
        .map(|offload| format!("{offload} {on}"))
        .join(" ")
}

/// A little of it, which is not counted: once over all sockets.
fn warm_up(load: &Load) -> Load {
    match load.shape {
        Shape::Pairs => Load {
            count: WARM_UP.min(load.count),
            ..*load
        },
        Shape::Bulk { .. } => Load {
            len: BULK_WARM_UP,
            ..*load
        },
        Shape::OneWay { .. } => *load,
    }
}

/// One batch of a load.
fn once(ends: &dyn Ends, load: &Load, meter: loads::Meter<'_>) -> Result<u64> {
    match load.shape {
        Shape::Pairs => loads::pairs(ends, load.len, load.count, meter),
        Shape::Bulk { .. } => loads::bulk(ends, load.len, meter),
        Shape::OneWay { under_way, sockets } => {
            loads::one_way(ends, load.len, load.count, under_way, sockets, meter)
        }
    }
}
