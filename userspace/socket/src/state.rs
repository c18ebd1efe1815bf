// SPDX-License-Identifier: GPL-2.0
//! A socket's state between calls, for sync and tokio sockets alike.

use std::io;

use socket2::SockAddr;

use crate::message::{check_length, Received, SendOptions, MAX_LENGTH};
use crate::raw::Raw;
use crate::Error;

/// The sending half; its lock is held to send.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// The number of the next message.
    next: u32,
    /// A message was begun and its writer dropped before the end.
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
                // The message has failed, unless the call would only have had to wait.
                let kind = error.kind();
                if kind != io::ErrorKind::WouldBlock && kind != io::ErrorKind::Interrupted {
                    self.within = false;
                }
                Err(Error::kernel("receive")(error))
            }
        }
    }
}

/// Bytes of a message of unknown length that are buffered: the kernel takes no empty write, so that
/// some have to be left for the call that ends it.
pub(crate) const HELD: usize = 64 * 1024;

/// A message that is being sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    to: Option<SockAddr>,
    control: Vec<u8>,
    /// The length that was announced.
    length: Option<u64>,
    /// Bytes that the caller has written.
    written: u64,
    /// Written and not sent; only without a length.
    held: Vec<u8>,
    begun: bool,
    finished: bool,
    number: u32,
}

