// SPDX-License-Identifier: GPL-2.0
//! Super-packets: split before they are queued, or queued whole and counted as the wire packets
//! they stand for. What is between the two is in `pieces.rs`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option, port_stat};

use crate::cases::support::ledger::{check_class, describe, settle_with, Counter, Settled};
use crate::cases::support::load::tcp_super_packet;
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::raw_netlink::kinds::fifo;
use crate::raw_netlink::{attribute_u64, Request, Tc};
use crate::topology::{Builder, Net};
use crate::traffic::{bulk, wire_length, Flow, Packet, RawSocket, Sink, Source, MTU_PAYLOAD};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("gso/udp-split", |_| udp(Mode::Split)),
    Case::new("gso/udp-whole", |_| udp(Mode::Whole)),
    Case::new("gso/tcp-split", |ctx| tcp(ctx, Mode::Split)),
    Case::new("gso/tcp-whole", |ctx| tcp(ctx, Mode::Whole)),
    Case::new("gso/beyond-the-cap", beyond_the_cap),
    Case::new("gso/from-outside", from_outside),
    Case::new("gso/unsplittable", unsplittable),
    Case::new("gso/held-by-a-child", held_by_a_child),
    Case::new("gso/paced-alike", paced_alike),
];

const PORT: u32 = 0x1_0000;
const DATA: u32 = PORT | class::DATA as u32;
const UNSCHEDULED: u32 = PORT | class::UNSCHEDULED as u32;
const TOKEN0: u32 = PORT | class::TOKENS as u32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Split,
    Whole,
}

impl Mode {
    const BOTH: [Self; 2] = [Self::Split, Self::Whole];

    fn words(self) -> &'static str {
        match self {
            Self::Split => "split-gso",
            Self::Whole => "no-split-gso",
        }
    }
}

struct Bench {
    net: Net,
    tc: Tc,
}

impl Bench {
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        ns.tc(&format!(
            "qdisc add dev eth0 root handle 1: turnstile {options}"
        ))?;
        let tc = Tc::open(ns, "eth0")?;
        Ok(Self { net, tc })
    }

    /// Packets that the device was handed: a super-packet is one.
    fn handed_over(&self) -> Result<u64> {
        let link = self.net.hosts[0]
            .ns
            .run("ip -s -j link show dev eth0")
            .and_then(|text| crate::cmd::json(&text))?;
        link[0]["stats64"]["tx"]["packets"]
            .as_u64()
            .with_context(|| format!("no counter in {link}"))
    }

    /// Sends `count` super-packets of `segments` datagrams each.
    fn send(
        &self,
        to: IpAddr,
        packet: Packet,
        payload: usize,
        segments: usize,
        count: u64,
    ) -> Result<()> {
        let flow = Flow {
            segments,
            ..Flow::new(1, packet, to)
                .payload(payload)
                .burst(count * segments as u64)
        };
        let sent = Source::start(&self.net.hosts[0].ns, vec![flow], clock::monotonic()).wait()?;
        ensure!(
            sent.iter()
                .map(|sent| sent.packets + sent.refused)
                .sum::<u64>()
                == count * segments as u64,
            "not all was sent: {sent:?}"
        );
        Ok(())
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let to = &self.net.hosts[1];
        [to.v4.into(), to.v6.into()]
    }
}

/// Bytes of a datagram as tc counts them.
fn length(payload: usize, to: IpAddr) -> u64 {
    (14 + if to.is_ipv6() { 40 } else { 20 } + 8 + payload) as u64
}

