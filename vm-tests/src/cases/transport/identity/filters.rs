// SPDX-License-Identifier: GPL-2.0
//! A socket's own filter, and netfilter's rules about sockets.

use anyhow::{ensure, Context, Result};
use socket2::{Domain, Socket};

use super::{comes, next, open, open_in, receiver, send, set_bytes, Kind, BOTH};
use crate::cases::transport::support::{addresses, configure_all, pair, PATIENCE};
use crate::harness::Ctx;

/// An instruction of a socket filter (classic BPF): `struct sock_filter`.
pub(super) type Insn = (u16, u8, u8, u32);

/// Takes nothing.
pub(super) const REFUSE: &[Insn] = &[(RETURN, 0, 0, 0)];

/// `SO_ATTACH_FILTER`.
pub(super) fn attach(socket: &Socket, program: &[Insn]) -> Result<()> {
    let code: Vec<libc::sock_filter> = program
        .iter()
        .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
        .collect();
    // struct sock_fprog: how many, padding, where.
    let mut program = (code.len() as u64).to_ne_bytes().to_vec();
    program.extend((code.as_ptr() as u64).to_ne_bytes());
    set_bytes(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .context("SO_ATTACH_FILTER")
}

pub(super) fn detach(socket: &Socket) -> Result<()> {
    super::set(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0).context("SO_DETACH_FILTER")
}

const RETURN: u16 = 0x06;
/// A 16-bit word, at an offset.
const LOAD: u16 = 0x28;
const JUMP_IF_EQUAL: u16 = 0x15;

/// What a filter refuses has not come: the sender is not told, and sends it again. One that
/// would shorten datagrams leaves messages whole.
pub(super) fn attached(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    // So that a message needs its receiver's tokens.
    configure_all(&net, "unscheduled off")?;
    let there = addresses(&net.hosts[1])[0];
    for kind in BOTH {
        let to = receiver(&net.hosts[1].ns, kind, Domain::IPV4)?;
        let from = open_in(&net.hosts[0].ns, kind, Domain::IPV4)?;
        attach(&to, REFUSE)?;
        ensure!(send(&from, b"refused", there) == 0, "sending");
        comes("through a filter that refuses all", &to, None)?;
        detach(&to)?;
        match kind {
            Kind::Udp => comes("a datagram", &to, None)?,
            Kind::Turnstile => {
                to.set_read_timeout(Some(PATIENCE))?;
                comes("a message, at last", &to, Some(b"refused"))?;
                to.set_read_timeout(Some(super::LONG))?;
            }
        }
        // At the sender: the receiver's tokens and ACKs.
        if kind == Kind::Turnstile {
            attach(&from, REFUSE)?;
            let long = vec![1; 40_000];
            ensure!(send(&from, &long, there) == 0, "sending");
            comes("without tokens", &to, None)?;
            detach(&from)?;
            to.set_read_timeout(Some(PATIENCE))?;
            comes("with tokens", &to, Some(&long))?;
            to.set_read_timeout(Some(super::LONG))?;
        }
        attach(&to, &[(RETURN, 0, 0, 10)])?;
        ensure!(send(&from, b"not shortened", there) == 0, "sending");
        let whole = (kind == Kind::Turnstile).then_some(&b"not shortened"[..]);
        // UDP's header counts.
        comes("shortened", &to, whole.or(Some(b"no")))?;
    }
    Ok(())
}

/// A filter's first byte is the first of UDP's header.
pub(super) fn sees_udp(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let there = addresses(&net.hosts[1])[0];
    for kind in BOTH {
        let to = receiver(&net.hosts[1].ns, kind, Domain::IPV4)?;
        let from = open_in(&net.hosts[0].ns, kind, Domain::IPV4)?;
        let port = match kind {
            Kind::Udp => there.port(),
            Kind::Turnstile => 29_813,
        };
        for (wanted, passes) in [(port, true), (port + 1, false)] {
            attach(
                &to,
                &[
                    (LOAD, 0, 0, 2),
                    (JUMP_IF_EQUAL, 0, 1, wanted.into()),
                    (RETURN, 0, 0, u32::MAX),
                    (RETURN, 0, 0, 0),
                ],
            )?;
            ensure!(send(&from, b"message", there) == 0, "sending");
            comes("by destination port", &to, passes.then_some(b"message"))?;
        }
    }
    Ok(())
}

/// `meta skuid` knows whose the packets are, and the sender learns it.
pub(super) fn owner(_: &mut Ctx) -> Result<()> {
    const USER: u32 = 1000;
    let net = pair()?;
    let (ns, there) = (&net.hosts[0].ns, addresses(&net.hosts[1]));
    ns.run("nft add table inet owner")?;
    ns.run_with(
        "nft -f -",
        &format!(
            "add chain inet owner out {{ type filter hook output priority 0; }}\n\
             add rule inet owner out meta skuid {USER} drop\n"
        ),
    )?;
    for to in there {
        for kind in BOTH {
            let domain = Domain::for_address(to);
            let receiver = receiver(&net.hosts[1].ns, kind, domain)?;
            let theirs = ns.enter(|| {
                // SAFETY: it only changes what this thread's files are made as, and the thread
                // ends.
                unsafe { libc::setfsuid(USER) };
                open(kind, domain)
            })?;
            let own = open_in(ns, kind, domain)?;
            let result = send(&theirs, b"theirs", to);
            ensure!(result == libc::EPERM, "{kind:?}: {result}");
            comes("theirs", &receiver, None)?;
            ensure!(send(&own, b"own", to) == 0, "{kind:?}: own");
            comes("own", &receiver, Some(b"own"))?;
            ensure!(next(&receiver)?.is_none(), "more");
        }
    }
    Ok(())
}
