// SPDX-License-Identifier: GPL-2.0
//! Ends that differ: in how long they try, in their users, and in their policies.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::unistd::{setfsuid, Uid};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_socket::{SendOptions, Socket};

use super::content::{self, Ledger};
use super::support::{
    addresses, as_v6, configure, counters, delivered, hosts, is_paced, nothing_more, pair,
    receive_all, receiver, send_once, sender,
};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/dead/timeouts-differ", timeouts_differ)
        .needs(&[Need::VirtualTime])
        .timeout_s(120),
    Case::new("transport/dead/two-users", two_users).timeout_s(120),
    Case::new("transport/dead/policies-differ", policies_differ).timeout_s(120),
];

fn drop_what(ns: &Netns, what: &[String]) -> Result<()> {
    ns.run("nft add table inet hole")?;
    ns.run("nft add chain inet hole in { type filter hook input priority 0 ; }")?;
    for what in what {
        ns.run(&format!("nft add rule inet hole in {what} drop"))?;
    }
    Ok(())
}

/// The sender tries for 60 s, the receiver for 10 s. The message has arrived when an outage of 15 s
/// begins, and the sender has not heard of it: it is delivered once.
fn timeouts_differ(_: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = pair()?;
        configure(&net.hosts[0].ns, "timeout 60s")?;
        configure(&net.hosts[1].ns, "timeout 10s")?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        // A stranger's message waits for a CHALLENGE, which passes.
        let there = addresses(&net.hosts[1])[v6];
        let first = sender(&net.hosts[0].ns)?;
        first.send_to(b"known", there, &SendOptions::default())?;
        to.recv_message(100)?;
        delivered(&first, 1)?;
        // The receiver's tokens arrive, its signals do not.
        let signals = ["ip", "ip6"].map(|ip| format!("{ip} dscp 48 @th,64,8 != 0x18"));
        drop_what(&net.hosts[0].ns, &signals)?;
        let data = content::content(1, 50_000);
        from.send_to(&data, there, &SendOptions::default())?;
        let came = to.recv_message(1 << 20)?;
        super::support::same("the message", &came.data, &data)?;
        drop_what(&net.hosts[1].ns, &[format!("udp dport {UDP_PORT}")])?;
        std::thread::sleep(Duration::from_secs(15));
        ensure!(from.completion()?.is_none(), "the sender knows something");
        for host in &net.hosts {
            host.ns.run("nft delete table inet hole")?;
        }
        delivered(&from, 1)?;
        nothing_more(&to)?;
        let all = counters(&net.hosts[1].ns)?;
        ensure!(all["in-delivered"] == 2, "{}", all["in-delivered"]);
    }
    Ok(())
}

/// A socket of another user.
fn socket_of(ns: &Netns, user: u32) -> Result<Socket> {
    let before = setfsuid(Uid::from_raw(user));
    let socket = super::support::socket(ns, "[::]:0");
    setfsuid(before);
    socket
}

/// One user sends to dead peers as much as the kernel takes; the messages of another one are all
/// taken, and arrive.
fn two_users(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: usize = 600;
    let net = hosts(&Builder::bridged(3))?;
    let dead: Vec<SocketAddr> = addresses(&net.hosts[1]).map(as_v6).to_vec();
    net.hosts[1].ns.ip("link set eth0 down")?;
    let live = addresses(&net.hosts[2]);
    let to = receiver(&net.hosts[2].ns)?;
    let mut taken = 0;
    let mut greedy = Vec::new();
    for _ in 0..64 {
        let from = socket_of(&net.hosts[0].ns, 1001)?;
        for number in 0..256 {
            let sent = send_once(
                &from,
                &[1; 500],
                Some(dead[number % 2]),
                &[],
                libc::MSG_DONTWAIT,
            );
            taken += usize::from(sent.is_ok());
        }
        greedy.push(from);
    }
    let one_more = send_once(
        &greedy[0],
        &[1; 500],
        Some(as_v6(live[0])),
        &[],
        libc::MSG_DONTWAIT,
    );
    ctx.note(format!(
        "{taken} messages to the dead peers; one more to the living: {one_more:?}"
    ));
    ensure!((500..4096).contains(&taken), "{taken} were taken");
    let other = socket_of(&net.hosts[0].ns, 1002)?;
    let mut ledger = Ledger::of((0..MESSAGES as u64).map(|number| (number + 1, 500)));
    if one_more.is_ok() {
        // That of the first user, which may come first or later.
        let came = to.recv_message(1000)?;
        ensure!(came.data == [1; 500], "something else came");
    }
    for number in 0..MESSAGES {
        send_once(
            &other,
            &content::content(number as u64 + 1, 500),
            Some(as_v6(live[number % 2])),
            &[],
            libc::MSG_DONTWAIT,
        )
        .with_context(|| format!("message {number} of the other user"))?;
        // Those to a living peer end meanwhile.
        std::thread::sleep(Duration::from_micros(200));
    }
    receive_all(&to, &mut ledger)?;
    nothing_more(&to)
}

/// A sender with policy `ren` and a receiver that gives tokens, and the reverse: all arrives, and
/// nobody is granted anything. What a sender paces comes without tokens, whatever its receiver's
/// policy is; a receiver with such a policy gives tokens to who asks for them.
fn policies_differ(_: &mut Ctx) -> Result<()> {
    for (here, there) in [
        ("ren", "top"),
        ("ren", "expresspass"),
        ("top", "ren"),
        ("dcqcn", "top"),
        ("timely", "ren"),
        ("timely", "dcqcn"),
        ("top", "timely"),
        ("expresspass", "dcqcn"),
    ] {
        let net = pair()?;
        configure(&net.hosts[0].ns, &format!("policy {here}"))?;
        configure(&net.hosts[1].ns, &format!("policy {there}"))?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        let lengths = (1..=20).map(|number: u64| (number, number as usize * 5000));
        let mut ledger = Ledger::of(lengths.clone());
        for (number, len) in lengths {
            from.send_to(
                &content::content(number, len),
                addresses(&net.hosts[1])[(number % 2) as usize],
                &SendOptions::default(),
            )?;
        }
        receive_all(&to, &mut ledger).with_context(|| format!("{here} to {there}"))?;
        delivered(&from, 20)?;
        nothing_more(&to)?;
        let all = counters(&net.hosts[1].ns)?;
        ensure!(all["grant-sent"] == 0, "{here} to {there}: {all:?}");
        ensure!(
            (all["token-sent"] > 0) != is_paced(here),
            "{here} to {there}: {all:?}"
        );
        let ignored = all["sync-wish-ignored"];
        ensure!(
            (ignored >= 20) == (here == "ren"),
            "{here} to {there}: {ignored} wishes ignored"
        );
    }
    Ok(())
}
