// SPDX-License-Identifier: GPL-2.0
//! What a child drops, by the child's own count and by the port's.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option};

use super::PORT;
use crate::cases::support::ledger::{check_class, describe, settle};
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::kinds::{fifo, netem, tbf, Netem};
use crate::raw_netlink::{attribute_u32, attribute_u64, Request, Stats, Tc, ROOT};
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Source};

/// The data class, and the child on it.
const DATA: u32 = PORT | class::DATA as u32;
const CHILD: u32 = 0x77_0000;

/// 1 kbit/s: nothing moves for a while.
const KBIT: u64 = 125;

/// Datagrams of two sizes and two flows, more than any of the children has room for.
const EACH: u64 = 300;

pub(super) fn run(_: &mut Ctx) -> Result<()> {
    const FQ_CODEL_LIMIT: u16 = 2;
    const FQ_LIMIT: u16 = 1;
    const CAKE_MEMORY: u16 = 10;
    const THIRD: u32 = u32::MAX / 3;
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.tc("qdisc add dev eth0 root handle 10: turnstile link 1kbit")?;
    let mut tc = Tc::open(ns, "eth0")?;
    let lossy = Netem {
        limit: 1000,
        loss: THIRD,
        ..Netem::default()
    };
    let doubling = Netem {
        limit: 50,
        duplicate: THIRD,
        delay_ns: 1_000_000,
        ..Netem::default()
    };
    let children: [(&str, &str, Vec<u8>); 9] = [
        ("drops at the tail", "pfifo", fifo(10)),
        ("drops at the tail by bytes", "bfifo", fifo(20_000)),
        ("drops at the head", "pfifo_head_drop", fifo(10)),
        (
            "drops another flow's packets",
            "fq_codel",
            attribute_u32(FQ_CODEL_LIMIT, 20),
        ),
        (
            "drops with one packet of room",
            "fq_codel",
            attribute_u32(FQ_CODEL_LIMIT, 1),
        ),
        ("drops for want of room", "fq", attribute_u32(FQ_LIMIT, 20)),
        ("drops by chance", "netem", netem(lossy)),
        ("drops and doubles", "netem", netem(doubling)),
        ("drops and shapes", "tbf", tbf(625_000, 5000, 20_000)),
    ];
    // Cake splits, and drops by memory.
    let cake = (
        "drops by memory",
        "cake",
        attribute_u32(CAKE_MEMORY, 30_000),
    );
    for (what, kind, options) in children.into_iter().chain([cake]) {
        one(&net, &mut tc, kind, &options).with_context(|| format!("{kind}, which {what}"))?;
    }
    tc.delete(ROOT)?.success()
}

fn one(net: &Net, tc: &mut Tc, kind: &str, options: &[u8]) -> Result<()> {
    let before = tc.get_class(DATA)?.stats;
    tc.qdisc(Request::AddQdisc, DATA, CHILD, kind, options)?
        .success()?;
    ensure!(
        tc.get_class(DATA)?.info == CHILD,
        "the class does not show its leaf"
    );
    let to = &net.hosts[1];
    let flows = vec![
        Flow::new(1, Packet::Data, to.v4).burst(EACH),
        Flow::new(2, Packet::Other, to.v6).payload(200).burst(EACH),
        Flow::new(3, Packet::Token(0), to.v4).burst(2),
    ];
    Source::start(&net.hosts[0].ns, flows, clock::monotonic()).wait()?;
    holds(tc, &before)?;
    // Faster, now that the drops have been provoked.
    tc.change_port(PORT, &attribute_u64(option::LINK_RATE64, 0))?
        .success()?;
    let settled = settle(tc, &[PORT])?;
    settled.check(PORT)?;
    let data = settled.class(DATA)?;
    let child = settled.qdisc(CHILD)?;
    ensure!(child.stats.drops > 0, "the child dropped nothing");
    let dropped = data.stats.app(band_stat::CHILD) - before.app(band_stat::CHILD);
    ensure!(
        dropped == u64::from(child.stats.drops),
        "the child dropped {}, the port says {dropped}",
        child.stats.drops
    );
    let sent = data.stats.packets - before.packets;
    ensure!(
        sent == child.stats.packets,
        "the child sent {}, the port {sent}",
        child.stats.packets
    );
    tc.delete(DATA)?.success()?;
    tc.change_port(PORT, &attribute_u64(option::LINK_RATE64, KBIT))?
        .success()?;
    check_class(&tc.get_class(DATA)?)
}

/// What the child holds, the class holds. Nothing moves: a packet takes seconds on this link.
fn holds(tc: &mut Tc, before: &Stats) -> Result<()> {
    let (port, child) = (tc.get(PORT)?.stats, tc.get(CHILD)?.stats);
    let data = tc.get_class(DATA)?;
    let of_class = (data.stats.qlen, data.stats.backlog);
    ensure!(
        child.qlen > 0 && of_class == (child.qlen, child.backlog),
        "the child holds {} packets, {} bytes: {}",
        child.qlen,
        child.backlog,
        describe(&data)
    );
    let dropped = data.stats.app(band_stat::CHILD) - before.app(band_stat::CHILD);
    ensure!(
        dropped == u64::from(child.drops),
        "the child has dropped {}: {}",
        child.drops,
        describe(&data)
    );
    let classes = tc.classes_of(PORT)?;
    let held: u32 = classes.iter().map(|class| class.stats.qlen).sum();
    ensure!(
        port.qlen == held,
        "the port holds {} packets, its classes {held}",
        port.qlen
    );
    Ok(())
}
