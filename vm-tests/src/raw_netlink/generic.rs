// SPDX-License-Identifier: GPL-2.0
//! Generic netlink: one family, its commands, dumps and events.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt, SockProtocol};
use nix::sys::time::{TimeVal, TimeValLike};

use super::{
    attribute, attributes_of, parse_answer, Answer, Message, RawNetlink, NLMSG_DONE, NLMSG_ERROR,
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST,
};
use crate::netns::Netns;

/// `struct genlmsghdr`.
const GENL_HEADER: usize = 4;
/// The flag of a dump that is no picture of one moment.
const NLM_F_DUMP_INTR: u16 = 0x10;
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// The bits of an attribute's type that are its number.
const NUMBER: u16 = 0x3fff;

nix::setsockopt_impl!(
    AddMembership,
    libc::SOL_NETLINK,
    libc::NETLINK_ADD_MEMBERSHIP,
    libc::c_int,
    sockopt::SetStruct<libc::c_int>
);

/// `NETLINK_ADD_MEMBERSHIP`: what is sent to a group comes in.
#[derive(Clone, Copy, Debug)]
struct AddMembership;

/// A message of the family's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its command.
    pub command: u8,
    /// `NLM_F_DUMP_INTR` is set.
    pub interrupted: bool,
    /// Attributes by number; of several with one number the last.
    pub attributes: BTreeMap<u16, Vec<u8>>,
}

impl Reply {
    fn read(message: &Message) -> Result<Self> {
        let (head, attributes) = message
            .body
            .split_at_checked(GENL_HEADER)
            .context("a cut struct genlmsghdr")?;
        Ok(Self {
            command: head[0],
            interrupted: message.flags & NLM_F_DUMP_INTR != 0,
            attributes: attributes_of(attributes)
                .into_iter()
                .map(|(number, content)| (number & NUMBER, content.to_vec()))
                .collect(),
        })
    }

