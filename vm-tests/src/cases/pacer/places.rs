// SPDX-License-Identifier: GPL-2.0
//! A pacer beside a port on one device, its classes, and filters.

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::{stat, KIND};

use super::bench::{line, of, Bench, Flow, DEV, FULL, PACER};
use super::flows::STEADY;
use crate::harness::Ctx;
use crate::raw_netlink::Request;
use crate::stats;
use crate::tool::Tool;

const FLOWS: [Flow; 2] = [Flow::v4(21), Flow::v6(22)];
const COUNT: u32 = 30;
/// Of a super-packet.
const SEGMENTS: usize = 10;

/// As a port's child, as its parent, and below a stock qdisc: paced packets are paced, and all
/// arrive in order.
pub(super) fn beside_a_port(_: &mut Ctx) -> Result<()> {
    let pacer = format!("{STEADY} initial-rate 20mbit");
    let port = "link 100mbit data-limit 1mb";
    for (what, lines) in [
        (
            "child of a port",
            [
                format!("tc qdisc add dev {DEV} root handle 9: turnstile {port}"),
                line(Tool::Tc, "add", "parent 9:2 handle 1:", &pacer),
            ],
        ),
        (
            "child of a port that splits nothing",
            [
                format!("tc qdisc add dev {DEV} root handle 9: turnstile {port} no-split-gso"),
                line(Tool::Tc, "add", "parent 9:2 handle 1:", &pacer),
            ],
        ),
        (
            "parent of a port",
            [
                line(Tool::Tc, "add", "root handle 1:", &pacer),
                format!("tc qdisc add dev {DEV} parent 1:1 handle 9: turnstile {port}"),
            ],
        ),
        (
            "below prio",
            [
                format!("tc qdisc add dev {DEV} root handle 9: prio"),
                line(Tool::Turnstile, "add", "parent 9:2 handle 1:", &pacer),
            ],
        ),
        (
            "above a limiter",
            [
                line(Tool::Turnstile, "add", "root handle 1:", &pacer),
                format!(
                    "tc qdisc add dev {DEV} parent 1:1 handle 9: tbf rate 20mbit burst 3000 \
                         limit 1000000"
                ),
            ],
        ),
    ] {
        let mut bench = Bench::bare()?;
        for line in &lines {
            bench.net.hosts[0].ns.run(line)?;
        }
        // Some send super-packets: two that are paced, and two that pass by.
        let supers = [Flow::v4(23), Flow::v6(24), Flow::v4(33), Flow::v6(34)];
        bench.associate(&FLOWS)?;
        bench.associate(&supers[..2])?;
        let others = [Flow::v4(31), Flow::v6(32)];
        bench.capture()?;
        for sequence in 0..COUNT {
            for flow in FLOWS.into_iter().chain(others) {
                bench.send(flow, sequence, 1, FULL)?;
            }
        }
        for flow in supers {
            ensure!(bench.send_super(flow, SEGMENTS)?, "dropped");
        }
        let arrivals = bench.arrivals()?;
        for flow in supers {
            let (headers, payload) = if flow.v6 { (74, 1440) } else { (54, 1460) };
            let came = of(&arrivals, flow)?;
            let bytes: usize = came.iter().map(|one| one.length - headers).sum();
            ensure!(
                bytes == SEGMENTS * payload,
                "{what}: {bytes} of {SEGMENTS} segments of {flow:?} came: {came:?}"
            );
        }
        for flow in FLOWS.into_iter().chain(others) {
            let came = of(&arrivals, flow)?.len();
            ensure!(
                came == COUNT as usize,
                "{what}: {came} of {COUNT} of {flow:?} came"
            );
        }
        let stats = bench.stats()?;
        ensure!(
            stats.app(stat::PACED_SENT) == 2 * (u64::from(COUNT) + SEGMENTS as u64)
                && stats.app(stat::WAITS) > 0,
            "{what}: {stats:?}"
        );
        ensure!(
            stats.app(stat::PASS_SENT) >= 2 * (u64::from(COUNT) + SEGMENTS as u64)
                && stats.drops == 0,
            "{what}: {stats:?}"
        );
        bench.adds_up()?;
        // Nothing is left in any queue's books, whoever split a super-packet.
        for qdisc in bench.tc.qdiscs()? {
            ensure!(
                (qdisc.stats.qlen, qdisc.stats.backlog) == (0, 0),
                "{what}: {} holds {:?}",
                qdisc.kind,
                qdisc.stats
            );
        }
        if what.contains("a port") {
            stats::check_port(&bench.net.hosts[0].ns, DEV, "9:")?;
        }
        // They go in either order.
        let first = if lines[0].contains("9:") {
            "parent 9:2"
        } else {
            "parent 1:1"
        };
        bench.net.hosts[0]
            .ns
            .tc(&format!("qdisc del dev {DEV} {first}"))?;
        bench.send(FLOWS[0], 99, 1, FULL)?;
    }
    Ok(())
}

