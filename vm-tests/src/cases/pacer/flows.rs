// SPDX-License-Identifier: GPL-2.0
//! Which packets are paced, and how.

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{check_paced, of, Bench, Flow, ECHO, FULL, NO_ECHO, WIRE};
use crate::clock;
use crate::harness::Ctx;
use crate::tool::Tool;

/// The rate stays what it was to begin with, to less than one part in a thousand per second, and
/// for the first second exactly; every ACK with ECN-Echo counts.
pub(super) const STEADY: &str = "interval 1s eta 0.1% beta 1 associate 100% idle 60s limit 10mb";
const BUCKET: u64 = 3072;
/// Slow enough for an emulated machine.
const RATE: u64 = 1_250_000;
const RATE_WORDS: &str = "initial-rate 10mbit";

const BOTH: [Flow; 2] = [Flow::v4(1000), Flow::v6(1001)];

/// What is not associated leaves at once: TCP and all else, however much there is.
pub(super) fn passes_by(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(&format!("{STEADY} {RATE_WORDS}"))?;
    bench.quiet();
    let before = bench.stats()?;
    bench.capture()?;
    for flow in BOTH {
        let taken = bench.send(flow, 0, 100, FULL)?;
        ensure!(taken == 100, "{taken} of 100 were taken");
    }
    let arrivals = bench.arrivals()?;
    for flow in BOTH {
        let came = of(&arrivals, flow)?;
        ensure!(came.len() == 100, "{} of 100 of {flow:?} came", came.len());
        if clock::is_simulated() {
            let took = came[99].at - came[0].at;
            ensure!(took == 0, "what passes by took {took} ns");
        }
    }
    let after = bench.stats()?;
    let passed = after.app(stat::PASS_SENT) - before.app(stat::PASS_SENT);
    ensure!(
        passed >= 200 && after.app(stat::PACED_OFFERED) == 0,
        "{passed} passed by, {} were to be paced",
        after.app(stat::PACED_OFFERED)
    );
    bench.adds_up()
}

/// A flow whose acknowledgement says ECN-Echo goes through the bucket, over both protocols; others
/// pass by meanwhile.
pub(super) fn associated(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u32 = 40;
    // Half of the packets take 120 ms, in which the busiest machine has sent all others.
    const RATE: u64 = 250_000;
    for flow in BOTH {
        let mut bench = Bench::new(&format!("{STEADY} initial-rate 2mbit"))?;
        bench.associate(&[flow])?;
        bench.capture()?;
        bench.send(flow, 0, COUNT, FULL)?;
        let other = Flow { port: 2000, ..flow };
        bench.send(other, 0, 20, FULL)?;
        let arrivals = bench.arrivals()?;
        let times: Vec<u64> = of(&arrivals, flow)?.iter().map(|one| one.at).collect();
        let what = format!("{flow:?}");
        check_paced(&what, &times, &[WIRE; COUNT as usize], BUCKET, RATE)?;
        let others = of(&arrivals, other)?;
        ensure!(
            others.len() == 20 && others[19].at <= times[COUNT as usize / 2],
            "the other flow waited: {others:?}"
        );
        let stats = bench.stats()?;
        ensure!(
            stats.app(stat::PACED_SENT) == u64::from(COUNT)
                && stats.app(stat::ASSOCIATED) == 1
                && stats.app(stat::FLOWS) == 1,
            "{stats:?}"
        );
        ensure!(
            stats.app(stat::MAX_BACKLOG) > 0 && stats.app(stat::BACKLOG) == 0,
            "{stats:?}"
        );
        bench.adds_up()?;
        let delay = stats.app(stat::DELAY_MAX);
        ctx.note(format!("{flow:?}: the last packet waited {delay} ns"));
    }
    Ok(())
}

/// What only looks like ECN-Echo, or echoes for another flow, associates nothing.
pub(super) fn no_echo(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(STEADY)?;
    for flow in BOTH {
        for flags in NO_ECHO {
            bench.acknowledge(flow, flags)?;
        }
    }
    // The last one does count: then the others have been heard.
    let other = Flow::v4(3);
    bench.associate(&[other])?;
    for flow in BOTH {
        bench.send(flow, 0, 5, 100)?;
    }
    bench.drained()?;
    let stats = bench.stats()?;
    ensure!(
        stats.app(stat::ECHOES) == 1 && stats.app(stat::PACED_OFFERED) == 0,
        "{stats:?}"
    );
    Ok(())
}

