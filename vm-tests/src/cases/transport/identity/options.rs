// SPDX-License-Identifier: GPL-2.0
//! Options of IP: each means what it means for UDP, or is refused.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use anyhow::{ensure, Context, Result};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags, SockaddrStorage};
use socket2::{Domain, Socket};
use turnstile_core::header::Type;

use super::{any, comes, next, open, open_in, outcome, receiver, send, set, Kind, BOTH};
use crate::cases::transport::support::{addresses, as_v6, hosts, item_of, pair, send_once, PORT};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::pcap::Capture;
use crate::topology::Builder;

/// `IP_TTL` and `IPV6_UNICAST_HOPS` are what the packets have.
pub(super) fn ttl(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[1].ns;
    ns.run("nft add table inet t")?;
    ns.run_with(
        "nft -f -",
        "add chain inet t in { type filter hook input priority 0; }\n\
         add rule inet t in ip ttl 7 drop\n\
         add rule inet t in ip6 hoplimit 7 drop\n",
    )?;
    for (to, level, name) in [
        (addresses(&net.hosts[1])[0], libc::SOL_IP, libc::IP_TTL),
        (
            addresses(&net.hosts[1])[1],
            libc::SOL_IPV6,
            libc::IPV6_UNICAST_HOPS,
        ),
    ] {
        for kind in BOTH {
            let domain = Domain::for_address(to);
            let receiver = receiver(ns, kind, domain)?;
            let from = open_in(&net.hosts[0].ns, kind, domain)?;
            let other = open_in(&net.hosts[0].ns, kind, domain)?;
            set(&from, level, name, 7).with_context(|| format!("{kind:?}"))?;
            ensure!(send(&from, b"seven", to) == 0, "{kind:?}: sending");
            comes("of seven hops", &receiver, None)?;
            ensure!(send(&other, b"any", to) == 0, "{kind:?}: sending");
            comes("of any hops", &receiver, Some(b"any"))?;
            ensure!(
                set(&from, level, name, 0) == set(&other, level, name, 0),
                "0"
            );
            let most = set(&from, level, name, 256);
            ensure!(most == Err(Errno::EINVAL), "{kind:?}: 256: {most:?}");
        }
    }
    Ok(())
}

/// `net.ipv4.ip_no_pmtu_disc`, as it was when the socket was made, lets routers cut packets.
pub(super) fn no_pmtu_disc(_: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair().without_offloads())?;
    let to = addresses(&net.hosts[1])[0];
    for value in [1, 2, 3, 0] {
        for kind in BOTH {
            for host in &net.hosts {
                host.ns
                    .sysctl("net/ipv4/ip_no_pmtu_disc", &value.to_string())?;
            }
            let receiver = receiver(&net.hosts[1].ns, kind, Domain::IPV4)?;
            let from = open_in(&net.hosts[0].ns, kind, Domain::IPV4)?;
            for host in &net.hosts {
                host.ns.sysctl("net/ipv4/ip_no_pmtu_disc", "0")?;
            }
            let start = |at: usize| Capture::start(&net.hosts[at].ns, Some("eth0"));
            let captures = [start(0)?, start(1)?];
            for len in [1, 1400, 20_000] {
                // UDP would cut the long one itself.
                if len < 1500 || kind == Kind::Turnstile {
                    let bytes = vec![len as u8; len];
                    ensure!(send(&from, &bytes, to) == 0, "{kind:?}: sending");
                    comes("a message", &receiver, Some(&bytes))?;
                }
            }
            for capture in captures {
                let captured = capture.finish()?;
                for packet in captured.sent_by("eth0")? {
                    let bytes = &packet.bytes;
                    let is_udp = bytes.get(12..14) == Some(&[8, 0]) && bytes.get(23) == Some(&17);
                    let whole = bytes.get(20).context("short")? & 0x40 != 0;
                    // What answers a packet of a finished message is no socket's, and goes by the
                    // namespace's value of now: an ACK, or a RESET for a token that comes late.
                    let nobodys = [Type::Ack, Type::Reset].map(Type::first_byte);
                    let may_be_nobodys = bytes.get(42).is_some_and(|it| nobodys.contains(it));
                    ensure!(
                        !is_udp || may_be_nobodys || whole == (value == 0),
                        "{kind:?}, ip_no_pmtu_disc {value}: {} bytes with DF {whole}",
                        packet.length
                    );
                }
            }
        }
    }
    Ok(())
}

fn index(ns: &Netns, device: &str) -> Result<u32> {
    let link = ns.run(&format!("ip -o link show dev {device}"))?;
    let (index, _) = link.split_once(':').context("no index")?;
    index.trim().parse().context("no index")
}

