// SPDX-License-Identifier: GPL-2.0
//! The same sockets for tokio.
//!
//! ```no_run
//! use tokio::io::AsyncWriteExt;
//! use turnstile_socket::{tokio::Socket, SendOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let socket = Socket::bind("0.0.0.0:0".parse()?)?;
//! socket.set_completions(true)?;
//! let to = "10.0.0.2:5000".parse()?;
//! let number = socket.send_to(b"hello", to, &SendOptions::default()).await?;
//! let done = socket.completion().await?;
//! assert_eq!(done.number, number);
//! println!("delivered after {:?}", done.elapsed);
//!
//! let mut writer = socket.begin(to, &SendOptions::default()).await?;
//! writer.write_all(b"piece by piece").await?;
//! writer.finish().await?;
//! # Ok(())
//! # }
//! ```

mod stream;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::sync::{Mutex, MutexGuard};

pub use stream::{MessageReader, MessageWriter};

use crate::message::{Completion, Message, Received, SendOptions};
use crate::options::socket_options;
use crate::raw::{Opt, Raw};
use crate::socket::PIECE;
use crate::state::{Outgoing, Receiving, Sending};
use crate::Error;

/// A non-blocking socket of the transport for tokio. See [`crate::Socket`]; what differs is that
/// tasks wait instead of threads.
#[derive(Debug)]
pub struct Socket {
    fd: AsyncFd<Raw>,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
}