/// About one in eight acknowledgements associates its flow; with 0 % none does.
pub(super) fn probability(ctx: &mut Ctx) -> Result<()> {
    const ECHOES: u16 = 1600;
    let mut bench = Bench::new("associate 12.5% flows 4096 idle 60s")?;
    for port in 0..ECHOES {
        bench.acknowledge(Flow::v4(port), ECHO)?;
    }
    bench.wait_for("echoes", stat::ECHOES, ECHOES.into())?;
    let drawn = bench.stat(stat::ASSOCIATED)?;
    ctx.note(format!("{drawn} of {ECHOES} flows were associated"));
    // 200 on average, with a standard deviation of 13.
    ensure!((120..=280).contains(&drawn), "{drawn} is not an eighth");
    bench.pacer(Tool::Turnstile, "change", "associate 0%")?;
    bench.acknowledge(Flow::v6(1), ECHO)?;
    bench.wait_for("echoes", stat::ECHOES, u64::from(ECHOES) + 1)?;
    let after = bench.stat(stat::ASSOCIATED)?;
    ensure!(after == drawn, "{after} with a probability of 0");
    Ok(())
}

/// A flow that sends is paced for as long as it does; one that pauses for T_i passes by.
pub(super) fn aging(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(&format!("{STEADY} idle 2s").replace("idle 60s ", ""))?;
    for flow in BOTH {
        bench.associate(&[flow])?;
        let before = bench.stat(stat::PACED_SENT)?;
        for sequence in 0..8 {
            bench.send(flow, sequence, 1, 100)?;
            std::thread::sleep(Duration::from_millis(500));
        }
        let paced = bench.stat(stat::PACED_SENT)? - before;
        ensure!(paced == 8, "{paced} of 8 packets in 4 s were paced");
        std::thread::sleep(Duration::from_millis(2500));
        let aged = bench.stat(stat::AGED)?;
        bench.send(flow, 8, 1, 100)?;
        bench.drained()?;
        let paced = bench.stat(stat::PACED_SENT)? - before;
        ensure!(paced == 8, "a flow that was idle for 2.5 s was paced");
        ensure!(
            aged >= 1 && bench.stat(stat::FLOWS)? == 0,
            "{aged} flows aged"
        );
    }
    Ok(())
}

/// The table holds so many flows and no more, and another size keeps those that sent last.
pub(super) fn bounded(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(&format!("{STEADY} flows 4"))?;
    for port in 0..10 {
        bench.acknowledge(Flow::v4(port), ECHO)?;
        bench.wait_for("echoes", stat::ECHOES, u64::from(port) + 1)?;
    }
    let paced = |bench: &mut Bench, port: u16| -> Result<bool> {
        let before = bench.stat(stat::PACED_SENT)?;
        bench.send(Flow::v4(port), 0, 1, 100)?;
        bench.drained()?;
        Ok(bench.stat(stat::PACED_SENT)? > before)
    };
    let which = |bench: &mut Bench| -> Result<Vec<u16>> {
        let mut found = Vec::new();
        for port in 0..10 {
            if paced(bench, port)? {
                found.push(port);
            }
        }
        Ok(found)
    };
    let stats = bench.stats()?;
    ensure!(
        (stats.app(stat::FLOWS), stats.app(stat::TABLE_FULL)) == (4, 6),
        "{stats:?}"
    );
    let found = which(&mut bench)?;
    ensure!(found == [0, 1, 2, 3], "{found:?} are paced");
    bench.pacer(Tool::Tc, "change", "flows 2")?;
    let found = which(&mut bench)?;
    ensure!(found == [2, 3], "{found:?} are paced after flows 2");
    bench.pacer(Tool::Tc, "change", "flows 4096")?;
    bench.associate(&(20..300).map(Flow::v4).collect::<Vec<_>>())?;
    let found = which(&mut bench)?;
    ensure!(found == [2, 3], "{found:?} are paced after flows 4096");
    ensure!(bench.stat(stat::FLOWS)? == 282, "{:?}", bench.stats()?);
    Ok(())
}