impl Outgoing {
    /// Checks options before any system call.
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
            held: Vec::new(),
            begun: false,
            finished: false,
            number: sending.next,
        })
    }

    /// The same for a message that is sent whole, whose length is known.
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

    /// Takes at least one byte of `data`.
    pub(crate) fn write(
        &mut self,
        raw: &Raw,
        sending: &mut Sending,
        data: &[u8],
    ) -> Result<usize, Error> {
        let after = self.written.saturating_add(data.len() as u64);
        let longest = self.length.unwrap_or(MAX_LENGTH);
        if after > longest {
            return Err(Error::TooMuch {
                length: longest,
                written: after,
            });
        }
        if data.is_empty() {
            return Ok(0);
        }
        let len = if self.length.is_some() {
            // With an announced length the message ends by itself.
            self.send(raw, sending, data, after < longest)?
        } else {
            if self.held.len() >= HELD {
                self.send_held(raw, sending, 0)?;
            }
            let len = data.len().min(HELD - self.held.len());
            self.held.extend_from_slice(&data[..len]);
            len
        };
        self.written += len as u64;
        Ok(len)
    }

    /// Sends all buffered bytes but the last.
    pub(crate) fn flush(&mut self, raw: &Raw, sending: &mut Sending) -> Result<(), Error> {
        while self.held.len() > 1 {
            self.send_held(raw, sending, 1)?;
        }
        Ok(())
    }

    /// Ends the message. Can be called again if it would have had to wait.
    pub(crate) fn finish(&mut self, raw: &Raw, sending: &mut Sending) -> Result<(), Error> {
        match self.length {
            Some(length) if self.written < length => {
                return Err(Error::TooLittle {
                    length,
                    written: self.written,
                })
            }
            None => check_length(self.written)?,
            Some(_) => {}
        }
        while !(self.finished || self.held.is_empty()) {
            let held = std::mem::take(&mut self.held);
            let sent = self.send(raw, sending, &held, false);
            self.held = held;
            self.held.drain(..*sent.as_ref().unwrap_or(&0));
            sent?;
        }
        self.finished = true;
        Ok(())
    }

    /// Sends buffered bytes, all but `keep` or fewer.
    fn send_held(&mut self, raw: &Raw, sending: &mut Sending, keep: usize) -> Result<(), Error> {
        let held = std::mem::take(&mut self.held);
        let sent = self.send(raw, sending, &held[..held.len() - keep], true);
        self.held = held;
        self.held.drain(..*sent.as_ref().unwrap_or(&0));
        sent.map(drop)
    }

    /// Hands bytes to the kernel. With `more`, others will follow.
    fn send(
        &mut self,
        raw: &Raw,
        sending: &mut Sending,
        data: &[u8],
        more: bool,
    ) -> Result<usize, Error> {
        let control = if self.begun {
            &[]
        } else {
            self.control.as_slice()
        };
        match raw.send(data, self.to.as_ref(), control, more) {
            Ok(len) => {
                if !self.begun {
                    self.begun = true;
                    self.number = sending.next;
                    sending.next = self.number.wrapping_add(1);
                }
                sending.open = more || len < data.len();
                Ok(len)
            }
            Err(error) => {
                // If the call would only have had to wait, the message goes on; a real error has
                // ended it.
                let kind = error.kind();
                if kind != io::ErrorKind::WouldBlock && kind != io::ErrorKind::Interrupted {
                    sending.open = false;
                }
                // The call may have used up a number. Kernels that do not tell are believed to
                // begin no message then.
                if let Ok(next) = raw.next_number() {
                    sending.next = next;
                }
                // On a connected socket it may be another message that has failed.
                if let Ok(open) = raw.is_open() {
                    sending.open = open;
                }
                Err(Error::kernel("send")(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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
        assert_eq!(message.write(&raw, &mut sending, b"abc").unwrap(), 3);
        assert!(sending.open);
        assert_eq!(
            Outgoing::new(&sending, None, &options)
                .unwrap_err()
                .to_string(),
            "a message was left unfinished on this socket; close it"
        );
        assert_eq!(
            message.finish(&raw, &mut sending).unwrap_err().to_string(),
            "the message was announced with 5 bytes, and only 3 are written"
        );
        assert_eq!(
            message
                .write(&raw, &mut sending, b"def")
                .unwrap_err()
                .to_string(),
            "the message was announced with 5 bytes, and 6 are written"
        );
        assert_eq!(message.write(&raw, &mut sending, b"de").unwrap(), 2);
        assert!(!sending.open);
        message.finish(&raw, &mut sending).unwrap();
        let next = Outgoing::new(&sending, None, &options).unwrap();
        assert_eq!((message.number(), next.number()), (0, 1));
    }

    /// What is there to read now.
    fn received(peer: &mut socket2::Socket) -> Vec<u8> {
        peer.set_nonblocking(true).unwrap();
        let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 20]);
        while let Ok(len @ 1..) = peer.read(&mut piece) {
            all.extend_from_slice(&piece[..len]);
        }
        all
    }

    #[test]
    fn a_short_message_of_unknown_length_goes_at_once() {
        let (raw, mut peer) = pair();
        let mut sending = Sending::default();
        let mut message = Outgoing::new(&sending, None, &SendOptions::default()).unwrap();
        assert!(matches!(
            message.finish(&raw, &mut sending),
            Err(Error::Invalid {
                field: "length",
                ..
            })
        ));
        for text in [b"abc", b"def"] {
            assert_eq!(message.write(&raw, &mut sending, text).unwrap(), 3);
        }
        assert!(!sending.open && received(&mut peer).is_empty());
        message.finish(&raw, &mut sending).unwrap();
        // Once more does nothing.
        message.finish(&raw, &mut sending).unwrap();
        assert!(!sending.open);
        assert_eq!(received(&mut peer), b"abcdef");
        assert_eq!((sending.next, message.written()), (1, 6));
    }

    #[test]
    fn a_long_message_of_unknown_length_keeps_something_to_end_with() {
        let (raw, mut peer) = pair();
        let mut sending = Sending::default();
        let mut message = Outgoing::new(&sending, None, &SendOptions::default()).unwrap();
        let data: Vec<u8> = (0..HELD * 3).map(|i| (i % 251) as u8).collect();
        let mut got = Vec::new();
        let mut rest = &data[..];
        while !rest.is_empty() {
            let len = message.write(&raw, &mut sending, rest).unwrap();
            rest = &rest[len..];
            got.extend(received(&mut peer));
        }
        assert!(sending.open && got.len() == HELD * 2, "{}", got.len());
        message.flush(&raw, &mut sending).unwrap();
        got.extend(received(&mut peer));
        assert_eq!(got.len(), data.len() - 1);
        message.finish(&raw, &mut sending).unwrap();
        got.extend(received(&mut peer));
        assert!(!sending.open && got == data);
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
            match message.write(&raw, &mut sending, &[0; HELD]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(sending.open && message.written() > 0);
        assert_eq!(
            message.finish(&raw, &mut sending).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        drop(peer);
        let broken = message.finish(&raw, &mut sending).unwrap_err();
        assert_eq!(broken.errno(), Some(libc::EPIPE));
        assert!(!sending.open);
    }
}
