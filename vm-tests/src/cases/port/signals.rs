// SPDX-License-Identifier: GPL-2.0
//! The share of signals: `signal-share`. What is beyond it is data, and nothing is dropped for it.
//! `timing/signals` has it to the nanosecond.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, port_stat};

use crate::cases::support::{within, Bottleneck, TOKEN_SHARE};
use crate::harness::{Case, Ctx};
use crate::raw_netlink::{Stats, Tc};
use crate::stats;
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::frame::Frame;
use crate::traffic::{Flow, Packet, RawSocket, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("signal/excess-is-data", excess_is_data).timeout_s(120),
    Case::new("signal/super-packets", super_packets),
    Case::new("signal/changes-live", changes_live),
    Case::new("signal/excess-goes-to-the-child", to_the_child),
    Case::new("signal/every-way-in", every_way_in),
    Case::new("signal/what-bridges-keep", what_bridges_keep),
    Case::new("signal/flood-leaves-the-rest", flood),
];

const DEV: &str = "eth0";
const PORT: u32 = 0x1_0000;
const SIGNAL: u32 = PORT | class::SIGNAL as u32;
const DATA: u32 = PORT | class::DATA as u32;

/// The link of most cases: so slow that nothing leaves, and that the share earns nothing
/// meanwhile. 5 % of it pay for the next 4 KiB after 6.5 s.
const SLOW: &str = "link 100kbit jitter 0 data-limit 10mb signal-limit 5000";
/// Signals of 84 bytes on the wire that may come at once, 64 KiB.
const AT_ONCE: u64 = 780;
/// Signals that the kernel itself may send meanwhile: neighbour discovery, multicast reports.
const OTHERS: u64 = 4;

struct Bench {
    net: Net,
    tc: Tc,
    /// Packets that were sent for checks.
    checked: u64,
}

impl Bench {
    fn new(tool: Tool, options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        tool.port(ns, "add", DEV, options)?;
        let tc = Tc::open(ns, DEV)?;
        Ok(Self {
            net,
            tc,
            checked: 0,
        })
    }

    fn send(&self, flow: Flow) -> Result<()> {
        Source::run(&self.net.hosts[0].ns, vec![flow]).map(drop)
    }

    fn v4(&self, count: u64) -> Flow {
        Flow::new(1, Packet::Signal, self.net.hosts[1].v4).burst(count)
    }

    fn v6(&self, count: u64) -> Flow {
        Flow::new(1, Packet::Signal, self.net.hosts[1].v6).burst(count)
    }

    /// What was offered to the signal class and to the data class, and what the port counts as
    /// excess. They are read one after the other, and the kernel may send something in between: so
    /// until twice the same was read.
    fn offered(&mut self) -> Result<(u64, u64, u64)> {
        let offered = |stats: Stats| stats.app(band_stat::OFFERED_PACKETS);
        let mut last = None;
        loop {
            let read = (
                offered(self.tc.get_class(SIGNAL)?.stats),
                offered(self.tc.get_class(DATA)?.stats),
                self.tc.get(PORT)?.stats.app(port_stat::SIGNAL_EXCESS),
            );
            if last.replace(read) == Some(read) {
                return Ok(read);
            }
        }
    }

    /// Sends `count` signals, of which `within` are within the share.
    fn check(&mut self, what: &str, flow: Flow, within: u64) -> Result<()> {
        let count = flow.limit;
        let segments = flow.segments as u64;
        let before = self.offered()?;
        self.send(flow)?;
        let after = self.offered()?;
        let (signals, data, excess) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
        // What the kernel has sent since the port was made took bytes of the share: the last of
        // several super-packets may then find too few.
        self.checked += count;
        let others = (after.0 + after.1).saturating_sub(self.checked);
        let displaced = displaced(others, segments, within);
        ensure!(
            (within.saturating_sub(displaced)..=within + others).contains(&signals)
                && others <= OTHERS
                && (count - within..=count - within + displaced + OTHERS).contains(&excess)
                && data >= excess
                && data <= excess + OTHERS,
            "{what}: of {count} signals {signals} were signals, {data} data, {excess} excess; \
             {within} are within the share"
        );
        self.check_sums()
    }

