// SPDX-License-Identifier: GPL-2.0
//! Thousands of messages under way at once.

use anyhow::{Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use turnstile_socket::{SendOptions, Socket};

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, delivered, explained, hosts, nothing_more, receive_all, receiver,
    sender,
};
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/many/to-one", to_one)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(120),
    Case::new("transport/many/from-one", from_one)
        .needs(&[Need::Module("sch_netem"), Need::VirtualTime])
        .timeout_s(120),
];

/// Hosts on either side of the one that all talk to or that talks to all.
const OTHERS: usize = 4;
/// Messages to or from each of them. In virtual time, all that a receiver takes from one address at
/// once; emulated, a packet takes so long that minutes would pass.
fn each() -> u64 {
    if clock::is_simulated() {
        1000
    } else {
        250
    }
}

/// Long enough that most have more than one packet.
fn length(ctx: &mut Ctx) -> usize {
    ctx.rng.range(content::MIN..=4000) as usize
}

/// Nothing that `ns` sends gets through, so that all messages are under way at once.
fn hold(ns: &Netns) -> Result<()> {
    ns.tc("qdisc add dev eth0 root netem limit 1000000 loss 100%")
        .map(drop)
}

fn release(ns: &Netns) -> Result<()> {
    ns.tc("qdisc del dev eth0 root").map(drop)
}

/// Messages to one socket, from four hosts.
fn to_one(ctx: &mut Ctx) -> Result<()> {
    let count = each();
    let net = hosts(&Builder::bridged(OTHERS + 1))?;
    // A slow machine takes long to send them all, and nothing is heard meanwhile.
    configure_all(&net, "timeout 60s")?;
    let (one, others) = net.hosts.split_first().context("no hosts")?;
    let to = receiver(&one.ns)?;
    hold(&one.ns)?;
    let senders: Vec<Socket> = others
        .iter()
        .map(|host| sender(&host.ns))
        .collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (index, from) in senders.iter().enumerate() {
        let first = index as u64 * count;
        for number in first..first + count {
            let len = length(ctx);
            let address = addresses(one)[(number % 2) as usize];
            from.send_to(
                &content::content(number, len),
                address,
                &SendOptions::default(),
            )
            .with_context(|| format!("message {number}"))?;
            all.push((number, len));
        }
    }
    let waiting: usize = senders
        .iter()
        .map(|from| from.outgoing_queued())
        .sum::<Result<_, _>>()?;
    ctx.note(format!("{waiting} bytes wait when all was sent"));
    release(&one.ns)?;
    explained(&net, receive_all(&to, &mut Ledger::of(all)))?;
    senders
        .iter()
        .try_for_each(|from| delivered(from, count as u32))?;
    nothing_more(&to)
}

/// Messages from one socket, to four hosts.
fn from_one(ctx: &mut Ctx) -> Result<()> {
    let count = each();
    let net = hosts(&Builder::bridged(OTHERS + 1))?;
    // A slow machine takes long to send them all, and nothing is heard meanwhile.
    configure_all(&net, "timeout 60s max-outgoing 65536")?;
    let (one, others) = net.hosts.split_first().context("no hosts")?;
    let from = sender(&one.ns)?;
    hold(&one.ns)?;
    let receivers: Vec<Socket> = others
        .iter()
        .map(|host| receiver(&host.ns))
        .collect::<Result<_>>()?;
    // All that is sent has room.
    setsockopt(&from, sockopt::SndBufForce, &(32 << 20)).context("setting SO_SNDBUFFORCE")?;
    let mut each = vec![Vec::new(); OTHERS];
    for number in 0..count * OTHERS as u64 {
        let len = length(ctx);
        let index = (number % OTHERS as u64) as usize;
        let address = addresses(&others[index])[(number / OTHERS as u64 % 2) as usize];
        from.send_to(
            &content::content(number, len),
            address,
            &SendOptions::default(),
        )
        .with_context(|| format!("message {number}"))?;
        each[index].push((number, len));
    }
    ctx.note(format!(
        "{} bytes wait when all was sent",
        from.outgoing_queued()?
    ));
    release(&one.ns)?;
    for (to, list) in receivers.iter().zip(each) {
        explained(&net, receive_all(to, &mut Ledger::of(list)))?;
    }
    delivered(&from, count as u32 * OTHERS as u32)?;
    receivers.iter().try_for_each(nothing_more)
}
