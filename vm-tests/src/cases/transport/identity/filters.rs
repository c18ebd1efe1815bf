// SPDX-License-Identifier: GPL-2.0
//! A socket's own filter, and netfilter's rules about sockets.

use anyhow::{ensure, Context, Result};
use socket2::{Domain, SockRef, Socket};
use turnstile_core::transport::wire::{Delivered, First, Packet};
use turnstile_socket::SendOptions;

use super::{comes, next, open, open_in, receiver, send, set_bytes, Kind, BOTH};
use crate::cases::transport::peer::{first, sync, Peer, LEN};
use crate::cases::transport::support::{
    self, addresses, configure_all, counters, pair, sender, PATIENCE,
};
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

/// Acknowledgements that come together, or with a message, are for several sockets: each socket's
/// filter is asked, for its own.
pub(super) fn each_of_a_list(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for v6 in [false, true] {
        let (here, there) = (
            addresses(&net.hosts[0])[usize::from(v6)],
            addresses(&net.hosts[1])[usize::from(v6)],
        );
        let peer = Peer::new(&net.hosts[1], v6, here)?;
        let taker = support::receiver(ns)?;
        let (open, closed) = (sender(ns)?, sender(ns)?);
        let (mut known, options) = (Vec::new(), SendOptions::default());
        let tell = |cookies: &[_], rides: Option<u64>| {
            let mut list = Delivered::NONE;
            list.allowance = 1000;
            for &cookie in cookies {
                list.push(cookie);
            }
            match (rides, first(sync(rides.unwrap_or(0), here.port(), 0))) {
                (Some(_), Packet::First(it)) => {
                    let delivered = list;
                    peer.push(&Packet::First(First { delivered, ..it }), LEN)
                }
                _ => peer.push(&Packet::Delivered(list), 0),
            }
        };
        // It is told what it may send.
        open.send_to(b"first", there, &options)?;
        known.push(peer.other_than(&known)?);
        tell(&known, None)?;
        ensure!(open.wait_completion(Some(PATIENCE))?.is_some(), "the first");
        attach(&SockRef::from(&closed), REFUSE)?;
        for (what, refused_first, rides) in [
            ("behind another one", false, None),
            ("before another one", true, None),
            ("with a message, behind another one", false, Some(77)),
            ("with a message, before another one", true, Some(78)),
        ] {
            let before = counters(ns)?["refused-filter"];
            let mut both = Vec::new();
            for from in [&open, &closed] {
                from.send_to(b"another", there, &options)?;
                known.push(peer.other_than(&known)?);
                both.push(known[known.len() - 1]);
            }
            if refused_first {
                both.reverse();
            }
            tell(&both, rides)?;
            let end = open.wait_completion(Some(super::LONG))?;
            ensure!(end.is_some(), "{what}: others' ends are refused with it");
            let end = closed.wait_completion(Some(super::LONG))?;
            ensure!(end.is_none(), "{what}: it comes past the filter");
            let refused = counters(ns)?["refused-filter"] - before;
            ensure!(refused == 1, "{what}: {refused} are refused");
        }
        drop((taker, open, closed));
    }
    Ok(())
}