    /// That all that was offered is accounted for. The port's own length counts super-packets that
    /// are not split as one each, so that it is left out.
    fn check_sums(&self) -> Result<()> {
        let classes = stats::classes(&self.net.hosts[0].ns, DEV)?;
        classes.values().try_for_each(stats::Counters::check)
    }
}

/// How many signals `others` may keep out of the share, of which so many are within, and which come
/// in super-packets of so many segments.
fn displaced(others: u64, segments: u64, within: u64) -> u64 {
    match others {
        0 => 0,
        _ if segments < within => OTHERS.max(segments),
        _ => OTHERS,
    }
}

/// Over both versions of IP, with each order, set up by each tool.
fn excess_is_data(_: &mut Ctx) -> Result<()> {
    for tool in Tool::ALL {
        for (options, v4, v6) in [
            ("", AT_ONCE, 630),
            ("order data-first", AT_ONCE, 630),
            ("signal-share 0.01% no-split-gso", AT_ONCE, 630),
            ("signal-share off", 1000, 1000),
            ("signal-share 100%", 1000, 1000),
        ] {
            let what = format!("{tool:?} {options}");
            let mut bench = Bench::new(tool, &format!("{SLOW} {options}"))?;
            bench.check(&what, bench.v4(1000), v4)?;
            drop(bench);
            let mut bench = Bench::new(tool, &format!("{SLOW} {options}"))?;
            bench.check(&format!("{what} over IPv6"), bench.v6(1000), v6)?;
            // What the tools show of it.
            let shown = tool.show_json(&bench.net.hosts[0].ns, DEV)?;
            let share = &shown["options"]["signal-share"];
            ensure!(!share.is_null(), "{what}: no share in {shown}");
            let port = stats::qdisc(&bench.net.hosts[0].ns, DEV, "1:")?;
            let excess = 1000 - v6;
            ensure!(
                port.extra.contains_key("signal-excess")
                    && (excess..=excess + OTHERS).contains(&port.get("signal-excess")),
                "{what}: {}",
                port.json
            );
        }
    }
    Ok(())
}

/// The segments of a super-packet are charged one by one if it is split, and all at once if not.
fn super_packets(_: &mut Ctx) -> Result<()> {
    // 10 x 84 bytes: 78 of 64 KiB.
    for (options, within) in [("split-gso", AT_ONCE), ("no-split-gso", 780)] {
        let mut bench = Bench::new(Tool::Tc, &format!("{SLOW} {options}"))?;
        let flow = Flow {
            segments: 10,
            ..bench.v4(1000)
        };
        bench.check(options, flow, within)?;
    }
    // 40 x 1538 bytes are less than 64 KiB, twice as many are more: the first 42 are within 60 KiB
    // and a chunk, when they are split.
    for (options, within) in [("split-gso", 42), ("no-split-gso", 40)] {
        let mut bench = Bench::new(Tool::Turnstile, &format!("{SLOW} {options}"))?;
        let flow = Flow {
            segments: 40,
            ..bench.v4(120).payload(1472)
        };
        bench.check(options, flow, within)?;
    }
    Ok(())
}

fn changes_live(_: &mut Ctx) -> Result<()> {
    for tool in Tool::ALL {
        let mut bench = Bench::new(tool, SLOW)?;
        let change =
            |bench: &Bench, words: &str| tool.port(&bench.net.hosts[0].ns, "change", DEV, words);
        bench.check("5 %", bench.v4(1000), AT_ONCE)?;
        change(&bench, "signal-share off")?;
        bench.check("off", bench.v4(1000), 1000)?;
        change(&bench, "signal-share 5%")?;
        bench.check("5 % again", bench.v4(1000), AT_ONCE)?;
        // What is not about it leaves it alone.
        change(&bench, "signal-limit 4000")?;
        bench.check("another limit", bench.v4(100), 0)?;
        change(&bench, "signal-share 10%")?;
        bench.check("10 %", bench.v4(100), 0)?;
        change(&bench, "signal-share 100%")?;
        bench.check("100 %", bench.v4(100), 100)?;
    }
    Ok(())
}

