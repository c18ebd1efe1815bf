// SPDX-License-Identifier: GPL-2.0
//! Pacers that are changed, and that come and go, while packets fly both ways.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::pacer::uapi::{option, stat, KIND};

use super::bench::{adds_up, lanes_add_up, marked_link, PACER};
use crate::cases::support::load::{Load, Mix};
use crate::harness::{Ctx, Objects};
use crate::raw_netlink::kinds::fifo;
use crate::raw_netlink::{attribute_u32, attribute_u64, Request, Tc, ROOT};
use crate::rng::Rng;
use crate::traffic::frame::Frame;
use crate::traffic::RawSocket;

/// Any options: those of a pacer that is slow enough to hold packets, and of a fast one.
fn any_options(rng: &mut Rng) -> Vec<u8> {
    let mut all = vec![
        attribute_u64(option::INTERVAL, rng.range(1_000..=1_000_000)),
        attribute_u32(option::ETA, rng.range(1_000_000..=1_000_000_000) as u32),
        attribute_u32(option::BETA, rng.range(1..=10_000) as u32),
        attribute_u32(option::ASSOCIATE, *rng.pick(&[125_000_000, 1_000_000_000])),
        attribute_u64(option::IDLE, rng.range(10_000..=50_000_000)),
        attribute_u32(option::FLOWS, rng.range(1..=200) as u32),
        attribute_u32(option::BUCKET, rng.range(64..=10_000) as u32),
        attribute_u32(option::LIMIT, rng.range(1_600..=200_000) as u32),
        attribute_u32(option::PASS_LIMIT, rng.range(1_600..=2_000_000) as u32),
        attribute_u64(option::INITIAL_RATE64, *rng.pick(&[12_500, 12_500_000, 0])),
        attribute_u32(option::SPLIT_GSO, rng.range(0..=1) as u32),
    ];
    all.retain(|_| !rng.one_in(3));
    all.concat()
}

/// One pacer that is changed again and again under load.
pub(super) fn changed(ctx: &mut Ctx) -> Result<()> {
    const CHANGES: u32 = 400;
    let net = marked_link()?;
    let mut tc = Tc::open(&net.hosts[0].ns, "eth0")?;
    tc.qdisc(Request::AddQdisc, ROOT, PACER, KIND, &[])?
        .success()?;
    let load = Load::start(&net, &Mix::all(&[PACER]), ctx.seed)?;
    for change in 0..CHANGES {
        let options = any_options(&mut ctx.rng);
        tc.qdisc(Request::ChangeQdisc, ROOT, PACER, KIND, &options)?
            .success()
            .with_context(|| format!("change {change}"))?;
        std::thread::sleep(Duration::from_micros(ctx.rng.range(100..=3000)));
        lanes_add_up(&tc.get(PACER)?.stats)?;
    }
    load.ask_to_stop();
    // So that nobody waits for a slow bucket.
    let fast = attribute_u64(option::INITIAL_RATE64, 10_000_000_000);
    tc.qdisc(Request::ChangeQdisc, ROOT, PACER, KIND, &fast)?
        .success()?;
    load.stop()?;
    // The last segments of connections that were closed are on their way still.
    let mut stats = tc.get(PACER)?.stats;
    for _ in 0..100 {
        if adds_up(&stats).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        stats = tc.get(PACER)?.stats;
    }
    ctx.note(format!(
        "{CHANGES} changes; {} packets passed by, {} were paced, {} super-packets split; {} flows \
         associated by {} echoes",
        stats.app(stat::PASS_SENT),
        stats.app(stat::PACED_SENT),
        stats.app(stat::GSO_SPLITS),
        stats.app(stat::ASSOCIATED),
        stats.app(stat::ECHOES),
    ));
    ensure!(
        stats.app(stat::ASSOCIATED) > 0 && stats.app(stat::PACED_SENT) > 0,
        "nothing was paced: {stats:?}"
    );
    adds_up(&stats)
}

/// Pacers that come and go, with children and filters or without, under load, and then with a few
/// packets each: nothing is left of them.
pub(super) fn come_and_go(ctx: &mut Ctx) -> Result<()> {
    const CYCLES: u32 = 100;
    let net = marked_link()?;
    let mut tc = Tc::open(&net.hosts[0].ns, "eth0")?;
    let load = Load::start(&net, &Mix::all(&[PACER]), ctx.seed)?;
    let mut queued = 0;
    for cycle in 0..CYCLES {
        queued += one(&mut tc, cycle, &mut ctx.rng, || Ok(()))
            .with_context(|| format!("cycle {cycle}"))?;
    }
    load.stop()?;
    ctx.note(format!(
        "{queued} packets were queued when their pacer was deleted"
    ));
    ensure!(
        queued > u64::from(CYCLES),
        "hardly any packet was queued when its pacer was deleted"
    );
    // What the load leaves with the allocator would hide what a pacer leaves: the objects are
    // counted without it.
    let socket = RawSocket::open(&net.hosts[0].ns, "eth0")?;
    let frame = Frame::udp4(net.hosts[1].v4, 0, 9, &[0; 1000]).bytes();
    let send = || (0..10).try_for_each(|_| socket.send(&frame).map(drop));
    for cycle in 0..30 {
        one(&mut tc, cycle, &mut ctx.rng, send)?;
    }
    let before = Objects::settled()?;
    for cycle in 0..CYCLES {
        one(&mut tc, cycle, &mut ctx.rng, send)?;
    }
    before.compare(ctx, CYCLES)
}

/// Makes a pacer, lets packets in, and deletes it. Gives how many packets it held.
fn one(tc: &mut Tc, cycle: u32, rng: &mut Rng, send: impl FnOnce() -> Result<()>) -> Result<u64> {
    let mut options = any_options(rng);
    if cycle % 3 == 0 {
        options = [
            attribute_u64(option::INITIAL_RATE64, 12_500),
            attribute_u64(option::INTERVAL, 1_000_000_000),
            attribute_u32(option::ASSOCIATE, 1_000_000_000),
        ]
        .concat();
    }
    tc.qdisc(Request::AddQdisc, ROOT, PACER, KIND, &options)?
        .success()
        .context("add")?;
    match cycle % 6 {
        1 => tc
            .qdisc(Request::AddQdisc, PACER | 1, 0, "pfifo", &fifo(50))?
            .success()
            .context("a child")?,
        2 => tc
            .qdisc(Request::AddQdisc, PACER | 1, 0x2_0000, KIND, &options)?
            .success()
            .context("a pacer on the pacer")?,
        // All of it is paced.
        3 => tc
            .add_matchall(PACER, 1, Some(PACER | 2))?
            .success()
            .context("a filter")?,
        4 => tc
            .qdisc(
                Request::AddQdisc,
                PACER | 1,
                0x3_0000,
                "turnstile",
                &attribute_u64(2, 125_000),
            )?
            .success()
            .context("a port on the pacer")?,
        _ => {}
    }
    send()?;
    std::thread::sleep(Duration::from_micros(rng.range(500..=4000)));
    let stats = tc.get(PACER)?.stats;
    lanes_add_up(&stats)?;
    if cycle % 7 == 0 {
        // Another one takes its place at once.
        tc.qdisc(Request::ReplaceQdisc, ROOT, 0x9_0000, KIND, &[])?
            .success()
            .context("replace")?;
    }
    tc.delete(ROOT)?.success().context("del")?;
    Ok(stats.qlen.into())
}
