// SPDX-License-Identifier: GPL-2.0
//! Many sockets on one port: which of them a message is for, and who may share a port with whom.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{ensure, Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::{setfsuid, Uid};
use rustix::net::connect_unspec;
use socket2::Domain;
use turnstile_socket::SendOptions;

use super::support::{
    addresses, any, delivered, nothing_more, pair, read_once, refused, sender, socket, unbound,
    PATIENCE, PORT,
};
use crate::harness::{Case, Ctx, MUCH_WORK};
use crate::limits::more_files;
use crate::netns::Netns;
use crate::topology::Host;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/sharing/many-addresses", many_addresses)
        .needs(MUCH_WORK)
        .timeout_s(120),
    Case::new("transport/sharing/last-port", last_port).timeout_s(120),
    Case::new("transport/sharing/one-port", one_port),
    Case::new("transport/sharing/one-user", one_user),
    Case::new("transport/sharing/siblings", siblings),
    Case::new("transport/sharing/device", device),
    Case::new("transport/sharing/no-programs", no_programs),
];

/// A socket in `ns` that shares its port.
fn sharing(ns: &Netns, local: SocketAddr) -> Result<socket2::Socket> {
    let socket = unbound(ns, Domain::for_address(local))?;
    setsockopt(&socket, sockopt::ReusePort, &true)?;
    socket.bind(&local.into()).context("binding")?;
    Ok(socket)
}

/// Any address of the family of `like`, and the usual port.
fn usual(like: SocketAddr) -> SocketAddr {
    SocketAddr::new(any(like).ip(), PORT)
}

/// Sends what names it from a socket and waits until it has arrived.
fn send(from: &turnstile_socket::Socket, to: SocketAddr, what: &[u8]) -> Result<()> {
    from.send_to(what, to, &SendOptions::default())?;
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    done.outcome
        .with_context(|| format!("a message to {to} failed"))
}

/// All ports that the kernel chooses from but one are taken: it finds that one, and then none.
/// There are 2000 of them, as the namespace says: all 28 232 would take minutes.
fn last_port(_: &mut Ctx) -> Result<()> {
    const CHOSEN: std::ops::RangeInclusive<u16> = 39_000..=40_999;
    const LEFT: u16 = 40_000;
    super::support::load()?;
    let ns = Netns::create("one")?;
    ns.run("ip link set lo up")?;
    ns.enter(|| {
        let range = format!("{} {}", CHOSEN.start(), CHOSEN.end());
        Ok(std::fs::write(
            "/proc/sys/net/ipv4/ip_local_port_range",
            range,
        )?)
    })?;
    more_files(CHOSEN.len() as u64 + 1000)?;
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let _all = CHOSEN
        .filter(|port| *port != LEFT)
        .map(|port| {
            let socket = unbound(&ns, Domain::IPV4)?;
            let bound = socket.bind(&at(port).into());
            bound.with_context(|| format!("binding port {port}"))?;
            Ok(socket)
        })
        .collect::<Result<Vec<_>>>()?;
    let last = unbound(&ns, Domain::IPV4)?;
    last.bind(&at(0).into()).context("the last port")?;
    let got = last.local_addr()?.as_socket().map(|local| local.port());
    ensure!(got == Some(LEFT), "it got {got:?}");
    let none = unbound(&ns, Domain::IPV4)?.bind(&at(0).into());
    refused("one more", none, libc::EADDRINUSE)
}

