// SPDX-License-Identifier: GPL-2.0
//! Modules that are written with knet in safe code: the example of its documentation, and one that
//! does its worst. And how pacers let go of what they listen with.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};

use crate::cmd::run_here;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::raw_netlink::{attribute_u32, Request, Tc, ROOT};
use crate::stats;
use crate::topology::{Builder, Net};
use crate::traffic::frame::Frame;
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("knet/fifo", fifo),
    Case::new("knet/hostile", hostile).timeout_s(120),
    Case::new("knet/taps", taps)
        .needs(&[Need::Module("sch_drr")])
        .timeout_s(240)
        // The first probe has the kernel keep some 700 objects of kmalloc-64.
        .keeps_once(1024),
];

const HANDLE: u32 = 0x1_0000;
const HOSTILE: &str = "knet_hostile";

/// The frames `which`, from the first host to the second.
fn send(net: &Net, which: std::ops::Range<u8>) -> Result<()> {
    let socket = RawSocket::open(&net.hosts[0].ns, "eth0")?;
    for number in which {
        let frame = Frame::udp4(net.hosts[1].v4, 0, 9, &[number; 200]).bytes();
        socket.send(&frame)?;
    }
    Ok(())
}

/// The numbers of those frames that arrive at the second host, in order.
fn arrived(socket: &RawSocket) -> Result<Vec<u8>> {
    let mut numbers = Vec::new();
    while let Some(frame) = socket.receive(300)? {
        if frame.bytes.len() == 14 + 20 + 8 + 200 && !frame.outgoing {
            numbers.push(*frame.bytes.last().context("an empty frame")?);
        }
    }
    Ok(numbers)
}

/// The example of knet's documentation works: packets pass in order, its limit holds below a slow
/// parent, counters are right, and it goes.
fn fifo(_: &mut Ctx) -> Result<()> {
    const LIMIT: u64 = 100;
    run_here("modprobe knet_fifo", "")?.success()?;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.tc("qdisc add dev eth0 root handle 1: knet_fifo")?;
    let in_use = run_here("rmmod knet_fifo", "")?.failure()?;
    ensure!(in_use.contains("in use"), "rmmod says {in_use:?}");
    let capture = RawSocket::open(&net.hosts[1].ns, "eth0")?;
    send(&net, 0..50)?;
    ensure!(
        arrived(&capture)? == Vec::from_iter(0..50),
        "not all arrive in order"
    );
    let port = stats::qdisc(ns, "eth0", "1:")?;
    ensure!(
        port.packets >= 50 && port.qlen == 0 && port.backlog == 0 && port.drops == 0,
        "{port:?}"
    );

    // Nothing passes a bucket that is too small for one packet every minute.
    ns.tc("qdisc replace dev eth0 root handle 2: tbf rate 8bit burst 300 limit 100000")?;
    ns.tc("qdisc add dev eth0 parent 2:1 handle 3: knet_fifo")?;
    send(&net, 0..120)?;
    let child = stats::qdisc(ns, "eth0", "3:")?;
    let parent = stats::qdisc(ns, "eth0", "2:")?;
    ensure!(
        (LIMIT..=LIMIT + 1).contains(&child.qlen) && child.drops >= 18,
        "the limit is {LIMIT}: {child:?}"
    );
    ensure!(
        parent.qlen == child.qlen && parent.backlog == child.backlog,
        "tbf has {}, its child {}",
        parent.qlen,
        child.qlen
    );
    // What it holds is dropped with it.
    ns.tc("qdisc del dev eth0 root")?;
    run_here("rmmod knet_fifo", "")?.success().map(drop)
}

fn wish(tc: &mut Tc, what: u16) -> Result<()> {
    tc.qdisc(
        Request::ChangeQdisc,
        ROOT,
        HANDLE,
        HOSTILE,
        &attribute_u32(what, 0),
    )?
    .success()
    .with_context(|| format!("wish {what}"))
}

fn add(ns: &Netns) -> Result<Tc> {
    let mut tc = Tc::open(ns, "eth0")?;
    tc.qdisc(Request::AddQdisc, ROOT, HANDLE, HOSTILE, &[])?
        .success()?;
    Ok(tc)
}

