// SPDX-License-Identifier: GPL-2.0
//! Ports and modules that come and go while packets fly: nothing is lost but packets, least of all
//! memory.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{class, option};

use crate::cases::support::load::{Load, Mix};
use crate::clock;
use crate::cmd::run_here;
use crate::harness::{Case, Ctx, Need, Objects};
use crate::raw_netlink::kinds::fifo;
use crate::raw_netlink::{attribute_u32, attribute_u64, Request, Tc, ROOT};
use crate::topology::Builder;
use crate::traffic::{Flow, Packet, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("churn/ports", ports).timeout_s(240),
    // Elsewhere a grace period takes no time.
    Case::new("churn/queues", queues)
        .needs(&[Need::Smp])
        .timeout_s(240),
    Case::new("churn/modules", modules).timeout_s(240),
    Case::new("churn/namespaces", namespaces).timeout_s(240),
];

const PORT: u32 = 0x1_0000;
const DATA: u32 = PORT | class::DATA as u32;

/// 500 ports on one device under a flood, with filters and children or without, deleted from the
/// root or replaced.
fn ports(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 500;
    const WARM_UP: u32 = 60;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let mut tc = Tc::open(ns, "eth0")?;
    // Super-packets, fragments and malformed frames too.
    let load = Load::start(&net, &Mix::all(&[PORT]), ctx.seed)?;
    let mut queued = 0;
    for cycle in 0..WARM_UP {
        queued += one_port(&mut tc, cycle)?;
    }
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        queued += one_port(&mut tc, cycle).with_context(|| format!("cycle {cycle}"))?;
    }
    ctx.note(format!(
        "{queued} packets were queued when their port was deleted"
    ));
    ensure!(
        queued > u64::from(CYCLES),
        "hardly any packet was queued when its port was deleted"
    );
    load.ask_to_stop();
    let verdict = before.compare(ctx, CYCLES);
    load.stop()?;
    verdict?;
    unused()
}

/// Ports on each of a device's many queues go at once, whether they ever had a packet or not: RTNL
/// is held meanwhile, and a grace period for each would stop all that needs it for seconds.
fn queues(ctx: &mut Ctx) -> Result<()> {
    const QUEUES: u32 = 128;
    let net = Builder::pair().queues(QUEUES).build()?;
    let mut tc = Tc::open(&net.hosts[0].ns, "eth0")?;
    let mut took = |kind: &str, options: &[u8]| -> Result<Duration> {
        tc.qdisc(Request::AddQdisc, ROOT, PORT, "mq", &[])?
            .success()
            .context("mq")?;
        for queue in 1..=QUEUES {
            tc.qdisc(Request::AddQdisc, PORT | queue, 0, kind, options)?
                .success()
                .with_context(|| format!("{kind} on queue {queue}"))?;
        }
        let begin = Instant::now();
        tc.delete(ROOT)?.success().context("delete")?;
        Ok(begin.elapsed())
    };
    let fifos = took("pfifo", &fifo(50))?;
    let ports = took("turnstile", &attribute_u64(option::LINK_RATE64, 12_500_000))?;
    ctx.note(format!(
        "{QUEUES} fifos went in {fifos:?}, ports in {ports:?}"
    ));
    ensure!(
        ports < 10 * fifos.max(Duration::from_millis(10)),
        "{QUEUES} ports took {ports:?} to go, fifos {fifos:?}"
    );
    unused()
}

/// Makes a port, lets packets in, and deletes it. Gives how many packets it held.
fn one_port(tc: &mut Tc, cycle: u32) -> Result<u64> {
    // A slow link: packets are queued when the end comes.
    let slow = [
        attribute_u64(option::LINK_RATE64, 12_500),
        attribute_u32(option::PRIORITIES, 1 + cycle % 8),
    ]
    .concat();
    tc.qdisc(Request::AddQdisc, ROOT, PORT, "turnstile", &slow)?
        .success()
        .context("add")?;
    if cycle % 5 == 1 {
        tc.qdisc(Request::AddQdisc, DATA, 0, "pfifo", &fifo(50))?
            .success()
            .context("a child")?;
    }
    if cycle % 5 == 2 {
        tc.add_matchall(PORT, 1, Some(PORT | 0x10))?
            .success()
            .context("a filter")?;
    }
    if cycle % 5 == 3 {
        tc.qdisc(Request::AddQdisc, DATA, 0x2_0000, "turnstile", &slow)?
            .success()
            .context("a port on the port")?;
    }
    std::thread::sleep(Duration::from_micros(1500));
    let queued = tc.get(PORT)?.stats.qlen;
    if cycle % 7 == 0 {
        // Another one takes its place at once.
        tc.qdisc(Request::ReplaceQdisc, ROOT, 0x9_0000, "turnstile", &[])?
            .success()
            .context("replace")?;
    }
    tc.delete(ROOT)?.success().context("del")?;
    Ok(queued.into())
}

