// SPDX-License-Identifier: GPL-2.0
//! What the kernel's own DCTCP makes of TCD's marks: CE is congestion, UE is none.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::pfc::frame::Frame as Pause;

use super::phantom::netstat;
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::scenario::{Carrier, Queues, LEAD, RTO};
use crate::topology::{Link, Plan};
use crate::traffic::messages::{places, Message, Messages};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("tcd/dctcp-takes-ue-for-none", ue_is_none).needs(&[Need::VirtualTime])];

/// bit/s of the hosts' links, and of the port that is in the way.
const LINK: u64 = 1_000_000_000;
const PORT: u64 = LINK / 2;
const DELAY: u64 = 10_000;
/// More than ever waits.
const BUFFER: u32 = 60_000_000;
/// 0.16 s at the port.
const BYTES: u64 = 10_000_000;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// ns.
    took: u64,
    /// Packets that the sender was told of as marked CE, which is what DCTCP counts.
    told: u64,
    /// Packets that came with CE and with UE.
    ce: u64,
    ue: u64,
}

/// A message by DCTCP through the port, which was paused for a moment before.
fn send(marks: &str) -> Result<Seen> {
    let fabric = Plan::star(2, Link::new(LINK, DELAY).buffer(BUFFER)).build()?;
    let transport = Carrier::Tcp("dctcp", RTO).configure(&fabric)?;
    Queues::Lossless("unscheduled off pfc data 0".into()).apply(&fabric)?;
    let port = format!(
        "qdisc add dev DEV root handle 1: turnstile link {PORT}bit jitter 0 data-limit {BUFFER} \
         unscheduled off pfc data 0 {marks}"
    );
    fabric.requeue("s1", "h2", &[port])?;
    let mut messages = Messages::open(transport, &places(&fabric), &[(0, 1)], 1)?;
    let from_switch = RawSocket::open(fabric.host(1), "s1")?;
    // A quantum of 512 bits. It has come, and is over, before anything is sent.
    let frame = Pause::one(0, 1).write([2, 0, 0, 0, 0, 9]);
    ensure!(from_switch.send(&frame)?, "a frame was dropped on its way");
    let counted = |host: usize, name: &str| netstat(fabric.host(host), name);
    let before = [counted(0, "TCPDeliveredCE")?, counted(1, "InCEPkts")?];
    let done = messages.run(
        &[Message::new(0, 1, BYTES)],
        clock::monotonic() + LEAD,
        Duration::from_secs(10),
    )?;
    Ok(Seen {
        took: done[0].took.context("it did not arrive")?,
        told: counted(0, "TCPDeliveredCE")? - before[0],
        ce: counted(1, "InCEPkts")? - before[1],
        ue: counted(1, "InECT1Pkts")?,
    })
}

/// All of a message's packets have UE, since the port was paused less than `max-on` ago: it takes
/// as long as with no mark, to the ns. With CE instead of that the sender slows down.
fn ue_is_none(ctx: &mut Ctx) -> Result<()> {
    /// Full packets of the message.
    const PACKETS: u64 = BYTES / 1500;
    let [none, ue, ce] = [
        "",
        "tcd threshold 1b max-on 1s",
        "tcd threshold 1b max-on off",
    ]
    .map(send);
    let (none, ue, ce) = (none?, ue?, ce?);
    ctx.note(format!("no mark: {none:?}; UE: {ue:?}; CE: {ce:?}"));
    ensure!(
        [none.told, none.ce, none.ue] == [0; 3],
        "without marks: {none:?}"
    );
    ensure!(ue.ue > PACKETS, "not all have UE: {ue:?}");
    ensure!([ue.told, ue.ce] == [0; 2], "UE is no congestion: {ue:?}");
    ensure!(ue.took == none.took, "{ue:?}, and without marks {none:?}");
    ensure!(
        ce.ce > 0 && ce.told > 0 && ce.ue == 0,
        "CE is congestion: {ce:?}"
    );
    ensure!(ce.took > none.took, "{ce:?}, and without marks {none:?}");
    Ok(())
}
