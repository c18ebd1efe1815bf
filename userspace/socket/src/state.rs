// SPDX-License-Identifier: GPL-2.0
//! What a socket remembers between calls, the same for both kinds of sockets.

use std::io;

use socket2::SockAddr;

use crate::message::{check_length, Received, SendOptions};
use crate::raw::Raw;
use crate::Error;

/// The sending half: whoever holds it may send.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// The number of the next message.
    next: u32,
    /// A message was begun and not ended.
    open: bool,
}

/// The receiving half.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// The last read ended within a message.
    pub(crate) within: bool,
}

impl Receiving {
    /// Reads once.
    pub(crate) fn read(&mut self, raw: &Raw, data: &mut [u8]) -> Result<Received, Error> {
        if data.is_empty() {
            return Err(Error::Invalid {
                field: "buffer",
                value: 0,
                range: "1.. bytes",
            });
        }
        match raw.receive(data) {
            Ok(Some(read)) => {
                self.within = !read.end_of_message;
                Ok(read)
            }
            Ok(None) => Err(Error::Shutdown),
            Err(error) => {
                // What failed was the message, unless the call only did not want to wait.
                let kind = error.kind();
                if kind != io::ErrorKind::WouldBlock && kind != io::ErrorKind::Interrupted {
                    self.within = false;
                }
                Err(Error::kernel("receive")(error))
            }
        }
    }
}

/// A message that is being sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    to: Option<SockAddr>,
    control: Vec<u8>,
    /// The length that was announced.
    length: Option<u64>,
    written: u64,
    number: u32,
}

impl Outgoing {
    /// Checks what can be checked before the kernel is asked.
    pub(crate) fn new(
        sending: &Sending,
        to: Option<SockAddr>,
        options: &SendOptions,
    ) -> Result<Self, Error> {
        if sending.open {
            return Err(Error::Abandoned);
        }
        Ok(Self {
            to,
            control: options.encode()?,
            length: options.length,
            written: 0,
            number: sending.next,
        })
    }