/// 50 times the module comes, a port is made, and the module goes, while packets fly.
fn modules(ctx: &mut Ctx) -> Result<()> {
    const LOADS: u32 = 50;
    const WARM_UP: u32 = 6;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let mut tc = Tc::open(ns, "eth0")?;
    unused()?;
    // There or not: nobody says which cases ran before.
    run_here("modprobe sch_turnstile", "")?.success()?;
    unload()?;
    let load = Load::start(&net, &Mix::flood(), ctx.seed)?;
    for cycle in 0..WARM_UP {
        one_load(&mut tc, cycle)?;
    }
    let before = Objects::settled()?;
    for cycle in 0..LOADS {
        one_load(&mut tc, cycle).with_context(|| format!("load {cycle}"))?;
    }
    load.ask_to_stop();
    let verdict = before.compare(ctx, LOADS);
    load.stop()?;
    // As it was found.
    run_here("modprobe sch_turnstile", "")?.success()?;
    verdict?;
    unused()
}

fn one_load(tc: &mut Tc, cycle: u32) -> Result<()> {
    // The kernel itself loads the module for a kind that it does not know.
    if cycle % 3 == 0 {
        ensure!(!loaded(), "the module is still there");
    } else {
        run_here("modprobe sch_turnstile", "")?.success()?;
    }
    let slow = attribute_u64(option::LINK_RATE64, 12_500);
    tc.qdisc(Request::AddQdisc, ROOT, PORT, "turnstile", &slow)?
        .success()
        .context("add")?;
    std::thread::sleep(Duration::from_millis(2));
    if cycle % 5 == 0 {
        let said = run_here("rmmod sch_turnstile", "")?.failure()?;
        ensure!(
            said.contains("in use"),
            "the module is in use, and rmmod says {said:?}"
        );
    }
    tc.delete(ROOT)?.success().context("del")?;
    unload()
}

/// Namespaces that go with a port on their device, packets in it and more coming.
fn namespaces(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 40;
    const WARM_UP: u32 = 5;
    let mut queued = 0;
    for _ in 0..WARM_UP {
        queued += one_namespace(ctx.seed)?;
    }
    unused()?;
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        queued += one_namespace(ctx.seed).with_context(|| format!("cycle {cycle}"))?;
    }
    unused()?;
    ctx.note(format!(
        "{queued} packets were queued when their namespace was deleted"
    ));
    ensure!(
        queued > u64::from(CYCLES),
        "hardly any packet was queued when its namespace was deleted"
    );
    before.compare(ctx, CYCLES)
}

fn one_namespace(seed: u64) -> Result<u64> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.tc("qdisc add dev eth0 root handle 1: turnstile link 8kbit")?;
    let mut tc = Tc::open(ns, "eth0")?;
    tc.qdisc(Request::AddQdisc, DATA, 0, "fq_codel", &[])?
        .success()?;
    let to = &net.hosts[1];
    let flows = vec![
        Flow::new(1, Packet::Data, to.v4).burst(30),
        Flow::new(2, Packet::Token(1), to.v6).burst(6),
        Flow::new(3, Packet::Signal, to.v4).burst(30),
        Flow::new(4, Packet::Unscheduled, to.v6).burst(3),
    ];
    Source::start(ns, flows, clock::monotonic()).wait()?;
    let queued = tc.get(PORT)?.stats.qlen;
    let load = Load::start(&net, &Mix::flood(), seed)?;
    std::thread::sleep(Duration::from_millis(3));
    // The senders keep the namespace alive, as any process would; the last of them takes it down.
    drop(tc);
    drop(net);
    load.stop()?;
    Ok(queued.into())
}

fn loaded() -> bool {
    std::path::Path::new("/sys/module/sch_turnstile/initstate").exists()
}

/// Waits until nobody uses the module. Namespaces are taken apart by and by.
fn unused() -> Result<()> {
    let deadline = clock::monotonic() + 20_000_000_000;
    loop {
        let references = std::fs::read_to_string("/sys/module/sch_turnstile/refcnt");
        match references.as_deref().map(str::trim) {
            Ok("0") | Err(_) => return Ok(()),
            Ok(references) if clock::monotonic() > deadline => {
                anyhow::bail!("{references} references to the module are left")
            }
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Unloads the module. A qdisc that was just deleted still holds it for a moment.
pub(in crate::cases) fn unload() -> Result<()> {
    unused()?;
    run_here("rmmod sch_turnstile", "")?.success()?;
    ensure!(!loaded(), "the module is still there");
    Ok(())
}
