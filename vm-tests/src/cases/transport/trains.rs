// SPDX-License-Identifier: GPL-2.0
//! Tokens that stand for several, and super-packets: what leaves together passes as one where the
//! device takes that, and comes as it was sent.

mod outside;

use anyhow::{ensure, Context, Result};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use turnstile_core::port::uapi::port_stat;
use turnstile_socket::SendOptions;

use super::super::knet::Calls;
use super::content::{content, Ledger};
use super::support::{
    addresses, configure_all, counters, hosts, receive_all, receiver, sender, PATIENCE,
};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::raw_netlink::Tc;
use crate::topology::{Builder, Net};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/trains/as-one", as_one),
    Case::new("transport/trains/looked-at", looked_at),
    Case::new("transport/trains/lengths", lengths),
    Case::new("transport/trains/option", option),
    // On a machine that stands still now and then a receiver allows less.
    Case::new("transport/trains/short-by-port", short_by_port).needs(&[Need::VirtualTime]),
    Case::new("transport/trains/made-by-others", outside::made_by_others),
    // A slow machine drops some of what a device gets packet by packet.
    Case::new("transport/trains/coalesced", coalesced).needs(&[Need::VirtualTime]),
    Case::new("transport/trains/coalesced-much", coalesced_much).keeps_once(1024),
];

/// What a message did at its sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Data packets that were sent.
    data: u64,
    /// What the sender's device counts as packets.
    passed: u64,
    /// Tokens that came, and how many packets these were.
    tokens: u64,
    trains: u64,
}

impl Seen {
    fn now(from: &Netns) -> Result<Self> {
        let all = counters(from)?;
        let of = |name: &str| all.get(name).copied().unwrap_or(0);
        let link = from.run("ip -s -j link show dev eth0")?;
        let link: serde_json::Value = serde_json::from_str(&link)?;
        let passed = link.pointer("/0/stats64/tx/packets");
        Ok(Self {
            data: of("data-sent") + of("unscheduled-sent"),
            passed: passed.and_then(|it| it.as_u64()).context("no packets")?,
            tokens: of("token-received"),
            trains: of("train-received"),
        })
    }
}

/// Sends a message of so many bytes from the second host to the first, by IPv4 or IPv6.
fn sent(net: &Net, family: usize, len: usize) -> Result<Seen> {
    let there = addresses(&net.hosts[0])[family];
    let to = receiver(&net.hosts[0].ns)?;
    let from = sender(&net.hosts[1].ns)?;
    let mut ledger = Ledger::of([(1, len)]);
    let before = Seen::now(&net.hosts[1].ns)?;
    from.send_to(&content(1, len), there, &SendOptions::default())?;
    receive_all(&to, &mut ledger)?;
    let end = from.wait_completion(Some(PATIENCE))?;
    ensure!(end.is_some(), "a message of {len} bytes has no end");
    let after = Seen::now(&net.hosts[1].ns)?;
    Ok(Seen {
        data: after.data - before.data,
        passed: after.passed - before.passed,
        tokens: after.tokens - before.tokens,
        trains: after.trains - before.trains,
    })
}

const LEN: usize = 4 << 20;
/// So that each machine has as many.
const TRAINS: &str = "link 10gbit worth 16";

/// A long message passes its sender's device in a fraction of its packets, and asks for them with a
/// fraction of the tokens; a device without offloads gets each by itself.
fn as_one(ctx: &mut Ctx) -> Result<()> {
    for offloads in [true, false] {
        let net = match offloads {
            true => hosts(&Builder::pair())?,
            false => hosts(&Builder::pair().without_offloads())?,
        };
        configure_all(&net, TRAINS)?;
        for family in [0, 1] {
            let seen = sent(&net, family, LEN)?;
            ctx.note(format!("offloads {offloads}, family {family}: {seen:?}"));
            ensure!(seen.data >= 2800, "{seen:?}");
            ensure!(
                seen.trains > 0,
                "no tokens that stand for several: {seen:?}"
            );
            match offloads {
                true => ensure!(seen.passed <= seen.data / 2, "not as one: {seen:?}"),
                false => ensure!(seen.passed >= seen.data, "as one: {seen:?}"),
            }
        }
    }
    Ok(())
}

/// Others look at what comes, by which it is not the receiver's alone: the kernel splits it.
fn looked_at(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    configure_all(&net, TRAINS)?;
    let _taps = [
        RawSocket::open(&net.hosts[0].ns, "eth0")?,
        RawSocket::open(&net.hosts[1].ns, "eth0")?,
    ];
    for family in [0, 1] {
        let seen = sent(&net, family, LEN)?;
        ctx.note(format!("family {family}: {seen:?}"));
        ensure!(seen.passed <= seen.data / 2, "not as one: {seen:?}");
    }
    Ok(())
}

/// Of each length that ends in one way or another all comes, and once.
fn lengths(_: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    configure_all(&net, "link 10gbit worth 64")?;
    for family in [0, 1] {
        for len in [
            2048, 2049, 2900, 4344, 4345, 10_000, 14_480, 32_768, 65_535, 65_536, 100_001, 262_144,
            1_000_003,
        ] {
            sent(&net, family, len).with_context(|| format!("{len} bytes, family {family}"))?;
        }
    }
    Ok(())
}