/// What a message came to, and the device that it came by.
fn arrived(socket: &Socket) -> Result<Option<(IpAddr, u32)>> {
    let mut bytes = [0; 2000];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let mut space = cmsg_space!(libc::in6_pktinfo, libc::in_pktinfo);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    let mut found = None;
    for item in message.cmsgs()? {
        match item {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                ensure!(info.ipi_spec_dst.s_addr == info.ipi_addr.s_addr, "{info:?}");
                let ip = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
                found = Some((ip.into(), info.ipi_ifindex as u32));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                found = Some((ip.into(), info.ipi6_ifindex));
            }
            other => anyhow::bail!("{other:?}"),
        }
    }
    Ok(found)
}

/// Ancillary data that asks for a source and a device.
fn source(ip: IpAddr, device: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    match ip {
        IpAddr::V4(ip) => {
            bytes.extend(device.to_ne_bytes());
            bytes.extend(ip.octets());
            bytes.extend([0; 4]);
            item_of(libc::SOL_IP as u32, libc::IP_PKTINFO as u32, &bytes)
        }
        IpAddr::V6(ip) => {
            bytes.extend(ip.octets());
            bytes.extend(device.to_ne_bytes());
            item_of(libc::SOL_IPV6 as u32, libc::IPV6_PKTINFO as u32, &bytes)
        }
    }
}

/// `IP_PKTINFO` and `IPV6_PKTINFO`, of what comes and of what is sent.
pub(super) fn pktinfo(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    let seconds: [IpAddr; 2] = ["10.0.0.11".parse()?, "fd00::11".parse()?];
    here.ip("addr add 10.0.0.11/24 dev eth0")?;
    here.ip("addr add fd00::11/64 dev eth0 nodad preferred_lft 0")?;
    let (out, coming) = (index(here, "eth0")?, index(there, "eth0")?);
    for (to, second) in addresses(&net.hosts[1]).into_iter().zip(seconds) {
        let domain = Domain::for_address(to);
        let mut refusals = Vec::new();
        for kind in BOTH {
            let receiver = receiver(there, kind, domain)?;
            let from = open_in(here, kind, domain)?;
            let ask = |on| {
                if domain == Domain::IPV4 {
                    set(&receiver, libc::SOL_IP, libc::IP_PKTINFO, on)
                } else {
                    set(&receiver, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, on)
                }
            };
            ask(1)?;
            ensure!(send(&from, b"one", to) == 0, "{kind:?}: sending");
            let came = arrived(&receiver)?;
            ensure!(came == Some((to.ip(), coming)), "{kind:?}: {came:?}");
            ask(0)?;
            ensure!(send(&from, b"two", to) == 0, "{kind:?}: sending");
            ensure!(arrived(&receiver)?.is_none(), "{kind:?}: not asked for");
            for device in [0, out] {
                send_once(&from, b"three", Some(to), &source(second, device), 0)
                    .with_context(|| format!("{kind:?} by {device}"))?;
                let (_, seen) = next(&receiver)?.context("nothing from the second address")?;
                ensure!(seen.ip() == second, "{kind:?}: from {seen}");
            }
            // Of nobody here; by no such device; of the wrong length; of another kind.
            let nobody: IpAddr = match second {
                IpAddr::V4(_) => Ipv4Addr::new(10, 0, 0, 99).into(),
                IpAddr::V6(_) => "fd00::99".parse()?,
            };
            let level = if domain == Domain::IPV4 {
                libc::SOL_IP
            } else {
                libc::SOL_IPV6
            };
            for (what, control) in [
                ("nobody", source(nobody, 0)),
                (
                    "short",
                    item_of(level as u32, source(second, 0)[12].into(), &[0; 2]),
                ),
                ("unknown", item_of(level as u32, 0x7777, &[0; 4])),
            ] {
                let result = outcome(send_once(&from, b"four", Some(to), &control, 0));
                ensure!(result != 0, "{kind:?}, {what}");
                refusals.push((what, result));
            }
            let result = outcome(send_once(&from, b"four", Some(to), &source(second, 999), 0));
            ensure!(result != 0, "{kind:?} by no device");
            comes("what was refused", &receiver, None)?;
        }
        let (udp, own) = refusals.split_at(refusals.len() / 2);
        ensure!(own == udp, "UDP {udp:?}, Turnstile {own:?}");
    }
    Ok(())
}

