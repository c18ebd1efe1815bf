// SPDX-License-Identifier: GPL-2.0
//! The tools that experiments and timing tests rely on: links, shapes, recorder, pcap.
//!
//! In virtual time they are held to the nanosecond. Elsewhere links are slow, so that the machine
//! keeps up, nothing may be early, and the best of many packets says how late the tools themselves
//! are.

use std::time::Duration;

use anyhow::{ensure, Context, Result};

mod messages;

use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::pcap::{self, Capture, Captured};
use crate::recorder::{self, Recorder, Unit};
use crate::topology::{Fabric, Link, Plan, Shaper};
use crate::traffic::{Flow, Packet, Sink, Source, MPU, MTU_PAYLOAD, OVERHEAD};

/// What links are made of.
const NEEDS: &[Need] = &[
    Need::Module("sch_turnstile"),
    Need::Module("sch_ingress"),
    Need::Module("sch_netem"),
    Need::Module("cls_matchall"),
    Need::Module("act_mirred"),
];

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("tools/link-timing", link_timing).needs(NEEDS),
    Case::new("tools/link-buffer", link_buffer).needs(NEEDS),
    Case::new("tools/stock-link", stock_link).needs(NEEDS),
    Case::new("tools/shapes", shapes)
        .needs(NEEDS)
        .timeout_s(120),
    Case::new("tools/recorder", queue_over_time).needs(NEEDS),
    Case::new("tools/messages", messages::over_tcp).needs(NEEDS),
    Case::new("tools/pcap", tcpdump_reads_it).needs(&[Need::Program("tcpdump")]),
];

/// By how much the best packet may be late, where the clock is the machine's own, ns.
const LATE: u64 = 5_000_000;
/// Bytes of a full frame, as tc counts.
const FRAME: u64 = MTU_PAYLOAD as u64 + 42;

/// A packet on a device: when, and the bytes of its frame.
type Seen = (u64, usize);

/// From `h1` to `h2`, full frames and small ones, so many of each, all at once; gives what left the
/// one and what came to the other.
fn burst(fabric: &Fabric, count: u64) -> Result<[Vec<Seen>; 2]> {
    let from = Capture::start(fabric.host(0), None)?;
    let to = Capture::start(fabric.host(1), None)?;
    let sink = Sink::start(fabric.host(1))?;
    let flow = |stream, packet| Flow::new(stream, packet, fabric.address(1)).burst(count);
    Source::run(
        fabric.host(0),
        vec![flow(1, Packet::Data), flow(2, Packet::Token(0))],
    )?;
    wait_for(&sink, 2 * count)?;
    sink.finish()?;
    Ok([seen(&from.finish()?, true), seen(&to.finish()?, false)])
}

