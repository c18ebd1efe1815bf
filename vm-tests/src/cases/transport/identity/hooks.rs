// SPDX-License-Identifier: GPL-2.0
//! BPF programs of a socket's cgroup.

use anyhow::{ensure, Context, Result};
use socket2::{Domain, Socket};

use super::cgroup::{port, Attached, Cgroup, Hook, DENY};
use super::{any, comes, next, open, open_in, outcome, receiver, send, Kind, BOTH};
use crate::cases::transport::support::{addresses, configure_all, pair, PORT};
use crate::harness::Ctx;
use crate::topology::Net;
use std::net::SocketAddr;

/// What sockets inside a group could do.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    bind: i32,
    send: i32,
    sent: bool,
    connect: i32,
    send_connected: i32,
    received: bool,
}

const ALL: Did = Did {
    bind: 0,
    send: 0,
    sent: true,
    connect: 0,
    send_connected: 0,
    received: true,
};

/// Tries everything with a new socket in the group, in the first host.
fn attempt(net: &Net, group: &Cgroup, kind: Kind, domain: Domain) -> Result<Did> {
    let v6 = usize::from(domain == Domain::IPV6);
    let (here, there) = (addresses(&net.hosts[0])[v6], addresses(&net.hosts[1])[v6]);
    let outside = receiver(&net.hosts[1].ns, kind, domain)?;
    let inside = || -> Result<Socket> {
        net.hosts[0]
            .ns
            .enter(|| group.within(|| open(kind, domain)))
    };
    let bound = inside()?;
    let bind = outcome(bound.bind(&SocketAddr::new(any(domain), PORT).into()));
    let socket = inside()?;
    let send = send(&socket, b"message", there);
    let sent = next(&outside)?.is_some();
    let connected = inside()?;
    let connect = outcome(connected.connect(&there.into()));
    let send_connected = match connect {
        0 => outcome(connected.send(b"message")),
        _ => 0,
    };
    while next(&outside)?.is_some() {}
    let received = bind == 0 && {
        outside.send_to(b"message", &here.into())?;
        next(&bound)?.is_some()
    };
    Ok(Did {
        bind,
        send,
        sent,
        connect,
        send_connected,
        received,
    })
}

/// A program that says no, at each hook: what UDP cannot do, Turnstile cannot.
pub(super) fn denied(v6: bool) -> Result<()> {
    let (domain, hooks) = if v6 {
        let hooks = [Hook::Bind6, Hook::Connect6, Hook::PostBind6, Hook::Sendmsg6];
        (Domain::IPV6, hooks)
    } else {
        let hooks = [Hook::Bind4, Hook::Connect4, Hook::PostBind4, Hook::Sendmsg4];
        (Domain::IPV4, hooks)
    };
    let net = pair()?;
    // A short message needs no answer else, and is as a datagram.
    configure_all(&net, "unscheduled off")?;
    let group = Cgroup::new("denied")?;
    for kind in BOTH {
        let did = attempt(&net, &group, kind, domain)?;
        ensure!(did == ALL, "{kind:?} without a program: {did:?}");
    }
    for hook in [Hook::Ingress, Hook::Egress].into_iter().chain(hooks) {
        let attached = group.attach(hook, DENY)?;
        let [udp, own] = BOTH.map(|kind| attempt(&net, &group, kind, domain));
        let (udp, own) = (udp?, own?);
        ensure!(udp != ALL, "{hook:?} does not hinder UDP");
        // A receiver has to answer, and a sender to be answered.
        let expected = Did {
            sent: udp.sent && hook != Hook::Ingress,
            received: udp.received && hook != Hook::Egress,
            ..udp
        };
        ensure!(own == expected, "{hook:?}: UDP {udp:?}, Turnstile {own:?}");
        drop(attached);
    }
    for kind in BOTH {
        let did = attempt(&net, &group, kind, domain)?;
        ensure!(did == ALL, "{kind:?} after the programs: {did:?}");
    }
    Ok(())
}

/// What a program keeps from a socket has not arrived, and does so when the program is gone: data
/// at a receiver, tokens at a sender.
pub(super) fn ingress_holds(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let group = Cgroup::new("holds")?;
    let there = addresses(&net.hosts[1])[0];
    let long = vec![7; 300_000];
    for receives in [true, false] {
        let make = |host: usize, member: bool| -> Result<Socket> {
            let ns = &net.hosts[host].ns;
            if member {
                ns.enter(|| group.within(|| open(Kind::Turnstile, Domain::IPV4)))
            } else {
                open_in(ns, Kind::Turnstile, Domain::IPV4)
            }
        };
        let to = make(1, receives)?;
        to.bind(&SocketAddr::new(any(Domain::IPV4), PORT).into())?;
        let from = make(0, !receives)?;
        let attached: Attached = group.attach(Hook::Ingress, DENY)?;
        ensure!(send(&from, &long, there) == 0, "sending");
        comes("through a program that says no", &to, None)?;
        drop(attached);
        to.set_read_timeout(Some(crate::cases::transport::support::PATIENCE))?;
        let mut came = 0;
        while came < long.len() {
            came += next(&to)?.context("nothing more comes")?.0.len();
        }
        ensure!(came == long.len(), "{came} bytes");
    }
    let said = net.hosts[1].ns.run("turnstile stats")?;
    ensure!(said.contains("refused"), "nothing was counted: {said}");
    Ok(())
}

/// Programs may change the destination of a message, and what its receiver is told of its source.
pub(super) fn rewrites(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let group = Cgroup::new("rewrites")?;
    for (v6, hooks) in [
        (0, [Hook::Sendmsg4, Hook::Connect4, Hook::Recvmsg4]),
        (1, [Hook::Sendmsg6, Hook::Connect6, Hook::Recvmsg6]),
    ] {
        let mut nowhere = addresses(&net.hosts[1])[v6];
        let domain = Domain::for_address(nowhere);
        nowhere.set_port(9);
        for kind in BOTH {
            let member = |host: usize| -> Result<Socket> {
                let ns = &net.hosts[host].ns;
                ns.enter(|| group.within(|| open(kind, domain)))
            };
            let to = member(1)?;
            to.bind(&SocketAddr::new(any(domain), PORT).into())?;
            let attached = group.attach(hooks[0], &port(PORT))?;
            let from = member(0)?;
            ensure!(send(&from, b"one", nowhere) == 0, "{kind:?}: sending");
            comes("sent elsewhere", &to, Some(b"one"))?;
            drop(attached);
            let attached = group.attach(hooks[1], &port(PORT))?;
            from.connect(&nowhere.into())?;
            from.send(b"two")?;
            drop(attached);
            comes("connected elsewhere", &to, Some(b"two"))?;
            let _attached = group.attach(hooks[2], &port(77))?;
            from.send(b"three")?;
            let (_, source) = next(&to)?.context("nothing comes")?;
            ensure!(source.port() == 77, "{kind:?}: from {source}");
        }
    }
    Ok(())
}
