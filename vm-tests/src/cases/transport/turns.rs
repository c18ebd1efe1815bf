// SPDX-License-Identifier: GPL-2.0
//! Peers whose long messages wait for room in one receive buffer have turns, each one message.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::support::{addresses, hosts, read_once, receiver, sender};
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/turns/streams-by-peers", streams).timeout_s(120),
    Case::new("transport/turns/waiting-by-peers", waiting).timeout_s(120),
];

/// `SO_RCVBUF`: so much is for bytes of messages, and what is longer than a half of it streams.
const BUFFER: usize = 256 << 10;

/// A message begins. Its sender is to be kept.
fn begin(ns: &Netns, there: SocketAddr, len: usize) -> Result<Socket> {
    let from = sender(ns)?;
    from.send_to(&vec![1; len], there, &SendOptions::default())?;
    std::thread::sleep(Duration::from_millis(100));
    Ok(from)
}

/// Reads to the end of another message: how long the last piece is, and which host it is of.
fn next_end(net: &Net, to: &Socket) -> Result<(usize, usize)> {
    loop {
        let read = read_once(to, BUFFER, 0)?;
        if !read.end {
            continue;
        }
        let from = read.from.context("no address")?.ip().to_canonical();
        let is_of = |host: usize| [net.hosts[host].v4.into(), net.hosts[host].v6.into()];
        let host = (0..net.hosts.len()).find(|&host| is_of(host).contains(&from as &IpAddr));
        return Ok((read.data.len(), host.context("a host")?));
    }
}

/// One host sends five messages that stream, then another one does: its own is second.
fn streams(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 200_000;
    let net = hosts(&Builder::bridged(3))?;
    let to = receiver(&net.hosts[0].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    for there in addresses(&net.hosts[0]) {
        let senders = [1, 1, 1, 1, 1, 2];
        let kept = senders.map(|host: usize| begin(&net.hosts[host].ns, there, LEN));
        let mut order = Vec::new();
        while order.len() < senders.len() {
            order.push(next_end(&net, &to)?.1);
        }
        ensure!(order == [1, 2, 1, 1, 1, 1], "{there}: {order:?}");
        for it in kept {
            it?;
        }
    }
    Ok(())
}

/// One host's messages wait for room that another's, which is a little longer, waits for as well;
/// short ones pass them. In turn both have room, each with one.
fn waiting(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 120_000;
    const SHORT: usize = 70;
    let net = hosts(&Builder::bridged(4))?;
    let to = receiver(&net.hosts[0].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    for there in addresses(&net.hosts[0]) {
        let mut kept = Vec::new();
        for _ in 0..4 {
            kept.push(begin(&net.hosts[1].ns, there, LEN)?);
        }
        kept.push(begin(&net.hosts[2].ns, there, LEN + 1000)?);
        let others = sender(&net.hosts[3].ns)?;
        let mut order = Vec::new();
        for _ in 0..kept.len() {
            for _ in 0..SHORT {
                others.send_to(&[1; 10], there, &SendOptions::default())?;
            }
            std::thread::sleep(Duration::from_millis(300));
            for _ in 0..=SHORT {
                let (len, host) = next_end(&net, &to)?;
                if len >= LEN {
                    order.push(host);
                }
            }
        }
        ensure!(order == [1, 1, 2, 1, 1], "{there}: {order:?}");
    }
    Ok(())
}