/// A super-packet of a paced flow is paced segment by segment, or as a whole that is paid for; one
/// that passes by stays whole.
pub(super) fn super_packets(_: &mut Ctx) -> Result<()> {
    const SEGMENTS: usize = 20;
    for flow in BOTH {
        let headers = if flow.v6 { 74 } else { 54 };
        // As the kernel counts it, each segment has its headers.
        let whole = SEGMENTS as u64 * WIRE;
        let frame = headers + SEGMENTS * (1514 - headers);
        let mut bench = Bench::bare()?;
        bench.quiet();
        bench.pacer(Tool::Tc, "add", &format!("{STEADY} {RATE_WORDS}"))?;
        bench.capture()?;
        ensure!(bench.send_super(flow, SEGMENTS)?, "dropped");
        let came = of(&bench.arrivals()?, flow)?;
        ensure!(
            came.len() == 1 && came[0].length == frame,
            "what passes by came as {came:?}"
        );

        bench.associate(&[flow])?;
        bench.capture()?;
        ensure!(bench.send_super(flow, SEGMENTS)?, "dropped");
        let came = of(&bench.arrivals()?, flow)?;
        let times: Vec<u64> = came.iter().map(|one| one.at).collect();
        check_paced(
            &format!("{flow:?}, split"),
            &times,
            &[WIRE; SEGMENTS],
            BUCKET,
            RATE,
        )?;
        let stats = bench.stats()?;
        ensure!(
            stats.app(stat::GSO_SPLITS) == 1 && stats.app(stat::PACED_SENT) == SEGMENTS as u64,
            "{stats:?}"
        );
        bench.adds_up()?;

        // Its whole length is paid for before another one leaves, 98 ms later or more.
        bench.pacer(Tool::Tc, "change", "no-split-gso")?;
        std::thread::sleep(Duration::from_millis(200));
        bench.capture()?;
        for _ in 0..3 {
            ensure!(bench.send_super(flow, SEGMENTS)?, "dropped");
        }
        let came = bench.arrivals()?;
        let times: Vec<u64> = came.iter().map(|one| one.at).collect();
        if bench.stat(stat::UPDATES)? == 0 {
            check_paced(
                &format!("{flow:?}, whole"),
                &times,
                &[whole; 3],
                BUCKET,
                RATE,
            )?;
        }
        ensure!(
            came.len() == 3 && came.iter().all(|one| one.length == frame),
            "{came:?}"
        );
        bench.adds_up()?;
    }
    Ok(())
}

/// Where both kinds wait for the device, they take turns; here the device is a child of a slow one.
pub(super) fn takes_turns(_: &mut Ctx) -> Result<()> {
    const COUNT: u32 = 20;
    let mut bench = Bench::bare()?;
    let ns = &bench.net.hosts[0].ns;
    ns.tc("qdisc add dev eth0 root handle 9: turnstile link 5mbit data-limit 10mb")?;
    // A bucket from which everything may leave at once.
    ns.run(&super::bench::line(
        Tool::Turnstile,
        "add",
        "parent 9:2 handle 1:",
        &format!("{STEADY} initial-rate 10gbit bucket 1mb"),
    ))?;
    let (paced, other) = (Flow::v4(5), Flow::v4(6));
    bench.associate(&[paced])?;
    bench.capture()?;
    bench.send(paced, 0, COUNT, FULL)?;
    // What came before the paced ones, or with them, would leave first.
    std::thread::sleep(Duration::from_millis(1));
    bench.send(other, 0, COUNT, FULL)?;
    let arrivals = bench.arrivals()?;
    ensure!(arrivals.len() == 2 * COUNT as usize, "{}", arrivals.len());
    // From where both are there until one is done, no two of a kind follow each other.
    let first = arrivals.iter().position(|one| one.flow == other);
    let mixed = &arrivals[first.unwrap_or(0)..];
    let both = mixed.iter().rposition(|one| one.flow == paced).unwrap_or(0);
    ensure!(both >= 4, "they were hardly there together: {arrivals:?}");
    for two in mixed[..both].windows(2) {
        ensure!(two[0].flow != two[1].flow, "two in a row: {two:?}");
    }
    of(&arrivals, paced)?;
    of(&arrivals, other)?;
    bench.adds_up()
}
