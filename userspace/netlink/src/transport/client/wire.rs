// SPDX-License-Identifier: GPL-2.0
//! Requests and answers of generic netlink, whatever the family.

use std::io::Cursor;

use neli::attr::Attribute;
use neli::consts::nl::{NlmF, Nlmsg, NlmsgerrAttr};
use neli::consts::socket::NlFamily;
use neli::genl::{Genlmsghdr, GenlmsghdrBuilder, NoUserHeader};
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{FromBytesWithInput, ToBytes};
use turnstile_core::transport::uapi::FAMILY_VERSION;

use super::Error;

/// The attributes of a message, by their numbers.
pub(in super::super) type Attributes = GenlBuffer<u16, Buffer>;
/// A message, less netlink's header.
pub(super) type Body = Genlmsghdr<u8, u16>;

/// A socket that answers come from; tests have one of their own.
pub(super) trait Kernel {
    /// Sends a request to `family`, and gives the attributes of the answers.
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        attributes: Attributes,
        dump: bool,
    ) -> Result<Vec<Attributes>, Error>;
}

/// A netlink socket.
pub(super) struct Wire {
    socket: NlSocketHandle,
    sequence: u32,
}

impl Wire {
    pub(super) fn open() -> Result<Self, Error> {
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(Error::Socket)?;
        // The kernel's words with every error.
        socket.enable_ext_ack(true).map_err(Error::Socket)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }
}

// neli's own router would match answers to requests, too, but it drops the kernel's words of
// errors when it gives them types.
impl Kernel for Wire {
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        attributes: Attributes,
        dump: bool,
    ) -> Result<Vec<Attributes>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = if dump { NlmF::DUMP } else { NlmF::ACK };
        let body: Body = GenlmsghdrBuilder::<u8, u16, NoUserHeader>::default()
            .cmd(command)
            .version(FAMILY_VERSION)
            .attrs(attributes)
            .build()
            .map_err(Error::protocol)?;
        let request = NlmsghdrBuilder::default()
            .nl_type(family)
            .nl_flags(NlmF::REQUEST | flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(body))
            .build()
            .map_err(Error::protocol)?;
        self.socket.send(&request)?;
        let mut answers = Vec::new();
        loop {
            let (messages, _) = self.socket.recv::<u16, Body>()?;
            for message in messages {
                let message = message?;
                if *message.nl_seq() != self.sequence {
                    continue;
                }
                let done = *message.nl_type() == u16::from(Nlmsg::Done);
                match message.nl_payload() {
                    NlPayload::Payload(body) => answers.push(body.attrs().clone()),
                    NlPayload::Ack(_) | NlPayload::Empty => return Ok(answers),
                    NlPayload::DumpExtAck(end) if *end.error() == 0 => return Ok(answers),
                    NlPayload::DumpExtAck(end) => return Err(refused(*end.error(), end.ext_ack())),
                    NlPayload::Err(error) => return Err(refused(*error.error(), error.ext_ack())),
                }
                if done {
                    return Ok(answers);
                }
            }
        }
    }
}

fn refused(code: i32, words: &GenlBuffer<NlmsgerrAttr, Buffer>) -> Error {
    let words = words.get_attr_handle();
    let message = words.get_attribute(NlmsgerrAttr::Msg);
    Error::Refused {
        errno: code.saturating_abs(),
        message: message.and_then(|text| text.get_payload_as_with_len().ok()),
    }
}

/// Attributes that are bytes already.
pub(in super::super) fn from_bytes(bytes: &[u8]) -> Result<Attributes, Error> {
    Attributes::from_bytes_with_input(&mut Cursor::new(bytes), bytes.len()).map_err(Error::protocol)
}

/// Attributes as the bytes that they are on the wire.
pub(super) fn to_bytes(attributes: &Attributes) -> Result<Vec<u8>, Error> {
    let mut bytes = Cursor::new(Vec::new());
    attributes.to_bytes(&mut bytes).map_err(Error::protocol)?;
    Ok(bytes.into_inner())
}
