// SPDX-License-Identifier: GPL-2.0
//! Which class a packet goes to. Frames are handed to the port's device as they are.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::port::uapi::{band_stat, class, port_stat};

use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::raw_netlink::Tc;
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::frame::{udp, Frame, TPID_C, TPID_S};
use crate::traffic::{Packet, RawSocket};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("classify/turnstile-header", turnstile_header),
    Case::new("classify/vlan-tags", vlan_tags),
    Case::new("classify/vlan-device", vlan_device).needs(&[Need::Module("8021q")]),
    Case::new("classify/control-protocols", control_protocols),
    Case::new("classify/dscp", dscp),
    Case::new("classify/malformed", malformed),
    Case::new("classify/any-bytes", any_bytes).timeout_s(120),
    Case::new("classify/socket-priority", socket_priority),
    Case::new("classify/filter-flower", |_| {
        filter("protocol ip flower ip_proto udp dst_port 29813")
    })
    .needs(&[Need::Module("cls_flower")]),
    Case::new("classify/filter-u32", |_| {
        filter("protocol ip u32 match ip dport 29813 0xffff")
    })
    .needs(&[Need::Module("cls_u32")]),
    Case::new("classify/filter-bpf", |_| {
        filter("bpf bytecode-file /tmp/accept-all.bpf")
    })
    .needs(&[Need::Module("cls_bpf")]),
    Case::new("classify/filter-matchall", |_| filter("matchall"))
        .needs(&[Need::Module("cls_matchall")]),
    Case::new("classify/filter-actions", filter_actions)
        .needs(&[Need::Module("cls_matchall"), Need::Module("act_gact")]),
];

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const EF: u8 = 46;
const DEV: &str = "eth0";

/// A port and a socket that puts frames into it.
struct Probe {
    net: Net,
    socket: RawSocket,
    tc: Tc,
}

impl Probe {
    /// With four token priorities.
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        Tool::Tc.port(
            ns,
            "add",
            DEV,
            &format!("link 1gbit priorities 4 token-limit 100 {options}"),
        )?;
        let socket = RawSocket::open(ns, DEV)?;
        let tc = Tc::open(ns, DEV)?;
        Ok(Self { socket, tc, net })
    }

    fn ns(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    /// How many packets each class was offered, by minor number.
    fn offered(&mut self) -> Result<BTreeMap<u32, u64>> {
        let classes = self.tc.classes_of(0x10000)?;
        Ok(classes
            .iter()
            .map(|class| {
                (
                    class.handle & 0xffff,
                    class.stats.app(band_stat::OFFERED_PACKETS),
                )
            })
            .collect())
    }

    /// Sends a frame and finds the class that it was given to.
    fn class_of(&mut self, socket: Option<&RawSocket>, frame: &[u8]) -> Result<u8> {
        let before = self.offered()?;
        socket.unwrap_or(&self.socket).send(frame)?;
        let after = self.offered()?;
        let mut grown = after
            .iter()
            .filter(|(minor, count)| before.get(minor) != Some(count));
        let (minor, _) = grown.next().context("no class was offered the frame")?;
        ensure!(
            grown.next().is_none(),
            "two classes grew: something else is sent: {before:?} {after:?}"
        );
        u8::try_from(*minor).context("minor number")
    }

    /// That a frame goes to a class.
    fn expect(&mut self, what: &str, frame: &[u8], minor: u8) -> Result<()> {
        let got = self
            .class_of(None, frame)
            .with_context(|| what.to_owned())?;
        ensure!(
            got == minor,
            "{what}: went to class 1:{got:x}, not 1:{minor:x}"
        );
        Ok(())
    }
}

/// A Turnstile payload with this header.
fn payload(header: [u8; 4]) -> Vec<u8> {
    [&header[..], &[0; 14]].concat()
}

