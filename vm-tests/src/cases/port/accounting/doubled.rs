// SPDX-License-Identifier: GPL-2.0
//! A child that enters the port again: netem hands each copy it makes to the root of the tree, from
//! inside its own `enqueue`.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::{band_stat, class};

use super::PORT;
use crate::cases::support::ledger::{describe, settle};
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::kinds::{netem, Netem};
use crate::raw_netlink::{Request, Tc, ROOT};
use crate::topology::Builder;
use crate::traffic::{Flow, Packet, Sink, Source};

const DATA: u32 = PORT | class::DATA as u32;
const CHILD: u32 = 0x77_0000;

/// Datagrams of each flow, all at once.
const EACH: u64 = 50;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let (from, to) = (&net.hosts[0], &net.hosts[1]);
    from.ns.tc("qdisc add dev eth0 root handle 10: turnstile")?;
    let mut tc = Tc::open(&from.ns, "eth0")?;
    // Long enough a delay that the copies and what they were made from are in the child together.
    let doubling = Netem {
        limit: 10_000,
        duplicate: u32::MAX,
        delay_ns: 20_000_000,
        ..Netem::default()
    };
    tc.qdisc(Request::AddQdisc, DATA, CHILD, "netem", &netem(doubling))?
        .success()?;
    let sink = Sink::start(&to.ns)?;
    let flows = vec![
        Flow::new(1, Packet::Data, to.v4).burst(EACH),
        Flow::new(2, Packet::Other, to.v6).payload(200).burst(EACH),
        Flow::new(3, Packet::Signal, to.v4).burst(EACH),
    ];
    Source::start(&from.ns, flows, clock::monotonic()).wait()?;
    let settled = settle(&mut tc, &[PORT])?;
    settled.check(PORT)?;
    let got = sink.finish()?;
    for (flow, times) in [(1, 2), (2, 2), (3, 1)] {
        let arrived = got.get(&flow).map_or(0, |flow| flow.packets);
        ensure!(
            arrived == times * EACH,
            "{arrived} packets of flow {flow} arrived, not {times} times {EACH}"
        );
    }
    let data = settled.class(DATA)?;
    let (offered, sent) = (
        data.stats.app(band_stat::OFFERED_PACKETS),
        data.stats.packets,
    );
    let child = &settled.qdisc(CHILD)?.stats;
    ctx.note(format!("{sent} packets of {} sent", 2 * EACH));
    ensure!(
        offered == sent && sent == child.packets && sent >= 4 * EACH,
        "the child sent {}: {}",
        child.packets,
        describe(data)
    );
    tc.delete(ROOT)?.success()
}
