// SPDX-License-Identifier: GPL-2.0
//! How pauses travel from switch to switch, what they hold up on their way, and what becomes of
//! switches that wait for each other in a ring.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use turnstile_core::port::uapi::band_stat;
use turnstile_test_protocol::lab::{Plot, SetUpLines, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::clock;
use crate::pcap::Capture;
use crate::raw_netlink::Stats;
use crate::scenario::lossless::{data_stats, dropped, pauses};
use crate::scenario::{Queues, LEAD};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::{Flow, Packet, Source, MPU, OVERHEAD};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pfc-spread",
    title: "how pauses spread: three switches in a row, and a ring that locks up",
    source: "no figure of a paper: head-of-line blocking and deadlocks are what lossless networks \
             are known for; switches break deadlocks by a watchdog",
    run,
};

/// bit/s.
const RATE: u64 = 10_000_000_000;
/// Propagation delay of a link, ns.
const DELAY: u64 = 1_000;
/// What a port may hold, bytes.
const BUFFER: u32 = 60_000_000;
/// Options of all ports.
const OPTIONS: &str = "unscheduled off pfc data 0 xoff auto";
/// Width of a curve's steps, ns.
const BIN: u64 = 100_000;

fn run(lab: &mut Lab) -> Result<()> {
    row(lab)?;
    ring(lab)
}

/// A flow of a part of the link, for a time.
fn flow(fabric: &Fabric, from: usize, to: usize, part: f64, (begin, end): (u64, u64)) -> Flow {
    let stream = u16::try_from(from).unwrap_or(u16::MAX);
    Flow::new(stream, Packet::Data, fabric.address(to))
        .bits_per_s(part * RATE as f64)
        .window(Duration::from_nanos(begin), Duration::from_nanos(end))
}

/// What came to a host, by [`BIN`], Gbit/s; and the kernel's time at the start.
struct Curves {
    began: u64,
    /// By device, as captured at its node: when it was told to pause and to go on.
    told: Vec<Vec<(u64, bool)>>,
    /// By host.
    came: Vec<Vec<(f64, f64)>>,
}

/// Sends, and captures what comes to hosts and what pauses ports of switches hear; and the counters
/// of all ports at the end.
fn measure(
    fabric: &Fabric,
    flows: Vec<(usize, Flow)>,
    hosts: &[usize],
    ports: &[(&str, &str)],
    span: u64,
) -> Result<(Curves, Vec<Stats>)> {
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    let at_hosts = hosts
        .iter()
        .map(|host| Capture::start(fabric.host(*host), None))
        .collect::<Result<Vec<_>>>()?;
    let at_ports = ports
        .iter()
        .map(|(node, dev)| Capture::start(&fabric.node(node)?.ns, Some(dev)))
        .collect::<Result<Vec<_>>>()?;
    let sources: Vec<_> = flows
        .into_iter()
        .map(|(host, flow)| Source::start(fabric.host(host), vec![flow], start))
        .collect();
    clock::sleep_until(start + span);
    // Before captures end, which takes a while: a watchdog may go off.
    let at_end = fabric
        .ports()
        .iter()
        .map(|port| data_stats(fabric, &port.node, &port.dev))
        .collect::<Result<_>>()?;
    for source in sources {
        source.stop()?;
    }
    let mut came = Vec::new();
    for capture in at_hosts {
        let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
        for packet in capture.finish()?.packets.iter().filter(|it| !it.sent) {
            // No control frames: they are shorter.
            if packet.length > 1000 {
                *bins
                    .entry(packet.at.saturating_sub(began) / BIN)
                    .or_default() += (packet.length + OVERHEAD).max(MPU) as u64;
            }
        }
        let curve = (0..span / BIN).map(|bin| {
            let bytes = bins.get(&bin).copied().unwrap_or(0);
            let at = (bin * BIN) as f64 / 1e3;
            (at, rounded(bytes as f64 * 8.0 / BIN as f64, 3))
        });
        came.push(curve.collect());
    }
    let mut told = Vec::new();
    for (capture, (_, dev)) in at_ports.into_iter().zip(ports) {
        told.push(pauses(capture.finish()?.of(dev)?));
    }
    Ok((Curves { began, told, came }, at_end))
}

