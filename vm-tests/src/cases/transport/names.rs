// SPDX-License-Identifier: GPL-2.0
//! Addresses: connecting, both versions of IP in one socket, link-local addresses, several
//! addresses of a host.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use anyhow::{ensure, Context, Result};
use rustix::net::connect_unspec;
use socket2::Domain;
use turnstile_socket::SendOptions;

use super::content;
use super::support::{
    addresses, as_v6, configure, delivered, nothing_more, pair, read_once, receiver, refused,
    send_once, sender, socket, unbound, PATIENCE, PORT,
};
use crate::harness::{Case, Ctx};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/names/connected", connected),
    Case::new("transport/names/disconnected", disconnected),
    Case::new("transport/names/both-versions", both_versions),
    Case::new("transport/names/ipv6-only", ipv6_only),
    Case::new("transport/names/link-local", link_local),
    Case::new("transport/names/several-addresses", several_addresses),
    Case::new("transport/names/to-itself", to_itself),
];

/// A connected socket sends to its peer without saying so, and hears nobody else.
fn connected(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    for (version, to) in addresses(there).into_iter().enumerate() {
        let domain = Domain::for_address(to);
        let server = receiver(&there.ns)?;
        let a = unbound(&here.ns, domain)?;
        a.connect(&to.into())?;
        ensure!(
            a.peer_addr()?.as_socket() == Some(to),
            "{:?}",
            a.peer_addr()
        );
        let me = a.local_addr()?.as_socket().context("no address")?;
        ensure!(
            me.ip() == addresses(here)[version].ip() && me.port() != 0,
            "connected from {me}"
        );
        send_once(&a, b"hello", None, &[], 0)?;
        let came = read_once(&server, 100, 0)?;
        ensure!(
            came.data == b"hello" && came.from == Some(as_v6(me)),
            "{came:?}, not from {me}"
        );
        // From the peer's address, but another port: not for this socket.
        let other = socket(&there.ns, "[::]:0")?;
        other.send_to(b"no", me, &SendOptions::default())?;
        let report = other
            .wait_completion(Some(PATIENCE))?
            .context("nothing was reported")?;
        refused("a stranger's message", report.outcome, libc::ECONNREFUSED)?;
        server.send_to(b"yes", me, &SendOptions::default())?;
        let came = read_once(&a, 100, 0)?;
        ensure!(came.data == b"yes" && came.from == Some(to), "{came:?}");
        nothing_more(&a)?;
    }
    Ok(())
}

/// AF_UNSPEC takes the peer away again.
fn disconnected(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    for to in addresses(there) {
        let server = receiver(&there.ns)?;
        let a = unbound(&here.ns, Domain::for_address(to))?;
        a.connect(&to.into())?;
        connect_unspec(&a).context("AF_UNSPEC")?;
        refused("no peer any more", a.peer_addr(), libc::ENOTCONN)?;
        let send = send_once(&a, b"x", None, &[], 0);
        refused("no destination", send, libc::EDESTADDRREQ)?;
        send_once(&a, b"again", Some(to), &[], 0)?;
        ensure!(read_once(&server, 100, 0)?.data == b"again", "another came");
        // To another peer.
        let mut next = to;
        next.set_port(PORT + 1);
        let other = socket(&there.ns, &format!("[::]:{}", PORT + 1))?;
        a.connect(&next.into())?;
        send_once(&a, b"other", None, &[], 0)?;
        ensure!(read_once(&other, 100, 0)?.data == b"other", "another came");
        nothing_more(&server)?;
    }
    Ok(())
}

/// A socket that is bound to `::` serves IPv4 too, and answers by the version it was asked by.
fn both_versions(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    let server = receiver(&there.ns)?;
    for (version, to) in addresses(there).into_iter().enumerate() {
        let mut me = addresses(here)[version];
        me.set_port(7000);
        let client = socket(&here.ns, &me.to_string())?;
        client.send_to(&content::content(1, 20_000), to, &SendOptions::default())?;
        let came = server.recv_message(20_000)?;
        ensure!(came.from == as_v6(me), "from {}, not {me}", came.from);
        server.send_to(&came.data, came.from, &SendOptions::default())?;
        let back = client.recv_message(20_000)?;
        content::check(1, 0, &back.data)?;
        ensure!(back.from == to, "from {}, not {to}", back.from);
    }
    Ok(())
}