    /// The same for a message that is sent in one go: its length is known.
    pub(crate) fn whole(
        sending: &Sending,
        to: Option<SockAddr>,
        options: &SendOptions,
        len: usize,
    ) -> Result<Self, Error> {
        let len = len as u64;
        check_length(len)?;
        match options.length {
            Some(length) if length < len => {
                return Err(Error::TooMuch {
                    length,
                    written: len,
                })
            }
            Some(length) if length > len => {
                return Err(Error::TooLittle {
                    length,
                    written: len,
                })
            }
            _ => {}
        }
        // The kernel knows the length from the call.
        let options = SendOptions {
            length: None,
            ..*options
        };
        let message = Self::new(sending, to, &options)?;
        Ok(Self {
            length: Some(len),
            ..message
        })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Sends some of `data`. `last`: the message ends with it.
    pub(crate) fn write(
        &mut self,
        raw: &Raw,
        sending: &mut Sending,
        data: &[u8],
        last: bool,
    ) -> Result<usize, Error> {
        let after = self.written.saturating_add(data.len() as u64);
        match self.length {
            Some(length) if after > length => {
                return Err(Error::TooMuch {
                    length,
                    written: after,
                })
            }
            _ if data.is_empty() && !last => return Ok(0),
            _ => {}
        }
        let begun = self.written > 0;
        let control = if begun { &[] } else { self.control.as_slice() };
        // A message of known length ends by itself.
        let more = !last && self.length != Some(after);
        match raw.send(data, self.to.as_ref(), control, more) {
            Ok(len) => {
                if !begun {
                    sending.next = self.number.wrapping_add(1);
                }
                self.written += len as u64;
                sending.open = more || len < data.len();
                Ok(len)
            }
            Err(error) => {
                // The message is still there if the call only did not want to wait; a real error has ended it.
                let kind = error.kind();
                if kind != io::ErrorKind::WouldBlock && kind != io::ErrorKind::Interrupted {
                    sending.open = false;
                }
                Err(Error::kernel("send")(error))
            }
        }
    }

    /// What is to be done to end the message: `true`, an empty write.
    pub(crate) fn finish(&self) -> Result<bool, Error> {
        match self.length {
            Some(length) if self.written < length => Err(Error::TooLittle {
                length,
                written: self.written,
            }),
            Some(_) => Ok(false),
            None if self.written == 0 => Err(Error::Invalid {
                field: "length",
                value: 0,
                range: "1..1073741823 bytes",
            }),
            None => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of sockets that take bytes as the transport's do; they know neither numbers nor ends.
    fn pair() -> (Raw, socket2::Socket) {
        let (a, b) =
            socket2::Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        (Raw::of(a), b)
    }

    #[test]
    fn a_message_of_known_length_ends_by_itself() {
        let (raw, _peer) = pair();
        let mut sending = Sending::default();
        let options = SendOptions {
            length: Some(5),
            ..SendOptions::default()
        };
        let mut message = Outgoing::new(&sending, None, &options).unwrap();
        // Unix sockets know no such ancillary data.
        message.control.clear();
        assert_eq!(message.write(&raw, &mut sending, b"abc", false).unwrap(), 3);
        assert!(sending.open);
        assert_eq!(
            Outgoing::new(&sending, None, &options)
                .unwrap_err()
                .to_string(),
            "a message was left unfinished on this socket; close it"
        );
        assert_eq!(
            message.finish().unwrap_err().to_string(),
            "the message was announced with 5 bytes, and only 3 are written"
        );
        assert_eq!(
            message
                .write(&raw, &mut sending, b"def", false)
                .unwrap_err()
                .to_string(),
            "the message was announced with 5 bytes, and 6 are written"
        );
        assert_eq!(message.write(&raw, &mut sending, b"de", false).unwrap(), 2);
        assert!(!sending.open);
        assert!(!message.finish().unwrap());
        let next = Outgoing::new(&sending, None, &options).unwrap();
        assert_eq!((message.number(), next.number()), (0, 1));
    }

    #[test]
    fn a_message_of_unknown_length_has_to_be_ended() {
        let (raw, _peer) = pair();
        let mut sending = Sending::default();
        let mut message = Outgoing::new(&sending, None, &SendOptions::default()).unwrap();
        assert!(matches!(
            message.finish(),
            Err(Error::Invalid {
                field: "length",
                ..
            })
        ));
        assert_eq!(message.write(&raw, &mut sending, b"abc", false).unwrap(), 3);
        assert!(sending.open && message.finish().unwrap());
        message.write(&raw, &mut sending, b"", true).unwrap();
        assert!(!sending.open);
    }

    #[test]
    fn a_whole_message_has_the_length_of_what_is_sent() {
        let sending = Sending::default();
        let with = |length| SendOptions {
            length,
            ..SendOptions::default()
        };
        let whole = |length, len| Outgoing::whole(&sending, None, &with(length), len);
        assert!(matches!(whole(None, 0), Err(Error::Invalid { .. })));
        assert!(matches!(whole(None, 1 << 30), Err(Error::Invalid { .. })));
        assert!(matches!(whole(Some(2), 3), Err(Error::TooMuch { .. })));
        assert!(matches!(whole(Some(4), 3), Err(Error::TooLittle { .. })));
        let message = whole(None, 3).unwrap();
        assert_eq!((message.length, message.control.len()), (Some(3), 0));
        assert_eq!(whole(Some(3), 3).unwrap().length, Some(3));
    }

    #[test]
    fn a_full_socket_leaves_the_message_open_and_a_broken_one_does_not() {
        let (raw, peer) = pair();
        raw.socket.set_nonblocking(true).unwrap();
        let mut sending = Sending::default();
        let mut message = Outgoing::new(&sending, None, &SendOptions::default()).unwrap();
        let full = loop {
            match message.write(&raw, &mut sending, &[0; 65536], false) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(sending.open && message.written() > 0);
        drop(peer);
        let broken = message
            .write(&raw, &mut sending, &[0; 9], false)
            .unwrap_err();
        assert_eq!(broken.errno(), Some(libc::EPIPE));
        assert!(!sending.open);
    }
}
