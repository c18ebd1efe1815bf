// SPDX-License-Identifier: GPL-2.0
//! What passes by goes through a child that drops, at either end of its queue or with all that it
//! holds: it is counted.

use anyhow::{ensure, Context, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{line, Bench, Flow, DEV, FULL, PACER};
use super::flows::STEADY;
use crate::harness::Ctx;
use crate::tool::Tool;

const EACH: u32 = 40;
const CHILD: u32 = 0x77_0000;

pub(super) fn drops_are_counted(_: &mut Ctx) -> Result<()> {
    for child in [
        "pfifo limit 10",
        "pfifo_head_drop limit 10",
        "fq_codel limit 20",
        "tbf rate 1mbit burst 5000 limit 20000",
        "netem limit 1000 loss 30%",
    ] {
        one(child).with_context(|| child.to_owned())?;
    }
    Ok(())
}

fn one(child: &str) -> Result<()> {
    let mut bench = Bench::bare()?;
    bench.quiet();
    let ns = &bench.net.hosts[0].ns;
    // Nothing moves for a while: a packet takes 12 s.
    ns.tc(&format!(
        "qdisc add dev {DEV} root handle 9: turnstile link 1kbit"
    ))?;
    ns.run(&line(
        Tool::Turnstile,
        "add",
        "parent 9:2 handle 1:",
        &format!("{STEADY} initial-rate 1gbit"),
    ))?;
    ns.tc(&format!(
        "qdisc add dev {DEV} parent 1:1 handle 77: {child}"
    ))?;
    let flows = [Flow::v4(61), Flow::v6(62)];
    for flow in flows {
        bench.send(flow, 0, EACH, FULL)?;
    }
    holds(&mut bench)?;
    let stats = bench.tc.get(CHILD)?.stats;
    ensure!(
        stats.drops > 0 && bench.stat(stat::PASS_LOST)? == u64::from(stats.drops),
        "the child dropped {}: {:?}",
        stats.drops,
        bench.stats()?
    );
    // Super-packets, and what is paced beside the child.
    bench.associate(&flows[..1])?;
    for flow in flows {
        bench.send_super(flow, 10)?;
        bench.send(flow, EACH, 3, FULL)?;
    }
    holds(&mut bench)?;
    // All of it is dropped at once.
    bench.net.hosts[0].ns.ip(&format!("link set {DEV} down"))?;
    holds(&mut bench)?;
    let stats = bench.stats()?;
    ensure!(
        stats.qlen == 0 && stats.app(stat::PASS_QUEUED) == 0 && stats.app(stat::PACED_QUEUED) == 0,
        "{stats:?}"
    );
    ensure!(
        stats.app(stat::PASS_OFFERED) == stats.app(stat::PASS_SENT) + stats.app(stat::PASS_LOST),
        "{stats:?}"
    );
    // And the child alone goes.
    bench.net.hosts[0]
        .ns
        .tc(&format!("qdisc del dev {DEV} parent 1:1"))?;
    bench.adds_up()
}

/// What the pacer says it holds is there, and what its classes hold.
fn holds(bench: &mut Bench) -> Result<()> {
    bench.adds_up()?;
    let (pacer, child) = (bench.stats()?, bench.tc.get(CHILD)?.stats);
    let classes = bench.tc.classes_of(PACER)?;
    let [pass, paced] = &classes[..] else {
        anyhow::bail!("not two classes")
    };
    ensure!(
        pass.stats.backlog == child.backlog,
        "the child holds {} bytes, its class {}",
        child.backlog,
        pass.stats.backlog
    );
    ensure!(
        pacer.backlog == pass.stats.backlog + paced.stats.backlog,
        "the pacer holds {} bytes, its classes {} and {}",
        pacer.backlog,
        pass.stats.backlog,
        paced.stats.backlog
    );
    for (class, queued, lost) in [
        (pass, stat::PASS_QUEUED, stat::PASS_LOST),
        (paced, stat::PACED_QUEUED, stat::PACED_LOST),
    ] {
        ensure!(
            u64::from(class.stats.qlen) == pacer.app(queued)
                && u64::from(class.stats.drops) == pacer.app(lost),
            "{:?} is not what {pacer:?} says",
            class.stats
        );
    }
    Ok(())
}
