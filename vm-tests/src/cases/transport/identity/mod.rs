// SPDX-License-Identifier: GPL-2.0
//! Whose packets are: a socket's cgroup, filter, owner, mark, device and options mean for messages
//! what they mean for UDP's datagrams. Each case does the same with both, in the same network.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use turnstile_core::transport::uapi::IPPROTO_TURNSTILE;

use super::support::PORT;
use crate::harness::Case;
use crate::netns::Netns;

pub(in crate::cases) mod cgroup;
mod devices;
mod filters;
mod hooks;
mod names;
mod options;
mod paths;

/// Nothing comes after this.
const LONG: Duration = Duration::from_millis(400);

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/identity/cgroup-hooks-ipv4", |_| {
        hooks::denied(false)
    }),
    Case::new("transport/identity/cgroup-hooks-ipv6", |_| {
        hooks::denied(true)
    }),
    Case::new(
        "transport/identity/cgroup-ingress-holds",
        hooks::ingress_holds,
    ),
    Case::new("transport/identity/cgroup-rewrites", hooks::rewrites),
    Case::new("transport/identity/socket-filter", filters::attached),
    Case::new("transport/identity/filter-of-the-right-port", names::reused),
    Case::new(
        "transport/identity/socket-filter-sees-udp",
        filters::sees_udp,
    ),
    Case::new(
        "transport/identity/filter-of-each-ack",
        filters::each_of_a_list,
    ),
    Case::new("transport/identity/netfilter-owner", filters::owner),
    Case::new("transport/identity/two-networks", devices::two_networks),
    Case::new(
        "transport/identity/mark-user-priority",
        devices::mark_user_priority,
    ),
    Case::new("transport/identity/vrf", devices::vrf),
    Case::new("transport/identity/vrf-slaves", devices::vrf_slaves).timeout_s(120),
    Case::new("transport/identity/ports", devices::ports),
    Case::new("transport/identity/under-way", devices::under_way).timeout_s(120),
    Case::new("transport/identity/disconnect", devices::disconnect),
    Case::new("transport/identity/ttl", options::ttl),
    Case::new("transport/identity/no-pmtu-disc", options::no_pmtu_disc),
    Case::new("transport/identity/pktinfo", options::pktinfo),
    Case::new("transport/identity/bind-address-no-port", options::no_port),
    Case::new(
        "transport/identity/v6only-and-scope",
        options::v6only_and_scope,
    ),
    Case::new("transport/identity/other-options", options::others),
    Case::new("transport/identity/two-spines", paths::two_spines).needs(paths::NEEDS),
    Case::new("transport/identity/translated", paths::translated),
];

/// Which sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    Turnstile,
}

const BOTH: [Kind; 2] = [Kind::Udp, Kind::Turnstile];

/// A socket that waits no longer than [`LONG`] for anything.
fn open(kind: Kind, domain: Domain) -> Result<Socket> {
    let socket = match kind {
        Kind::Udp => Socket::new(domain, Type::DGRAM, None),
        Kind::Turnstile => {
            let protocol = Protocol::from(i32::from(IPPROTO_TURNSTILE));
            Socket::new(domain, Type::from(libc::SOCK_RDM), Some(protocol))
        }
    }
    .with_context(|| format!("a socket of {kind:?}"))?;
    socket.set_read_timeout(Some(LONG))?;
    Ok(socket)
}

/// The same in a namespace.
fn open_in(ns: &Netns, kind: Kind, domain: Domain) -> Result<Socket> {
    ns.enter(|| open(kind, domain))
}

/// A socket in a namespace, bound to [`PORT`] of any address of that family.
fn receiver(ns: &Netns, kind: Kind, domain: Domain) -> Result<Socket> {
    let socket = open_in(ns, kind, domain)?;
    socket.bind(&SocketAddr::new(any(domain), PORT).into())?;
    Ok(socket)
}

fn any(domain: Domain) -> IpAddr {
    if domain == Domain::IPV4 {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    }
}

/// What a call came to: 0, or an errno.
fn outcome<T>(result: io::Result<T>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |_| 0)
}

fn send(from: &Socket, bytes: &[u8], to: SocketAddr) -> i32 {
    outcome(from.send_to(bytes, &to.into()))
}

/// What comes, up to 64 KiB of it; `None`: nothing within [`LONG`].
fn next(socket: &Socket) -> Result<Option<(Vec<u8>, SocketAddr)>> {
    let mut bytes = vec![MaybeUninit::uninit(); 1 << 16];
    match socket.recv_from(&mut bytes) {
        Ok((len, from)) => {
            let bytes = bytes[..len].iter().map(|byte| {
                // SAFETY: the kernel has written so many.
                unsafe { byte.assume_init() }
            });
            let from = from.as_socket().context("from no address of IP")?;
            Ok(Some((bytes.collect(), from)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("receiving"),
    }
}

/// That exactly this comes, or nothing.
fn comes(what: &str, socket: &Socket, bytes: Option<&[u8]>) -> Result<()> {
    let came = next(socket)?.map(|(came, _)| came);
    ensure!(
        came.as_deref() == bytes,
        "{what}: {:?} bytes came instead of {:?}",
        came.map(|came| came.len()),
        bytes.map(<[u8]>::len)
    );
    Ok(())
}

/// `setsockopt` of an int.
fn set(socket: &Socket, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

fn set_bytes(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, and that is how many it has.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    Errno::result(done).map(drop)
}