    /// A number of 2, 4 or 8 bytes; `None` if there is no such attribute.
    pub fn number(&self, attribute: u16) -> Option<u64> {
        match self.attributes.get(&attribute)?.as_slice() {
            &[a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            &[a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            bytes => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }
}

/// A request, every field of which can be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command.
    pub command: u8,
    /// Netlink's flags; `NLM_F_REQUEST` must be among them.
    pub flags: u16,
    /// The family's version.
    pub version: u8,
    /// Must be zero.
    pub reserved: u16,
    /// What is behind the header.
    pub attributes: &'a [u8],
}

impl<'a> Request<'a> {
    /// A well-formed one that asks for an acknowledgement.
    pub fn new(command: u8, attributes: &'a [u8]) -> Self {
        Self {
            command,
            flags: NLM_F_REQUEST | NLM_F_ACK,
            version: 1,
            reserved: 0,
            attributes,
        }
    }

    fn body(&self) -> Vec<u8> {
        let mut body = vec![self.command, self.version];
        body.extend_from_slice(&self.reserved.to_ne_bytes());
        body.extend_from_slice(self.attributes);
        body
    }
}

/// A socket for a family in one namespace.
#[derive(Debug)]
pub struct Generic {
    netlink: RawNetlink,
    family: u16,
    groups: BTreeMap<String, u32>,
}

impl Generic {
    /// Finds a family by its name. The kernel loads the module that has it.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(ns: &Netns, family: &str) -> Result<Self> {
        ns.enter(|| Self::open_here(family))
    }

    /// As [`Generic::open`], in the calling thread's namespace and with its rights.
    ///
    /// # Errors
    /// As [`Generic::open`].
    pub fn open_here(family: &str) -> Result<Self> {
        let netlink = RawNetlink::open_here(SockProtocol::NetlinkGeneric)?;
        let mut generic = Self {
            netlink,
            family: CONTROLLER,
            groups: BTreeMap::new(),
        };
        let name = attribute(FAMILY_NAME, &[family.as_bytes(), &[0]].concat());
        let (replies, answer) = generic.request(&Request::new(GET_FAMILY, &name))?;
        answer
            .success()
            .with_context(|| format!("no family {family}"))?;
        let reply = replies.first().context("no answer about the family")?;
        generic.family = u16::try_from(reply.number(FAMILY_ID).context("no family id")?)?;
        let groups = reply.attributes.get(&GROUPS);
        for (_, group) in groups.map_or(Vec::new(), |groups| attributes_of(groups)) {
            let parts: BTreeMap<u16, &[u8]> = attributes_of(group).into_iter().collect();
            let name = parts.get(&GROUP_NAME).context("a group without a name")?;
            let id = parts
                .get(&GROUP_ID)
                .and_then(|id| id.first_chunk())
                .context("a group without a number")?;
            generic.groups.insert(
                String::from_utf8_lossy(name)
                    .trim_end_matches('\0')
                    .to_owned(),
                u32::from_ne_bytes(*id),
            );
        }
        Ok(generic)
    }

    /// The family's number.
    pub fn family(&self) -> u16 {
        self.family
    }

    /// Sends a request and waits for the acknowledgement; also gives the messages that came before
    /// it.
    ///
    /// # Errors
    /// When the socket fails; a refusal is an [`Answer`].
    pub fn request(&mut self, request: &Request<'_>) -> Result<(Vec<Reply>, Answer)> {
        self.netlink
            .send_message(self.family, request.flags, &request.body())?;
        let mut replies = Vec::new();
        loop {
            for message in self.netlink.receive()? {
                if message.sequence != self.netlink.sequence {
                    continue;
                }
                if message.kind == NLMSG_ERROR {
                    return Ok((replies, parse_answer(&message)?));
                }
                // What a dump ends with has no other answer.
                if message.kind == NLMSG_DONE {
                    return Ok((replies, Answer::default()));
                }
                replies.push(Reply::read(&message)?);
            }
        }
    }

    /// A command that answers with one message.
    ///
    /// # Errors
    /// When it is refused, or answered otherwise.
    pub fn read(&mut self, command: u8) -> Result<Reply> {
        let (mut replies, answer) = self.request(&Request::new(command, &[]))?;
        answer.success()?;
        ensure!(replies.len() == 1, "{} answers to a read", replies.len());
        replies.pop().context("no answer")
    }

    /// All messages of a dump. The second value is how many times the kernel was asked for more.
    ///
    /// # Errors
    /// When it is refused or broken off.
    pub fn dump(&mut self, command: u8) -> Result<(Vec<Reply>, usize)> {
        let request = Request {
            flags: NLM_F_REQUEST | NLM_F_DUMP,
            ..Request::new(command, &[])
        };
        self.netlink
            .send_message(self.family, request.flags, &request.body())?;
        let (mut replies, mut parts) = (Vec::new(), 0);
        loop {
            parts += 1;
            for message in self.netlink.receive()? {
                if message.sequence != self.netlink.sequence {
                    continue;
                }
                match message.kind {
                    NLMSG_DONE => {
                        let code = message.body.first_chunk::<4>();
                        let code = code.map_or(0, |code| i32::from_ne_bytes(*code));
                        ensure!(code >= 0, "the kernel broke off a dump: errno {}", -code);
                        return Ok((replies, parts));
                    }
                    NLMSG_ERROR => {
                        parse_answer(&message)?.success()?;
                    }
                    _ => replies.push(Reply::read(&message)?),
                }
            }
        }
    }

    /// Listens to a group from now on.
    ///
    /// # Errors
    /// When the family has no such group.
    pub fn listen(&mut self, group: &str) -> Result<()> {
        let id = *self
            .groups
            .get(group)
            .with_context(|| format!("no group {group} among {:?}", self.groups))?;
        setsockopt(
            &self.netlink.socket,
            AddMembership,
            &libc::c_int::try_from(id)?,
        )
        .context("NETLINK_ADD_MEMBERSHIP")?;
        Ok(())
    }

    /// How many bytes may wait to be read.
    ///
    /// # Errors
    /// Without root.
    pub fn receive_buffer(&self, bytes: usize) -> Result<()> {
        setsockopt(&self.netlink.socket, sockopt::RcvBufForce, &bytes).context("SO_RCVBUFFORCE")
    }

    /// The events that come until nothing has come for a while. `None` among them: some were lost,
    /// because this socket's buffer was full.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn events(&mut self, quiet: Duration) -> Result<Vec<Option<Reply>>> {
        let timeout = TimeVal::microseconds(i64::try_from(quiet.as_micros())?);
        setsockopt(&self.netlink.socket, sockopt::ReceiveTimeout, &timeout)?;
        let mut events = Vec::new();
        let result = loop {
            let messages = match self.netlink.receive() {
                Ok(messages) => messages,
                Err(error) => match error.downcast_ref::<Errno>() {
                    Some(&Errno::EAGAIN) => break Ok(events),
                    Some(&Errno::ENOBUFS) => {
                        events.push(None);
                        continue;
                    }
                    _ => break Err(error),
                },
            };
            for message in messages.iter().filter(|message| message.sequence == 0) {
                if message.kind == self.family {
                    events.push(Some(Reply::read(message)?));
                }
            }
        };
        setsockopt(
            &self.netlink.socket,
            sockopt::ReceiveTimeout,
            &TimeVal::seconds(30),
        )?;
        result
    }
}
