// SPDX-License-Identifier: GPL-2.0
//! Requests and answers of generic netlink, whatever the family.

use neli::consts::nl::{NlmF, Nlmsg};
use neli::consts::socket::NlFamily;
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::Buffer;
use neli::utils::Groups;

use super::Error;

/// Command, version, and two bytes that are not used.
const GENERIC_HEADER: usize = 4;
/// `NLMSGERR_ATTR_MSG`.
const EXTACK_MESSAGE: u16 = 1;

/// A socket that answers come from; tests have one of their own.
pub(super) trait Kernel {
    /// Sends a request to `family`, and gives what the answers have after the generic header.
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        version: u8,
        attributes: &[u8],
        dump: bool,
    ) -> Result<Vec<Vec<u8>>, Error>;
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

impl Kernel for Wire {
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        version: u8,
        attributes: &[u8],
        dump: bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = if dump { NlmF::DUMP } else { NlmF::ACK };
        let payload = [&[command, version, 0, 0], attributes].concat();
        let request = NlmsghdrBuilder::default()
            .nl_type(family)
            .nl_flags(NlmF::REQUEST | flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(Buffer::from(payload)))
            .build()
            .map_err(|error| Error::Protocol(error.to_string()))?;
        self.socket.send(&request)?;
        let mut answers = Vec::new();
        loop {
            let (messages, _) = self.socket.recv::<u16, Buffer>()?;
            for message in messages {
                let message = message?;
                if *message.nl_seq() != self.sequence {
                    continue;
                }
                let done = *message.nl_type() == u16::from(Nlmsg::Done);
                match message.nl_payload() {
                    NlPayload::Payload(payload) => answers.push(body(payload.as_ref())?),
                    NlPayload::Ack(_) | NlPayload::Empty => return Ok(answers),
                    NlPayload::DumpExtAck(end) if *end.error() == 0 => return Ok(answers),
                    NlPayload::DumpExtAck(end) => {
                        return Err(refused(*end.error(), end.ext_ack().iter()))
                    }
                    NlPayload::Err(error) => {
                        return Err(refused(*error.error(), error.ext_ack().iter()))
                    }
                }
                if done {
                    return Ok(answers);
                }
            }
        }
    }
}

fn refused<'a>(
    code: i32,
    mut words: impl Iterator<Item = &'a neli::genl::Nlattr<neli::consts::nl::NlmsgerrAttr, Buffer>>,
) -> Error {
    let message = words.find(|word| u16::from(word.nla_type()) == EXTACK_MESSAGE);
    Error::Refused {
        errno: code.saturating_abs(),
        message: message.map(|word| {
            let text = word.nla_payload().as_ref();
            let text = text.strip_suffix(&[0]).unwrap_or(text);
            String::from_utf8_lossy(text).into_owned()
        }),
    }
}

/// What follows the generic header.
pub(super) fn body(payload: &[u8]) -> Result<Vec<u8>, Error> {
    payload
        .get(GENERIC_HEADER..)
        .map(<[u8]>::to_vec)
        .ok_or_else(|| Error::Protocol("an answer is cut off".to_owned()))
}
