// SPDX-License-Identifier: GPL-2.0
//! Sockets, namespaces and the module itself go at any moment, with messages under way: nothing
//! stays behind.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, as_v6, configure_all, load, pair, receiver, send_once, sender, socket, unbound, PORT,
};
use crate::cases::support::load::{Load, Mix};
use crate::clock;
use crate::cmd::run_here;
use crate::events::{Event, Events};
use crate::harness::{Case, Ctx, Need, Objects};
use crate::rng::Rng;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/churn/sockets", sockets).timeout_s(240),
    Case::new("transport/churn/namespaces", namespaces).timeout_s(240),
    Case::new("transport/churn/module-in-use", module_in_use).timeout_s(120),
    Case::new("transport/churn/modules", modules).timeout_s(240),
    Case::new("transport/churn/day", day)
        .needs(&[Need::VirtualTime])
        .timeout_s(30 * HOUR)
        .by_name(),
];

/// Seconds.
const HOUR: u64 = 3600;

/// Messages of all kinds between two hosts, and every socket closed at a moment of its own.
fn sockets(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 25;
    const WARM_UP: u32 = 8;
    const EACH: usize = 8;
    let net = pair()?;
    // What was finished is forgotten soon.
    configure_all(&net, "timeout 200ms")?;
    // Tables keep the room of their first hundreds of entries: more come at once here than below.
    for _ in 0..WARM_UP {
        all_at_once(&net, 4 * EACH, &mut ctx.rng)?;
    }
    forgotten();
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        all_at_once(&net, EACH, &mut ctx.rng).with_context(|| format!("cycle {cycle}"))?;
    }
    forgotten();
    unused()?;
    before.compare(ctx, CYCLES)
}

/// A day: sockets come and go every ten seconds, other hosts and namespaces every five minutes, the
/// module each hour. Each hour ends with as much memory in use as the first.
fn day(ctx: &mut Ctx) -> Result<()> {
    const HOURS: u32 = 24;
    const PARTS: u64 = 12;
    const ROUNDS: u64 = 30;
    const PAUSE: u64 = HOUR * 1_000_000_000 / PARTS / ROUNDS;
    let events = Events::from_env();
    let mut before: Option<Objects> = None;
    for hour in 0..=HOURS {
        load()?;
        let mut next = clock::monotonic();
        for part in 0..PARTS {
            let net = pair()?;
            for round in 0..ROUNDS {
                let each = if part + round == 0 { 32 } else { 8 };
                all_at_once(&net, each, &mut ctx.rng)
                    .with_context(|| format!("hour {hour}, part {part}, round {round}"))?;
                next += PAUSE;
                let rest = next.saturating_sub(clock::monotonic());
                std::thread::sleep(Duration::from_nanos(rest));
            }
            drop(net);
            one_namespace(ctx).with_context(|| format!("hour {hour}, part {part}"))?;
        }
        unload()?;
        match &before {
            // The first hour is for what the kernel keeps of all that it has ever used.
            None => before = Some(Objects::settled()?),
            Some(before) => before
                .compare(ctx, hour)
                .with_context(|| format!("hour {hour}"))?,
        }
        events.send(&Event::Progress {
            text: format!("{hour} of {HOURS} hours"),
        });
    }
    load()
}

/// Until the longest memory of the transport is over: `timeout` and a second.
fn forgotten() {
    std::thread::sleep(Duration::from_millis(1300));
}

/// So many sockets on each host send to each other from two threads, while they are closed one by
/// one in any order.
fn all_at_once(net: &Net, each: usize, rng: &mut Rng) -> Result<()> {
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for side in 0..2 {
            let seed = rng.range(0..=u64::MAX);
            threads.push(scope.spawn(move || one_side(net, side, each, seed)));
        }
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })
}

fn one_side(net: &Net, side: usize, count: usize, seed: u64) -> Result<()> {
    let mut rng = Rng::new(seed, "side");
    let ns = &net.hosts[side].ns;
    let mut open: Vec<Socket> = (0..count)
        .map(|index| {
            let socket = socket(ns, &format!("[::]:{}", PORT as usize + index))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })
        .collect::<Result<_>>()?;
    while !open.is_empty() {
        let at = rng.index(open.len());
        let mut there = as_v6(*rng.pick(&addresses(&net.hosts[1 - side])));
        there.set_port(PORT + rng.index(count) as u16);
        let len = *rng.pick(&[1, 100, 5000, 70_000, 500_000]);
        let bytes = vec![7; len];
        let more = if rng.one_in(3) { libc::MSG_MORE } else { 0 };
        // Errors are told of earlier messages, and open ones take no other destination.
        let _ = send_once(&open[at], &bytes, Some(there), &[], more);
        if rng.one_in(2) {
            let at = rng.index(open.len());
            let _ = super::support::read_once(&open[at], 10_000, 0);
        }
        if rng.one_in(8) {
            std::thread::sleep(Duration::from_micros(rng.range(1..=2000)));
        }
        if rng.one_in(3) {
            let at = rng.index(open.len());
            let gone = open.swap_remove(at);
            if rng.one_in(3) {
                gone.set_linger(Some(Duration::ZERO))?;
            }
            if rng.one_in(4) {
                gone.shutdown(*rng.pick(&[
                    std::net::Shutdown::Read,
                    std::net::Shutdown::Write,
                    std::net::Shutdown::Both,
                ]))?;
            }
            drop(gone);
        }
    }
    Ok(())
}

