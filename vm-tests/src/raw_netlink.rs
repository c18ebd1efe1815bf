// SPDX-License-Identifier: GPL-2.0
//! Hand-made netlink messages: attributes that no well-behaved program sends, the kernel's answer
//! to them, and dumps as bytes. Fast, too: no process is started.
//!
//! [`RawNetlink`] is the socket, [`Tc`] the traffic control of one device, [`kinds`] the options of
//! stock qdiscs, [`Generic`] a generic netlink family.

mod device;
mod generic;
pub mod kinds;
mod object;

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{bail, ensure, Context, Result};
use nix::sys::socket::{
    bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, NetlinkAddr, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::netns::Netns;

pub use device::Tc;
pub use generic::{Generic, Reply, Request as GenericRequest};
pub use object::{Object, Stats};

/// `TCA_KIND`.
pub const TCA_KIND: u16 = 1;
/// `TCA_OPTIONS`.
pub const TCA_OPTIONS: u16 = 2;
/// `NLA_F_NESTED`.
pub const NESTED: u16 = 0x8000;
/// `TC_H_ROOT`.
pub const ROOT: u32 = 0xffff_ffff;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// The answer goes to who asked, too: without it, only to those who listen to all changes.
const NLM_F_ECHO: u16 = 8;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_DUMP: u16 = 0x300;
const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;
/// The error carries attributes.
const NLM_F_ACK_TLVS: u16 = 0x200;
/// The error does not repeat the request.
const NLM_F_CAPPED: u16 = 0x100;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;
const HEADER: usize = 16;
/// `struct tcmsg`.
const TCMSG: usize = 20;

/// What is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `tc qdisc add`.
    AddQdisc,
    /// `tc qdisc replace`.
    ReplaceQdisc,
    /// `tc qdisc change`.
    ChangeQdisc,
    /// `tc qdisc del`.
    DeleteQdisc,
    /// `tc class add`.
    AddClass,
    /// `tc class change`.
    ChangeClass,
    /// `tc class del`.
    DeleteClass,
    /// `tc filter add`.
    AddFilter,
    /// `tc filter del`; without attributes and info: all filters of the parent.
    DeleteFilter,
}

impl Request {
    /// Message type and flags.
    fn code(self) -> (u16, u16) {
        const NEW_QDISC: u16 = 36;
        const DEL_QDISC: u16 = 37;
        const NEW_CLASS: u16 = 40;
        const DEL_CLASS: u16 = 41;
        const NEW_FILTER: u16 = 44;
        const DEL_FILTER: u16 = 45;
        match self {
            Self::AddQdisc => (NEW_QDISC, NLM_F_CREATE | NLM_F_EXCL),
            Self::ReplaceQdisc => (NEW_QDISC, NLM_F_CREATE | NLM_F_REPLACE),
            Self::ChangeQdisc => (NEW_QDISC, 0),
            Self::DeleteQdisc => (DEL_QDISC, 0),
            Self::AddClass => (NEW_CLASS, NLM_F_CREATE | NLM_F_EXCL),
            Self::ChangeClass => (NEW_CLASS, 0),
            Self::DeleteClass => (DEL_CLASS, 0),
            Self::AddFilter => (NEW_FILTER, NLM_F_CREATE | NLM_F_EXCL),
            Self::DeleteFilter => (DEL_FILTER, 0),
        }
    }
}

/// The kernel's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0, or a positive errno.
    pub errno: i32,
    /// The message beside it.
    pub text: String,
    /// Where in the request the offending attribute is, in bytes from the start of the message.
    pub offset: Option<u32>,
}

impl Answer {
    /// That the kernel did as asked.
    ///
    /// # Errors
    /// With its words, when it did not.
    pub fn success(self) -> Result<()> {
        ensure!(
            self.errno == 0,
            "refused: {} ({})",
            std::io::Error::from_raw_os_error(self.errno),
            self.text
        );
        Ok(())
    }
}

/// One attribute as bytes: length, type, content, padding to 4.
pub fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    attribute_of_length(kind, content, content.len() + 4)
}

/// An attribute that lies about its length.
pub fn attribute_of_length(kind: u16, content: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 8);
    bytes.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A `u32` attribute.