/// `IP_BIND_ADDRESS_NO_PORT`: the port comes with the first use.
pub(super) fn no_port(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let here = addresses(&net.hosts[0])[0];
    let to = addresses(&net.hosts[1])[0];
    for kind in BOTH {
        let receiver = receiver(&net.hosts[1].ns, kind, Domain::IPV4)?;
        let from = open_in(&net.hosts[0].ns, kind, Domain::IPV4)?;
        set(&from, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        from.bind(&SocketAddr::new(here.ip(), 0).into())?;
        let port =
            || -> Result<u16> { Ok(from.local_addr()?.as_socket().context("no address")?.port()) };
        ensure!(port()? == 0, "{kind:?}: {}", port()?);
        ensure!(send(&from, b"bound late", to) == 0, "{kind:?}: sending");
        ensure!(port()? != 0, "{kind:?}: no port after sending");
        let (_, seen) = next(&receiver)?.context("nothing came")?;
        ensure!(seen == SocketAddr::new(here.ip(), port()?), "from {seen}");
    }
    Ok(())
}

/// `IPV6_V6ONLY`, and addresses that need a device.
pub(super) fn v6only_and_scope(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    here.ip("addr add fe80::a/64 dev eth0 nodad")?;
    there.ip("addr add fe80::b/64 dev eth0 nodad")?;
    let to = addresses(&net.hosts[1]);
    let out = index(here, "eth0")?;
    for kind in BOTH {
        let socket = open_in(there, kind, Domain::IPV6)?;
        set(&socket, libc::SOL_IPV6, libc::IPV6_V6ONLY, 1)?;
        socket.bind(&SocketAddr::new(any(Domain::IPV6), PORT).into())?;
        let late = set(&socket, libc::SOL_IPV6, libc::IPV6_V6ONLY, 0);
        ensure!(late == Err(Errno::EINVAL), "{kind:?}: {late:?}");
        let four = open_in(here, kind, Domain::IPV4)?;
        let result = send(&four, b"four", to[0]);
        ensure!(result == 0, "{kind:?}: {result}");
        comes("IPv4", &socket, None)?;
        let six = open_in(here, kind, Domain::IPV6)?;
        ensure!(send(&six, b"six", to[1]) == 0, "{kind:?}: sending");
        comes("IPv6", &socket, Some(b"six"))?;
        let only = open_in(here, kind, Domain::IPV6)?;
        set(&only, libc::SOL_IPV6, libc::IPV6_V6ONLY, 1)?;
        let result = send(&only, b"mapped", as_v6(to[0]));
        ensure!(result == libc::ENETUNREACH, "{kind:?}: mapped: {result}");
        let link = |scope| {
            SocketAddr::V6(SocketAddrV6::new(
                "fe80::b".parse().unwrap_or(Ipv6Addr::LOCALHOST),
                PORT,
                0,
                scope,
            ))
        };
        if kind == Kind::Turnstile {
            // UDP takes the first device that has such a route.
            let result = send(&six, b"where", link(0));
            ensure!(result == libc::EINVAL, "no scope: {result}");
        }
        ensure!(send(&six, b"there", link(out)) == 0, "{kind:?}: scope");
        comes("by scope", &socket, Some(b"there"))?;
        let bound = here.enter(|| open(kind, Domain::IPV6))?;
        bound.bind_device(Some(b"eth0"))?;
        ensure!(send(&bound, b"bound", link(0)) == 0, "{kind:?}: device");
        comes("by device", &socket, Some(b"bound"))?;
        if kind == Kind::Turnstile {
            let other = send(&bound, b"other", link(out + 1));
            ensure!(other == libc::EINVAL, "another scope: {other}");
        }
    }
    Ok(())
}

/// What would have no meaning for messages, or another one, is refused.
pub(super) fn others(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    for domain in [Domain::IPV4, Domain::IPV6] {
        let socket = open_in(&net.hosts[0].ns, Kind::Turnstile, domain)?;
        for name in [
            libc::IP_TOS,
            libc::IP_OPTIONS,
            libc::IP_HDRINCL,
            libc::IP_RECVERR,
            libc::IP_MTU_DISCOVER,
            libc::IP_RECVTTL,
            libc::IP_RECVTOS,
            libc::IP_MULTICAST_TTL,
            libc::IP_TRANSPARENT,
            libc::IP_FREEBIND,
        ] {
            let result = set(&socket, libc::SOL_IP, name, 1);
            ensure!(result == Err(Errno::ENOPROTOOPT), "IP {name}: {result:?}");
        }
        for name in [
            libc::IPV6_TCLASS,
            libc::IPV6_ADDRFORM,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_RECVERR,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_MULTICAST_HOPS,
            libc::IPV6_DONTFRAG,
        ] {
            let result = set(&socket, libc::SOL_IPV6, name, 1);
            ensure!(result == Err(Errno::ENOPROTOOPT), "IPv6 {name}: {result:?}");
        }
        let to = Some(addresses(&net.hosts[1])[usize::from(domain == Domain::IPV6)]);
        for (level, kind) in [
            (libc::SOL_SOCKET, libc::SO_MARK),
            (libc::SOL_SOCKET, libc::SO_PRIORITY),
            (libc::SOL_IP, libc::IP_TOS),
            (libc::SOL_IP, libc::IP_TTL),
        ] {
            let control = item_of(level as u32, kind as u32, &[1, 0, 0, 0]);
            let result = outcome(send_once(&socket, b"message", to, &control, 0));
            ensure!(
                result == libc::EINVAL,
                "ancillary {level}, {kind}: {result}"
            );
        }
    }
    Ok(())
}