/// Waits until so many packets have come, 20 s at most.
fn wait_for(sink: &Sink, packets: u64) -> Result<()> {
    let mut got = 0;
    for _ in 0..1000 {
        got = sink.so_far().values().map(|stream| stream.packets).sum();
        if got >= packets {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("{got} of {packets} packets came")
}

/// What was sent, or what was received.
fn seen(captured: &Captured, sent: bool) -> Vec<Seen> {
    let packets = captured.packets.iter();
    packets
        .filter(|packet| packet.sent == sent)
        .map(|packet| (packet.at, packet.length))
        .collect()
}

/// Packets are spaced by the time they take, and arrive after that and the propagation delay.
fn link_timing(ctx: &mut Ctx) -> Result<()> {
    if !clock::is_simulated() {
        return timing_on(ctx, Link::new(4_000_000, 7_000_000), 40);
    }
    for (rate, delay) in [
        (1_000_000_000, 12_345),
        (10_000_000_000, 1_000),
        (25_000_000_000, 0),
        (100_000_000_000, 777),
    ] {
        timing_on(ctx, Link::new(rate, delay), 200)
            .with_context(|| format!("{rate} bit/s, {delay} ns"))?;
    }
    Ok(())
}

fn timing_on(ctx: &Ctx, link: Link, count: u64) -> Result<()> {
    let fabric = Plan::pair(link).build()?;
    let [left, came] = burst(&fabric, count)?;
    ensure!(
        left.len() == came.len(),
        "{} packets left and {} came",
        left.len(),
        came.len()
    );
    let begin = left.first().context("nothing was sent")?.0;
    let (mut bits, mut last_bits) = (0_u128, 0);
    let (mut spacing, mut latency) = (Vec::new(), Vec::new());
    for (&(sent, bytes), &(received, _)) in left.iter().zip(&came) {
        // Rounded up: the first nanosecond in which the link is free.
        let due = begin + (bits * 1_000_000_000).div_ceil(u128::from(link.rate)) as u64;
        spacing.push(sent as i64 - due as i64);
        latency.push(received as i64 - (sent + link.latency(bytes)) as i64);
        last_bits = (bytes + OVERHEAD).max(MPU) as u128 * 8;
        bits += last_bits;
    }
    let range = |late: &[i64]| {
        let least = late.iter().min().copied().unwrap_or(0);
        (least, late.iter().max().copied().unwrap_or(0))
    };
    ctx.note(format!(
        "{} bit/s, {} ns: departures {:?} ns late, arrivals {:?} ns",
        link.rate,
        link.delay,
        range(&spacing),
        range(&latency)
    ));
    for (what, late) in [("departures", &spacing), ("arrivals", &latency)] {
        let (least, most) = range(late);
        if clock::is_simulated() {
            ensure!(
                (least, most) == (0, 0),
                "{what} are {least} to {most} ns late"
            );
        } else {
            ensure!(least <= LATE as i64, "all {what} are {least} ns late");
        }
    }
    if !clock::is_simulated() {
        ensure!(range(&latency).0 >= 0, "arrivals are early");
        // Each departure is told from the first, which may have been stamped late: only all of them
        // together tell the rate.
        let (first, last) = (left[0].0, left[left.len() - 1].0);
        let taken = u128::from(last - first) * u128::from(link.rate);
        let least = (bits - last_bits) * 1_000_000_000 * 9 / 10;
        ensure!(taken >= least, "the link is faster than {}", link.rate);
    }
    Ok(())
}

/// A buffer holds what it is said to hold, beside the packet in service.
fn link_buffer(ctx: &mut Ctx) -> Result<()> {
    const HELD: u64 = 5;
    let link = Link::new(1_000_000, 0).buffer((HELD * FRAME + FRAME / 2) as u32);
    let fabric = Plan::pair(link).build()?;
    let sink = Sink::start(fabric.host(1))?;
    let flow = Flow::new(1, Packet::Data, fabric.address(1)).burst(40);
    // What hosts say of IPv6 when a device comes up would be in service, or take room, now and
    // then: it has been said by then, but for what follows after 5 s.
    std::thread::sleep(Duration::from_millis(2500));
    Source::run(fabric.host(0), vec![flow])?;
    wait_for(&sink, HELD + 1)?;
    std::thread::sleep(Duration::from_millis(200));
    let got = sink.finish()?.remove(&1).map_or(0, |stream| stream.packets);
    ctx.note(format!("{got} of 40 packets came"));
    // A slow machine sends some when others have left: 12 ms each.
    let most = HELD + 1 + if clock::is_simulated() { 0 } else { 15 };
    ensure!(
        (HELD + 1..=most).contains(&got),
        "{got} packets came, not {} to {most}",
        HELD + 1
    );
    Ok(())
}

/// With a stock `tbf`, links have their rate and delay, too; only not exactly.
fn stock_link(ctx: &mut Ctx) -> Result<()> {
    let link = Link::new(4_000_000, 1_000_000).shaper(Shaper::Tbf { burst: 1600 });
    let fabric = Plan::pair(link).build()?;
    let [left, came] = burst(&fabric, 40)?;
    let (first, last) = (left[0].0, left[left.len() - 1].0);
    let bits: u64 = left
        .iter()
        .map(|(_, bytes)| (bytes + OVERHEAD).max(MPU) as u64 * 8)
        .sum();
    let rate = bits as f64 * 1e9 / (last - first) as f64;
    ctx.note(format!("{rate:.0} bit/s"));
    // A burst of one frame, and the last packet's own time, are not in it. A machine that is late
    // loses what it cannot save up.
    ensure!(
        rate > 0.3 * link.rate as f64 && rate < 1.1 * link.rate as f64,
        "{rate:.0} bit/s on a link of {}",
        link.rate
    );
    let early = left
        .iter()
        .zip(&came)
        .any(|(left, came)| came.0 < left.0 + link.latency(left.1));
    ensure!(!early, "packets arrive too early");
    Ok(())
}

/// Every shape carries packets between its ends, as late as its links make them, and over all equal
/// ways.
fn shapes(ctx: &mut Ctx) -> Result<()> {
    let (edge, core) = (
        Link::new(1_000_000_000, 1_000),
        Link::new(4_000_000_000, 3_000),
    );
    for (name, plan, pairs) in [
        ("star", Plan::star(3, edge), vec![(0, 2), (1, 0)]),
        (
            "dumbbell",
            Plan::dumbbell(2, edge, core),
            vec![(0, 2), (3, 1)],
        ),
        (
            "parking lot",
            Plan::parking_lot(2, edge, core),
            vec![(0, 1), (2, 3), (4, 5)],
        ),
    ] {
        let fabric = plan.build().context(name)?;
        for (from, to) in pairs {
            one_packet(&fabric, from, to)
                .with_context(|| format!("{name}: host {} to host {}", from + 1, to + 1))?;
        }
    }
    let fabric = Plan::leaf_spine(2, 2, 2, edge, core).build()?;
    one_packet(&fabric, 0, 1)?;
    one_packet(&fabric, 0, 3)?;
    // Each flow has a port of its own; that 24 of them take the same way is next to impossible.
    let spines = [
        Recorder::start(&fabric.node("s1")?.ns)?,
        Recorder::start(&fabric.node("s2")?.ns)?,
    ];
    let flows = (0..24).map(|stream| Flow::new(stream, Packet::Data, fabric.address(2)).burst(1));
    let sink = Sink::start(fabric.host(2))?;
    Source::run(fabric.host(0), flows.collect())?;
    wait_for(&sink, 24)?;
    sink.finish()?;
    let behind = fabric.hosts_behind("s1", "l2")?;
    ensure!(behind.len() == 2, "{behind:?} are behind s1's port to l2");
    let mut ways = Vec::new();
    for spine in spines {
        ways.push(recorder::passages(&spine.finish()?, "l2", &behind)?.len());
    }
    ctx.note(format!("24 flows over two spines: {ways:?}"));
    ensure!(
        ways.iter().sum::<usize>() == 24 && !ways.contains(&0),
        "24 flows took the ways {ways:?}"
    );
    Ok(())
}

fn one_packet(fabric: &Fabric, from: usize, to: usize) -> Result<()> {
    let capture = [
        Capture::start(fabric.host(from), None)?,
        Capture::start(fabric.host(to), None)?,
    ];
    let sink = Sink::start(fabric.host(to))?;
    let flow = Flow::new(1, Packet::Data, fabric.address(to)).burst(1);
    Source::run(fabric.host(from), vec![flow])?;
    wait_for(&sink, 1)?;
    sink.finish()?;
    let [left, came] = capture.map(Capture::finish);
    let (left, came) = (seen(&left?, true), seen(&came?, false));
    let (&(left, bytes), &(came, _)) = left.first().zip(came.first()).context("nothing seen")?;
    let ideal = left + fabric.latency(from, to, bytes)?;
    // By another clock, when a capture sees a packet is a matter of what else the machine does.
    if clock::is_simulated() {
        ensure!(came == ideal, "{} ns late", came as i64 - ideal as i64);
    }
    Ok(())
}

/// A queue whose length is known at each instant.
fn queue_over_time(ctx: &mut Ctx) -> Result<()> {
    const PACKETS: u64 = 20;
    let slow = Link::new(2_000_000, 0);
    let fast = Link::new(1_000_000_000, 0);
    let mut plan = Plan::new();
    let (switch, sender, receiver) = (plan.switch("s1"), plan.host(), plan.host());
    plan.link(sender, switch, fast);
    plan.link(receiver, switch, slow);
    let fabric = plan.build()?;
    let recorder = Recorder::start(&fabric.node("s1")?.ns)?;
    let sink = Sink::start(fabric.host(1))?;
    let flow = Flow::new(1, Packet::Data, fabric.address(1)).burst(PACKETS);
    Source::run(fabric.host(0), vec![flow])?;
    wait_for(&sink, PACKETS)?;
    sink.finish()?;
    let passages =
        recorder::passages(&recorder.finish()?, "h2", &fabric.hosts_behind("s1", "h2")?)?;
    let all = passages
        .iter()
        .filter(|p| p.packet == Packet::Data && p.left.is_some())
        .count() as u64;
    ensure!(all == PACKETS, "{all} of {PACKETS} were recorded");
    let lengths = recorder::lengths(&passages, Unit::Packets, |_| true);
    let longest = recorder::longest(&lengths);
    let wait = passages.iter().filter_map(recorder::Passage::wait).max();
    let wait = wait.context("nobody waited")?;
    ctx.note(format!("longest {longest} packets, {wait} ns"));
    ensure!(
        lengths.last().is_some_and(|(_, length)| *length == 0),
        "the queue is not empty at the end"
    );
    // One is in service while the others wait. They come at 12.3 us intervals and leave at 6152 us.
    if clock::is_simulated() {
        let (interval, service) = (12_304, 6_152_000);
        ensure!(longest == PACKETS - 1, "the longest queue was {longest}");
        let ideal = (PACKETS - 1) * (service - interval);
        ensure!(wait == ideal, "the longest wait was {wait} ns, not {ideal}");
    } else {
        ensure!(
            (PACKETS / 2..=PACKETS).contains(&longest),
            "the longest queue was {longest}"
        );
    }
    Ok(())
}

/// tcpdump reads what was captured, to the nanosecond.
fn tcpdump_reads_it(_: &mut Ctx) -> Result<()> {
    let net = crate::topology::Builder::pair().build()?;
    let capture = Capture::start(&net.hosts[1].ns, Some("eth0"))?;
    let sink = Sink::start(&net.hosts[1].ns)?;
    let flow = Flow::new(7, Packet::Token(2), net.hosts[1].v4)
        .packets_per_s(200.0)
        .window(Duration::ZERO, Duration::from_millis(100));
    Source::run(&net.hosts[0].ns, vec![flow])?;
    wait_for(&sink, 20)?;
    sink.finish()?;
    let captured = capture.finish()?;
    let path = std::env::temp_dir().join("tools.pcap");
    std::fs::write(&path, pcap::file(&captured.packets)).context("writing the capture")?;
    let text = net.hosts[1].ns.run(&format!(
        "tcpdump -Z root -r {} -n -tt --time-stamp-precision=nano udp port 29813",
        path.display()
    ))?;
    let read: Vec<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
    let ours: Vec<String> = captured
        .of("eth0")?
        // The kernel may have something to say by itself.
        .filter(|packet| recorder::what(packet) == Some(Packet::Token(2)))
        .map(|packet| {
            let (s, ns) = (packet.at / 1_000_000_000, packet.at % 1_000_000_000);
            format!("{s}.{ns:09}")
        })
        .collect();
    ensure!(ours.len() == 20, "{} of 20 packets captured", ours.len());
    ensure!(read == ours, "tcpdump says {read:?}, not {ours:?}");
    Ok(())
}