pub fn attribute_u32(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

/// A `u64` attribute.
pub fn attribute_u64(kind: u16, value: u64) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

/// The attributes that make a `turnstile` qdisc of these options (attributes inside `TCA_OPTIONS`).
pub fn turnstile(options: &[u8]) -> Vec<u8> {
    [
        attribute(TCA_KIND, b"turnstile\0"),
        attribute(TCA_OPTIONS | NESTED, options),
    ]
    .concat()
}

/// A socket to rtnetlink, or to generic netlink, in one namespace.
#[derive(Debug)]
pub struct RawNetlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

nix::setsockopt_impl!(
    ExtendedAck,
    libc::SOL_NETLINK,
    libc::NETLINK_EXT_ACK,
    libc::c_int,
    sockopt::SetStruct<libc::c_int>
);

/// `NETLINK_EXT_ACK`: errors come with text.
#[derive(Clone, Copy, Debug)]
struct ExtendedAck;

impl RawNetlink {
    /// Opens it inside `ns`.
    ///
    /// # Errors
    /// When the kernel gives no such socket.
    pub fn open(ns: &Netns) -> Result<Self> {
        ns.enter(|| Self::open_here(SockProtocol::NetlinkRoute))
    }

    /// Opens one in the calling thread's namespace.
    fn open_here(protocol: SockProtocol) -> Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )
        .context("making a netlink socket")?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).context("binding a netlink socket")?;
        setsockopt(&socket, ExtendedAck, &1).context("setting NETLINK_EXT_ACK")?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(30))
            .context("setting SO_RCVTIMEO")?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; 1 << 16],
        })
    }

    /// Sends a request about a qdisc or class and waits for the answer. `attributes` are put
    /// behind the message's header as they are.
    ///
    /// # Errors
    /// When the socket fails; a refusal by the kernel is an [`Answer`].
    pub fn request(
        &mut self,
        what: Request,
        ifindex: i32,
        parent: u32,
        handle: u32,
        attributes: &[u8],
    ) -> Result<Answer> {
        self.request_with_info(what, ifindex, parent, handle, 0, attributes)
    }

    /// As [`RawNetlink::request`], with `tcm_info`: of a filter, its priority and protocol.
    ///
    /// # Errors
    /// As [`RawNetlink::request`].
    pub fn request_with_info(
        &mut self,
        what: Request,
        ifindex: i32,
        parent: u32,
        handle: u32,
        info: u32,
        attributes: &[u8],
    ) -> Result<Answer> {
        let (kind, flags) = what.code();
        let tcmsg = [handle, parent, info];
        self.send(kind, flags | NLM_F_ACK, ifindex, tcmsg, attributes)?;
        self.answer()
    }

    /// Sends a request of any type: what is behind netlink's own header. Waits for the answer.
    ///
    /// # Errors
    /// As [`RawNetlink::request`].
    pub fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<Answer> {
        self.send_message(kind, flags | NLM_F_REQUEST | NLM_F_ACK, body)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer> {
        loop {
            for message in self.receive()? {
                if message.kind == NLMSG_ERROR && message.sequence == self.sequence {
                    return parse_answer(&message);
                }
            }
        }
    }

    /// The attributes of every qdisc of a device, as bytes, statistics left out: what `show` shows.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn qdiscs(&mut self, ifindex: i32) -> Result<Vec<Vec<u8>>> {
        /// `TCA_STATS`, `TCA_STATS2`, `TCA_XSTATS`: what changes with traffic.
        const STATISTICS: [u16; 3] = [3, 7, 4];
        let found = self.dump(GET_QDISC, ifindex, 0)?;
        let bare = found.iter().map(|body| {
            let mut kept = body[..TCMSG].to_vec();
            for (kind, content) in attributes_of(&body[TCMSG..]) {
                if !STATISTICS.contains(&(kind & 0x3fff)) {
                    kept.extend_from_slice(&attribute(kind, content));
                }
            }
            kept
        });
        Ok(bare.collect())
    }

    /// All objects of a device, or of one qdisc, that this request lists, each from its
    /// `struct tcmsg` on.
    fn dump(&mut self, request: u16, ifindex: i32, parent: u32) -> Result<Vec<Vec<u8>>> {
        self.send(request, NLM_F_DUMP, ifindex, [0, parent, 0], &[])?;
        let mut found = Vec::new();
        loop {
            for message in self.receive()? {
                match message.kind {
                    NLMSG_DONE => {
                        let code = message.body.first_chunk::<4>();
                        let code = code.map_or(0, |code| i32::from_ne_bytes(*code));
                        ensure!(code >= 0, "the kernel broke off a list: errno {}", -code);
                        return Ok(found);
                    }
                    NLMSG_ERROR => bail!("dump refused: {:?}", parse_answer(&message)?),
                    _ => {}
                }
                // The kernel lists the qdiscs of all devices.
                if message.sequence == self.sequence
                    && message.body.get(4..8) == Some(&ifindex.to_ne_bytes()[..])
                    && message.body.len() >= TCMSG
                {
                    found.push(message.body);
                }
            }
        }
    }

    /// One object, from its `struct tcmsg` on, or why not.
    fn get(&mut self, request: u16, ifindex: i32, handle: u32) -> Result<Result<Vec<u8>, Answer>> {
        self.send(
            request,
            NLM_F_ACK | NLM_F_ECHO,
            ifindex,
            [handle, 0, 0],
            &[],
        )?;
        let mut found = None;
        loop {
            for message in self.receive()? {
                if message.sequence != self.sequence {
                    continue;
                }
                if message.kind != NLMSG_ERROR {
                    found = Some(message.body);
                    continue;
                }
                let answer = parse_answer(&message)?;
                if answer.errno != 0 {
                    return Ok(Err(answer));
                }
                return Ok(Ok(found.context("rtnetlink gave nothing")?));
            }
        }
    }

    fn send(
        &mut self,
        kind: u16,
        flags: u16,
        ifindex: i32,
        handle_parent_info: [u32; 3],
        attributes: &[u8],
    ) -> Result<()> {
        // struct tcmsg: family and padding, device, handle, parent, info.
        let mut body = vec![0; 4];
        body.extend_from_slice(&ifindex.to_ne_bytes());
        for word in handle_parent_info {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body.extend_from_slice(attributes);
        self.send_message(kind, flags | NLM_F_REQUEST, &body)
    }

    /// Sends a message, with the next sequence number.
    fn send_message(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + body.len()).context("message length")?;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&self.sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(body);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).context("sending to netlink")?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<Message>> {
        let len = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())
            .context("waiting for netlink's answer")?;
        let mut rest = &self.buffer[..len];
        let mut messages = Vec::new();
        while let Some(header) = rest.first_chunk::<HEADER>() {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            ensure!(
                (HEADER..=rest.len()).contains(&length),
                "netlink's message of {length} bytes is cut"
            );
            messages.push(Message {
                kind: u16::from_ne_bytes([header[4], header[5]]),
                flags: u16::from_ne_bytes([header[6], header[7]]),
                sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
                body: rest[HEADER..length].to_vec(),
            });
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(messages)
    }
}

