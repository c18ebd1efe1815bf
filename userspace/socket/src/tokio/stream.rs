// SPDX-License-Identifier: GPL-2.0
//! Writer and reader for messages in pieces.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::MutexGuard;

use super::would_block;
use crate::message::{Info, Received};
use crate::raw::Raw;
use crate::state::{Outgoing, Receiving, Sending};
use crate::Error;

/// Writes a message; see [`crate::MessageWriter`]. To be ended by [`MessageWriter::finish`] or, as
/// it is an [`AsyncWrite`], by its shutdown.
#[derive(Debug)]
pub struct MessageWriter<'a> {
    fd: &'a AsyncFd<Raw>,
    sending: MutexGuard<'a, Sending>,
    message: Outgoing,
}

impl<'a> MessageWriter<'a> {
    pub(super) fn new(
        fd: &'a AsyncFd<Raw>,
        sending: MutexGuard<'a, Sending>,
        message: Outgoing,
    ) -> Self {
        Self {
            fd,
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

    /// Ends the message.
    ///
    /// # Errors
    /// As [`crate::MessageWriter::finish`].
    pub async fn finish(mut self) -> Result<u32, Error> {
        std::future::poll_fn(|cx| self.poll_finish(cx)).await?;
        Ok(self.message.number())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll(cx, Outgoing::finish)
    }

    /// Calls a function on the message, when the socket is writable.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut act: impl FnMut(&mut Outgoing, &Raw, &mut Sending) -> Result<T, Error>,
    ) -> Poll<Result<T, Error>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))
                .map_err(Error::kernel("wait for the socket"))?;
            match act(&mut self.message, self.fd.get_ref(), &mut self.sending) {
                Err(error) if would_block(&error) => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

impl AsyncWrite for MessageWriter<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |message, raw, sending| {
            message.write(raw, sending, data)
        })
        .map_err(io::Error::from)
    }

    /// As the flush of [`crate::MessageWriter`].
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, Outgoing::flush).map_err(io::Error::from)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_finish(cx).map_err(io::Error::from)
    }
}

/// Reads a message, up to its end; see [`crate::MessageReader`].
#[derive(Debug)]
pub struct MessageReader<'a> {
    fd: &'a AsyncFd<Raw>,
    state: MutexGuard<'a, Receiving>,
    piece: Vec<u8>,
    /// The part of `piece` that is not read yet.
    unread: std::ops::Range<usize>,
    last: Received,
}

impl<'a> MessageReader<'a> {
    pub(super) fn new(
        fd: &'a AsyncFd<Raw>,
        state: MutexGuard<'a, Receiving>,
        piece: Vec<u8>,
        first: Received,
    ) -> Self {
        Self {
            fd,
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

impl AsyncBufRead for MessageReader<'_> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.unread.is_empty() && !this.last.end_of_message {
            let mut ready = ready!(this.fd.poll_read_ready(cx))?;
            match this.state.read(this.fd.get_ref(), &mut this.piece) {
                Ok(read) => {
                    this.unread = 0..read.len;
                    this.last = read;
                }
                Err(error) if would_block(&error) => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Poll::Ready(Ok(&this.piece[this.unread.clone()]))
    }

    fn consume(self: Pin<&mut Self>, len: usize) {
        let this = self.get_mut();
        this.unread.start = (this.unread.start + len).min(this.unread.end);
    }
}

impl AsyncRead for MessageReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let piece = ready!(self.as_mut().poll_fill_buf(cx))?;
        let len = piece.len().min(to.remaining());
        to.put_slice(&piece[..len]);
        self.consume(len);
        Poll::Ready(Ok(()))
    }
}
