// SPDX-License-Identifier: GPL-2.0
//! Where a port can be, and what can be on it.

mod filters;
pub(in crate::cases) mod unresolved;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option, port_stat};

use crate::cases::support::ledger::{check_class, describe, settle, settle_with, Counter};
use crate::cases::support::load::{Load, Mix};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::raw_netlink::kinds::{fifo, tbf};
use crate::raw_netlink::{attribute_u64, Request, Tc, ROOT};
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Received, Sink, Source, MTU_PAYLOAD};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("placement/filters", filters::run).timeout_s(120),
    Case::new("placement/drop-reasons", filters::reasons),
    Case::new("placement/mq", mq),
    Case::new("placement/shapers", shapers).timeout_s(120),
    Case::new("placement/strict-parent", strict_parent),
    Case::new("placement/child-shapes-data-only", child_shapes_data_only),
    Case::new("placement/children-come-and-go", children_come_and_go),
];

const PORT: u32 = 0x10_0000;
const DATA: u32 = PORT | class::DATA as u32;

/// A port on each transmit queue: flows are spread over them, and nothing is lost or counted twice.
fn mq(ctx: &mut Ctx) -> Result<()> {
    const QUEUES: u32 = 4;
    // So many that no queue is left out by chance.
    const FLOWS: u16 = 64;
    const EACH: u64 = 10;
    let net = Builder::pair().queues(QUEUES).build()?;
    let ns = &net.hosts[0].ns;
    let mut lines = String::from("qdisc add dev eth0 root handle 1: mq\n");
    let ports: Vec<u32> = (0..QUEUES).map(|queue| 0x11_0000 + (queue << 16)).collect();
    for (number, port) in (1..).zip(&ports) {
        lines += &format!(
            "qdisc add dev eth0 parent 1:{number} handle {:x}: turnstile\n",
            port >> 16
        );
    }
    ns.run_with("tc -batch -", &lines)?;
    let counter = Counter::install(&net.hosts[1].ns)?;
    let mut tc = Tc::open(ns, "eth0")?;
    let (_, start) = settle_with(&mut tc, &ports, &counter)?;
    let to = &net.hosts[1];
    let flows = (0..FLOWS)
        .map(|stream| {
            let to: IpAddr = if stream % 2 == 0 {
                to.v4.into()
            } else {
                to.v6.into()
            };
            Flow::new(stream, Packet::Data, to).payload(400).burst(EACH)
        })
        .collect();
    Source::start(ns, flows, clock::monotonic()).wait()?;
    let (settled, end) = settle_with(&mut tc, &ports, &counter)?;
    let mut shares = Vec::new();
    for port in &ports {
        shares.push(settled.check(*port)?.0);
    }
    let sent: u64 = shares.iter().sum();
    ctx.note(format!("{shares:?}"));
    ensure!(
        shares.iter().all(|share| *share > 0),
        "a port was left out: {shares:?}"
    );
    let arrived = end.0 - start.0;
    ensure!(
        sent >= u64::from(FLOWS) * EACH && (arrived..=arrived + 8).contains(&sent),
        "{sent} packets sent, {arrived} arrived"
    );
    // mq shows the sum, and each port can be changed and replaced on its own.
    ensure!(
        settled.qdisc(0x1_0000)?.stats.packets == sent,
        "mq shows {} packets",
        settled.qdisc(0x1_0000)?.stats.packets
    );
    ns.tc("qdisc change dev eth0 parent 1:2 handle 12: turnstile priorities 3")?;
    ns.tc("qdisc replace dev eth0 parent 1:3 handle 23: pfifo")?;
    let left = tc.qdiscs()?;
    let has = |handle| left.iter().any(|qdisc| qdisc.handle == handle);
    ensure!(
        has(0x11_0000) && has(0x12_0000) && !has(0x13_0000) && has(0x14_0000),
        "after one port was replaced: {left:x?}"
    );
    Ok(())
}

