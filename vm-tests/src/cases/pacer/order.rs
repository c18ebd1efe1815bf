// SPDX-License-Identifier: GPL-2.0
//! No packet of a flow overtakes another, wherever the flow's packets wait when what becomes of
//! them changes.

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{line, of, Bench, Flow, FULL};
use super::flows::STEADY;
use crate::harness::Ctx;
use crate::tool::Tool;

const COUNT: u32 = 20;

/// A pacer below a slow port, with a bucket from which everything may leave at once.
fn below_a_slow_port(options: &str) -> Result<Bench> {
    let bench = Bench::bare()?;
    let ns = &bench.net.hosts[0].ns;
    ns.tc("qdisc add dev eth0 root handle 9: turnstile link 5mbit data-limit 10mb")?;
    ns.run(&line(
        Tool::Turnstile,
        "add",
        "parent 9:2 handle 1:",
        &format!("{STEADY} initial-rate 10gbit bucket 1mb {options}"),
    ))?;
    Ok(bench)
}

/// Packets wait to pass by when their flow is associated: those that follow do not overtake them.
pub(super) fn when_associated(_: &mut Ctx) -> Result<()> {
    for flow in [Flow::v4(51), Flow::v6(52)] {
        let mut bench = below_a_slow_port("")?;
        bench.capture()?;
        bench.send(flow, 0, COUNT, FULL)?;
        let queued = bench.stat(stat::PASS_QUEUED)?;
        ensure!(queued > u64::from(COUNT) / 2, "only {queued} wait");
        bench.associate(&[flow])?;
        bench.send(flow, COUNT, COUNT, FULL)?;
        let queued = bench.stat(stat::PASS_QUEUED)?;
        ensure!(queued > 4, "the first ones were gone");
        let came = of(&bench.arrivals()?, flow)?;
        ensure!(came.len() == 2 * COUNT as usize, "{} came", came.len());
        ensure!(
            bench.stat(stat::PACED_SENT)? == u64::from(COUNT),
            "not all that came later were paced"
        );
        bench.adds_up()?;
    }
    Ok(())
}

/// Packets wait for tokens for longer than T_i: their flow is not forgotten, and those that follow
/// do not pass by.
pub(super) fn when_idle(_: &mut Ctx) -> Result<()> {
    for flow in [Flow::v4(53), Flow::v6(54)] {
        // 40 packets in 10 s, or in 2 s, since the backlog raises the rate once a second; and T_i
        // is 1 s.
        let options = format!("{STEADY} idle 1s initial-rate 50kbit").replace("idle 60s ", "");
        let mut bench = Bench::new(&options)?;
        bench.associate(&[flow])?;
        bench.capture()?;
        bench.send(flow, 0, 2 * COUNT, FULL)?;
        std::thread::sleep(Duration::from_millis(1300));
        let queued = bench.stat(stat::PACED_QUEUED)?;
        ensure!(queued > 0, "none waits any more");
        bench.send(flow, 2 * COUNT, 3, FULL)?;
        let sent = 2 * COUNT + 3;
        let stats = bench.stats()?;
        ensure!(
            stats.app(stat::PACED_OFFERED) == u64::from(sent) && stats.app(stat::AGED) == 0,
            "{stats:?}"
        );
        bench.pacer(Tool::Tc, "change", "initial-rate 1gbit")?;
        let came = of(&bench.arrivals()?, flow)?;
        ensure!(came.len() == sent as usize, "{} came", came.len());
        std::thread::sleep(Duration::from_millis(1500));
        ensure!(bench.stat(stat::FLOWS)? == 0, "{:?}", bench.stats()?);
        bench.adds_up()?;
    }
    Ok(())
}