/// All header types and what class they belong to on a port with four priorities.
fn headers() -> Vec<(String, [u8; 4], u8)> {
    let mut all: Vec<_> = [1, 4, 5, 6, 7]
        .map(|kind| {
            (
                format!("signal type {kind}"),
                [0x10 | kind, 0, 0, 0],
                class::SIGNAL,
            )
        })
        .into();
    all.extend((0..=8).chain([255]).map(|priority| {
        let (minor, header) = (
            class::TOKENS + priority.min(3),
            Packet::Token(priority).header(),
        );
        (format!("token of priority {priority}"), header, minor)
    }));
    all.push(("data".into(), Packet::Data.header(), class::DATA));
    all.push((
        "unscheduled data".into(),
        Packet::Unscheduled.header(),
        class::UNSCHEDULED,
    ));
    // Flags beside the known one are for later versions.
    all.push((
        "data with unknown flags".into(),
        [0x13, 0, 0x82, 0],
        class::DATA,
    ));
    all.push((
        "a token with the unscheduled flag".into(),
        [0x12, 1, 1, 0],
        class::TOKENS + 1,
    ));
    all
}

fn turnstile_header(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    for (what, header, minor) in headers() {
        probe.expect(
            &format!("IPv4, {what}"),
            &Frame::udp4(V4, 0, PORT, &payload(header)).bytes(),
            minor,
        )?;
        probe.expect(
            &format!("IPv6, {what}"),
            &Frame::udp6(V6, 0, PORT, &payload(header)).bytes(),
            minor,
        )?;
        // The header says more than the code point.
        probe.expect(
            &format!("CS6, {what}"),
            &Frame::udp4(V4, 48, PORT, &payload(header)).bytes(),
            minor,
        )?;
    }
    let token = payload(Packet::Token(0).header());
    probe.expect(
        "a token to another UDP port",
        &Frame::udp4(V4, 0, 29812, &token).bytes(),
        class::DATA,
    )?;
    probe.expect(
        "TCP",
        &Frame::ipv6(V6, 0, 6, &udp(PORT, &token)).bytes(),
        class::DATA,
    )?;
    Ok(())
}

/// Tags in the packet itself.
fn vlan_tags(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    for (what, header, minor) in headers() {
        let v4 = || Frame::udp4(V4, 0, PORT, &payload(header));
        let v6 = || Frame::udp6(V6, 0, PORT, &payload(header));
        probe.expect(
            &format!("802.1Q, IPv4, {what}"),
            &v4().tagged(TPID_C, 5).bytes(),
            minor,
        )?;
        probe.expect(
            &format!("802.1ad, IPv6, {what}"),
            &v6().tagged(TPID_S, 5).bytes(),
            minor,
        )?;
        probe.expect(
            &format!("QinQ, IPv6, {what}"),
            &v6().tagged(TPID_C, 5).tagged(TPID_S, 6).bytes(),
            minor,
        )?;
    }
    let token = Frame::udp4(V4, 0, PORT, &payload(Packet::Token(0).header()));
    let deep = token.tagged(TPID_C, 1).tagged(TPID_C, 2).tagged(TPID_S, 3);
    probe.expect("three tags", &deep.bytes(), class::DATA)?;
    probe.expect(
        "tagged ARP",
        &Frame::arp().tagged(TPID_C, 5).bytes(),
        class::SIGNAL,
    )
}

/// Tags beside the packet, as a VLAN device gives them to hardware that can insert them.
fn vlan_device(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    let ns = probe.ns();
    ns.ip("link add link eth0 name eth0.5 type vlan id 5")?;
    ns.ip("link set eth0.5 up")?;
    // Listener reports and the like of the new device.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let vlan = RawSocket::open(ns, "eth0.5")?;
    for (what, header, minor) in headers() {
        for frame in [
            Frame::udp4(V4, 0, PORT, &payload(header)),
            Frame::udp6(V6, 0, PORT, &payload(header)),
        ] {
            let got = probe
                .class_of(Some(&vlan), &frame.bytes())
                .with_context(|| what.clone())?;
            ensure!(
                got == minor,
                "{what}: went to class 1:{got:x}, not 1:{minor:x}"
            );
        }
    }
    Ok(())
}