/// The mean of a curve from one time to another, ns.
fn mean(curve: &[(f64, f64)], from: u64, until: u64) -> f64 {
    let within = |at: f64| at >= from as f64 / 1e3 && at < until as f64 / 1e3;
    let (mut sum, mut count) = (0.0, 0);
    for (_, value) in curve.iter().filter(|(at, _)| within(*at)) {
        sum += value;
        count += 1;
    }
    sum / f64::from(count.max(1))
}

/// Three switches in a row; what is behind the last is overloaded for a while.
fn row(lab: &mut Lab) -> Result<()> {
    /// When the overload begins and ends, ns.
    const OVERLOAD: (u64, u64) = (2_000_000, 8_000_000);
    const SPAN: u64 = 20_000_000;
    /// Of all flows, by the share of a link.
    const STEADY: f64 = 0.45;
    lab.progress("three switches in a row");
    let link = Link::new(RATE, DELAY).buffer(BUFFER);
    let mut plan = Plan::new();
    let switches = ["s1", "s2", "s3"].map(|name| plan.switch(name));
    plan.link(switches[0], switches[1], link);
    plan.link(switches[1], switches[2], link);
    // h1 and h2 send, h3 is behind s2, h4 behind s3, and so are those that overload the way to h4.
    for at in [0, 0, 1, 2, 2, 2, 2] {
        let host = plan.host();
        plan.link(host, switches[at], link);
    }
    let fabric = plan.build()?;
    let queues = Queues::Lossless(OPTIONS.into());
    lab.report.setups.push(SetUpLines {
        title: "all ports".into(),
        lines: queues.example(&fabric),
    });
    queues.apply(&fabric)?;
    let flows = vec![
        (0, flow(&fabric, 0, 3, STEADY, (0, SPAN))),
        (1, flow(&fabric, 1, 2, STEADY, (0, SPAN))),
        (4, flow(&fabric, 4, 3, 1.0, OVERLOAD)),
        (5, flow(&fabric, 5, 3, 1.0, OVERLOAD)),
        (6, flow(&fabric, 6, 3, 1.0, OVERLOAD)),
    ];
    let ports = [
        ("h5", "s3"),
        ("s2", "s3"),
        ("s1", "s2"),
        ("h1", "s1"),
        ("h2", "s1"),
    ];
    let names = ["h5 to s3", "s2 to s3", "s1 to s2", "h1 to s1", "h2 to s1"];
    let (curves, _) = measure(&fabric, flows, &[2, 3], &ports, SPAN)?;
    let mut table = Table::new(
        "three switches in a row: h5 to h7 overload the way from s3 to h4, which h1 uses too; h2 \
         sends to h3, at s2",
        &[
            "port",
            "first pause, us after the overload",
            "pauses",
            "paused, us",
        ],
    );
    let mut firsts = Vec::new();
    for ((name, (node, dev)), told) in names.iter().zip(ports).zip(&curves.told) {
        let stats = data_stats(&fabric, node, dev)?;
        let begin = curves.began + OVERLOAD.0;
        let first = told.iter().find(|(at, pause)| *pause && *at >= begin);
        let first = first.map(|(at, _)| at.saturating_sub(begin) as f64 / 1e3);
        table.row(vec![
            (*name).into(),
            first.map_or("never".into(), |us| number(us, 1)),
            stats.app(band_stat::PFC_PAUSES).into(),
            number(stats.app(band_stat::PFC_TIME) as f64 / 1e3, 1),
        ]);
        firsts.push(first);
    }
    lab.report.tables.push(table);
    let spreads = firsts.windows(2).skip(1).take(2);
    let spreads = spreads.into_iter().all(|two| match two {
        [Some(here), Some(before)] => here < before,
        _ => false,
    });
    lab.claim(
        "pauses spread against the traffic, switch by switch",
        spreads,
    );
    let dropped = dropped(&fabric)?;
    lab.claim("three switches: no packet is dropped", dropped == 0);
    let [victim, _] = curves.came.as_slice() else {
        anyhow::bail!("two hosts were recorded");
    };
    let before = mean(victim, 500_000, OVERLOAD.0);
    let during = mean(victim, OVERLOAD.0 + 500_000, OVERLOAD.1);
    lab.claim(
        "the flow to h3, whose own way is free, is held up (head-of-line blocking)",
        during < 0.8 * before,
    );
    lab.report.notes.push(format!(
        "h1 to h4 and h2 to h3: {STEADY} of a link each; h5 to h7 to h4: all of a link each, for \
         {} ms. The flow to h3 has {} Gbit/s before and {} while h4 is overloaded, though no link \
         on its way is: its packets wait behind those to h4, at the ports that are paused",
        (OVERLOAD.1 - OVERLOAD.0) / 1_000_000,
        rounded(before, 2),
        rounded(during, 2)
    ));
    let mut plot = Plot::new("what arrives", "time, us", "Gbit/s", Style::Steps);
    for (name, curve) in ["h3, the victim", "h4, overloaded"].iter().zip(curves.came) {
        plot.series(name, curve);
    }
    lab.report.plots.push(plot);
    Ok(())
}

