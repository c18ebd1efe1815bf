// SPDX-License-Identifier: GPL-2.0
//! Writer and reader for messages in pieces.

use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;
use std::sync::MutexGuard;

use crate::message::{Info, Received};
use crate::raw::Raw;
use crate::socket::Socket;
use crate::state::{Outgoing, Receiving, Sending};
use crate::Error;

/// Writes a message. To be ended by [`MessageWriter::finish`].
///
/// Of a message without [`length`](crate::SendOptions::length), up to 64 KiB are buffered until it
/// is flushed or finished; if it is no longer than that, it is sent in one call, as with `send`.
/// Messages with a length are not buffered.
///
/// If the writer is dropped before, after something was written, the message stays open: nothing
/// else can be sent on that socket, and closing the socket aborts the message.
///
/// ```no_run
/// use std::io::Write;
/// use turnstile_socket::{SendOptions, Socket};
///
/// let socket = Socket::bind("0.0.0.0:0")?;
/// let mut file = std::fs::File::open("/etc/services")?;
/// let options = SendOptions { length: Some(file.metadata()?.len()), ..SendOptions::default() };
/// let mut writer = socket.begin("10.0.0.2:5000", &options)?;
/// std::io::copy(&mut file, &mut writer)?;
/// writer.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'a> {
    raw: &'a Raw,
    sending: MutexGuard<'a, Sending>,
    message: Outgoing,
}

impl<'a> MessageWriter<'a> {
    pub(crate) fn new(raw: &'a Raw, sending: MutexGuard<'a, Sending>, message: Outgoing) -> Self {
        Self {
            raw,
            sending,
            message,
        }
    }

    /// The message's number, as completions have it. It is certain once the kernel has taken
    /// something of the message: a first call that fails, and is repeated, may have used up one.
    pub fn number(&self) -> u32 {
        self.message.number()
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.message.written()
    }

    /// Ends the message, and returns its number. On a non-blocking socket it can be called again
    /// after EAGAIN.
    ///
    /// # Errors
    /// [`Error::TooLittle`]; [`Error::Invalid`] if nothing was written; what the kernel says.
    pub fn finish(&mut self) -> Result<u32, Error> {
        loop {
            match self.message.finish(self.raw, &mut self.sending) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome.map(|()| self.message.number()),
            }
        }
    }
}

impl Write for MessageWriter<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(self.message.write(self.raw, &mut self.sending, data)?)
    }

    /// Sends the buffered bytes but the last: a message of unknown length needs one to end with.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.message.flush(self.raw, &mut self.sending)?)
    }
}

/// Reads a message, up to its end.
///
/// If the reader is dropped before, the next [`Socket::reader`] or [`Socket::recv_message`]
/// discards the rest.
///
/// ```no_run
/// # let socket = turnstile_socket::Socket::bind("0.0.0.0:5000")?;
/// let mut reader = socket.reader()?;
/// println!("from {}, {:?} bytes", reader.from(), reader.info().and_then(|info| info.length));
/// std::io::copy(&mut reader, &mut std::io::stdout())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageReader<'a> {
    socket: &'a Socket,
    state: MutexGuard<'a, Receiving>,
    piece: Vec<u8>,
    /// The part of `piece` that is not read yet.
    unread: std::ops::Range<usize>,
    last: Received,
}

impl<'a> MessageReader<'a> {
    pub(crate) fn new(
        socket: &'a Socket,
        state: MutexGuard<'a, Receiving>,
        piece: Vec<u8>,
        first: Received,
    ) -> Self {
        Self {
            socket,
            state,
            piece,
            unread: 0..first.len,
            last: first,
        }
    }

    /// The message's sender.
    pub fn from(&self) -> SocketAddr {
        self.last.from
    }

    /// More about the message, as of the last call to the kernel.
    pub fn info(&self) -> Option<Info> {
        self.last.info
    }
}

impl BufRead for MessageReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() && !self.last.end_of_message {
            self.last = self.socket.receive(&mut self.state, &mut self.piece)?;
            self.unread = 0..self.last.len;
        }
        Ok(&self.piece[self.unread.clone()])
    }

    fn consume(&mut self, len: usize) {
        self.unread.start = (self.unread.start + len).min(self.unread.end);
    }
}

impl Read for MessageReader<'_> {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let len = piece.len().min(data.len());
        data[..len].copy_from_slice(&piece[..len]);
        self.consume(len);
        Ok(len)
    }
}
