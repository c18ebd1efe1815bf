// SPDX-License-Identifier: GPL-2.0
//! Numbers, lengths, addresses, ancillary data: mostly right, at times not.

use std::net::{Ipv4Addr, Ipv6Addr};

use turnstile_core::transport::uapi::{ancillary, SOL_TURNSTILE};

use crate::rng::Rng;

/// Ports that are bound and sent to: few, so that they meet.
const PORTS: u64 = 3;
const FIRST_PORT: u64 = 4000;

/// Where the hosts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) v4: [Ipv4Addr; 2],
    pub(super) v6: [Ipv6Addr; 2],
}

/// A socket address as calls take it.
pub(super) struct Address {
    pub(super) storage: libc::sockaddr_storage,
    pub(super) len: libc::socklen_t,
}

/// An address for a socket of this domain: mostly a right one.
pub(super) fn address(rng: &mut Rng, places: &Places, domain: i32) -> Address {
    if rng.one_in(10) {
        return odd_address(rng);
    }
    let port = (FIRST_PORT + rng.range(0..=PORTS)) as u16;
    let port = if rng.one_in(20) { 0 } else { port };
    let v4 = match rng.index(8) {
        0 | 1 => Ipv4Addr::LOCALHOST,
        2 => Ipv4Addr::UNSPECIFIED,
        other => places.v4[other % 2],
    };
    if domain == libc::AF_INET {
        return v4_address(v4, port);
    }
    let v6 = match rng.index(10) {
        0 | 1 => Ipv6Addr::LOCALHOST,
        2 => Ipv6Addr::UNSPECIFIED,
        3 => v4.to_ipv6_mapped(),
        other => places.v6[other % 2],
    };
    v6_address(v6, port, 0)
}

/// An address to bind to: mostly any, so that who sends to it finds it.
pub(super) fn own_address(rng: &mut Rng, places: &Places, domain: i32) -> Address {
    if rng.one_in(4) {
        return address(rng, places, domain);
    }
    let port = (FIRST_PORT + rng.range(0..=PORTS)) as u16;
    if domain == libc::AF_INET {
        v4_address(Ipv4Addr::UNSPECIFIED, port)
    } else {
        v6_address(Ipv6Addr::UNSPECIFIED, port, 0)
    }
}

fn v4_address(ip: Ipv4Addr, port: u16) -> Address {
    // SAFETY: all zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let sin = (&raw mut storage).cast::<libc::sockaddr_in>();
    // SAFETY: a sockaddr_storage has room and alignment for any address.
    let sin = unsafe { &mut *sin };
    sin.sin_family = libc::AF_INET as libc::sa_family_t;
    sin.sin_port = port.to_be();
    sin.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
    Address {
        storage,
        len: size_of::<libc::sockaddr_in>() as libc::socklen_t,
    }
}

fn v6_address(ip: Ipv6Addr, port: u16, scope: u32) -> Address {
    // SAFETY: all zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let sin6 = (&raw mut storage).cast::<libc::sockaddr_in6>();
    // SAFETY: a sockaddr_storage has room and alignment for any address.
    let sin6 = unsafe { &mut *sin6 };
    sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    sin6.sin6_port = port.to_be();
    sin6.sin6_scope_id = scope;
    sin6.sin6_addr.s6_addr = ip.octets();
    Address {
        storage,
        len: size_of::<libc::sockaddr_in6>() as libc::socklen_t,
    }
}

/// Port 0 of the loopback device.
pub(super) fn loopback(domain: i32) -> Address {
    if domain == libc::AF_INET {
        v4_address(Ipv4Addr::LOCALHOST, 0)
    } else {
        v6_address(Ipv6Addr::LOCALHOST, 0, 0)
    }
}

/// One that nobody has, of any family and length.
fn odd_address(rng: &mut Rng) -> Address {
    let port = rng.range(0..=0xffff) as u16;
    let mut address = match rng.index(6) {
        0 => v4_address(Ipv4Addr::BROADCAST, port),
        1 => v4_address(Ipv4Addr::new(10, 0, 0, rng.range(0..=255) as u8), port),
        2 => v4_address(Ipv4Addr::new(224, 0, 0, 1), port),
        3 => v6_address(
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, rng.range(0..=3) as u16),
            port,
            rng.range(0..=3) as u32,
        ),
        4 => v6_address(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), port, 2),
        _ => v6_address(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9), port, 0),
    };
    if rng.one_in(3) {
        address.storage.ss_family = rng.range(0..=45) as libc::sa_family_t;
    }
    if rng.one_in(3) {
        let most = size_of::<libc::sockaddr_storage>();
        address.len = rng.index(most + 1) as libc::socklen_t;
    }
    address
}