/// What a sink says of one saturating flow of full-length datagrams, of which `count` arrive.
fn measure(net: &Net, count: u64) -> Result<Received> {
    let to = &net.hosts[1];
    let sink = Sink::start(&to.ns)?;
    let flow = Flow::new(1, Packet::Data, to.v4)
        .payload(MTU_PAYLOAD)
        .burst(count);
    Source::start(&net.hosts[0].ns, vec![flow], clock::monotonic()).wait()?;
    let deadline = clock::monotonic() + 15_000_000_000;
    loop {
        let so_far = sink.so_far().remove(&1).unwrap_or_default();
        if so_far.packets == count {
            sink.finish()?;
            return Ok(so_far);
        }
        if clock::monotonic() > deadline {
            bail!("{} of {count} packets arrived", so_far.packets);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The slower of the two decides: the port's own rate or its parent's.
fn shapers(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 400;
    const SLOW: f64 = 10e6;
    /// The parent, what is in front of the port, and whether the slow one counts bytes as on the
    /// wire.
    const ROWS: [(&str, &str, bool); 6] = [
        (
            "root handle 1: tbf rate 10mbit burst 20k limit 4mb",
            "link 100mbit",
            false,
        ),
        (
            "root handle 1: tbf rate 100mbit burst 60k limit 4mb",
            "link 10mbit",
            true,
        ),
        (
            "root handle 1: htb default 2\nclass add dev eth0 parent 1: classid 1:2 htb rate \
             10mbit burst 20k cburst 20k",
            "link 100mbit",
            false,
        ),
        (
            "root handle 1: htb default 2\nclass add dev eth0 parent 1: classid 1:2 htb rate \
             100mbit burst 60k cburst 60k",
            "link 10mbit",
            true,
        ),
        (
            "root handle 1: hfsc default 2\nclass add dev eth0 parent 1: classid 1:2 hfsc sc rate \
             10mbit ul rate 10mbit",
            "link 100mbit",
            false,
        ),
        (
            "root handle 1: hfsc default 2\nclass add dev eth0 parent 1: classid 1:2 hfsc sc rate \
             100mbit ul rate 100mbit",
            "link 10mbit",
            true,
        ),
    ];
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    for (parent, options, on_the_wire) in ROWS {
        let under = if parent.contains("tbf") { "1:1" } else { "1:2" };
        ns.run_with(
            "tc -batch -",
            &format!(
                "qdisc add dev eth0 {parent}\n\
                 qdisc add dev eth0 parent {under} handle 10: turnstile {options} data-limit 4mb\n"
            ),
        )?;
        let received = measure(&net, COUNT)?;
        let bytes = if on_the_wire { 1538.0 } else { 1514.0 };
        let seconds = (received.last - received.first) as f64 / 1e9;
        let rate = (COUNT - 1) as f64 * bytes * 8.0 / seconds;
        ctx.note(format!(
            "{}, {options}: {:.2} Mbit/s",
            parent.replace('\n', "; "),
            rate / 1e6
        ));
        // A burst at the start, and what is late is made up for; a busy machine is slower.
        ensure!(
            (SLOW * 0.5..SLOW * 1.1).contains(&rate),
            "{rate} bit/s through {parent} and {options}"
        );
        let mut tc = Tc::open(ns, "eth0")?;
        settle(&mut tc, &[PORT])?.check(PORT)?;
        tc.delete(ROOT)?.success()?;
    }
    Ok(())
}

/// Below a strict parent, a port only gets what the bands before it leave.
fn strict_parent(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 200;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    // The whole is shaped; the first band is for SO_PRIORITY 1:1, the port is on the second.
    ns.run_with(
        "tc -batch -",
        "qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 3k limit 4mb\n\
         qdisc add dev eth0 parent 1:1 handle 2: prio\n\
         filter add dev eth0 parent 2: protocol all prio 9 matchall classid 2:2\n\
         qdisc add dev eth0 parent 2:1 handle 11: pfifo limit 1000\n\
         qdisc add dev eth0 parent 2:2 handle 10: turnstile data-limit 4mb\n",
    )?;
    let to = &net.hosts[1];
    let sink = Sink::start(&to.ns)?;
    let flows = vec![
        // First what may wait, then what may not.
        Flow::new(1, Packet::Data, to.v4).burst(COUNT),
        Flow {
            priority: 0x2_0001,
            ..Flow::new(2, Packet::Data, to.v4).burst(COUNT)
        },
    ];
    let mut tc = Tc::open(ns, "eth0")?;
    for flow in flows {
        Source::start(ns, vec![flow], clock::monotonic()).wait()?;
    }
    let settled = settle(&mut tc, &[PORT])?;
    let (sent, _) = settled.check(PORT)?;
    let received = sink.finish()?;
    ensure!(
        sent >= COUNT && received.values().map(|flow| flow.packets).sum::<u64>() == 2 * COUNT,
        "port {sent} packets; {received:?}"
    );
    ensure!(
        received[&2].last < received[&1].last,
        "the port's packets came before those that go first"
    );
    ensure!(
        received[&2].latency_max < received[&1].latency_max,
        "what goes first waited as long: {received:?}"
    );
    Ok(())
}

/// A child that shapes holds up data, and nothing else.
fn child_shapes_data_only(ctx: &mut Ctx) -> Result<()> {
    const SECONDS: u64 = 1;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.tc(
        "qdisc add dev eth0 root handle 10: turnstile link 100mbit token-expiry off token-limit \
           1000 signal-limit 1000",
    )?;
    let mut tc = Tc::open(ns, "eth0")?;
    // 2 Mbit/s.
    tc.qdisc(
        Request::AddQdisc,
        DATA,
        0,
        "tbf",
        &tbf(250_000, 3000, 30_000),
    )?
    .success()?;
    let to = &net.hosts[1];
    let sink = Sink::start(&to.ns)?;
    let until = Duration::from_secs(SECONDS);
    let flow = |stream, packet, rate| {
        Flow::new(stream, packet, to.v4)
            .packets_per_s(rate)
            .window(Duration::ZERO, until)
    };
    let flows = vec![
        flow(1, Packet::Data, 800.0),
        flow(2, Packet::Token(0), 300.0),
        flow(3, Packet::Signal, 300.0),
    ];
    Source::start(ns, flows, clock::monotonic()).wait()?;
    let settled = settle(&mut tc, &[PORT])?;
    settled.check(PORT)?;
    let received = sink.finish()?;
    let data = settled.class(DATA)?;
    let got = |stream: u16| received.get(&stream).map_or(0, |flow| flow.packets);
    ctx.note(format!(
        "{}; {} tokens, {} signals",
        describe(data),
        got(2),
        got(3)
    ));
    // 2 Mbit/s for a second and the queue afterwards; the first burst.
    ensure!(
        (100..=250).contains(&got(1)),
        "{} data packets passed 2 Mbit/s",
        got(1)
    );
    ensure!(
        data.stats.app(band_stat::CHILD) > 300,
        "the child dropped hardly anything: {}",
        describe(data)
    );
    ensure!(
        got(2) == 300 && got(3) == 300,
        "{} tokens and {} signals of 300 each passed a child on data",
        got(2),
        got(3)
    );
    Ok(())
}

/// Children are put on the data class, replaced and deleted while packets come in. What goes
/// through a child is seen there, and without one the port's own queue is used again.
fn children_come_and_go(ctx: &mut Ctx) -> Result<()> {
    const ROUNDS: u32 = 40;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let counter = Counter::install(&net.hosts[1].ns)?;
    ns.tc("qdisc add dev eth0 root handle 10: turnstile link 20mbit data-limit 100kb")?;
    let mut tc = Tc::open(ns, "eth0")?;
    let (settled, start) = settle_with(&mut tc, &[PORT], &counter)?;
    let (before, _) = settled.check(PORT)?;
    let load = Load::start(&net, &Mix::flood(), ctx.seed)?;
    for round in 0..ROUNDS {
        let handle = 0x100_0000 + (round << 16);
        let (kind, options) = match round % 4 {
            0 => ("pfifo", fifo(20)),
            1 => ("fq_codel", Vec::new()),
            2 => ("sfq", Vec::new()),
            _ => ("bfifo", fifo(30_000)),
        };
        tc.qdisc(Request::ReplaceQdisc, DATA, handle, kind, &options)?
            .success()
            .with_context(|| format!("grafting {kind}"))?;
        wait_until("packets go through the child", || {
            Ok(tc.get(handle)?.stats.packets > 0)
        })?;
        let shown = tc.get_class(DATA)?;
        ensure!(
            shown.info == handle,
            "the class shows leaf {:x}, not {handle:x}",
            shown.info
        );
        check_class(&shown)?;
        if round % 3 == 2 {
            tc.delete(DATA)?.success().context("deleting the child")?;
            let without = tc.get_class(DATA)?;
            ensure!(
                without.info == 0,
                "the class shows leaf {:x} after it was deleted",
                without.info
            );
            let sent = without.stats.packets;
            wait_until("data goes on without a child", || {
                Ok(tc.get_class(DATA)?.stats.packets > sent)
            })?;
        }
    }
    load.ask_to_stop();
    tc.change_port(PORT, &attribute_u64(option::LINK_RATE64, 0))?
        .success()?;
    load.stop()?;
    let (settled, end) = settle_with(&mut tc, &[PORT], &counter)?;
    let (sent, _) = settled.check(PORT)?;
    let data = settled.class(DATA)?;
    ctx.note(describe(data));
    ensure!(
        data.stats.packets > u64::from(ROUNDS),
        "hardly any data passed: {}",
        describe(data)
    );
    ensure!(
        end.0 - start.0 == sent - before,
        "{} packets sent, {} arrived",
        sent - before,
        end.0 - start.0
    );
    ensure!(
        settled.qdisc(PORT)?.stats.app(port_stat::FILTER_MISSES) == 0,
        "filters missed without a filter"
    );
    tc.delete(ROOT)?.success()
}

/// Waits a while for something to come true.
fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = clock::monotonic() + 5_000_000_000;
    while !done()? {
        ensure!(clock::monotonic() < deadline, "in 5 s, not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
