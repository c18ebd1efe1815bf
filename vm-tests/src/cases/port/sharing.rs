// SPDX-License-Identifier: GPL-2.0
//! Whose tokens a full token queue drops: of the flow that has had most lately.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option, TOKEN_DROP_FAIR};

use crate::cases::support::ledger::{check_class, describe, describe_qdisc, settle};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::raw_netlink::{attribute_u32, attribute_u64, Tc, ROOT};
use crate::topology::Builder;
use crate::traffic::{Flow, Packet, Sink, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("sharing/full-token-queue", |c| full_queue(c, "root", "")),
    Case::new("sharing/token-drop-last", drop_last),
    Case::new("sharing/full-token-queue-prio", |c| {
        full_queue(c, "parent 1:1", PRIO)
    }),
    Case::new("sharing/full-token-queue-hfsc", |c| {
        full_queue(c, "parent 1:1", HFSC)
    }),
];

const PRIO: &str = "qdisc add dev eth0 root handle 1: prio bands 3 priomap \
    0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
const HFSC: &str = "qdisc add dev eth0 root handle 1: hfsc default 1\n\
    class add dev eth0 parent 1: classid 1:1 hfsc sc rate 1gbit";

/// The port.
const PORT: u32 = 0x10_0000;
const LIMIT: u64 = 8;

/// Flows that come one after the other to a queue with room for eight: by number, tokens, and what
/// the queue holds of each afterwards.
type Step = (u16, u64, [u64; 3]);
const STEPS: [Step; 3] = [
    (1, 20, [8, 0, 0]),
    (2, 3, [5, 3, 0]),
    // One each of the first flow, until it has as many as the second; then in turn, until none has
    // more than the new one.
    (3, 20, [2, 3, 3]),
];

/// As the papers have it, and from then on as configured.
fn drop_last(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let (ns, to) = (&net.hosts[0].ns, &net.hosts[1]);
    ns.tc(
        "qdisc add dev eth0 root handle 10: turnstile link 1kbit tokens 50% priorities 1 \
         token-limit 8 token-expiry off token-drop last jitter 0",
    )?;
    let mut tc = Tc::open(ns, "eth0")?;
    let sink = Sink::start(&to.ns)?;
    let send = |flow: Flow| Source::start(ns, vec![flow], clock::monotonic()).wait();
    send(Flow::new(9, Packet::Signal, to.v4).payload(1400).burst(1))?;
    for (number, count) in [(1, 10), (2, 3)] {
        send(Flow::new(number, Packet::Token(0), to.v4).burst(count))?;
    }
    let fair = attribute_u32(option::TOKEN_DROP, TOKEN_DROP_FAIR);
    tc.change_port(PORT, &fair)?.success()?;
    send(Flow::new(3, Packet::Token(0), to.v4).burst(2))?;
    tc.change_port(PORT, &attribute_u64(option::LINK_RATE64, 0))?
        .success()?;
    settle(&mut tc, &[PORT])?.check(PORT)?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let got = sink.finish()?;
    let came = [1, 2, 3].map(|flow| got.get(&flow).map_or(0, |seen| seen.packets));
    ensure!(came == [6, 0, 2], "{came:?}");
    Ok(())
}

fn full_queue(ctx: &mut Ctx, on: &str, around: &str) -> Result<()> {
    let net = Builder::pair().build()?;
    let (ns, to) = (&net.hosts[0].ns, &net.hosts[1]);
    ns.run_with("tc -batch -", &format!("{around}\n"))?;
    ns.tc(&format!(
        "qdisc add dev eth0 {on} handle 10: turnstile link 1kbit tokens 50% priorities 1 \
         token-limit {LIMIT} token-expiry off jitter 0"
    ))?;
    let mut tc = Tc::open(ns, "eth0")?;
    let sink = Sink::start(&to.ns)?;
    // The link is busy with this one for ten seconds: nothing of what follows leaves.
    let first = Flow::new(9, Packet::Signal, to.v4).payload(1400).burst(1);
    Source::start(ns, vec![first], clock::monotonic()).wait()?;
    let mut sent = 0;
    for (number, count, held) in STEPS {
        // The last flow has another IP than the first.
        let token = Packet::Token(0);
        let flow = match number {
            3 => Flow::new(number, token, to.v6),
            _ => Flow::new(number, token, to.v4),
        };
        Source::start(ns, vec![flow.burst(count)], clock::monotonic()).wait()?;
        sent += count;
        let found = tc
            .classes_of(PORT)?
            .into_iter()
            .find(|found| found.handle == PORT | u32::from(class::TOKENS))
            .context("no class of tokens")?;
        check_class(&found)?;
        let queued: u64 = held.iter().sum();
        ensure!(
            found.stats.app(band_stat::QUEUED) == queued
                && found.stats.app(band_stat::OFFERED_PACKETS) == sent
                && found.stats.app(band_stat::OVER_LIMIT) == sent - queued,
            "after flow {number}, {queued} of {sent} are to be here: {}",
            describe(&found)
        );
    }
    // Whoever is above the port knows of it.
    let port = tc.get(PORT)?;
    for qdisc in tc.qdiscs()? {
        ensure!(
            (qdisc.stats.qlen, qdisc.stats.backlog) == (port.stats.qlen, port.stats.backlog),
            "{}; the port: {}",
            describe_qdisc(&qdisc),
            describe_qdisc(&port)
        );
    }
    tc.change_port(PORT, &attribute_u64(option::LINK_RATE64, 0))?
        .success()?;
    let settled = settle(&mut tc, &[PORT])?;
    settled.check(PORT)?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let got = sink.finish()?;
    let came = [1, 2, 3].map(|flow| got.get(&flow).map_or(0, |seen| seen.packets));
    ctx.note(format!("of each flow came {came:?}"));
    ensure!(came == STEPS[2].2, "{came:?}");
    tc.delete(ROOT)?.success()
}
