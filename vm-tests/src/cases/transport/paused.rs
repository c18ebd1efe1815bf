// SPDX-License-Identifier: GPL-2.0
//! Messages that their senders pace, at a host whose own link is paused: they wait above its port,
//! and go on in turn; and whatever becomes of what waits below is told.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::net::if_::if_nametoindex;
use turnstile_core::pfc::frame::Frame as Pause;
use turnstile_socket::{SendOptions, Socket};

use super::churn::unload;
use super::content::{self, Ledger};
use super::identity::cgroup::pass_all;
use super::support::{
    addresses, configure_all, delivered, hosts, load, nothing_more, receive_all, receiver, sender,
    socket, PORT,
};
use crate::clock;
use crate::harness::{Case, Ctx, Need, Objects};
use crate::netns::Netns;
use crate::pcap::Capture;
use crate::stats;
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/paused/short-goes-soon", short_goes_soon).timeout_s(120),
    Case::new("transport/paused/gone-meanwhile", gone_meanwhile).timeout_s(240),
    Case::new("transport/paused/in-parts", in_parts).needs(&[Need::VirtualTime]),
    Case::new("transport/paused/odd-ways", odd_ways)
        .needs(&[
            Need::Module("sch_netem"),
            Need::Module("ifb"),
            Need::Module("act_mirred"),
            Need::Module("cls_matchall"),
        ])
        .timeout_s(240),
];

/// ns that a full packet takes at 1 Gbit/s, and a quantum of a pause.
const PACKET: u64 = 12_304;
const QUANTUM: u64 = 512;
/// Long messages under way, and bytes of each.
const LONG: u64 = 4;
const LEN: usize = 300_000;
/// ns.
const LASTS: u64 = 10_000_000;

/// Two hosts. The first one's port obeys pauses.
fn path(policy: &str, builder: &Builder) -> Result<(Net, RawSocket)> {
    let net = hosts(builder)?;
    configure_all(&net, &format!("link 1gbit policy {policy}"))?;
    let port = "link 1gbit pfc data 0 data-limit 4mb";
    Tool::Tc.port(&net.hosts[0].ns, "add", "eth0", port)?;
    let next = RawSocket::open(&net.hosts[1].ns, "eth0")?;
    Ok((net, next))
}

/// The second host pauses the first one.
fn pause(next: &RawSocket, ns: u64) -> Result<()> {
    let quanta = u16::try_from(ns / QUANTUM).context("too long")?;
    let frame = Pause::one(0, quanta).write([2, 0, 0, 0, 0, 9]);
    ensure!(next.send(&frame)?, "a frame was dropped on its way");
    Ok(())
}

fn waiting(net: &Net) -> Result<u64> {
    let data = stats::classes(&net.hosts[0].ns, "eth0")?.remove("1:2");
    Ok(data.context("no data class")?.qlen)
}

/// A short message that is written while long ones wait for a pause goes soon after its end, and of
/// the long ones no more than some packets wait in the port.
fn short_goes_soon(ctx: &mut Ctx) -> Result<()> {
    for policy in ["dcqcn", "timely"] {
        let (net, next) = path(policy, &Builder::pair().without_offloads())?;
        let (here, there) = (&net.hosts[0], &net.hosts[1]);
        let long = (sender(&here.ns)?, receiver(&there.ns)?);
        let short = (sender(&here.ns)?, socket(&there.ns, ("::", PORT + 1))?);
        let [mut address, _] = addresses(there);
        let mut ledger = Ledger::of((1..=LONG).map(|number| (number, LEN)));
        for number in 1..=LONG {
            let bytes = content::content(number, LEN);
            long.0.send_to(&bytes, address, &SendOptions::default())?;
        }
        std::thread::sleep(Duration::from_millis(2));
        pause(&next, LASTS)?;
        let ends = clock::monotonic() + LASTS;
        std::thread::sleep(Duration::from_nanos(LASTS / 2));
        let waits = waiting(&net)?;
        address.set_port(PORT + 1);
        let bytes = content::content(9, 1000);
        short.0.send_to(&bytes, address, &SendOptions::default())?;
        let came = short.1.recv_message(1000)?;
        let after = clock::monotonic().saturating_sub(ends);
        content::check(9, 0, &came.data)?;
        ctx.note(format!(
            "{policy}: {waits} packets wait; the short one has come {after} ns after the pause"
        ));
        // Where the machine is late more may wait, and all takes longer.
        let exact = clock::is_simulated();
        let most = if exact { 2 * LONG } else { 64 };
        ensure!(waits <= most, "{policy}: {waits} packets wait");
        let soon = (2 * LONG + 2) * PACKET;
        ensure!(
            !exact || after <= soon,
            "{policy}: the short one has come {after} ns after the pause"
        );
        receive_all(&long.1, &mut ledger)?;
        delivered(&long.0, LONG as u32)?;
        nothing_more(&long.1)?;
    }
    Ok(())
}

