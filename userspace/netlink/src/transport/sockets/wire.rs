// SPDX-License-Identifier: GPL-2.0
//! Sockets and requests for them as bytes: linux/inet_diag.h.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use turnstile_core::transport::uapi::IPPROTO_TURNSTILE;

use super::{Filter, Memory, Socket, State};
use crate::attr::{attributes, put_u32, Attribute, Malformed};

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

// States as the kernel numbers them.
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const CLOSE: u8 = 7;

/// In `sdiag_protocol`, of which the transport's number is no part: see the attribute.
const NO_PROTOCOL: u8 = 255;
const REQ_PROTOCOL: u16 = 3;

// Attributes of the answer.
const MEMINFO: u16 = 1;
const INFO: u16 = 2;
const SKMEMINFO: u16 = 7;
const MARK: u16 = 15;
const CGROUP_ID: u16 = 21;

/// `struct inet_diag_msg`.
const HEAD: usize = 72;
/// Any cookie.
const NO_COOKIE: u64 = u64::MAX;

/// A request for all sockets of a version of IP that a filter wants.
pub(super) fn list(ipv6: bool, filter: &Filter) -> Vec<u8> {
    let bit = |state: &State| match state {
        State::Unbound | State::Bound => 1 << CLOSE,
        State::Connected => 1 << ESTABLISHED,
        State::Closing => 1 << FIN_WAIT1,
    };
    let wanted = State::ALL.iter().filter(|state| filter.wants(**state));
    let states = wanted.fold(0_u32, |all, state| all | bit(state));
    let extensions: u16 = if filter.memory {
        (1 << (INFO - 1)) | (1 << (MEMINFO - 1)) | (1 << (SKMEMINFO - 1))
    } else {
        1 << (INFO - 1)
    };
    let mut to = head(ipv6, extensions as u8, states);
    to.extend(filter.port.to_be_bytes());
    to.extend(filter.peer_port.to_be_bytes());
    to.extend([0; 36]);
    to.extend(NO_COOKIE.to_ne_bytes());
    put_u32(&mut to, REQ_PROTOCOL, IPPROTO_TURNSTILE.into());
    to
}

/// A request about this very socket.
pub(super) fn exact(socket: &Socket) -> Vec<u8> {
    let mut to = head(socket.ipv6, 1 << (INFO - 1), u32::MAX);
    to.extend(socket.local_port.to_be_bytes());
    to.extend(socket.peer_port.to_be_bytes());
    for ip in [socket.local, socket.peer] {
        let mut bytes = [0; 16];
        match ip {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        to.extend(bytes);
    }
    to.extend(socket.device.to_ne_bytes());
    to.extend(socket.cookie.to_ne_bytes());
    put_u32(&mut to, REQ_PROTOCOL, IPPROTO_TURNSTILE.into());
    to
}

fn head(ipv6: bool, extensions: u8, states: u32) -> Vec<u8> {
    let family = if ipv6 { AF_INET6 } else { AF_INET };
    let mut to = vec![family, NO_PROTOCOL, extensions, 0];
    to.extend(states.to_ne_bytes());
    to
}

/// The bytes from a place on; `None`: there are not so many.
fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn address(ipv6: bool, bytes: &[u8], from: usize) -> Option<IpAddr> {
    Some(if ipv6 {
        Ipv6Addr::from(at::<16>(bytes, from)?).into()
    } else {
        Ipv4Addr::from(at::<4>(bytes, from)?).into()
    })
}

fn number(bytes: &[u8], from: usize) -> Option<u32> {
    at(bytes, from).map(u32::from_ne_bytes)
}

/// The part of an answer that is always there.
fn fixed(bytes: &[u8]) -> Option<Socket> {
    let ipv6 = match *bytes.first()? {
        AF_INET => false,
        AF_INET6 => true,
        _ => return None,
    };
    let local_port = u16::from_be_bytes(at(bytes, 4)?);
    let state = match *bytes.get(1)? {
        ESTABLISHED => State::Connected,
        FIN_WAIT1 => State::Closing,
        _ if local_port == 0 => State::Unbound,
        _ => State::Bound,
    };
    Some(Socket {
        ipv6,
        state,
        local: address(ipv6, bytes, 8)?,
        local_port,
        peer: address(ipv6, bytes, 24)?,
        peer_port: u16::from_be_bytes(at(bytes, 6)?),
        device: number(bytes, 40)?,
        uid: number(bytes, 64)?,
        inode: number(bytes, 68)?,
        cookie: u64::from_ne_bytes(at(bytes, 44)?),
        readable: number(bytes, 56)?,
        unacknowledged: number(bytes, 60)?,
        whole: 0,
        incoming: 0,
        outgoing: 0,
        mark: None,
        cgroup: None,
        memory: None,
    })
}

/// The socket in an answer.
///
/// # Errors
/// It is cut off.
pub fn decode(bytes: &[u8]) -> Result<Socket, Malformed> {
    let mut socket = fixed(bytes).ok_or(Malformed::Truncated(bytes.len()))?;
    let mut memory = Memory::default();
    for attribute in attributes(bytes.get(HEAD..).unwrap_or_default()) {
        let attribute = attribute?;
        let part = |from: usize, name| part(&attribute, from, name);
        match attribute.number {
            INFO => {
                socket.whole = part(0, "INET_DIAG_INFO")?;
                socket.incoming = part(4, "INET_DIAG_INFO")?;
                socket.outgoing = part(8, "INET_DIAG_INFO")?;
            }
            MARK => socket.mark = Some(attribute.u32("INET_DIAG_MARK")?),
            CGROUP_ID => socket.cgroup = Some(attribute.u64("INET_DIAG_CGROUP_ID")?),
            SKMEMINFO => {
                // SK_MEMINFO_RMEM_ALLOC, RCVBUF, WMEM_ALLOC, SNDBUF, FWD_ALLOC
                memory.receive = part(0, "INET_DIAG_SKMEMINFO")?;
                memory.receive_buffer = part(4, "INET_DIAG_SKMEMINFO")?;
                memory.send = part(8, "INET_DIAG_SKMEMINFO")?;
                memory.send_buffer = part(12, "INET_DIAG_SKMEMINFO")?;
                memory.ahead = part(16, "INET_DIAG_SKMEMINFO")?;
                socket.memory = Some(memory);
            }
            _ => {}
        }
    }
    Ok(socket)
}

fn part(attribute: &Attribute<'_>, from: usize, name: &'static str) -> Result<u32, Malformed> {
    number(attribute.payload, from).ok_or_else(|| attribute.malformed(name))
}