/// 16 000 sockets on one port, each with an address of its own: each gets what is sent to it.
fn many_addresses(ctx: &mut Ctx) -> Result<()> {
    const SOCKETS: u32 = 16_000;
    super::support::load()?;
    let ns = Netns::create("one")?;
    ns.run("ip link set lo up")?;
    more_files(u64::from(SOCKETS) + 1000)?;
    let address = |number: u32| {
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 0)) + number);
        SocketAddr::from((ip, PORT))
    };
    let all = (0..SOCKETS)
        .map(|number| {
            let socket = unbound(&ns, Domain::IPV4)?;
            let bound = socket.bind(&address(number).into());
            bound.with_context(|| format!("binding socket {number}"))?;
            Ok(socket)
        })
        .collect::<Result<Vec<_>>>()?;
    let again = unbound(&ns, Domain::IPV4)?;
    for taken in [address(0), address(SOCKETS - 1), usual(address(0))] {
        refused(
            "an address that is taken",
            again.bind(&taken.into()),
            libc::EADDRINUSE,
        )?;
    }
    let from = sender(&ns)?;
    let mut numbers = vec![0, SOCKETS - 1];
    numbers.extend((0..200).map(|_| ctx.rng.range(0..=u64::from(SOCKETS - 1)) as u32));
    for number in numbers {
        send(&from, address(number), &number.to_ne_bytes())?;
        let socket = &all[number as usize];
        let came = read_once(socket, 100, libc::MSG_DONTWAIT)?;
        ensure!(came.data == number.to_ne_bytes(), "{came:?} at {number}");
    }
    // Nobody has the next one.
    let nobody = send(&from, address(SOCKETS), b"x");
    let errno = nobody.as_ref().err().and_then(|error| {
        let error = error.downcast_ref::<std::io::Error>()?;
        error.raw_os_error()
    });
    ensure!(errno == Some(libc::ECONNREFUSED), "{nobody:?}");
    drop(all);
    again
        .bind(&usual(address(0)).into())
        .context("all are gone")
}

/// Sockets that share a port share the senders: all messages of one come to the same socket.
fn one_port(ctx: &mut Ctx) -> Result<()> {
    const SOCKETS: usize = 4;
    const SENDERS: u32 = 64;
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    for to in addresses(there) {
        let mut receivers = (0..SOCKETS)
            .map(|_| sharing(&there.ns, usual(to)))
            .collect::<Result<Vec<_>>>()?;
        let senders = (0..SENDERS)
            .map(|_| sender(&here.ns))
            .collect::<Result<Vec<_>>>()?;
        let mut shares = BTreeMap::new();
        for round in 0..3 {
            for (number, from) in senders.iter().enumerate() {
                send(from, to, &number.to_ne_bytes())?;
            }
            let mut got = 0;
            for (place, receiver) in receivers.iter().enumerate() {
                while let Ok(came) = read_once(receiver, 100, libc::MSG_DONTWAIT) {
                    got += 1;
                    let before = shares.insert(came.data.clone(), place);
                    ensure!(
                        before.is_none_or(|before| before == place),
                        "round {round}: sender {:?} went from {before:?} to {place}",
                        came.data
                    );
                }
            }
            ensure!(got == SENDERS, "{got} of {SENDERS} messages");
        }
        let count = |place| shares.values().filter(|at| **at == place).count();
        let counts: Vec<usize> = (0..SOCKETS).map(count).collect();
        ctx.note(format!(
            "{SENDERS} senders to {SOCKETS} sockets: {counts:?}"
        ));
        // A fair throw of 64 gives one of four less than 4 or more than 32 once in 10^4 times.
        ensure!(
            counts.iter().all(|count| (4..=32).contains(count)),
            "{counts:?}"
        );
        // Who closes leaves no hole.
        while receivers.len() > 1 {
            receivers.remove(0);
            for from in &senders {
                send(from, to, b"x")?;
            }
            for receiver in &receivers {
                while read_once(receiver, 100, libc::MSG_DONTWAIT).is_ok() {}
            }
        }
    }
    Ok(())
}

/// Only sockets of one user share a port, and only if all of them say so.
fn one_user(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let host = &net.hosts[0];
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let first = sharing(&host.ns, all)?;
    let alone = unbound(&host.ns, Domain::IPV4)?;
    refused(
        "one that does not share",
        alone.bind(&all.into()),
        libc::EADDRINUSE,
    )?;
    let of = |user: u32| {
        host.ns.enter(|| {
            // Of this thread alone, which is the namespace's.
            setfsuid(Uid::from_raw(user));
            let socket = socket2::Socket::new(
                Domain::IPV4,
                socket2::Type::from(libc::SOCK_RDM),
                Some(socket2::Protocol::from(259)),
            );
            setfsuid(Uid::from_raw(0));
            let socket = socket?;
            setsockopt(&socket, sockopt::ReusePort, &true)?;
            Ok(socket)
        })
    };
    let other = of(1000)?;
    let one = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    for address in [all, one] {
        refused(
            "another user",
            other.bind(&address.into()),
            libc::EADDRINUSE,
        )?;
    }
    sharing(&host.ns, one)?;
    let same = of(0)?;
    same.bind(&all.into()).context("the same user")?;
    drop((first, same));
    other.bind(&all.into()).context("the port is free")?;
    let late = sharing(&host.ns, all).map(drop);
    ensure!(late.is_err(), "root shares with user 1000");
    Ok(())
}