/// While packets wait for a pause their sockets are closed, their queue or device goes, or the
/// namespace, and then the module.
fn gone_meanwhile(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 20;
    for cycle in 0..8 {
        one(ctx, cycle)?;
    }
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        one(ctx, cycle).with_context(|| format!("cycle {cycle}"))?;
    }
    before.compare(ctx, CYCLES)?;
    load()
}

fn one(ctx: &mut Ctx, cycle: u32) -> Result<()> {
    load()?;
    let policy = if cycle % 2 == 0 { "dcqcn" } else { "timely" };
    // With super-packets, too.
    let (mut net, next) = path(policy, &Builder::pair())?;
    configure_all(&net, "timeout 500ms")?;
    let to = receiver(&net.hosts[1].ns)?;
    let address = addresses(&net.hosts[1])[(cycle % 2) as usize];
    let mut from = Vec::new();
    for number in 0..6 {
        let socket: Socket = sender(&net.hosts[0].ns)?;
        let bytes = content::content(number, LEN);
        socket.send_to(&bytes, address, &SendOptions::default())?;
        from.push(socket);
    }
    std::thread::sleep(Duration::from_micros(ctx.rng.range(1..=2000)));
    pause(&next, LASTS)?;
    std::thread::sleep(Duration::from_micros(ctx.rng.range(1..=2000)));
    from.truncate(3);
    let here = &net.hosts[0].ns;
    match cycle % 4 {
        // It is left to the end of the pause.
        0 => std::thread::sleep(Duration::from_nanos(LASTS)),
        1 => drop(here.tc("qdisc del dev eth0 root")?),
        2 => drop(here.ip("link del eth0")?),
        _ => drop(net.hosts.remove(0)),
    }
    drop((from, to, next));
    drop(net);
    unload()
}

/// A super-packet that the port splits, or cuts into shorter ones, is below until its last part has
/// left: until then its message sends nothing more. And it is no more than half of what may be
/// below, so that word of it does not come when all has left.
fn in_parts(ctx: &mut Ctx) -> Result<()> {
    /// Bytes of a packet with Ethernet's header.
    const FULL: u64 = 1514;
    // At 10 Mbit/s a packet takes 1.2 ms. The longest piece is two packets, so that the first that
    // is cut has four.
    for (how, options, most) in [
        ("split", "link 10mbit", 4),
        ("cut", "link 10mbit gso-hold 3ms", 8),
    ] {
        let net = hosts(&Builder::pair())?;
        configure_all(&net, "link 1gbit policy dcqcn")?;
        let (here, there) = (&net.hosts[0].ns, &net.hosts[1]);
        let all_first = "0 ".repeat(16);
        here.tc(&format!(
            "qdisc add dev eth0 root handle 1: prio bands 2 priomap {all_first}"
        ))?;
        let port = |handle: u32| -> Result<()> {
            let line = format!("qdisc replace dev eth0 parent 1:1 handle {handle}: turnstile");
            here.tc(&format!("{line} {options}")).map(drop)
        };
        let seen = |handle: u32| -> Result<(u64, u64)> {
            let port = stats::qdisc(here, "eth0", &format!("{handle}:"))?;
            Ok((port.get("gso-splits"), port.backlog))
        };
        port(20)?;
        let to = receiver(&there.ns)?;
        let from = sender(here)?;
        let mut ledger = Ledger::of([(1, LEN)]);
        let bytes = content::content(1, LEN);
        from.send_to(&bytes, addresses(there)[0], &SendOptions::default())?;
        std::thread::sleep(Duration::from_millis(50));
        let (_, waits) = seen(20)?;
        ensure!(waits <= 2 * FULL, "{how}: {waits} bytes wait at first");
        // What waits is dropped. If the message hears of it when all is gone, all is due that was
        // not sent, and twice as much may be below; the kernel may tell of a part before.
        let mut handles = 30..80;
        let waits = loop {
            let handle = handles.next();
            let handle = handle.with_context(|| format!("{how}: no super-packet came"))?;
            port(handle)?;
            // At its own rate a packet more is due every 12 us.
            std::thread::sleep(Duration::from_micros(ctx.rng.range(200..=400)));
            let (split, waits) = seen(handle)?;
            if split > 0 {
                break waits;
            }
        };
        ctx.note(format!("{how}: {waits} bytes wait"));
        ensure!(waits <= most * FULL, "{how}: {waits} bytes wait");
        here.tc("qdisc del dev eth0 root")?;
        receive_all(&to, &mut ledger)?;
        delivered(&from, 1)?;
        nothing_more(&to)?;
    }
    Ok(())
}