fn control_protocols(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    let icmp6 = |kind: u8| Frame::ipv6(V6, 0, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    // Hop-by-hop options with a router alert, then a listener report.
    let report = Frame::ipv6(
        V6,
        0,
        0,
        &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 0],
    );
    // As UDP, then made another protocol.
    let v4 = |protocol| Frame::udp4(V4, 0, 9, &[0; 18]).with_byte(9, protocol);
    let bridge_group =
        |last| Frame::new(0x0027, &[0x42, 0x42, 3]).to_mac([1, 0x80, 0xc2, 0, 0, last]);
    for (what, frame, minor) in [
        ("ARP", Frame::arp(), class::SIGNAL),
        ("LLDP", Frame::new(0x88cc, &[0; 46]), class::SIGNAL),
        ("LACP", Frame::new(0x8809, &[1; 46]), class::SIGNAL),
        ("STP", bridge_group(0), class::SIGNAL),
        ("the last reserved group", bridge_group(0x0f), class::SIGNAL),
        (
            "the first group that is not",
            bridge_group(0x10),
            class::DATA,
        ),
        ("neighbour solicitation", icmp6(135), class::SIGNAL),
        ("neighbour advertisement", icmp6(136), class::SIGNAL),
        ("router advertisement", icmp6(134), class::SIGNAL),
        ("IPv6 echo", icmp6(128), class::DATA),
        (
            "MLDv2 report behind hop-by-hop options",
            report,
            class::SIGNAL,
        ),
        ("IGMP", v4(2), class::SIGNAL),
        ("OSPF", v4(89), class::SIGNAL),
        ("ICMP", v4(1), class::DATA),
        (
            "an unknown ethertype",
            Frame::new(0x1234, &[0; 46]),
            class::DATA,
        ),
    ] {
        probe.expect(what, &frame.bytes(), minor)?;
    }
    Ok(())
}

fn dscp(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("dscp EF=token1,CS6=signal,AF11=unscheduled,63=token3")?;
    for (code, minor) in [
        (0, class::DATA),
        (EF, class::TOKENS + 1),
        (48, class::SIGNAL),
        (10, class::UNSCHEDULED),
        (63, class::TOKENS + 3),
        // The default map has it; a map that is given replaces all.
        (56, class::DATA),
    ] {
        probe.expect(
            &format!("IPv4, code {code}"),
            &Frame::udp4(V4, code, 9, &[0; 18]).bytes(),
            minor,
        )?;
        probe.expect(
            &format!("IPv6, code {code}"),
            &Frame::udp6(V6, code, 9, &[0; 18]).bytes(),
            minor,
        )?;
        let tagged = Frame::udp4(V4, code, 9, &[0; 18]).tagged(TPID_C, 7);
        probe.expect(&format!("tagged, code {code}"), &tagged.bytes(), minor)?;
    }
    // Later fragments have no UDP header; what they have at its place is not looked at.
    let fragment = Frame::udp4(V4, EF, PORT, &payload(Packet::Token(0).header())).with_byte(7, 1);
    probe.expect("a later fragment", &fragment.bytes(), class::TOKENS + 1)?;
    let ns = probe.ns();
    Tool::Turnstile.port(ns, "change", DEV, "dscp none")?;
    probe.expect(
        "after dscp none",
        &Frame::udp4(V4, EF, 9, &[0; 18]).bytes(),
        class::DATA,
    )
}