/// With IPV6_V6ONLY there is nobody for IPv4.
fn ipv6_only(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    let server = unbound(&there.ns, Domain::IPV6)?;
    server.set_only_v6(true)?;
    server.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)).into())?;
    let from = sender(&here.ns)?;
    let [v4, v6] = addresses(there);
    from.send_to(b"no", v4, &SendOptions::default())?;
    let report = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    refused("IPv4", report.outcome, libc::ECONNREFUSED)?;
    from.send_to(b"yes", v6, &SendOptions::default())?;
    ensure!(
        read_once(&server, 100, 0)?.data == b"yes",
        "another message came"
    );
    nothing_more(&server)
}

/// The address that a device makes of its own (RFC 4291 appendix A): hosts have the Ethernet
/// addresses 02:00:00:00:00:number.
fn link_local_of(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, number)
}

/// Link-local addresses are of a device; without it they mean nothing.
fn link_local(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    let device = |host: &crate::topology::Host| {
        host.ns
            .enter(|| nix::net::if_::if_nametoindex("eth0").context("the index of eth0"))
    };
    let (out, back) = (device(here)?, device(there)?);
    let server = receiver(&there.ns)?;
    let from = sender(&here.ns)?;
    let to = |scope| SocketAddrV6::new(link_local_of(2), PORT, 0, scope);
    let nowhere = send_once(&from, b"x", Some(to(0).into()), &[], 0);
    refused("without a device", nowhere, libc::EINVAL)?;
    from.send_to(
        &content::content(2, 30_000),
        SocketAddr::V6(to(out)),
        &SendOptions::default(),
    )?;
    let came = server.recv_message(30_000)?;
    content::check(2, 0, &came.data)?;
    let port = from.local_addr()?.port();
    let me = SocketAddr::V6(SocketAddrV6::new(link_local_of(1), port, 0, back));
    ensure!(came.from == me, "from {}, not {me}", came.from);
    delivered(&from, 1)?;
    server.send_to(b"back", came.from, &SendOptions::default())?;
    let came = from.recv_message(4)?;
    let server_is = SocketAddr::V6(to(out));
    ensure!(
        came.data == b"back" && came.from == server_is,
        "{came:?}, not from {server_is}"
    );
    Ok(())
}

/// A host with two addresses: messages come from the one that the socket is bound to, and answers
/// from the one that was asked.
fn several_addresses(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    configure(&there.ns, "policy top")?;
    there.ns.ip("addr add 10.0.0.22/24 dev eth0")?;
    here.ns.ip("addr add 10.0.0.11/24 dev eth0")?;
    let server = receiver(&there.ns)?;
    let client = socket(&here.ns, "10.0.0.11:7001")?;
    for to in ["10.0.0.22:5000", "10.0.0.2:5000"] {
        client.send_to(&content::content(3, 20_000), to, &SendOptions::default())?;
        let came = server.recv_message(20_000)?;
        content::check(3, 0, &came.data)?;
        ensure!(
            came.from == as_v6(SocketAddr::from(([10, 0, 0, 11], 7001))),
            "to {to}, from {}",
            came.from
        );
    }
    // Two sockets with the same port, on an address each.
    drop(server);
    let first = socket(&there.ns, "10.0.0.2:5000")?;
    let second = socket(&there.ns, "10.0.0.22:5000")?;
    client.send_to(b"first", "10.0.0.2:5000", &SendOptions::default())?;
    client.send_to(b"second", "10.0.0.22:5000", &SendOptions::default())?;
    ensure!(first.recv_message(9)?.data == b"first", "another came");
    ensure!(second.recv_message(9)?.data == b"second", "another came");
    nothing_more(&first)?;
    nothing_more(&second)
}

/// Over the loopback device, to another socket and to the same one.
fn to_itself(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let to = receiver(ns)?;
    let from = sender(ns)?;
    let mut sent = 0;
    for address in ["127.0.0.1:5000", "[::1]:5000", "10.0.0.1:5000"] {
        for len in [1, 65_000, 70_000, 1_000_000] {
            from.send_to(
                &content::content(len, len as usize),
                address,
                &SendOptions::default(),
            )?;
            sent += 1;
            let came = to
                .recv_message(1 << 20)
                .with_context(|| format!("{len} bytes to {address}"))?;
            content::check(len, 0, &came.data)?;
            ensure!(
                came.data.len() as u64 == len,
                "{} of {len} bytes to {address}",
                came.data.len()
            );
        }
        to.send_to(b"myself", address, &SendOptions::default())?;
        ensure!(to.recv_message(9)?.data == b"myself", "another came");
    }
    delivered(&from, sent)?;
    nothing_more(&to)
}