/// What a host's packets pass, and how that goes away under way.
#[derive(Default)]
struct Way<'a> {
    set_up: &'a [&'a str],
    take_away: &'a [&'a str],
    /// An XDP program where they come in; whether it is the kernel's.
    program: Option<bool>,
}

/// All that takes packets apart, copies them, holds them or gives them to others, on both sides of
/// the link: messages arrive whole, also when it goes away while their packets wait in it, and
/// nothing of them is left.
fn odd_ways(ctx: &mut Ctx) -> Result<()> {
    const PORT: &str = "tc qdisc add dev eth0 root handle 1: turnstile link 200mbit pfc data 0";
    const NETEM: &str = "tc qdisc add dev eth0 root netem delay 300us 200us duplicate 20% \
                         reorder 20% limit 1000";
    const NETEM_BELOW: &str = "tc qdisc add dev eth0 parent 1:2 netem delay 300us 200us \
                               duplicate 20% reorder 20% limit 1000";
    const TBF: &str = "tc qdisc add dev eth0 root tbf rate 200mbit burst 8kb limit 1mb";
    const IFB: &str = "ip link add ifb0 up type ifb";
    const IFB_PORT: &str = "tc qdisc add dev ifb0 root turnstile link 200mbit";
    const CLSACT: &str = "tc qdisc add dev eth0 clsact";
    const REDIRECT: &str =
        "tc filter add dev eth0 egress matchall action mirred egress redirect dev ifb0";
    const MIRROR: &str =
        "tc filter add dev eth0 egress matchall action mirred egress mirror dev ifb0";
    let root = |set_up| Way {
        set_up,
        take_away: &["tc qdisc del dev eth0 root"],
        ..Way::default()
    };
    let ifb = |set_up| Way {
        set_up,
        take_away: &["tc qdisc del dev eth0 clsact", "ip link del ifb0"],
        ..Way::default()
    };
    let program = |generic| Way {
        program: Some(generic),
        ..root(&[PORT])
    };
    let all = [
        ("netem", root(&[NETEM])),
        ("netem below a port", root(&[PORT, NETEM_BELOW])),
        ("tbf", root(&[TBF])),
        ("an ifb", ifb(&[IFB, IFB_PORT, CLSACT, REDIRECT])),
        ("a mirror", ifb(&[IFB, IFB_PORT, CLSACT, MIRROR, PORT])),
        ("XDP", program(false)),
        ("generic XDP", program(true)),
    ];
    let go_by_all = || -> Result<()> {
        for (name, way) in &all {
            for policy in ["dcqcn", "timely"] {
                go_by(policy, way).with_context(|| format!("{name}, {policy}"))?;
            }
            ctx.note(name);
        }
        Ok(())
    };
    go_by_all()?;
    let before = Objects::settled()?;
    go_by_all()?;
    before.compare(ctx, 1)?;
    load()
}

fn go_by(policy: &str, way: &Way<'_>) -> Result<()> {
    const COUNT: u64 = 6;
    load()?;
    let net = hosts(&Builder::pair())?;
    configure_all(&net, &format!("link 1gbit policy {policy}"))?;
    let (here, there) = (&net.hosts[0], &net.hosts[1]);
    let program = way.program.map(|generic| attach(&there.ns, generic));
    let program = program.transpose()?;
    for line in way.set_up {
        here.ns.run(line)?;
    }
    // Whoever looks at packets has copies of them.
    let tap = Capture::start(&here.ns, Some("eth0"))?;
    let to = receiver(&there.ns)?;
    let from = sender(&here.ns)?;
    let mut ledger = Ledger::of((1..=COUNT).map(|number| (number, LEN)));
    for number in 1..=COUNT {
        let bytes = content::content(number, LEN);
        let address = addresses(there)[(number % 2) as usize];
        from.send_to(&bytes, address, &SendOptions::default())?;
    }
    std::thread::sleep(Duration::from_millis(10));
    for line in way.take_away {
        here.ns.run(line)?;
    }
    receive_all(&to, &mut ledger)?;
    delivered(&from, COUNT as u32)?;
    nothing_more(&to)?;
    drop(tap.finish()?);
    drop((from, to, program));
    drop(net);
    unload()
}

fn attach(ns: &Netns, generic: bool) -> Result<OwnedFd> {
    ns.enter(|| {
        let device = if_nametoindex("eth0").context("the index of eth0")?;
        pass_all(device, generic).context("attaching an XDP program")
    })
}
