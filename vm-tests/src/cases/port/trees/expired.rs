// SPDX-License-Identifier: GPL-2.0
//! Tokens that expire while a parent asks for a packet: the port gives nothing and is empty, in the
//! middle of that parent's dequeue. Its other classes must be served all the same, and it must come
//! to an end.

use std::time::Duration;

use anyhow::{ensure, Result};

use crate::cases::support::ledger::describe_qdisc;
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::raw_netlink::Tc;
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Sink, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("trees/expired-sibling-drr", |c| sibling(c, DRR, "1:2")),
    Case::new("trees/expired-sibling-drr-prio", |c| {
        sibling(c, DRR_PRIO, "2:2")
    }),
    Case::new("trees/expired-sibling-hfsc-ls", |c| {
        sibling(c, HFSC_LS, "1:2")
    }),
    Case::new("trees/expired-sibling-hfsc-sc", |c| {
        sibling(c, HFSC_SC, "1:2")
    }),
    Case::new("trees/expired-sibling-ets", |c| sibling(c, ETS, "1:2")),
    Case::new("trees/expired-sibling-qfq", |c| sibling(c, QFQ, "1:2")),
    Case::new("trees/expired-sibling-prio", |c| sibling(c, PRIO, "1:2")),
    Case::new("trees/expired-sibling-htb", |c| sibling(c, HTB, "1:2")),
    Case::new("trees/expired-htb-round", htb_round).timeout_s(150),
];

const DRR: &str = "qdisc add dev eth0 root handle 1: drr\n\
    class add dev eth0 parent 1: classid 1:2 drr quantum 1600\n\
    class add dev eth0 parent 1: classid 1:3 drr quantum 1600\n\
    filter add dev eth0 parent 1: protocol all matchall classid 1:2\n";
const DRR_PRIO: &str = "qdisc add dev eth0 root handle 1: drr\n\
    class add dev eth0 parent 1: classid 1:2 drr quantum 1600\n\
    class add dev eth0 parent 1: classid 1:3 drr quantum 1600\n\
    filter add dev eth0 parent 1: protocol all matchall classid 1:2\n\
    qdisc add dev eth0 parent 1:2 handle 2: prio\n\
    filter add dev eth0 parent 2: protocol all matchall classid 2:2\n";
const HFSC_LS: &str = "qdisc add dev eth0 root handle 1: hfsc default 2\n\
    class add dev eth0 parent 1: classid 1:2 hfsc ls rate 200mbit\n\
    class add dev eth0 parent 1: classid 1:3 hfsc ls rate 200mbit\n";
const HFSC_SC: &str = "qdisc add dev eth0 root handle 1: hfsc default 2\n\
    class add dev eth0 parent 1: classid 1:2 hfsc sc rate 200mbit\n\
    class add dev eth0 parent 1: classid 1:3 hfsc sc rate 200mbit\n";
const ETS: &str = "qdisc add dev eth0 root handle 1: ets bands 3 quanta 1600 1600 1600\n\
    filter add dev eth0 parent 1: protocol all matchall classid 1:2\n";
const QFQ: &str = "qdisc add dev eth0 root handle 1: qfq\n\
    class add dev eth0 parent 1: classid 1:2 qfq weight 1\n\
    class add dev eth0 parent 1: classid 1:3 qfq weight 1\n\
    filter add dev eth0 parent 1: protocol all matchall classid 1:2\n";
const PRIO: &str = "qdisc add dev eth0 root handle 1: prio\n\
    filter add dev eth0 parent 1: protocol all matchall classid 1:2\n";
const HTB: &str = "qdisc add dev eth0 root handle 1: htb default 2\n\
    class add dev eth0 parent 1: classid 1:2 htb rate 200mbit burst 64k cburst 64k\n\
    class add dev eth0 parent 1: classid 1:3 htb rate 200mbit burst 64k cburst 64k\n";

