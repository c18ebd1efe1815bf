// SPDX-License-Identifier: GPL-2.0
//! sock_diag(7) by hand-made requests: what no command line can ask.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{ensure, Context, Result};
use nix::sys::socket::{
    recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag, SockProtocol,
    SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};
use turnstile_core::transport::uapi::IPPROTO_TURNSTILE;

use crate::netns::Netns;

pub(super) const AF_INET: u8 = libc::AF_INET as u8;
pub(super) const AF_INET6: u8 = libc::AF_INET6 as u8;

/// Any state.
pub(super) const ALL: u32 = u32::MAX;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const REQ_BYTECODE: u16 = 1;
const REQ_PROTOCOL: u16 = 3;
/// `struct inet_diag_msg`.
const HEAD: usize = 72;

/// A socket as it is listed.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) family: u8,
    pub(super) state: u8,
    pub(super) port: u16,
    /// `struct inet_diag_sockid`.
    id: Vec<u8>,
    pub(super) uid: u32,
    pub(super) inode: u64,
    attributes: Vec<u8>,
}

impl Entry {
    fn new(body: &[u8]) -> Result<Self> {
        let number = |at: usize| -> Result<u32> {
            let bytes = body.get(at..).and_then(|rest| rest.first_chunk());
            Ok(u32::from_ne_bytes(*bytes.context("an entry is cut off")?))
        };
        Ok(Self {
            family: body[0],
            state: body[1],
            port: u16::from_be_bytes([body[4], body[5]]),
            id: body.get(4..52).context("an entry is cut off")?.to_vec(),
            uid: number(64)?,
            inode: number(68)?.into(),
            attributes: body[HEAD..].to_vec(),
        })
    }

    /// The content of an attribute.
    pub(super) fn attribute(&self, wanted: u16) -> Option<&[u8]> {
        let mut rest = &self.attributes[..];
        while let Some([l0, l1, k0, k1]) = rest.first_chunk::<4>() {
            let len = usize::from(u16::from_ne_bytes([*l0, *l1]));
            let content = rest.get(4..len)?;
            if u16::from_ne_bytes([*k0, *k1]) == wanted {
                return Some(content);
            }
            rest = rest.get(len.next_multiple_of(4)..)?;
        }
        None
    }

    pub(super) fn cookie(&self) -> u64 {
        let bytes = self.id.get(40..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The same socket, but for its cookie.
    pub(super) fn with_cookie(&self, cookie: u64) -> Self {
        let mut other = self.clone();
        other.id.truncate(40);
        other.id.extend(cookie.to_ne_bytes());
        other
    }
}

/// A socket that asks for sockets.
pub(super) struct Diag {
    socket: OwnedFd,
    sequence: u32,
    /// How many packets the last answer took.
    pub(super) packets: u32,
}

impl Diag {
    /// In the calling thread's namespace, with its rights.
    pub(super) fn here() -> Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(30))?;
        Ok(Self {
            socket,
            sequence: 0,
            packets: 0,
        })
    }

    pub(super) fn open(ns: &Netns) -> Result<Self> {
        ns.enter(Self::here)
    }

    /// All sockets of a family in one of these states, with this port (0: any), which the bytecode
    /// lets pass (none: all).
    pub(super) fn list(
        &mut self,
        family: u8,
        states: u32,
        port: u16,
        bytecode: &[u8],
    ) -> Result<Result<Vec<Entry>, i32>> {
        let mut id = vec![0; 40];
        id[..2].copy_from_slice(&port.to_be_bytes());
        id.extend([0xff; 8]);
        self.ask(BY_FAMILY, NLM_F_DUMP, family, states, &id, bytecode)
    }

    /// This very socket.
    pub(super) fn get(&mut self, entry: &Entry) -> Result<Result<Entry, i32>> {
        let found = self.ask(BY_FAMILY, NLM_F_ACK, entry.family, ALL, &entry.id, &[])?;
        Ok(match found {
            Ok(mut found) => {
                ensure!(found.len() == 1, "{} answers", found.len());
                Ok(found.remove(0))
            }
            Err(errno) => Err(errno),
        })
    }

    /// Ends it; the errno.
    pub(super) fn destroy(&mut self, entry: &Entry) -> Result<i32> {
        let done = self.ask(DESTROY, NLM_F_ACK, entry.family, ALL, &entry.id, &[])?;
        Ok(done.err().unwrap_or(0))
    }

    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        family: u8,
        states: u32,
        id: &[u8],
        bytecode: &[u8],
    ) -> Result<Result<Vec<Entry>, i32>> {
        self.sequence += 1;
        // The transport's messages; INET_DIAG_INFO.
        let mut body = vec![family, 255, 1 << 1, 0];
        body.extend(states.to_ne_bytes());
        body.extend(id);
        let mut put = |kind: u16, content: &[u8]| {
            body.extend(((4 + content.len()) as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(content);
        };
        put(REQ_PROTOCOL, &u32::from(IPPROTO_TURNSTILE).to_ne_bytes());
        if !bytecode.is_empty() {
            put(REQ_BYTECODE, bytecode);
        }
        let mut request = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        request.extend(kind.to_ne_bytes());
        request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend(body);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;

        let mut found = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        self.packets = 0;
        loop {
            let len = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            self.packets += 1;
            let mut rest = &buffer[..len];
            while let Some(head) = rest.first_chunk::<16>() {
                let len = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let body = rest.get(16..len).context("a message is cut off")?;
                let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code));
                match u16::from_ne_bytes([head[4], head[5]]) {
                    NLMSG_ERROR | NLMSG_DONE => {
                        let code = code.unwrap_or(0);
                        return Ok(if code < 0 { Err(-code) } else { Ok(found) });
                    }
                    _ => found.push(Entry::new(body)?),
                }
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}