/// Five switches in a ring, each of whose hosts sends to the host two switches on: each link
/// between switches is asked for twice what it carries, and each waits for the next one.
fn ring(lab: &mut Lab) -> Result<()> {
    const SWITCHES: usize = 5;
    /// How long hosts send, and how long it is looked at, ns.
    const SENDING: u64 = 6_000_000;
    const SPAN: u64 = 40_000_000;
    let mut table = Table::new(
        "a ring of five switches, each host sends to the one two switches on",
        &[
            "watchdog",
            "packets delivered",
            "when the last one came, ms",
            "dropped by the watchdog",
            "other drops",
            "wait at the end",
        ],
    );
    let mut plot = Plot::new(
        "the ring: what arrives, all hosts",
        "time, us",
        "Gbit/s",
        Style::Steps,
    );
    for watchdog in ["60s", "5ms"] {
        lab.progress(&format!("a ring, watchdog {watchdog}"));
        let link = Link::new(RATE, DELAY).buffer(BUFFER);
        let mut plan = Plan::new();
        let switches: Vec<_> = (1..=SWITCHES)
            .map(|n| plan.switch(&format!("s{n}")))
            .collect();
        for (n, switch) in switches.iter().enumerate() {
            plan.link(*switch, switches[(n + 1) % SWITCHES], link);
        }
        for switch in &switches {
            let host = plan.host();
            plan.link(host, *switch, link);
        }
        let fabric = plan.build()?;
        Queues::Lossless(format!("{OPTIONS} watchdog {watchdog}")).apply(&fabric)?;
        let flows = (0..SWITCHES)
            .map(|n| {
                let flow = flow(&fabric, n, (n + 2) % SWITCHES, 1.0, (0, SENDING));
                (n, flow)
            })
            .collect();
        let all: Vec<usize> = (0..SWITCHES).collect();
        let (curves, stats) = measure(&fabric, flows, &all, &[], SPAN)?;
        let bins = curves.came.first().map_or(0, Vec::len);
        let total: Vec<(f64, f64)> = (0..bins)
            .map(|bin| {
                let at = curves.came[0][bin].0;
                let sum = curves.came.iter().map(|curve| curve[bin].1).sum();
                (at, rounded(sum, 3))
            })
            .collect();
        let last = total.iter().rev().find(|(_, rate)| *rate > 0.0);
        let last = last.map_or(0.0, |(at, _)| at / 1e3);
        let (mut delivered, mut stormed, mut others, mut waiting) = (0, 0, 0, 0);
        for (port, stats) in fabric.ports().iter().zip(stats) {
            if port.dev.starts_with('h') {
                delivered += stats.packets;
            }
            let its = stats.app(band_stat::STORMED);
            stormed += its;
            others += u64::from(stats.drops).saturating_sub(its);
            waiting += u64::from(stats.qlen);
        }
        table.row(vec![
            watchdog.into(),
            delivered.into(),
            number(last, 1),
            stormed.into(),
            others.into(),
            waiting.into(),
        ]);
        match watchdog {
            "60s" => lab.claim("the ring locks up, and nothing is dropped", {
                waiting > 0 && stormed == 0 && others == 0
            }),
            _ => lab.claim("the watchdog breaks the lock, and only it drops", {
                waiting == 0 && stormed > 0 && others == 0
            }),
        }
        plot.series(&format!("watchdog {watchdog}"), total);
    }
    lab.report.tables.push(table);
    lab.report.plots.push(plot);
    lab.report.notes.push(format!(
        "The ring: links of {} Gbit/s, hosts send at that rate for {} ms, looked at for {}",
        RATE / 1_000_000_000,
        SENDING / 1_000_000,
        SPAN / 1_000_000
    ));
    Ok(())
}