/// A module in safe code keeps packets for longer than their device lives and gives them away on
/// another one, lets go of packets without a word, and unregisters its kind while qdiscs of it
/// live, or never.
fn hostile(_: &mut Ctx) -> Result<()> {
    const UNREGISTER: u16 = 1;
    const FORGET: u16 = 2;
    const REGISTER: u16 = 3;
    const GIVE: u16 = 4;
    const LET_GO: u16 = 6;
    const STALE: u8 = 40;
    run_here("modprobe knet_hostile", "")?.success()?;
    {
        // Packets whose device is gone.
        let gone = Builder::pair().build()?;
        let _tc = add(&gone.hosts[0].ns)?;
        send(&gone, 0..STALE)?;
        gone.hosts[0].ns.ip("link del eth0")?;
    }
    // Devices are told apart by their addresses alone: so that no other one gets that of the one
    // that is gone, these do.
    let spare = Netns::create("spare")?;
    for number in 0..8 {
        spare.ip(&format!("link add a{number} type veth peer name b{number}"))?;
    }
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let mut tc = add(ns)?;
    wish(&mut tc, GIVE)?;
    let capture = RawSocket::open(&net.hosts[1].ns, "eth0")?;
    // Each packet that comes has one dropped that was kept, until there are none any more.
    send(&net, 100..200)?;
    let numbers = arrived(&capture)?;
    ensure!(
        numbers == Vec::from_iter(100..200),
        "of the packets of another device and its own it sent {numbers:?}"
    );
    let qdisc = stats::qdisc(ns, "eth0", "1:")?;
    ensure!(
        qdisc.drops >= u64::from(STALE),
        "the packets of another device are drops: {qdisc:?}"
    );

    // Registered twice; then not at all, while it lives.
    let twice = tc.qdisc(
        Request::ChangeQdisc,
        ROOT,
        HANDLE,
        HOSTILE,
        &attribute_u32(REGISTER, 0),
    )?;
    ensure!(
        twice.errno == libc::EEXIST,
        "registered twice: errno {}",
        twice.errno
    );
    wish(&mut tc, UNREGISTER)?;
    let other = &net.hosts[1].ns;
    let mut there = Tc::open(other, "eth0")?;
    let answer = there.qdisc(Request::AddQdisc, ROOT, HANDLE, HOSTILE, &[])?;
    ensure!(answer.errno == libc::ENOENT, "errno {}", answer.errno);
    send(&net, 0..20)?;
    ensure!(
        arrived(&capture)? == Vec::from_iter(0..20),
        "an unregistered kind's qdisc sends"
    );
    // Once more, which is then forgotten.
    wish(&mut tc, REGISTER)?;
    drop(add(other)?);
    wish(&mut tc, FORGET)?;
    wish(&mut tc, LET_GO)?;
    send(&net, 0..20)?;
    ensure!(arrived(&capture)?.is_empty(), "they were let go of");
    tc.delete(ROOT)?.success()?;
    there.delete(ROOT)?.success()?;
    run_here("rmmod knet_hostile", "")?.success()?;
    // The kernel looks through the kinds that it knows.
    let answer = there.qdisc(Request::AddQdisc, ROOT, HANDLE, "knet_nobody", &[])?;
    ensure!(answer.errno == libc::ENOENT, "errno {}", answer.errno);
    Ok(())
}

/// What waits for a grace period.
const WAITS: &[&str] = &["synchronize_rcu_expedited", "synchronize_rcu"];

/// Counts the calls of some of the kernel's functions.
pub(super) struct Calls(&'static [&'static str]);

impl Calls {
    const TRACING: &str = "/sys/kernel/tracing";

    /// `None`: this kernel has no probes.
    pub(super) fn count(names: &'static [&'static str]) -> Result<Option<Self>> {
        run_here(&format!("mount -t tracefs tracefs {}", Self::TRACING), "")?;
        let events = format!("{}/kprobe_events", Self::TRACING);
        if !fs::exists(&events)? {
            return Ok(None);
        }
        for name in names {
            let probe = format!("p:turnstile/{name} {name}\n");
            let mut file = fs::OpenOptions::new().append(true).open(&events)?;
            std::io::Write::write_all(&mut file, probe.as_bytes())
                .with_context(|| format!("a probe of {name}"))?;
            Self::enable(name, "1")?;
        }
        Ok(Some(Self(names)))
    }

    fn enable(name: &str, how: &str) -> Result<()> {
        let file = format!("{}/events/turnstile/{name}/enable", Self::TRACING);
        fs::write(&file, how).with_context(|| file)
    }

    pub(super) fn so_far(&self) -> Result<u64> {
        let profile = fs::read_to_string(format!("{}/kprobe_profile", Self::TRACING))?;
        Ok(profile
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for name in self.0 {
            let _ = Self::enable(name, "0");
        }
        let _ = fs::write(format!("{}/kprobe_events", Self::TRACING), "\n");
    }
}

/// 64 pacers that go at once do not each wait for a grace period.
fn taps(ctx: &mut Ctx) -> Result<()> {
    const PACERS: u32 = 64;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let mut took = Vec::new();
    let mut waited = Vec::new();
    for kind in ["pfifo", "turnstile_pacer"] {
        let mut lines = "qdisc add dev eth0 root handle 1: drr\n".to_owned();
        for number in 1..=PACERS {
            let handle = number + 0x10;
            write!(
                lines,
                "class add dev eth0 parent 1: classid 1:{number:x} drr\n\
                 qdisc add dev eth0 parent 1:{number:x} handle {handle:x}: {kind}\n"
            )?;
        }
        ns.run_with("tc -batch -", &lines)?;
        let waits = Calls::count(WAITS)?;
        let before = waits.as_ref().map(Calls::so_far).transpose()?;
        let began = Instant::now();
        ns.tc("qdisc del dev eth0 root")?;
        took.push(began.elapsed());
        if let (Some(waits), Some(before)) = (&waits, before) {
            waited.push(waits.so_far()? - before);
        }
    }
    ctx.note(format!(
        "{PACERS} pfifo and {PACERS} pacers were deleted in {took:?}, which waited for grace \
         periods {waited:?} times"
    ));
    if let [without, with] = waited[..] {
        ensure!(
            with < without + 8,
            "the pacers waited for {with} grace periods, as many pfifo for {without}"
        );
    }
    // They are still there for a grace period, and nobody may take the module away until they are
    // gone.
    std::thread::sleep(Duration::from_millis(1));
    Ok(())
}