/// A child on the data class gets the excess, and not the port's own queue, which goes before it.
fn to_the_child(_: &mut Ctx) -> Result<()> {
    for (options, supers) in [("", 1), ("", 10), ("no-split-gso", 10)] {
        let mut bench = Bench::new(Tool::Tc, &format!("{SLOW} {options}"))?;
        let ns = &bench.net.hosts[0].ns;
        ns.tc(&format!(
            "qdisc add dev {DEV} parent 1:2 handle 2: pfifo limit 100"
        ))?;
        let flow = Flow {
            segments: supers,
            ..bench.v4(1000)
        };
        bench.send(flow)?;
        let child = stats::qdisc(&bench.net.hosts[0].ns, DEV, "2:")?;
        let (signals, data, excess) = bench.offered()?;
        let held = if options.is_empty() { 100 } else { 22 };
        // The child counts super-packets as one each.
        let dropped = if options.is_empty() { excess - 100 } else { 0 };
        let others = (signals + data).saturating_sub(1000);
        let displaced = displaced(others, supers as u64, AT_ONCE);
        ensure!(
            signals <= AT_ONCE + OTHERS
                && (220..=220 + OTHERS + displaced).contains(&excess)
                && (excess..=excess + OTHERS).contains(&data)
                && (held..=held + OTHERS).contains(&child.qlen)
                && (dropped..=dropped + OTHERS).contains(&child.drops),
            "{options} {supers}: {signals} signals, {data} data, {excess} excess; {}",
            child.json
        );
        bench.check_sums()?;
    }
    Ok(())
}

/// However a packet became a signal, it is charged: by its header, its DSCP, its protocol, behind a
/// tag, by `skb->priority`.
fn every_way_in(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 900;
    let to = std::net::Ipv4Addr::new(10, 0, 0, 2);
    let to6 = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    let sync = Packet::Signal.header();
    let port = turnstile_core::header::PORT;
    let frames = [
        ("SYNC", Frame::udp4(to, 0, port, &sync)),
        (
            "tagged SYNC",
            Frame::udp4(to, 0, port, &sync).tagged(0x8100, 5),
        ),
        ("CS6", Frame::udp4(to, 48, 9, &[0; 18])),
        ("CS7 over IPv6", Frame::udp6(to6, 56, 9, &[0; 8])),
        ("ARP", Frame::arp()),
        (
            "neighbour solicitation",
            Frame::ipv6(to6, 0, 58, &[135; 24]),
        ),
        ("OSPF", Frame::ipv6(to6, 0, 89, &[2; 24])),
        ("LLDP's type, to anybody", Frame::new(0x88cc, &[0; 46])),
    ];
    for (what, frame) in frames {
        let mut bench = Bench::new(Tool::Tc, SLOW)?;
        let socket = RawSocket::open(&bench.net.hosts[0].ns, DEV)?;
        let bytes = frame.bytes();
        let wire = (bytes.len() as u64 + 24).max(84);
        let within = 65_536 / wire;
        for _ in 0..COUNT {
            ensure!(socket.send(&bytes)?, "{what}: dropped");
        }
        let (signals, _, excess) = bench.offered()?;
        ensure!(
            (within - OTHERS..=within + OTHERS).contains(&signals) && excess >= COUNT - within,
            "{what}: {signals} signals and {excess} excess, not {within} and the rest"
        );
    }
    let mut bench = Bench::new(Tool::Tc, SLOW)?;
    let socket = RawSocket::open(&bench.net.hosts[0].ns, DEV)?;
    socket.set_priority(SIGNAL)?;
    let bytes = Frame::udp4(to, 0, 9, &[0; 18]).bytes();
    for _ in 0..COUNT {
        ensure!(socket.send(&bytes)?, "by priority: dropped");
    }
    let (signals, _, excess) = bench.offered()?;
    ensure!(
        signals <= AT_ONCE + OTHERS && excess >= COUNT - AT_ONCE,
        "by priority: {signals} signals, {excess} excess"
    );
    Ok(())
}