/// Namespaces that go with messages under way in them and to them.
fn namespaces(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 10;
    const WARM_UP: u32 = 3;
    for _ in 0..WARM_UP {
        one_namespace(ctx)?;
    }
    unused()?;
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        one_namespace(ctx).with_context(|| format!("cycle {cycle}"))?;
    }
    unused()?;
    before.compare(ctx, CYCLES)
}

fn one_namespace(ctx: &mut Ctx) -> Result<()> {
    let mut net = Builder::bridged(3).build()?;
    let to = receiver(&net.hosts[0].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let there = addresses(&net.hosts[0]);
    let mut senders = Vec::new();
    for host in &net.hosts[1..] {
        let from = sender(&host.ns)?;
        for number in 0..6 {
            let len = ctx.rng.range(content::MIN..=300_000) as usize;
            from.send_to(
                &content::content(number, len),
                there[(number % 2) as usize],
                &SendOptions::default(),
            )?;
        }
        // One that is open.
        send_once(&from, b"open", Some(as_v6(there[0])), &[], libc::MSG_MORE)?;
        senders.push(from);
    }
    std::thread::sleep(Duration::from_micros(ctx.rng.range(1..=3000)));
    // The receiver's, a sender's, or the switch's goes first; sockets keep theirs alive for a
    // while.
    let first = ctx.rng.index(3);
    if ctx.rng.one_in(2) {
        drop(net.switch.take());
    }
    drop(net.hosts.remove(first));
    if ctx.rng.one_in(2) {
        drop(to);
        drop(senders);
    } else {
        drop(senders);
        drop(to);
    }
    Ok(())
}

fn loaded() -> bool {
    std::path::Path::new("/sys/module/turnstile/initstate").exists()
}

/// Waits until nobody uses the module. What sockets have left behind goes by and by.
fn unused() -> Result<()> {
    let deadline = clock::monotonic() + 20_000_000_000;
    loop {
        let references = std::fs::read_to_string("/sys/module/turnstile/refcnt");
        match references.as_deref().map(str::trim) {
            Ok("0") | Err(_) => return Ok(()),
            Ok(references) if clock::monotonic() > deadline => {
                anyhow::bail!("{references} references to the module are left")
            }
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

pub(super) fn unload() -> Result<()> {
    unused()?;
    run_here("rmmod turnstile", "")?.success()?;
    ensure!(!loaded(), "the module is still there");
    Ok(())
}

/// The module cannot go while a socket is open, and goes when the last one is closed; opening one
/// loads it.
fn module_in_use(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    unload()?;
    // The kernel itself loads the module for a protocol that it does not know.
    let to = unbound(&net.hosts[1].ns, socket2::Domain::IPV6)?;
    ensure!(loaded(), "a socket was opened, and the module is not there");
    drop(to);
    unload()?;
    let to = unbound(&net.hosts[1].ns, socket2::Domain::IPV4)?;
    let said = run_here("rmmod turnstile", "")?.failure()?;
    ensure!(
        said.contains("in use"),
        "a socket is open, and rmmod says {said:?}"
    );
    drop(to);
    // Its messages do not hold it.
    let from = sender(&net.hosts[0].ns)?;
    from.send_to(
        &content::content(1, 100_000),
        addresses(&net.hosts[1])[0],
        &SendOptions::default(),
    )?;
    drop(from);
    unload()?;
    load()
}

/// Often the module comes, sockets are used, and the module goes, while packets come for it all the
/// time.
fn modules(ctx: &mut Ctx) -> Result<()> {
    const WARM_UP: u32 = 6;
    // An emulated machine takes seconds for each.
    let loads = if clock::is_simulated() { 50 } else { 20 };
    load()?;
    let net = Builder::pair().build()?;
    unload()?;
    let flood = Load::start(&net, &Mix::flood(), ctx.seed)?;
    for cycle in 0..WARM_UP {
        one_load(&net, cycle)?;
    }
    let before = Objects::settled()?;
    for cycle in 0..loads {
        one_load(&net, cycle).with_context(|| format!("load {cycle}"))?;
    }
    flood.ask_to_stop();
    let verdict = before.compare(ctx, loads);
    flood.stop()?;
    load()?;
    verdict
}

fn one_load(net: &Net, cycle: u32) -> Result<()> {
    if cycle % 3 == 0 {
        ensure!(!loaded(), "the module is still there");
    } else {
        load()?;
    }
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[(cycle % 2) as usize];
    if cycle % 2 == 0 {
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let came = to.recv_message(5000)?;
        content::check(1, 0, &came.data)?;
    }
    // What is under way when the sockets close.
    for number in 0..3 {
        from.send_to(
            &content::content(number, 50_000),
            there,
            &SendOptions::default(),
        )?;
    }
    if cycle % 5 == 0 {
        let said = run_here("rmmod turnstile", "")?.failure()?;
        ensure!(
            said.contains("in use"),
            "sockets are open, and rmmod says {said:?}"
        );
    }
    drop(from);
    drop(to);
    unload()
}