/// UDP super-packets over both protocols: how many packets and bytes each instance counts.
fn udp(mode: Mode) -> Result<()> {
    const COUNT: u64 = 40;
    const SEGMENTS: usize = 10;
    const PAYLOAD: usize = 1000;
    let mut bench = Bench::new(mode.words())?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    for to in bench.addresses() {
        let (before, arrived) = settle_with(&mut bench.tc, &[PORT], &counter)?;
        let handed = bench.handed_over()?;
        bench.send(to, Packet::Data, PAYLOAD, SEGMENTS, COUNT)?;
        let (after, arrived_then) = settle_with(&mut bench.tc, &[PORT], &counter)?;
        let handed = bench.handed_over()? - handed;
        after.check(PORT)?;

        let packets = COUNT * SEGMENTS as u64;
        let grown = |number| -> Result<u64> {
            Ok(after.class(DATA)?.stats.app(number) - before.class(DATA)?.stats.app(number))
        };
        ensure!(
            grown(band_stat::OFFERED_PACKETS)? == packets,
            "{to}: offered {} packets, not {packets}",
            grown(band_stat::OFFERED_PACKETS)?
        );
        let bytes = packets * length(PAYLOAD, to);
        ensure!(
            grown(band_stat::OFFERED_BYTES)? == bytes,
            "{to}: offered {} bytes, not {bytes}",
            grown(band_stat::OFFERED_BYTES)?
        );
        let splits = splits(&after)? - splits(&before)?;
        // Neighbours may say a word in between.
        let (want_splits, want_handed) = match mode {
            Mode::Split => (COUNT, packets..=packets + 8),
            Mode::Whole => (0, COUNT..=COUNT + 8),
        };
        ensure!(
            splits == want_splits,
            "{to}: {splits} splits, not {want_splits}"
        );
        ensure!(
            want_handed.contains(&handed),
            "{to}: the device was handed {handed} packets, not {want_handed:?}"
        );
        let came = arrived_then.0 - arrived.0;
        ensure!(
            (packets..=packets + 8).contains(&came),
            "{to}: {came} packets arrived, not {packets}"
        );
    }
    Ok(())
}

fn splits(settled: &Settled) -> Result<u64> {
    Ok(settled.qdisc(PORT)?.stats.app(port_stat::GSO_SPLITS))
}

/// TCP, which makes super-packets all by itself.
fn tcp(ctx: &mut Ctx, mode: Mode) -> Result<()> {
    const BYTES: u64 = 3_000_000;
    let mut bench = Bench::new(mode.words())?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    for to in bench.addresses() {
        let (before, arrived) = settle_with(&mut bench.tc, &[PORT], &counter)?;
        let handed = bench.handed_over()?;
        let [from, peer] = &bench.net.hosts[..] else {
            anyhow::bail!("not a pair")
        };
        bulk(&from.ns, &peer.ns, to, BYTES)?;
        let (after, arrived_then) = settle_with(&mut bench.tc, &[PORT], &counter)?;
        let handed = bench.handed_over()? - handed;
        after.check(PORT)?;
        let sent = after.qdisc(PORT)?.stats.packets - before.qdisc(PORT)?.stats.packets;
        let splits = splits(&after)? - splits(&before)?;
        ctx.note(format!(
            "{to}: {sent} packets, {splits} splits, {handed} handed to the device"
        ));
        ensure!(
            sent >= BYTES / 1460,
            "{to}: {BYTES} bytes in {sent} packets"
        );
        ensure!(
            arrived_then.0 - arrived.0 == sent,
            "{to}: sent {sent}, arrived {}",
            arrived_then.0 - arrived.0
        );
        match mode {
            Mode::Split => ensure!(
                splits > 0 && handed == sent,
                "{to}: {splits} splits, {sent} packets, of which the device was handed {handed}"
            ),
            Mode::Whole => ensure!(
                splits == 0 && handed < sent,
                "{to}: {splits} splits, {sent} packets, of which the device was handed {handed}"
            ),
        }
    }
    Ok(())
}