/// Whether the call would only have had to wait.
fn would_block(error: &Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl Socket {
    /// See [`crate::Socket::bind`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub fn bind(local: SocketAddr) -> Result<Self, Error> {
        Self::from_raw(Raw::bind(local)?)
    }

    fn from_raw(raw: Raw) -> Result<Self, Error> {
        raw.socket
            .set_nonblocking(true)
            .map_err(Error::kernel("set up the socket"))?;
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
        // SAFETY: `Raw` owns its descriptor, always returns the same one, and closes it when it is
        // dropped.
        let fd = unsafe { AsyncFd::register_with_interest(raw, interest) }
            .map_err(|error| Error::kernel("wait for the socket")(error.into()))?;
        Ok(Self {
            fd,
            sending: Mutex::default(),
            receiving: Mutex::default(),
        })
    }

    fn raw(&self) -> &Raw {
        self.fd.get_ref()
    }

    /// See [`crate::Socket::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(&self, to: SocketAddr) -> Result<(), Error> {
        let to = self.raw().address(to);
        self.raw()
            .socket
            .connect(&to)
            .map_err(Error::kernel("connect"))
    }

    /// Sends a whole message; see [`crate::Socket::send_to`]. If the future is dropped after a part
    /// was taken, nothing else can be sent on this socket.
    ///
    /// # Errors
    /// As there.
    pub async fn send_to(
        &self,
        data: &[u8],
        to: SocketAddr,
        options: &SendOptions,
    ) -> Result<u32, Error> {
        self.send_whole(data, Some(self.raw().address(to)), options)
            .await
    }

    /// The same to the connected peer.
    ///
    /// # Errors
    /// As [`crate::Socket::send`].
    pub async fn send(&self, data: &[u8], options: &SendOptions) -> Result<u32, Error> {
        self.send_whole(data, None, options).await
    }

    async fn send_whole(
        &self,
        data: &[u8],
        to: Option<socket2::SockAddr>,
        options: &SendOptions,
    ) -> Result<u32, Error> {
        let mut sending = self.sending.lock().await;
        let mut message = Outgoing::whole(&sending, to, options, data.len())?;
        let mut rest = data;
        while !rest.is_empty() {
            let len = self.write(&mut sending, &mut message, rest).await?;
            rest = &rest[len..];
        }
        Ok(message.number())
    }

    /// Writes once, when the socket is writable.
    async fn write(
        &self,
        sending: &mut Sending,
        message: &mut Outgoing,
        data: &[u8],
    ) -> Result<usize, Error> {
        loop {
            let ready = self.fd.writable().await;
            let mut ready = ready.map_err(Error::kernel("wait for the socket"))?;
            match message.write(self.raw(), sending, data) {
                Err(error) if would_block(&error) => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// Begins a message that is written in pieces; see [`crate::Socket::begin`]. Other tasks that
    /// send wait until the writer is dropped.
    ///
    /// # Errors
    /// As there.
    pub async fn begin(
        &self,
        to: SocketAddr,
        options: &SendOptions,
    ) -> Result<MessageWriter<'_>, Error> {
        let to = self.raw().address(to);
        self.begin_message(Some(to), options).await
    }

    /// The same to the connected peer.
    ///
    /// # Errors
    /// As [`crate::Socket::begin`].
    pub async fn begin_connected(&self, options: &SendOptions) -> Result<MessageWriter<'_>, Error> {
        self.begin_message(None, options).await
    }

    async fn begin_message(
        &self,
        to: Option<socket2::SockAddr>,
        options: &SendOptions,
    ) -> Result<MessageWriter<'_>, Error> {
        let sending = self.sending.lock().await;
        let message = Outgoing::new(&sending, to, options)?;
        Ok(MessageWriter::new(&self.fd, sending, message))
    }

    /// Reads available bytes of one message; see [`crate::Socket::recv`]. If the future is dropped,
    /// nothing is lost.
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&self, data: &mut [u8]) -> Result<Received, Error> {
        let mut state = self.receiving.lock().await;
        self.read(&mut state, data).await
    }

    async fn read(&self, state: &mut Receiving, data: &mut [u8]) -> Result<Received, Error> {
        loop {
            let ready = self.fd.readable().await;
            let mut ready = ready.map_err(Error::kernel("wait for the socket"))?;
            match state.read(self.raw(), data) {
                Err(error) if would_block(&error) => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// Reads a message to its end; see [`crate::Socket::recv_message`]. If the future is dropped,
    /// what it read is lost, and the rest is discarded later.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_message(&self, limit: usize) -> Result<Message, Error> {
        let mut state = self.receiving.lock().await;
        let mut piece = vec![0; PIECE];
        let mut data = Vec::new();
        let mut read = self.first(&mut state, &mut piece).await?;
        loop {
            let (from, info) = (read.from, read.info);
            let announced = info.and_then(|info| info.length).unwrap_or(0);
            if data.len() + read.len > limit || announced > limit as u64 {
                return Err(Error::TooLong { from, limit });
            }
            data.extend_from_slice(&piece[..read.len]);
            if read.end_of_message {
                return Ok(Message { data, from, info });
            }
            read = self.read(&mut state, &mut piece).await?;
        }
    }

    /// A reader of the next message; see [`crate::Socket::reader`].
    ///
    /// # Errors
    /// As there.
    pub async fn reader(&self) -> Result<MessageReader<'_>, Error> {
        let mut state = self.receiving.lock().await;
        let mut piece = vec![0; PIECE];
        let first = self.first(&mut state, &mut piece).await?;
        Ok(MessageReader::new(&self.fd, state, piece, first))
    }

    /// Reads the first bytes of a message.
    async fn first(
        &self,
        state: &mut MutexGuard<'_, Receiving>,
        piece: &mut [u8],
    ) -> Result<Received, Error> {
        self.raw().one_by_one()?;
        loop {
            self.skip(state, piece).await?;
            let read = self.read(state, piece).await?;
            if read.begins() {
                return Ok(read);
            }
        }
    }

    /// Discards the rest of a message.
    async fn skip(
        &self,
        state: &mut MutexGuard<'_, Receiving>,
        piece: &mut [u8],
    ) -> Result<(), Error> {
        while state.within {
            if let Err(error) = self.read(state, piece).await {
                // A message that fails before its end has ended, too.
                if state.within || error.errno().is_none() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The next completion; see [`crate::Socket::completion`]. Waits for ever if none comes: use
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// As [`crate::Socket::wait_completion`].
    pub async fn completion(&self) -> Result<Completion, Error> {
        let doing = "wait for completions";
        loop {
            let ready = self.fd.ready(Interest::ERROR).await;
            let mut ready = ready.map_err(Error::kernel(doing))?;
            let found = self.raw().completion();
            if let Some(completion) = found.map_err(Error::kernel("read completions"))? {
                return Ok(completion);
            }
            ready.clear_ready();
            if let Some(error) = self.take_error().map_err(Error::kernel(doing))? {
                return Err(Error::kernel(doing)(error));
            }
        }
    }

    socket_options!();
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::HELD;
    use std::io::Read;
    use tokio::io::AsyncWriteExt;

    fn run(work: impl std::future::Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap()
            .block_on(work);
    }

    fn pair() -> (Socket, socket2::Socket) {
        let kind = socket2::Type::STREAM;
        let (a, b) = socket2::Socket::pair(socket2::Domain::UNIX, kind, None).unwrap();
        (Socket::from_raw(Raw::of(a)).unwrap(), b)
    }

    #[test]
    fn more_than_the_buffer_takes_arrives_whole() {
        run(async {
            let (socket, mut peer) = pair();
            let data: Vec<u8> = (0..2_000_000u32).map(|i| (i % 251) as u8).collect();
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                peer.read_to_end(&mut got).unwrap();
                got
            });
            let options = SendOptions::default();
            assert_eq!(socket.send(&data, &options).await.unwrap(), 0);
            let mut writer = socket.begin_connected(&options).await.unwrap();
            writer.write_all(&data).await.unwrap();
            assert_eq!(writer.number(), 1);
            assert_eq!(writer.finish().await.unwrap(), 1);
            assert_eq!(socket.send(b"end", &options).await.unwrap(), 2);
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let expected = [&data[..], &data[..], b"end"].concat();
            assert!(reader.join().unwrap() == expected);
        });
    }

    #[test]
    fn an_unfinished_writer_spoils_the_socket() {
        run(async {
            let (socket, _peer) = pair();
            let options = SendOptions::default();
            let mut writer = socket.begin_connected(&options).await.unwrap();
            writer.write_all(&[7; HELD + 1]).await.unwrap();
            drop(writer);
            let error = socket.send(b"x", &options).await.unwrap_err();
            assert!(matches!(error, Error::Abandoned));
        });
    }
}
