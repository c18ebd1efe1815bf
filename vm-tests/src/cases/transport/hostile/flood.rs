// SPDX-License-Identifier: GPL-2.0
//! SYNCs and nothing else, from one host with tens of thousands of addresses: memory stays bounded,
//! and others are served.

use std::io::IoSlice;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags, SockaddrIn6};
use turnstile_core::header::PORT;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::{command, config, message, peer, stat, DIRECTION_IN, FAMILY};
use turnstile_core::transport::wire::{Cookie, Packet, Sync, MAX_HEADER};
use turnstile_socket::Socket;

use super::honest::Honest;
use super::OTHER;
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::Generic;
use crate::rng::Rng;
use crate::topology::Builder;

/// How many SYNCs are sent: a million in virtual time. Emulated they would take some minutes.
fn count() -> u64 {
    if clock::is_simulated() {
        1_000_000
    } else {
        100_000
    }
}

/// So many in a millisecond.
const BURST: u64 = 100;
/// Where the flood pretends to come from: the last 16 bits vary.
const SOURCES: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0);
/// KiB: what the transport may take for messages that are half open, and for what it remembers,
/// with much room.
const MEMORY: u64 = 96 << 10;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let count = count();
    let net = Builder::bridged(3).build()?;
    let [attacker, victim, friend] = &net.hosts[..] else {
        bail!("three hosts");
    };
    attacker
        .ns
        .ip(&format!("-6 route add local {SOURCES}/112 dev lo"))?;
    attacker.ns.sysctl("net/ipv6/ip_nonlocal_bind", "1")?;
    victim
        .ns
        .ip(&format!("-6 route add {SOURCES}/112 via {}", attacker.v6))?;
    // Somebody listens on the port, and never gets anything.
    let _idle = victim
        .ns
        .enter(|| Ok(Socket::bind(format!("[::]:{OTHER}"))?))?;
    let socket = attacker.ns.enter(|| {
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).context("binding the transport's UDP port")
    })?;
    socket.set_nonblocking(true)?;
    let honest = Honest::start(
        (&friend.ns, friend.v6.into()),
        (&victim.ns, victim.v6.into()),
    )?;
    let mut family = Generic::open(&victim.ns, FAMILY)?;
    let before = available()?;
    let (mut least, mut most) = (before, 0);
    let mut rng = Rng::new(ctx.seed, ctx.name);
    let flooded = (|| -> Result<()> {
        for sent in 0..count {
            if sent % (count / 50) == 0 {
                if honest.failed() {
                    return Ok(());
                }
                least = least.min(available()?);
                most = most.max(looked_at(&mut family)?);
            }
            one(&socket, victim.v6, &mut rng)?;
            if sent % BURST == 0 {
                // A hundred thousand in a second, and others have their turn.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    })();
    let served = honest.finish();
    flooded?;
    let served = served?;
    let stats = family.read(command::STATS_GET)?;
    let number = |counter: Counter| stats.number(stat::FIRST + counter as u16).unwrap_or(0);
    ctx.note(format!(
        "{count} SYNCs, {} came; at most {most} messages at once; available memory {before} -> \
         {least} KiB at least; \
         {} honest messages, the longest took {:?}",
        number(Counter::SyncReceived),
        served.messages,
        served.longest
    ));
    ensure!(
        number(Counter::SyncReceived) > count / 2,
        "the flood did not arrive"
    );
    ensure!(
        number(Counter::HalfOpenChallenged) > count / 4,
        "{} SYNCs were answered with a CHALLENGE",
        number(Counter::HalfOpenChallenged)
    );
    ensure!(
        least + MEMORY >= before,
        "available memory fell from {before} to {least} KiB"
    );
    Ok(())
}

/// A message's first packet, that none follows.
fn one(socket: &UdpSocket, to: Ipv6Addr, rng: &mut Rng) -> Result<()> {
    let sync = Sync {
        cookie: Cookie(rng.range(0..=u64::MAX)),
        source: rng.range(1..=u64::from(u16::MAX)) as u16,
        destination: OTHER,
        length: (!rng.one_in(4)).then_some((rng.range(1..=1 << 30) as u32 >> 1) | 1),
        deadline: 0,
        coflow: rng.range(0..=100) as u32,
        unscheduled: 0,
        mss: 1430,
        patience: 100,
        echo: 0,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    };
    let mut header = [0; MAX_HEADER];
    let len = Packet::Sync(sync).write(&mut header);
    let mut from = SOURCES.octets();
    from[14..].copy_from_slice(&(rng.range(0..=0xffff) as u16).to_be_bytes());
    let info = libc::in6_pktinfo {
        ipi6_addr: libc::in6_addr { s6_addr: from },
        ipi6_ifindex: 0,
    };
    let to = SockaddrIn6::from(SocketAddrV6::new(to, PORT, 0, 0));
    let sent = sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(&header[..len])],
        &[ControlMessage::Ipv6PacketInfo(&info)],
        MsgFlags::empty(),
        Some(&to),
    );
    match sent {
        Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS) => Ok(()),
        Err(errno) => Err(errno).context("sending a SYNC"),
    }
}

/// How many messages are coming in, all sides within their limits.
fn looked_at(family: &mut Generic) -> Result<usize> {
    let limits = family.read(command::TRANSPORT_GET)?;
    let limit = |number| limits.number(number).unwrap_or(0);
    let (messages, _) = family.dump(command::MESSAGE_GET)?;
    let coming = messages
        .iter()
        .filter(|reply| reply.number(message::DIRECTION) == Some(DIRECTION_IN.into()));
    let (all, bare) = coming.fold((0, 0), |(all, bare), reply| {
        (
            all + 1,
            bare + u64::from(reply.number(message::PACKETS) == Some(0)),
        )
    });
    // A dump takes several looks: a few may come and go between them.
    let slack = 64;
    ensure!(
        bare <= limit(config::MAX_HALF_OPEN) + slack,
        "{bare} messages are half open"
    );
    let (peers, _) = family.dump(command::PEER_GET)?;
    for reply in &peers {
        let incoming = reply.number(peer::INCOMING).unwrap_or(0);
        ensure!(incoming <= limit(config::MAX_PER_PEER), "{reply:?}");
    }
    Ok(all)
}

/// KiB of memory that could be had.
fn available() -> Result<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    table
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("no MemAvailable")
}