/// Caps are in wire packets. Split, a super-packet fills what room there is; whole, it fits or not.
fn beyond_the_cap(_: &mut Ctx) -> Result<()> {
    /// Class, packets of it, its cap, segments, how many of them are kept when split, and when
    /// whole.
    type Row = (u32, Packet, &'static str, u64, u64, u64);
    const ROWS: [Row; 5] = [
        (UNSCHEDULED, Packet::Unscheduled, "unscheduled 1", 3, 1, 0),
        (UNSCHEDULED, Packet::Unscheduled, "unscheduled 2", 3, 2, 0),
        (UNSCHEDULED, Packet::Unscheduled, "unscheduled 3", 3, 3, 3),
        (TOKEN0, Packet::Token(0), "token-limit 8", 10, 8, 0),
        (TOKEN0, Packet::Token(0), "token-limit 10", 10, 10, 10),
    ];
    let mut bench = Bench::new("jitter 0")?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    for mode in Mode::BOTH {
        for (class, packet, cap, segments, split, whole) in ROWS {
            let words = format!("{} {cap} token-expiry off", mode.words());
            bench.net.hosts[0].ns.tc(&format!(
                "qdisc change dev eth0 root handle 1: turnstile {words}"
            ))?;
            for to in bench.addresses() {
                let before = bench.tc.get_class(class)?.stats;
                bench.send(to, packet, 400, usize::try_from(segments)?, 1)?;
                let (settled, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
                settled.check(PORT)?;
                let after = settled.class(class)?;
                let grown = |number| after.stats.app(number) - before.app(number);
                let kept = match mode {
                    Mode::Split => split,
                    Mode::Whole => whole,
                };
                ensure!(
                    grown(band_stat::OFFERED_PACKETS) == segments
                        && after.stats.packets - before.packets == kept
                        && grown(band_stat::OVER_LIMIT) == segments - kept,
                    "{words}, {segments} segments to {to}, {kept} to be kept: {}",
                    describe(after)
                );
            }
        }
    }
    Ok(())
}

/// Super-packets as a virtual machine hands them over: nobody has counted their segments yet.
fn from_outside(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 20;
    const MSS: u16 = 1000;
    const SEGMENTS: u64 = 5;
    for mode in Mode::BOTH {
        let mut bench = Bench::new(mode.words())?;
        let counter = Counter::install(&bench.net.hosts[1].ns)?;
        let socket = RawSocket::open_gso(&bench.net.hosts[0].ns, "eth0")?;
        let to = &bench.net.hosts[1];
        let (v4, v6) = (to.v4, to.v6);
        for over_v6 in [false, true] {
            let before = bench.tc.get_class(DATA)?.stats;
            // The last segment is short.
            let payload = vec![0x5a; usize::from(MSS) * 4 + 7];
            let (header, frame) = tcp_super_packet(v4, v6, over_v6, MSS, &payload);
            for _ in 0..COUNT {
                ensure!(socket.send_gso(header, &frame)?, "the port dropped a frame");
            }
            let (settled, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
            settled.check(PORT)?;
            let data = settled.class(DATA)?;
            let offered = |number| data.stats.app(number) - before.app(number);
            let headers = if over_v6 { 14 + 40 + 20 } else { 14 + 20 + 20 };
            let bytes = COUNT * (SEGMENTS * headers + payload.len() as u64);
            ensure!(
                offered(band_stat::OFFERED_PACKETS) == COUNT * SEGMENTS
                    && offered(band_stat::OFFERED_BYTES) == bytes
                    && data.stats.packets - before.packets == COUNT * SEGMENTS,
                "{}, IPv6 {over_v6}: {COUNT} super-packets of {SEGMENTS} segments, {bytes} bytes: \
                 {}, {} bytes",
                mode.words(),
                describe(data),
                offered(band_stat::OFFERED_BYTES)
            );
        }
        let (settled, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
        let want = if mode == Mode::Split { 2 * COUNT } else { 0 };
        ensure!(
            splits(&settled)? == want,
            "{} splits, not {want}",
            splits(&settled)?
        );
    }
    Ok(())
}

/// A super-packet that claims to be TCP but is not: it cannot be split, and is dropped with all its
/// segments.
fn unsplittable(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 10;
    const SEGMENTS: u64 = 4;
    const UDP: u8 = 17;
    let mut bench = Bench::new("split-gso")?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    let socket = RawSocket::open_gso(&bench.net.hosts[0].ns, "eth0")?;
    let to = &bench.net.hosts[1];
    let (header, good) = tcp_super_packet(to.v4, to.v6, false, 1000, &[0x5a; 4000]);
    let mut bad = good.clone();
    // The protocol in the IPv4 header.
    bad[14 + 9] = UDP;
    let before = settle_with(&mut bench.tc, &[PORT], &counter)?.0;
    for _ in 0..COUNT {
        ensure!(
            !socket.send_gso(header, &bad)?,
            "the port took a frame that cannot be split"
        );
    }
    ensure!(
        socket.send_gso(header, &good)?,
        "the port dropped a good frame"
    );
    let (settled, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
    settled.check(PORT)?;
    let grown = |number| -> Result<u64> {
        Ok(settled.qdisc(PORT)?.stats.app(number) - before.qdisc(PORT)?.stats.app(number))
    };
    let (drops, splits) = (grown(port_stat::GSO_DROPS)?, grown(port_stat::GSO_SPLITS)?);
    // In super-packets, or in the segments that they stand for.
    ensure!(
        drops == COUNT || drops == COUNT * SEGMENTS,
        "{drops} drops for {COUNT} super-packets of {SEGMENTS}"
    );
    ensure!(splits == 1, "{splits} splits instead of one");
    let data = settled.class(DATA)?;
    check_class(data)?;
    let offered = data.stats.app(band_stat::OFFERED_PACKETS)
        - before.class(DATA)?.stats.app(band_stat::OFFERED_PACKETS);
    ensure!(
        offered == SEGMENTS,
        "offered {offered} packets: what could not be split was given to a class"
    );
    let qdisc_drops = settled.qdisc(PORT)?.stats.drops - before.qdisc(PORT)?.stats.drops;
    ensure!(
        u64::from(qdisc_drops) >= COUNT,
        "tc shows {qdisc_drops} drops"
    );
    Ok(())
}

/// Super-packets that a child holds are neither sent nor dropped.
fn held_by_a_child(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 6;
    const SEGMENTS: usize = 10;
    let mut bench = Bench::new("no-split-gso link 1kbit")?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    bench
        .tc
        .qdisc(Request::AddQdisc, DATA, 0x2_0000, "pfifo", &fifo(100))?
        .success()?;
    let to = bench.net.hosts[1].v4.into();
    // The first one keeps the link busy for minutes.
    bench.send(to, Packet::Data, 1000, SEGMENTS, COUNT + 1)?;
    // It may have to wait for a signal of the kernel's own, which takes a second here.
    let begin = Instant::now();
    let child = loop {
        let child = bench.tc.get(0x2_0000)?.stats;
        if u64::from(child.qlen) <= COUNT || begin.elapsed() > Duration::from_secs(20) {
            break child;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let data = bench.tc.get_class(DATA)?;
    check_class(&data)?;
    ensure!(
        u64::from(child.qlen) == COUNT && child.drops == 0,
        "the child holds {} and dropped {}",
        child.qlen,
        child.drops
    );
    ensure!(
        data.stats.app(band_stat::CHILD) == 0 && data.stats.drops == 0,
        "nothing was dropped: {}",
        describe(&data)
    );
    bench
        .tc
        .change_port(PORT, &attribute_u64(option::LINK_RATE64, 0))?
        .success()?;
    let (settled, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
    settled.check(PORT)?;
    let data = settled.class(DATA)?;
    ensure!(
        data.stats.packets == (COUNT + 1) * SEGMENTS as u64 && data.stats.drops == 0,
        "in the end: {}",
        describe(data)
    );
    Ok(())
}

/// A shaped port sends the same number of bytes per second either way.
fn paced_alike(ctx: &mut Ctx) -> Result<()> {
    const RATE: f64 = 20e6;
    const COUNT: u64 = 120;
    const SEGMENTS: usize = 10;
    let bench = Bench::new("link 20mbit data-limit 100mb")?;
    let sink_of = &bench.net.hosts[1].ns;
    let mut rates = Vec::new();
    for mode in Mode::BOTH {
        bench.net.hosts[0].ns.tc(&format!(
            "qdisc change dev eth0 root handle 1: turnstile {}",
            mode.words()
        ))?;
        for to in bench.addresses() {
            let sink = Sink::start(sink_of)?;
            // Full-length packets: IPv6's header is longer.
            let payload = if to.is_ipv6() {
                MTU_PAYLOAD - 20
            } else {
                MTU_PAYLOAD
            };
            bench.send(to, Packet::Data, payload, SEGMENTS, COUNT)?;
            let wire = wire_length(payload, to.is_ipv6()) as f64 * 8.0;
            let expected = COUNT * SEGMENTS as u64;
            let deadline = clock::monotonic() + 10_000_000_000;
            let received = loop {
                let so_far = sink.so_far();
                match so_far.get(&1) {
                    Some(received) if received.packets == expected => break received.clone(),
                    _ if clock::monotonic() > deadline => anyhow::bail!(
                        "{} of {expected} packets arrived",
                        so_far.get(&1).map_or(0, |received| received.packets)
                    ),
                    _ => std::thread::sleep(Duration::from_millis(20)),
                }
            };
            sink.finish()?;
            // The first super-packet's time is not in the span between the first and the last.
            let first = match mode {
                Mode::Split => 1.0,
                Mode::Whole => SEGMENTS as f64,
            };
            let seconds = (received.last - received.first) as f64 / 1e9;
            let rate = (expected as f64 - first) * wire / seconds;
            ctx.note(format!("{} {to}: {:.2} Mbit/s", mode.words(), rate / 1e6));
            rates.push(rate);
        }
    }
    let (lowest, highest) = rates.iter().fold((f64::MAX, 0.0_f64), |(low, high), rate| {
        (low.min(*rate), high.max(*rate))
    });
    // What is late is made up for, but never for more than a millisecond or eight frames at a time.
    ensure!(
        highest <= RATE * 1.02,
        "{highest} bit/s on a link of {RATE}"
    );
    // On a machine that is busy with other things, some of them are slower.
    let alike = !clock::is_simulated() || lowest >= highest * 0.95;
    ensure!(
        alike && lowest >= RATE * 0.5,
        "between {lowest} and {highest} bit/s on a link of {RATE}"
    );
    Ok(())
}