/// The index of a device.
///
/// # Errors
/// When there is none of that name.
pub fn ifindex(ns: &Netns, dev: &str) -> Result<i32> {
    ns.enter(|| {
        let index =
            nix::net::if_::if_nametoindex(dev).with_context(|| format!("no device {dev}"))?;
        i32::try_from(index).context("device index")
    })
}

struct Message {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: Vec<u8>,
}

/// The attributes in `bytes`, as far as they are well-formed; their types with all flags.
pub fn attributes_of(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some(&[l0, l1, k0, k1]) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(content) = bytes.get(4..length) else {
            break;
        };
        found.push((u16::from_ne_bytes([k0, k1]), content));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn parse_answer(message: &Message) -> Result<Answer> {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk::<4>()
            .map(|word| i32::from_ne_bytes(*word))
    };
    let mut answer = Answer {
        errno: -word(&message.body).context("an error without a number")?,
        ..Answer::default()
    };
    if message.flags & NLM_F_ACK_TLVS == 0 {
        return Ok(answer);
    }
    // Behind the number the request's header is repeated, and its body too unless capped.
    let repeated = if message.flags & NLM_F_CAPPED != 0 {
        HEADER
    } else {
        usize::try_from(word(&message.body[4..]).context("an error without the request")?)
            .context("length")?
    };
    let attributes = message
        .body
        .get(4 + repeated.next_multiple_of(4)..)
        .unwrap_or_default();
    for (kind, content) in attributes_of(attributes) {
        match kind & 0x3fff {
            NLMSGERR_ATTR_MSG => {
                answer.text = String::from_utf8_lossy(content)
                    .trim_end_matches('\0')
                    .to_owned();
            }
            NLMSGERR_ATTR_OFFS => {
                answer.offset = word(content).and_then(|offset| u32::try_from(offset).ok())
            }
            _ => {}
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let bytes = [attribute(1, b"abc"), attribute(2, &[])].concat();
        assert_eq!(bytes.len(), 12);
        assert_eq!(attributes_of(&bytes), [(1, &b"abc"[..]), (2, &[][..])]);
        assert!(attributes_of(&attribute_of_length(1, &[0; 4], 64)).is_empty());
    }
}