/// 6.7 ms from token to token; one that has waited for 1 ms is dropped when its time has come.
const SLOW: &str = "turnstile link 2mbit tokens 5% token-expiry 1ms jitter 0";

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn show(net: &Net) -> Result<String> {
    let qdiscs = Tc::open(&net.hosts[0].ns, "eth0")?.qdiscs()?;
    let lines: Vec<String> = qdiscs.iter().map(describe_qdisc).collect();
    Ok(lines.join("; "))
}

/// A port and another class under one parent. Tokens expire in the port while the other class has
/// packets.
fn sibling(ctx: &mut Ctx, parent: &str, on: &str) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.run_with(
        "tc -batch -",
        &format!("{parent}qdisc add dev eth0 parent {on} handle 10: {SLOW}\n"),
    )?;
    let sink = Sink::start(&net.hosts[1].ns)?;
    let to = net.hosts[1].v4;
    let tokens = Flow {
        from: ms(20),
        ..Flow::new(1, Packet::Token(0), to).burst(4)
    };
    let other = Flow {
        priority: 0x1_0003,
        limit: 5,
        rate: 5000.0,
        from: ms(22),
        ..Flow::new(4, Packet::Other, to)
    };
    Source::run(ns, vec![tokens, other])?;
    // Nothing is sent and nothing is asked meanwhile: a dump or a change would set the device
    // going.
    std::thread::sleep(ms(2000));
    let got = sink.finish()?;
    let said = show(&net)?;
    let (packets, late) = got
        .get(&4)
        .map_or((0, 0), |seen| (seen.packets, seen.latency_max));
    ctx.note(format!("the other class's latest packet: {late} ns"));
    ensure!(
        packets == 5,
        "{packets} of the other class's 5 packets arrived: {said}"
    );
    // Two tokens' time: drr and ets wait while the port does.
    ensure!(late < 500_000_000, "{late} ns: {said}");
    for qdisc in Tc::open(ns, "eth0")?.qdiscs()? {
        ensure!(
            qdisc.stats.qlen == 0 && qdisc.stats.backlog == 0,
            "something is left: {said}"
        );
    }
    expired(&net, &said)
}

/// The port has dropped tokens. By netlink: tc prints no JSON for a tree with hfsc or qfq.
fn expired(net: &Net, said: &str) -> Result<()> {
    let qdiscs = Tc::open(&net.hosts[0].ns, "eth0")?.qdiscs()?;
    let port = qdiscs.iter().find(|qdisc| qdisc.handle == 0x10_0000);
    let drops = port.map_or(0, |port| port.stats.drops);
    ensure!(drops >= 2, "{drops} tokens expired: {said}");
    Ok(())
}

/// Two ports below htb: one drops all it has when it is asked, the other waits. htb goes round
/// among its classes until one gives a packet, or until it is back where it began: at the class
/// that must not go away meanwhile.
fn htb_round(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.run_with(
        "tc -batch -",
        &format!(
            "{HTB}qdisc add dev eth0 parent 1:2 handle 10: {SLOW}\n\
             qdisc add dev eth0 parent 1:3 handle 11: turnstile link 2kbit tokens 1% token-expiry \
             off jitter 0\n"
        ),
    )?;
    let to = net.hosts[1].v4;
    let waiting = Flow {
        priority: 0x1_0003,
        ..Flow::new(4, Packet::Token(0), to).burst(3)
    };
    let expiring = Flow {
        from: ms(100),
        ..Flow::new(1, Packet::Token(0), to).burst(4)
    };
    // Something leaves while tokens wait, so that htb asks this class first from then on.
    let signal = Flow {
        limit: 1,
        from: ms(102),
        ..Flow::new(5, Packet::Signal, to)
    };
    let began = clock::monotonic();
    Source::run(ns, vec![waiting])?;
    Source::run(ns, vec![expiring, signal])?;
    std::thread::sleep(ms(50));
    let said = show(&net)?;
    let took = (clock::monotonic() - began) / 1_000_000;
    ctx.note(format!("{took} ms: {said}"));
    ensure!(took < 5000, "200 ms of work took {took} ms: {said}");
    expired(&net, &said)
}