/// What is wrong or cut short is data, also with a code point that maps higher.
fn malformed(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("dscp EF=token1")?;
    let token = || Frame::udp4(V4, EF, PORT, &payload(Packet::Token(0).header()));
    for header in [
        [0x02, 0, 0, 0],
        [0x22, 0, 0, 0],
        [0x10, 0, 0, 0],
        [0x19, 0, 0, 0],
        [0x1f, 0, 0, 0],
        [0x12, 0, 0, 64],
    ] {
        let frame = Frame::udp4(V4, EF, PORT, &payload(header));
        probe.expect(&format!("header {header:x?}"), &frame.bytes(), class::DATA)?;
    }
    for (what, frame) in [
        (
            "a payload of three bytes",
            Frame::udp4(V4, EF, PORT, &[0x12, 0, 0]),
        ),
        ("no payload", Frame::udp4(V4, EF, PORT, &[])),
        ("IP version 5", token().with_byte(0, 0x55)),
        ("an IP header of four words", token().with_byte(0, 0x44)),
        (
            "an IP header longer than the packet",
            token().with_byte(0, 0x4f),
        ),
        (
            "a total length less than the header",
            token().with_byte(3, 19),
        ),
        (
            "a UDP length less than its header",
            token().with_byte(25, 7),
        ),
        (
            "IPv6 with version 4",
            Frame::udp6(V6, EF, PORT, &payload([0x12, 0, 0, 0])).with_byte(0, 0x4b),
        ),
    ] {
        probe.expect(what, &frame.unpadded(), class::DATA)?;
    }
    // Cut anywhere before the end of Turnstile's header: 20 bytes IPv4, 8 UDP, 4.
    for len in 0..32 {
        probe.expect(
            &format!("cut to {len} bytes"),
            &token().truncated(len).unpadded(),
            class::DATA,
        )?;
    }
    probe.expect(
        "the whole header and no more",
        &token().truncated(32).unpadded(),
        class::TOKENS,
    )?;
    let token6 = || Frame::udp6(V6, 0, PORT, &payload(Packet::Token(0).header()));
    for len in 0..52 {
        probe.expect(
            &format!("IPv6 cut to {len} bytes"),
            &token6().truncated(len).unpadded(),
            class::DATA,
        )?;
    }
    probe.expect(
        "IPv6, the whole header and no more",
        &token6().truncated(52).unpadded(),
        class::TOKENS,
    )
}

/// Thousands of frames with bytes at random: each goes to some class, and the sums hold.
fn any_bytes(ctx: &mut Ctx) -> Result<()> {
    const FRAMES: u64 = 5000;
    let mut probe = Probe::new("dscp EF=token1")?;
    let before: u64 = probe.offered()?.values().sum();
    let seeds = [
        Frame::udp4(V4, EF, PORT, &payload(Packet::Token(0).header())),
        Frame::udp6(V6, 0, PORT, &payload(Packet::Token(0).header())),
        Frame::udp6(V6, 0, PORT, &payload(Packet::Data.header())).tagged(TPID_C, 5),
        Frame::ipv6(
            V6,
            0,
            0,
            &[
                43, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0,
                0,
            ],
        ),
        Frame::arp().tagged(TPID_C, 1).tagged(TPID_S, 2),
    ];
    for _ in 0..FRAMES {
        let mut frame = ctx.rng.pick(&seeds).unpadded();
        // The addresses stay: frames to another host would not be looked at less, but frames to all
        // would be answered.
        for _ in 0..ctx.rng.range(0..=6) {
            let at = 12 + ctx.rng.index(frame.len() - 12);
            ctx.rng.fill(&mut frame[at..at + 1]);
        }
        let len = ctx.rng.range(14..=frame.len() as u64 + 20) as usize;
        frame.resize(len, 0xff);
        probe.socket.send(&frame)?;
    }
    let after = probe.offered()?;
    ctx.note(format!("offered by minor number: {after:?}"));
    let sent = after.values().sum::<u64>() - before;
    // The kernel itself may speak meanwhile; nothing may be missing.
    ensure!(
        sent >= FRAMES,
        "{sent} of {FRAMES} frames were offered to a class"
    );
    std::thread::sleep(std::time::Duration::from_millis(200));
    // Among them are tokens for several packets.
    crate::stats::check_port_of_trains(probe.ns(), DEV, "1:")
}

