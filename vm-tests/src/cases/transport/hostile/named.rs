// SPDX-License-Identifier: GPL-2.0
//! Packets in the name of a host that is known: nothing of them is delivered or remembered, and the
//! host's own messages go on, with the ticket that it was given.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::header::{FLAG_UNSCHEDULED, PORT};
use turnstile_core::transport::wire::{Cookie, Data, Packet, Sync, MAX_HEADER, MAX_PATIENCE};
use turnstile_socket::{SendOptions, Socket};

use super::super::support::counters;
use super::{HONEST, OTHER};
use crate::harness::Ctx;
use crate::rng::Rng;
use crate::topology::Builder;

/// Messages forged each time.
const FORGED: u64 = 3000;
/// What is in them, and in the honest ones.
const FORGERY: &[u8] = b"from somebody else";
const HONEST_ONE: &[u8] = b"from the host itself";

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    for ipv6 in [false, true] {
        one_family(ctx, ipv6).with_context(|| format!("IPv6: {ipv6}"))?;
    }
    Ok(())
}

fn one_family(ctx: &mut Ctx, ipv6: bool) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let [attacker, victim, friend] = &net.hosts[..] else {
        bail!("three hosts");
    };
    let addresses = [attacker, victim, friend].map(|host| match ipv6 {
        true => IpAddr::from(host.v6),
        false => IpAddr::from(host.v4),
    });
    let [_, to, name] = addresses;
    // The friend's address is local at the attacker, too, so that it can send from it.
    let family = if ipv6 { "-6 " } else { "" };
    attacker
        .ns
        .ip(&format!("{family}route add local {name} dev lo"))?;
    attacker.ns.sysctl("net/ipv6/ip_nonlocal_bind", "1")?;
    let forge = attacker.ns.enter(|| {
        let socket = UdpSocket::bind((name, PORT)).context("the friend's address")?;
        socket.connect((to, PORT))?;
        Ok(socket)
    })?;
    for host in [victim, friend] {
        // Without it, nothing of a message comes before its sender has proved its address.
        host.ns.run("turnstile transport set unscheduled 8")?;
    }
    let any = if ipv6 { "[::]" } else { "0.0.0.0" };
    let at = |ns: &crate::netns::Netns, port| {
        let socket = ns.enter(|| Ok(Socket::bind(format!("{any}:{port}"))?))?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok::<_, anyhow::Error>(socket)
    };
    // Whom anybody may send to, and the two that know each other.
    let server = at(&victim.ns, OTHER)?;
    let client = at(&friend.ns, HONEST)?;
    let exchange = || -> Result<()> {
        let request = SocketAddr::from((to, OTHER));
        client.send_to(HONEST_ONE, request, &SendOptions::default())?;
        let got = server.recv_message(100).context("the request")?;
        ensure!(got.data == HONEST_ONE, "{:?} came", got.data);
        server.send_to(HONEST_ONE, got.from, &SendOptions::default())?;
        let got = client.recv_message(100).context("the reply")?;
        ensure!(got.data == HONEST_ONE, "{:?} came", got.data);
        Ok(())
    };
    exchange()?;
    let first = counters(&victim.ns)?;
    ensure!(
        first["sender-proven"] == 1 && first["ticket-sent"] != 0,
        "the first message: {first:?}"
    );
    // The reply showed the ticket that came with the request.
    // On a machine that is slow to answer a SYNC is repeated, and shows its ticket again.
    let seen = counters(&friend.ns)?;
    let (shown, most) = (seen["ticket-valid"], 1 + seen["sync-repeated"]);
    ensure!(
        (1..=most).contains(&shown),
        "{shown} replies showed a ticket, not 1 to {most}"
    );
    exchange()?;
    let known = counters(&victim.ns)?;
    let more = |name: &str| known[name] - first[name];
    // A repeated SYNC is asked for a proof, too, until one of its tokens is answered.
    let repeated = more("sync-repeated");
    for (name, allowed) in [
        ("ticket-valid", 1..=1 + repeated),
        ("challenge-sent", 0..=repeated),
    ] {
        let more = more(name);
        ensure!(
            allowed.contains(&more),
            "{name}: {more} more, not {allowed:?}"
        );
    }

    let mut rng = Rng::new(ctx.seed, ctx.name);
    for number in 0..FORGED {
        forged(&forge, &mut rng)?;
        if number % 100 == 0 {
            // Its own go on meanwhile. What is not its own would be read here.
            exchange().with_context(|| format!("after {number} forged messages"))?;
        }
    }
    server.set_read_timeout(Some(Duration::from_millis(300)))?;
    let more = server.recv_message(100);
    ensure!(more.is_err(), "{more:?} came");
    let now = counters(&victim.ns)?;
    let since = |name: &str| now[name] - known[name];
    ctx.note(format!(
        "IPv6 {ipv6}: {} SYNCs came, {} messages were delivered, {} were not taken, \
         {} echoes wrong",
        since("sync-received"),
        since("in-delivered"),
        since("half-open-challenged"),
        since("echo-wrong"),
    ));
    ensure!(since("sync-received") > FORGED / 2, "they did not arrive");
    let own = FORGED / 100;
    for (name, allowed) in [
        ("in-delivered", own..=own),
        ("ticket-valid", own..=own + since("sync-repeated")),
        ("sender-proven", 0..=0),
    ] {
        let more = since(name);
        ensure!(
            allowed.contains(&more),
            "{name}: {more} more, not {allowed:?}"
        );
    }
    Ok(())
}

/// A whole message without tokens, which may be guessing a ticket.
fn forged(socket: &UdpSocket, rng: &mut Rng) -> Result<()> {
    let cookie = Cookie(rng.range(0..=u64::MAX));
    let len = FORGERY.len() as u32;
    let sync = Packet::Sync(Sync {
        cookie,
        source: HONEST,
        destination: OTHER,
        length: Some(len),
        deadline: 0,
        coflow: 0,
        unscheduled: len,
        mss: 1430,
        patience: MAX_PATIENCE,
        echo: if rng.one_in(2) {
            rng.range(1..=u64::MAX)
        } else {
            0
        },
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    });
    let data = Packet::Data(Data {
        cookie,
        token: 0,
        timestamp: 0,
        offset: 0,
        len,
        flags: FLAG_UNSCHEDULED,
        more: 0,
    });
    for (packet, payload) in [(sync, &b""[..]), (data, FORGERY)] {
        let mut bytes = [0; MAX_HEADER];
        let length = packet.write(&mut bytes);
        let mut bytes = bytes[..length].to_vec();
        bytes.extend_from_slice(payload);
        // Who has the name answers with RESETs, which the kernel tells of here as ICMP.
        let _ = socket.send(&bytes);
    }
    Ok(())
}