/// A number of the kind that code forgets.
pub(super) fn number(rng: &mut Rng) -> u64 {
    match rng.index(6) {
        0 => 0,
        1 => 1 << rng.range(0..=63),
        2 => (1_u64 << rng.range(0..=63)).wrapping_sub(1),
        3 => u64::MAX,
        _ => rng.range(0..=300),
    }
}

/// A length of a buffer.
pub(super) fn length(rng: &mut Rng) -> usize {
    match rng.index(8) {
        0 => 0,
        1 => 1,
        2 => 100_000,
        3 => 1450,
        _ => rng.range(1..=5000) as usize,
    }
}

/// Ancillary data for a message of `len` bytes: some items.
pub(super) fn control(rng: &mut Rng, len: usize, places: &Places, fd: i32) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..rng.range(1..=3) {
        if rng.one_in(6) {
            odd_item(rng, &mut all, fd);
        } else {
            right_item(rng, &mut all, len, places);
        }
    }
    all
}

/// Appends a `struct cmsghdr` and what follows it.
fn item(all: &mut Vec<u8>, level: i32, kind: i32, content: &[u8]) {
    item_of_length(all, 16 + content.len() as u64, level, kind, content);
}

fn item_of_length(all: &mut Vec<u8>, len: u64, level: i32, kind: i32, content: &[u8]) {
    all.extend_from_slice(&len.to_ne_bytes());
    all.extend_from_slice(&level.to_ne_bytes());
    all.extend_from_slice(&kind.to_ne_bytes());
    all.extend_from_slice(content);
    all.resize(all.len().next_multiple_of(8), 0);
}

fn right_item(rng: &mut Rng, all: &mut Vec<u8>, len: usize, places: &Places) {
    const IPV6_PKTINFO: i32 = 50;
    const IP_PKTINFO: i32 = 8;
    let own = SOL_TURNSTILE as i32;
    let number = |rng: &mut Rng, most: u64| (rng.range(0..=most) as u32).to_ne_bytes();
    match rng.index(8) {
        0 | 1 => {
            let whole = match rng.index(4) {
                0 => len as u64,
                1 => len as u64 + rng.range(0..=200_000),
                2 => rng.range(1..=(1 << 30) - 1),
                _ => len.max(1) as u64 * 2,
            };
            let kind = ancillary::LENGTH as i32;
            item(all, own, kind, &whole.to_ne_bytes());
        }
        2 => {
            let bits = rng.range(0..=40);
            let due = rng.range(0..=1 << bits);
            item(all, own, ancillary::DEADLINE as i32, &due.to_ne_bytes());
        }
        3 => item(all, own, ancillary::COFLOW as i32, &number(rng, 5)),
        4 => item(all, own, ancillary::PRIORITY as i32, &number(rng, 8)),
        5 => item(all, own, ancillary::UNKNOWN_SIZE as i32, &number(rng, 1)),
        6 => {
            // struct in_pktinfo: device, source, destination.
            let mut info = number(rng, 3).to_vec();
            info.extend_from_slice(&places.v4[rng.index(2)].octets());
            info.extend_from_slice(&[0; 4]);
            item(all, libc::SOL_IP, IP_PKTINFO, &info);
        }
        _ => {
            // struct in6_pktinfo: source, device.
            let mut info = places.v6[rng.index(2)].octets().to_vec();
            info.extend_from_slice(&number(rng, 3));
            item(all, libc::SOL_IPV6, IPV6_PKTINFO, &info);
        }
    }
}

fn odd_item(rng: &mut Rng, all: &mut Vec<u8>, fd: i32) {
    let content = number(rng).to_ne_bytes();
    let content = &content[..*rng.pick(&[0, 4, 4, 8, 8, 8])];
    let len = 16 + content.len() as u64;
    let len = if rng.one_in(4) { number(rng) } else { len };
    let levels = [
        SOL_TURNSTILE as i32,
        libc::SOL_IP,
        libc::SOL_IPV6,
        libc::SOL_SOCKET,
        libc::SOL_UDP,
    ];
    let level = *rng.pick(&levels);
    if level == libc::SOL_SOCKET && rng.one_in(2) {
        item(all, level, libc::SCM_RIGHTS, &fd.to_ne_bytes());
    } else {
        item_of_length(all, len, level, rng.range(0..=60) as i32, content);
    }
}