/// Two classes, that nobody makes or deletes; a child for the one; filters that have the last word.
pub(super) fn classes(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(&format!("{STEADY} initial-rate 1kbit"))?;
    let ids: Vec<u32> = bench
        .tc
        .classes_of(PACER)?
        .iter()
        .map(|class| class.handle)
        .collect();
    ensure!(ids == [PACER | 1, PACER | 2], "{ids:x?}");
    let kind = |what, parent, class| (what, parent, class);
    for (what, parent, class) in [
        kind(Request::AddClass, PACER, PACER | 3),
        kind(Request::ChangeClass, PACER, PACER | 1),
        kind(Request::DeleteClass, 0, PACER | 2),
    ] {
        let attributes = crate::raw_netlink::attribute(
            crate::raw_netlink::TCA_KIND,
            format!("{KIND}\0").as_bytes(),
        );
        let answer = bench.tc.request(what, parent, class, &attributes)?;
        ensure!(answer.errno != 0, "{what:?} was done");
    }
    let answer = bench.tc.qdisc(
        Request::AddQdisc,
        PACER | 2,
        0,
        "pfifo",
        &crate::raw_netlink::kinds::fifo(10),
    )?;
    ensure!(
        answer.text == format!("{KIND}: class :2 takes no child qdisc, only :1 does"),
        "{}",
        answer.text
    );
    // A filter that names class :2 paces what is not associated; one that names :1 lets pass what
    // is.
    let unassociated = Flow::v4(41);
    bench
        .tc
        .add_matchall(PACER, 1, Some(PACER | 2))?
        .success()?;
    bench.send(unassociated, 0, 6, FULL)?;
    let waiting = bench.stats()?.app(stat::PACED_QUEUED);
    ensure!(waiting >= 4, "{waiting} of 6 wait");
    bench.tc.delete_filters(PACER)?.success()?;
    bench.associate(&FLOWS)?;
    bench
        .tc
        .add_matchall(PACER, 1, Some(PACER | 1))?
        .success()?;
    let before = bench.stats()?;
    for flow in FLOWS {
        bench.send(flow, 0, 6, FULL)?;
    }
    let after = bench.stats()?;
    ensure!(
        after.app(stat::PACED_OFFERED) == before.app(stat::PACED_OFFERED)
            && after.app(stat::PASS_SENT) >= before.app(stat::PASS_SENT) + 12,
        "{before:?}, {after:?}"
    );
    bench.tc.delete_filters(PACER)?.success()?;
    // One that names neither leaves it to the table; one that drops is counted.
    bench
        .tc
        .add_matchall(PACER, 1, Some(PACER | 7))?
        .success()?;
    bench.send(FLOWS[0], 6, 1, FULL)?;
    let now = bench.stats()?;
    ensure!(
        now.app(stat::FILTER_MISSES) == 1
            && now.app(stat::PACED_OFFERED) == after.app(stat::PACED_OFFERED) + 1,
        "{now:?}"
    );
    bench.tc.delete_filters(PACER)?.success()?;
    bench.tc.add_matchall(PACER, 1, None)?.success()?;
    bench.send(FLOWS[0], 7, 1, FULL)?;
    let now = bench.stats()?;
    ensure!(
        now.app(stat::FILTER_DROPS) == 1 && now.drops == 1,
        "{now:?}"
    );
    bench.tc.delete_filters(PACER)?.success()?;
    Ok(())
}