/// `worth 1` has none, and with policy expresspass there are none unless the option says so.
fn option(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    for (words, some) in [
        ("link 10gbit worth 1", false),
        ("worth 8", true),
        ("policy expresspass worth auto", false),
        ("worth 8", true),
    ] {
        configure_all(&net, words)?;
        let seen = sent(&net, 0, LEN)?;
        ctx.note(format!("{words}: {seen:?}"));
        ensure!((seen.trains != 0) == some, "{words}: {seen:?}");
    }
    Ok(())
}

/// Super-packets that a port cut so far, and into how many pieces.
fn cuts(port: &mut Tc) -> Result<(u64, u64)> {
    let stats = port.get(0x1_0000)?.stats;
    Ok((
        stats.app(port_stat::GSO_SPLITS),
        stats.app(port_stat::GSO_PIECES),
    ))
}

/// A message that needs no token passes a port as one, too, as long as that holds the link for no
/// longer than the port allows; and in pieces, or packet by packet, otherwise.
fn short_by_port(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 14_000;
    let net = hosts(&Builder::pair())?;
    let from = &net.hosts[1].ns;
    for (hold, cut) in [
        ("split-gso auto", (0, 0)),
        // Four frames fit.
        ("split-gso auto gso-hold 5us", (1, 2)),
        ("split-gso", (2, 0)),
    ] {
        from.tc(&format!(
            "qdisc replace dev eth0 root handle 1: turnstile link 10gbit {hold}"
        ))?;
        let mut port = Tc::open(from, "eth0")?;
        for family in [0, 1] {
            // Until the receiver knows it, and allows it all.
            for _ in 0..4 {
                sent(&net, family, LEN)?;
            }
            let before = cuts(&mut port)?;
            let seen = sent(&net, family, LEN)?;
            let after = cuts(&mut port)?;
            let grown = (after.0 - before.0, after.1 - before.1);
            ensure!((seen.data, seen.tokens) == (10, 0), "{hold}: {seen:?}");
            ensure!(
                grown == cut,
                "{hold}, family {family}: splits and pieces {grown:?}, not {cut:?}"
            );
        }
    }
    Ok(())
}

/// What a device took from the wire packet by packet goes up as super-packets where it has GRO.
fn coalesced(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    let (to, from) = (&net.hosts[0].ns, &net.hosts[1].ns);
    configure_all(&net, TRAINS)?;
    from.run("ethtool -K eth0 tso off tx-udp-segmentation off")?;
    for gro in ["off", "on"] {
        to.run(&format!("ethtool -K eth0 gro {gro}"))?;
        for family in [0, 1] {
            let before = went_up(to, family)?;
            let seen = sent(&net, family, LEN)?;
            let went_up = went_up(to, family)? - before;
            ctx.note(format!(
                "gro {gro}, family {family}: {seen:?}, {went_up} went up"
            ));
            ensure!(seen.passed >= seen.data, "as one: {seen:?}");
            match gro {
                "on" => ensure!(went_up <= seen.data / 2, "{went_up} of {seen:?}"),
                _ => ensure!(went_up >= seen.data, "{went_up} of {seen:?}"),
            }
        }
    }
    Ok(())
}

/// What is merged to more than a packet has places for is split by UDP, which makes no checksums
/// for that.
fn coalesced_much(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    let (to, from) = (&net.hosts[0].ns, &net.hosts[1].ns);
    configure_all(&net, TRAINS)?;
    from.run("ethtool -K eth0 tso off tx-udp-segmentation off")?;
    to.run("ethtool -K eth0 gro on")?;
    // Packets wait for others.
    to.enter(|| {
        // The namespace's own devices.
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/sys", Some("sysfs"), MsFlags::empty(), none)?;
        for (name, value) in [
            ("napi_defer_hard_irqs", "20"),
            ("gro_flush_timeout", "200000"),
        ] {
            std::fs::write(format!("/sys/class/net/eth0/{name}"), value).context(name)?;
        }
        Ok(())
    })?;
    let calls = Calls::count(&["skb_checksum", "skb_segment"])?;
    for family in [0, 1] {
        let before = went_up(to, family)?;
        let so_far = calls.as_ref().map(Calls::so_far).transpose()?;
        let seen = sent(&net, family, LEN)?;
        let went_up = went_up(to, family)? - before;
        ctx.note(format!("family {family}: {seen:?}, {went_up} went up"));
        ensure!(went_up <= seen.data / 4, "{went_up} of {seen:?}");
        if let (Some(calls), Some(so_far)) = (&calls, so_far) {
            let made = calls.so_far()? - so_far;
            ctx.note(format!("{made} checksums and splits"));
            // The sender's kernel splits what it sends in eights.
            ensure!(made <= seen.data / 4, "{made} of {seen:?}");
        }
    }
    Ok(())
}

/// How many packets devices gave to IPv4 or IPv6 so far, super-packets as one.
fn went_up(ns: &Netns, family: usize) -> Result<u64> {
    let text = ns.run(["cat /proc/net/snmp", "cat /proc/net/snmp6"][family])?;
    let value = match family {
        0 => text
            .lines()
            .filter(|line| line.starts_with("Ip:"))
            .nth(1)
            .and_then(|line| line.split_whitespace().nth(3)),
        _ => text
            .lines()
            .find_map(|line| line.strip_prefix("Ip6InReceives"))
            .map(str::trim),
    };
    Ok(value.context("no count of packets")?.parse()?)
}