/// `skb->priority` that is one of the port's class ids decides; any other does not.
fn socket_priority(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    let other = Frame::udp4(V4, 0, 9, &[0; 18]).bytes();
    let token2 = Frame::udp4(V4, 0, PORT, &payload(Packet::Token(2).header())).bytes();
    for (priority, expected) in [
        (0x10001, Some(class::SIGNAL)),
        (0x10002, Some(class::DATA)),
        (0x10003, Some(class::UNSCHEDULED)),
        (0x10010, Some(class::TOKENS)),
        (0x10013, Some(class::TOKENS + 3)),
        // Not a class of this port: four priorities, major 1.
        (0x10014, None),
        (0x10000, None),
        (0x1ffff, None),
        (0x20001, None),
        (6, None),
        (0, None),
    ] {
        probe.socket.set_priority(priority)?;
        probe.expect(
            &format!("priority {priority:#x}"),
            &other,
            expected.unwrap_or(class::DATA),
        )?;
        probe.expect(
            &format!("priority {priority:#x} on a token"),
            &token2,
            expected.unwrap_or(class::TOKENS + 2),
        )?;
    }
    Ok(())
}

/// A filter that takes Turnstile packets gives them to its class; `skb->priority` goes before it.
fn filter(words: &str) -> Result<()> {
    // Returns -1, which stands for the class that the filter names.
    std::fs::write("/tmp/accept-all.bpf", "1,6 0 0 4294967295,\n")
        .context("writing a BPF program")?;
    let mut probe = Probe::new("")?;
    let ns = probe.ns();
    ns.tc(&format!(
        "filter add dev {DEV} parent 1: {words} classid 1:12"
    ))?;
    let token = Frame::udp4(V4, 0, PORT, &payload(Packet::Token(0).header())).bytes();
    probe.expect("a token that the filter takes", &token, class::TOKENS + 2)?;
    if words.contains("29813") {
        let other = Frame::udp4(V4, 0, 9, &[0; 18]).bytes();
        probe.expect("a packet that the filter leaves", &other, class::DATA)?;
    }
    probe.socket.set_priority(0x10001)?;
    probe.expect("a priority and a filter", &token, class::SIGNAL)?;
    probe.socket.set_priority(0)?;
    // A class that a filter names stays.
    let refused = Tool::Tc
        .try_port(probe.ns(), "change", DEV, "root handle 1:", "priorities 2")?
        .failure()?;
    ensure!(
        refused.contains("filter"),
        "the refusal does not name the filter: {refused}"
    );
    probe.expect(
        "a token after the refused change",
        &token,
        class::TOKENS + 2,
    )?;
    probe.ns().tc(&format!("filter del dev {DEV} parent 1:"))?;
    probe.expect("without the filter", &token, class::TOKENS)?;
    // To a class that the port does not have: the other rules decide, and it is counted.
    probe.ns().tc(&format!(
        "filter add dev {DEV} parent 1: {words} classid 1:17"
    ))?;
    probe.expect(
        "a filter to a class that is not there",
        &token,
        class::TOKENS,
    )?;
    let misses = probe.tc.get(0x10000)?.stats.app(port_stat::FILTER_MISSES);
    ensure!(misses == 1, "{misses} misses are counted");
    Ok(())
}

/// A filter's action may drop the packet, which is counted, and leaves the classes alone.
fn filter_actions(_: &mut Ctx) -> Result<()> {
    let mut probe = Probe::new("")?;
    probe.ns().tc(&format!(
        "filter add dev {DEV} parent 1: matchall action drop"
    ))?;
    let before = probe.offered()?;
    let token = Frame::udp4(V4, 0, PORT, &payload(Packet::Token(0).header())).bytes();
    for _ in 0..5 {
        probe.socket.send(&token)?;
    }
    ensure!(
        probe.offered()? == before,
        "a class was offered what the action dropped"
    );
    let port = probe.tc.get(0x10000)?;
    let drops = port.stats.app(port_stat::FILTER_DROPS);
    ensure!(
        drops == 5 && port.stats.drops == 5,
        "{drops} filter drops, {} drops in all",
        port.stats.drops
    );
    probe.ns().tc(&format!("filter del dev {DEV} parent 1:"))?;
    probe.expect("without the filter", &token, class::TOKENS)
}