/// A socket that is connected to a peer takes its messages; those of others go to its siblings.
fn siblings(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    for (version, to) in addresses(there).into_iter().enumerate() {
        let open = sharing(&there.ns, usual(to))?;
        let mut froms = Vec::new();
        for port in 7000..7008 {
            let mut me = addresses(here)[version];
            me.set_port(port);
            let from = socket(&here.ns, &me.to_string())?;
            from.set_completions(true)?;
            froms.push((me, from));
        }
        let (peer, from) = &froms[0];
        let sibling = sharing(&there.ns, usual(to))?;
        sibling.connect(&(*peer).into())?;
        for _ in 0..3 {
            send(from, to, b"peer")?;
            ensure!(read_once(&sibling, 100, libc::MSG_DONTWAIT)?.data == b"peer");
            for (me, other) in &froms[1..] {
                send(other, to, b"others")?;
                let came = read_once(&open, 100, libc::MSG_DONTWAIT)?;
                ensure!(came.from == Some(*me), "{came:?}, not from {me}");
            }
        }
        nothing_more(&open)?;
        nothing_more(&sibling)?;
        // To another peer.
        sibling.connect(&froms[1].0.into())?;
        send(&froms[1].1, to, b"next")?;
        ensure!(read_once(&sibling, 100, libc::MSG_DONTWAIT)?.data == b"next");
        send(from, to, b"before")?;
        ensure!(read_once(&open, 100, libc::MSG_DONTWAIT)?.data == b"before");
        // Connected no longer: one of two that share.
        connect_unspec(&sibling)?;
        drop(open);
        for (me, from) in &froms {
            send(from, to, b"all")?;
            let came = read_once(&sibling, 100, libc::MSG_DONTWAIT)?;
            ensure!(came.from == Some(*me), "{came:?}, not from {me}");
        }
    }
    Ok(())
}

/// A socket that is bound to a device after it was bound to a port hears that device alone.
fn device(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there]: [&Host; 2] = [&net.hosts[0], &net.hosts[1]];
    let [to, _] = addresses(there);
    let server = unbound(&there.ns, Domain::IPV4)?;
    server.bind(&usual(to).into())?;
    let from = sender(&here.ns)?;
    let bind = |name: &str| setsockopt(&server, sockopt::BindToDevice, &OsString::from(name));
    bind("lo")?;
    let lost = send(&from, to, b"x");
    ensure!(lost.is_err(), "it came by another device");
    // The port is free for all other devices.
    let other = unbound(&there.ns, Domain::IPV4)?;
    setsockopt(&other, sockopt::BindToDevice, &OsString::from("eth0"))?;
    other.bind(&usual(to).into()).context("by another device")?;
    send(&from, to, b"eth0")?;
    ensure!(read_once(&other, 100, libc::MSG_DONTWAIT)?.data == b"eth0");
    drop(other);
    bind("")?;
    send(&from, to, b"any")?;
    ensure!(read_once(&server, 100, libc::MSG_DONTWAIT)?.data == b"any");
    nothing_more(&server)
}

/// Programs that choose among sockets are refused: nobody would ask them.
fn no_programs(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [_, to] = addresses(&net.hosts[1]);
    let server = sharing(&net.hosts[1].ns, usual(to))?;
    let mut code = [libc::sock_filter {
        code: 6, // BPF_RET | BPF_K
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let program = libc::sock_fprog {
        len: 1,
        filter: code.as_mut_ptr(),
    };
    let attached = setsockopt(&server, sockopt::AttachReusePortCbpf, &program);
    refused("SO_ATTACH_REUSEPORT_CBPF", attached, libc::EOPNOTSUPP)?;
    // Other options of the level are not touched.
    setsockopt(&server, sockopt::RcvBuf, &100_000)?;
    ensure!(nix::sys::socket::getsockopt(&server, sockopt::RcvBuf)? == 200_000);
    let from = sender(&net.hosts[0].ns)?;
    from.send_to(b"x", to, &SendOptions::default())?;
    delivered(&from, 1)
}