/// LACP passes while ARP floods the band, 16 KiB of it; and no more of it than that.
fn what_bridges_keep(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new(Tool::Tc, SLOW)?;
    let socket = RawSocket::open(&bench.net.hosts[0].ns, DEV)?;
    let arp = Frame::arp().bytes();
    let lacp = Frame::new(0x8809, &[1; 110]).to_mac([0x01, 0x80, 0xc2, 0, 0, 2]);
    let lacp = lacp.bytes();
    let put = |bench: &mut Bench, frame: &[u8], count: u64| -> Result<u64> {
        let before = bench.offered()?.0;
        for _ in 0..count {
            ensure!(socket.send(frame)?, "a frame was dropped");
        }
        Ok(bench.offered()?.0 - before)
    };
    let flood = put(&mut bench, &arp, 1000)?;
    let kept = put(&mut bench, &lacp, 50)?;
    let between = put(&mut bench, &arp, 100)?;
    let all = put(&mut bench, &lacp, 500)?;
    ctx.note(format!(
        "of 1000 ARP frames {flood} were signals, of 50 LACP frames then {kept}, of 500 more {all}"
    ));
    // 148 bytes each. The flood's last chunk is one that may be begun beyond 60 KiB.
    ensure!(
        (AT_ONCE - OTHERS..=AT_ONCE).contains(&flood) && kept == 50 && between == 0,
        "{flood} of 1000, {kept} of 50, {between} of 100"
    );
    // 12 KiB: 83, and the one that goes beyond.
    ensure!(all == 84 - 50, "{all} more LACP frames were signals");
    Ok(())
}

/// Signals that fill the link leave tokens their share and data the rest. Without a share, nobody
/// else gets anything.
fn flood(ctx: &mut Ctx) -> Result<()> {
    const LINK: f64 = 1e6;
    let bottleneck = Bottleneck::new()?;
    let flows = [
        bottleneck.flow(Packet::Signal).bits_per_s(1.3 * LINK),
        bottleneck
            .flow(Packet::Token(0))
            .bits_per_s(1.5 * TOKEN_SHARE * LINK),
        bottleneck.flow(Packet::Data).bits_per_s(0.5 * LINK),
    ];
    for (tool, options) in [
        (Tool::Tc, "order tokens-first"),
        (Tool::Turnstile, "order data-first"),
        (Tool::Turnstile, "signal-share off"),
    ] {
        let options = format!("link 1mbit {options} data-limit 20kb");
        let outcome = bottleneck.run(ctx, tool, &options, &flows, 6.0)?;
        let (switch, dev) = (bottleneck.switch(), bottleneck.dev());
        let excess = stats::qdisc(switch, &dev, "1:")?.get("signal-excess");
        let sent = |id| outcome.class(id).map(|class| class.packets);
        let (signals, tokens, data) = (sent("1:1")?, sent("1:10")?, sent("1:2")?);
        ctx.note(format!(
            "{options}: {signals} signals, {tokens} tokens, {data} data sent, {excess} excess"
        ));
        let token_rate = outcome.steady_rate(Packet::Token(0)) / (TOKEN_SHARE * LINK);
        if options.contains("off") {
            within("tokens' part of their share", token_rate, 0.0, 0.1)?;
            ensure!(excess == 0, "{excess} excess");
            continue;
        }
        // 64 KiB, and 5 % of six seconds: 780 + 446.
        within("signals", signals as f64, 1100.0, 1330.0)?;
        within("tokens' part of their share", token_rate, 0.95, 1.05)?;
        let class = outcome.class("1:1")?;
        ensure!(
            class.get("over-limit") == 0,
            "signals were dropped: {}",
            class.json
        );
        let data = outcome.class("1:2").context("data")?;
        ensure!(
            data.get("offered-packets") >= excess && excess > 6000,
            "{excess} excess: {}",
            data.json
        );
    }
    Ok(())
}
