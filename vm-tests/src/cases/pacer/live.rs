// SPDX-License-Identifier: GPL-2.0
//! A pacer that is changed, is too full, or goes while packets wait.

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{of, Bench, Flow, DEV, FULL};
use super::flows::STEADY;
use crate::harness::Ctx;
use crate::tool::Tool;

/// So slow that nothing leaves while a case looks.
const SLOW: &str = "initial-rate 1kbit";
const FLOWS: [Flow; 2] = [Flow::v4(11), Flow::v6(12)];

/// A pacer with packets of both protocols that wait.
fn waiting(options: &str, each: u32) -> Result<Bench> {
    let mut bench = Bench::new(&format!("{STEADY} {SLOW}"))?;
    bench.pacer(Tool::Tc, "change", options)?;
    bench.associate(&FLOWS)?;
    for flow in FLOWS {
        bench.send(flow, 0, each, FULL)?;
    }
    Ok(bench)
}

/// A change keeps what waits, and what is associated; a rate that is given holds at once, for what
/// waits, too.
pub(super) fn change(_: &mut Ctx) -> Result<()> {
    let mut bench = waiting("", 20)?;
    let before = bench.stats()?;
    // The bucket held what the first takes.
    ensure!(before.qlen >= 38, "{} packets wait", before.qlen);
    for (tool, words) in [
        (Tool::Tc, "eta 0.2% beta 2 idle 50s flows 100 bucket 4kb"),
        (Tool::Turnstile, "pass-limit 2mb no-split-gso overhead 30"),
        (Tool::Tc, "interval 500ms associate 50% limit 5mb split-gso"),
    ] {
        bench.pacer(tool, "change", words)?;
        let now = bench.stats()?;
        ensure!(
            now.qlen >= 36 && now.app(stat::PACED_LOST) == 0 && now.app(stat::FLOWS) == 2,
            "`{words}`: {now:?}"
        );
    }
    bench.capture()?;
    bench.pacer(Tool::Turnstile, "change", "initial-rate 10gbit")?;
    bench.drained()?;
    let arrivals = bench.arrivals()?;
    ensure!(arrivals.len() >= 36, "{} came", arrivals.len());
    for flow in FLOWS {
        of(&arrivals, flow)?;
    }
    bench.adds_up()
}

/// The queue has a cap, and a change that lowers it drops what came last. The kernel tells the
/// sender.
pub(super) fn limit(_: &mut Ctx) -> Result<()> {
    // Ten full frames.
    let mut bench = waiting("limit 15140", 20)?;
    let stats = bench.stats()?;
    // One or two have left, since the bucket was full; more on a slow machine, and each makes room
    // for another.
    let sent = stats.app(stat::PACED_SENT);
    let waits = u64::from(stats.qlen);
    ensure!(
        stats.app(stat::PACED_OVER_LIMIT) + sent + waits == 40 && waits <= 10 && waits + sent >= 11,
        "{stats:?}"
    );
    ensure!(
        u64::from(stats.drops) == stats.app(stat::PACED_OVER_LIMIT),
        "{stats:?}"
    );
    bench.adds_up()?;
    bench.pacer(Tool::Tc, "change", "limit 4600")?;
    let stats = bench.stats()?;
    // Three stay, but for those that have left before or since.
    let left = stats.app(stat::PACED_SENT) - sent;
    let stay = u64::from(stats.qlen);
    ensure!(
        stay <= 3 && stay + left >= 3 && stats.backlog <= 4600,
        "{stats:?}, {left} have left"
    );
    ensure!(
        stats.app(stat::PACED_LOST) + stay + left == waits,
        "{stats:?}, {left} have left of {waits}"
    );
    bench.adds_up()?;
    bench.capture()?;
    bench.pacer(Tool::Tc, "change", "initial-rate 10gbit")?;
    let came = of(&bench.arrivals()?, FLOWS[0])?;
    ensure!(
        came.windows(2)
            .all(|two| two[1].sequence == two[0].sequence + 1),
        "others than the last were dropped: {came:?}"
    );
    Ok(())
}

/// Whatever ends a pacer while packets wait and acknowledgements come in, nothing is left behind:
/// the harness looks.
pub(super) fn delete(_: &mut Ctx) -> Result<()> {
    let mut bench = waiting("", 20)?;
    for tool in Tool::ALL {
        bench.net.hosts[0].ns.run(&match tool {
            Tool::Tc => format!("tc qdisc del dev {DEV} root"),
            Tool::Turnstile => format!("turnstile pacer del {DEV}"),
        })?;
        // Nobody listens any more, and nothing is paced.
        bench.acknowledge(FLOWS[0], super::bench::ECHO)?;
        bench.send(FLOWS[0], 0, 3, FULL)?;
        bench.pacer(tool, "add", &format!("{STEADY} {SLOW}"))?;
        ensure!(
            bench.tc.get(super::bench::PACER)?.stats.qlen == 0,
            "not new"
        );
    }
    // The device goes down: what waits is dropped, and counted.
    bench.associate(&FLOWS)?;
    for flow in FLOWS {
        bench.send(flow, 0, 20, FULL)?;
    }
    bench.net.hosts[0].ns.ip(&format!("link set {DEV} down"))?;
    let stats = bench.stats()?;
    ensure!(
        stats.qlen == 0 && stats.app(stat::PACED_LOST) >= 38,
        "{stats:?}"
    );
    bench.net.hosts[0].ns.ip(&format!("link set {DEV} up"))?;
    std::thread::sleep(Duration::from_millis(100));
    // The socket has yet to say that the device was down.
    let _ = bench.send(FLOWS[0], 0, 1, FULL);
    // Many of them, under acknowledgements.
    for round in 0..40 {
        bench.send(FLOWS[round % 2], 0, 5, FULL)?;
        for flow in FLOWS {
            bench.acknowledge(flow, super::bench::ECHO)?;
        }
        bench.pacer(Tool::Tc, "replace", &format!("flows {}", 1 + round * 50))?;
        if round % 4 == 0 {
            bench.net.hosts[0]
                .ns
                .tc(&format!("qdisc del dev {DEV} root"))?;
        }
    }
    bench.pacer(Tool::Tc, "replace", &format!("{STEADY} {SLOW}"))?;
    bench.send(FLOWS[0], 0, 5, FULL)?;
    // The device goes with its namespace, and the pacer with it.
    Ok(())
}
