// SPDX-License-Identifier: GPL-2.0
//! Messages that begin in a host's name, of which nothing more comes: that they are given up is not
//! the host's fault.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::transport::wire::{Cookie, Packet, Sync, MAX_HEADER};
use turnstile_socket::SendOptions;

use super::super::content;
use super::super::support::{
    addresses, configure, counters, delivered, hosts, receiver, same, sender, PORT as SERVER,
};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::topology::Builder;

/// Longer than half of a receive buffer's first size: it comes whole only if that grows.
const LEN: usize = 7_000_000;
/// Messages that are forged.
const FORGED: u64 = 8;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    for ipv6 in [false, true] {
        in_a_name(ctx, ipv6).with_context(|| format!("IPv6: {ipv6}"))?;
    }
    Ok(())
}

fn in_a_name(ctx: &mut Ctx, ipv6: bool) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    let [attacker, victim, friend] = [0, 1, 2].map(|at| &net.hosts[at]);
    configure(&victim.ns, "timeout 1s")?;
    let [there, name] = [victim, friend].map(|host| addresses(host)[usize::from(ipv6)]);
    let to = receiver(&victim.ns)?;
    let from = sender(&friend.ns)?;
    // It is not read yet, so the buffer has something of the host's own.
    from.send_to(&[7; 100], there, &SendOptions::default())?;
    delivered(&from, 1)?;
    // The friend's address is local at the attacker, too, so that it can send from it.
    let family = if ipv6 { "-6 " } else { "" };
    let route = format!("{family}route add local {} dev lo", name.ip());
    attacker.ns.ip(&route)?;
    attacker.ns.sysctl("net/ipv6/ip_nonlocal_bind", "1")?;
    let forge = attacker.ns.enter(|| {
        let socket = UdpSocket::bind((name.ip(), PORT)).context("the friend's address")?;
        socket.connect((there.ip(), PORT))?;
        Ok(socket)
    })?;
    // It hears nothing of these, so it says nothing of them either.
    friend.ns.run("tc qdisc add dev eth0 clsact")?;
    friend
        .ns
        .run("tc filter add dev eth0 ingress matchall action drop")?;
    for number in 1..=FORGED {
        forged(&forge, number)?;
    }
    let gone = given_up(&victim.ns)?;
    friend.ns.run("tc qdisc del dev eth0 clsact")?;
    ctx.note(format!("IPv6 {ipv6}: {gone} were given up"));
    // Nobody reads, and it comes whole.
    let bytes = content::content(1, LEN);
    let again = sender(&friend.ns)?;
    again.send_to(&bytes, there, &SendOptions::default())?;
    delivered(&again, 1)?;
    ensure!(to.recv_message(1 << 20)?.data == [7; 100], "another one");
    same("the message", &to.recv_message(1 << 24)?.data, &bytes)
}

/// A SYNC of a message of which nothing else will come.
fn forged(socket: &UdpSocket, number: u64) -> Result<()> {
    let sync = Packet::Sync(Sync {
        cookie: Cookie(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        source: 9,
        destination: SERVER,
        length: Some(1000),
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1400,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        patience: 100,
        echo: 0,
        paced: false,
    });
    let mut bytes = [0; MAX_HEADER];
    let length = sync.write(&mut bytes);
    socket.send(&bytes[..length])?;
    Ok(())
}

/// Waits until all are given up. Returns how many were.
fn given_up(ns: &Netns) -> Result<u64> {
    let began = Instant::now();
    loop {
        let gone = counters(ns)?["in-timeout"];
        if gone >= FORGED {
            return Ok(gone);
        }
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(30), "{gone} of {FORGED}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
