// SPDX-License-Identifier: GPL-2.0
//! Asking the kernel for sockets.

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::Buffer;
use neli::utils::Groups;

use super::{wire, Filter, Socket};
use crate::transport::client::Error;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;

const ENOENT: i32 = 2;

/// A connection to those who list the sockets of a network namespace, which is that of the thread
/// that connects.
///
/// ```no_run
/// use turnstile_netlink::transport::sockets::{Filter, Sockets};
///
/// let mut sockets = Sockets::connect()?;
/// for socket in sockets.list(&Filter::default())? {
///     println!("{socket:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sockets {
    socket: NlSocketHandle,
    sequence: u32,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sockets").finish_non_exhaustive()
    }
}

impl Sockets {
    /// Opens the connection.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn connect() -> Result<Self, Error> {
        let socket = NlSocketHandle::connect(NlFamily::SockOrInetDiag, None, Groups::empty())
            .map_err(Error::Socket)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The sockets that a filter wants. One that is opened or closed during the call may or may not
    /// be among them; all others are, once.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]: the transport is not loaded, or lists no sockets on a kernel without
    /// `CONFIG_INET_DIAG`; [`Error::Refused`], [`Error::Malformed`].
    pub fn list(&mut self, filter: &Filter) -> Result<Vec<Socket>, Error> {
        let mut found = Vec::new();
        for ipv6 in [false, true] {
            if filter.ipv6.is_some_and(|only| only != ipv6) {
                continue;
            }
            let request = wire::list(ipv6, filter);
            let answers = self.ask(SOCK_DIAG_BY_FAMILY, NlmF::DUMP, &request);
            let answers = answers.map_err(|error| match error {
                Error::Refused { errno: ENOENT, .. } => Error::NotLoaded,
                other => other,
            })?;
            for answer in answers {
                let socket = wire::decode(&answer)?;
                if filter.wants(socket.state) {
                    found.push(socket);
                }
            }
        }
        Ok(found)
    }

    /// A socket as it is now.
    ///
    /// # Errors
    /// [`Error::Refused`] with `ENOENT`: it is no longer there.
    pub fn get(&mut self, socket: &Socket) -> Result<Socket, Error> {
        let request = wire::exact(socket);
        let answers = self.ask(SOCK_DIAG_BY_FAMILY, NlmF::ACK, &request)?;
        match answers.first() {
            Some(answer) => Ok(wire::decode(answer)?),
            None => Err(Error::protocol("no answer")),
        }
    }

    /// Ends a socket and its messages: the next call on it fails with `ECONNABORTED`. Needs
    /// `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// [`Error::Refused`] with `ENOENT`: it is no longer there; with `EPERM`.
    pub fn destroy(&mut self, socket: &Socket) -> Result<(), Error> {
        let request = wire::exact(socket);
        self.ask(SOCK_DESTROY, NlmF::ACK, &request).map(drop)
    }

    /// The answers to a request.
    fn ask(&mut self, kind: u16, flags: NlmF, request: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(NlmF::REQUEST | flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(Buffer::from(request)))
            .build()
            .map_err(Error::protocol)?;
        self.socket.send(&request)?;
        let mut answers = Vec::new();
        loop {
            let (messages, _) = self.socket.recv::<u16, Buffer>()?;
            for message in messages {
                let message = message?;
                if *message.nl_seq() != self.sequence {
                    continue;
                }
                match message.nl_payload() {
                    NlPayload::Payload(body) if *message.nl_type() == SOCK_DIAG_BY_FAMILY => {
                        answers.push(body.as_ref().to_vec());
                    }
                    NlPayload::Payload(_) | NlPayload::Ack(_) | NlPayload::Empty => {
                        return Ok(answers);
                    }
                    NlPayload::DumpExtAck(end) if *end.error() == 0 => return Ok(answers),
                    NlPayload::DumpExtAck(end) => return Err(refused(*end.error())),
                    NlPayload::Err(error) => return Err(refused(*error.error())),
                }
            }
        }
    }
}

fn refused(code: i32) -> Error {
    Error::Refused {
        errno: code.saturating_abs(),
        message: None,
    }
}
