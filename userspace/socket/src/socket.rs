// SPDX-License-Identifier: GPL-2.0
//! The blocking socket.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::message::{Completion, Message, Received, SendOptions};
use crate::options::socket_options;
use crate::raw::{Opt, Raw};
use crate::state::{Outgoing, Receiving, Sending};
use crate::stream::{MessageReader, MessageWriter};
use crate::Error;

/// Default size of a read.
pub(crate) const PIECE: usize = 64 * 1024;

/// A blocking socket of the transport.
///
/// It can be shared among threads: one may receive while another sends. Calls that send wait for
/// each other, and so do calls that receive. So one that waits for room for a peer that takes
/// nothing keeps the others waiting; with [`Socket::set_write_timeout`] it gives its message up.
/// Dropping closes it; messages that were sent are still delivered (see [`Socket::set_linger`]).
///
/// ```no_run
/// use turnstile_socket::{SendOptions, Socket};
///
/// let server = Socket::bind("10.0.0.2:5000")?;
/// let client = Socket::bind("0.0.0.0:0")?;
/// client.send_to(b"hello", "10.0.0.2:5000", &SendOptions::default())?;
/// let message = server.recv_message(1 << 20)?;
/// assert_eq!(message.data, b"hello");
/// # Ok::<(), turnstile_socket::Error>(())
/// ```
#[derive(Debug)]
pub struct Socket {
    raw: Raw,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
}

/// The first address that a name resolves to.
fn resolve(to: impl ToSocketAddrs) -> Result<SocketAddr, Error> {
    let found = to.to_socket_addrs().map_err(Error::kernel("resolve"))?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::kernel("resolve")(std::io::ErrorKind::AddrNotAvailable.into()))
}

/// Ignores poisoning: both halves' fields are consistent whenever they are unlocked, even after a
/// panic.
fn lock<T>(half: &Mutex<T>) -> MutexGuard<'_, T> {
    half.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// A socket bound to a local address. Port 0: the kernel chooses one. The unspecified IPv6
    /// address (`[::]`) takes IPv4, too, unless [`Socket::set_only_v6`] says otherwise.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]; EADDRINUSE, EADDRNOTAVAIL.
    pub fn bind(local: impl ToSocketAddrs) -> Result<Self, Error> {
        Ok(Self::from_raw(Raw::bind(resolve(local)?)?))
    }

    fn from_raw(raw: Raw) -> Self {
        Self {
            raw,
            sending: Mutex::default(),
            receiving: Mutex::default(),
        }
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    pub(crate) fn lock_receiving(&self) -> MutexGuard<'_, Receiving> {
        lock(&self.receiving)
    }

    /// Connects to a peer: [`Socket::send`] sends to it, only its messages are received, and the
    /// failure of a message is the error of the next call.
    ///
    /// # Errors
    /// EAFNOSUPPORT, EINVAL.
    pub fn connect(&self, to: impl ToSocketAddrs) -> Result<(), Error> {
        let to = self.raw.address(resolve(to)?);
        self.raw
            .socket
            .connect(&to)
            .map_err(Error::kernel("connect"))
    }

    /// Sends a whole message, and returns its number, by which its [`Completion`] is known. Returns
    /// when all of it is in the send buffer. A call that fails may have used up a number, if its
    /// message had begun: then there may be a completion with it, too.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options out of range and messages of no bytes or more than
    /// [`crate::MAX_LENGTH`]; with a timeout set, EAGAIN if that is over: nothing is sent then.
    pub fn send_to(
        &self,
        data: &[u8],
        to: impl ToSocketAddrs,
        options: &SendOptions,
    ) -> Result<u32, Error> {
        let to = self.raw.address(resolve(to)?);
        self.send_whole(data, Some(to), options)
    }

    /// The same to the connected peer.
    ///
    /// # Errors
    /// As [`Socket::send_to`]; EDESTADDRREQ without a peer; why an earlier message failed.
    pub fn send(&self, data: &[u8], options: &SendOptions) -> Result<u32, Error> {
        self.send_whole(data, None, options)
    }

    fn send_whole(
        &self,
        data: &[u8],
        to: Option<socket2::SockAddr>,
        options: &SendOptions,
    ) -> Result<u32, Error> {
        let mut sending = lock(&self.sending);
        let mut message = Outgoing::whole(&sending, to, options, data.len())?;
        let mut rest = data;
        while !rest.is_empty() {
            match message.write(&self.raw, &mut sending, rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(message.number())
    }

    /// Begins a message that is written piece by piece. Its length may be told
    /// ([`SendOptions::length`]), so that the receiver can schedule by it, or is known when it
    /// ends. Other calls that send block until the writer is dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Abandoned`]. The kernel is not called before the first write.
    pub fn begin(
        &self,
        to: impl ToSocketAddrs,
        options: &SendOptions,
    ) -> Result<MessageWriter<'_>, Error> {
        let to = self.raw.address(resolve(to)?);
        self.begin_message(Some(to), options)
    }

    /// The same to the connected peer.
    ///
    /// # Errors
    /// As [`Socket::begin`].
    pub fn begin_connected(&self, options: &SendOptions) -> Result<MessageWriter<'_>, Error> {
        self.begin_message(None, options)
    }

    fn begin_message(
        &self,
        to: Option<socket2::SockAddr>,
        options: &SendOptions,
    ) -> Result<MessageWriter<'_>, Error> {
        let sending = lock(&self.sending);
        let message = Outgoing::new(&sending, to, options)?;
        Ok(MessageWriter::new(&self.raw, sending, message))
    }

    /// Reads what has arrived of one message: at least one byte. A read never goes beyond a
    /// message's end.
    ///
    /// # Errors
    /// [`Error::Shutdown`]; why an earlier message to the connected peer failed; EAGAIN if nothing
    /// is there and the socket does not wait.
    pub fn recv(&self, data: &mut [u8]) -> Result<Received, Error> {
        self.receive(&mut self.lock_receiving(), data)
    }

    pub(crate) fn receive(
        &self,
        state: &mut Receiving,
        data: &mut [u8],
    ) -> Result<Received, Error> {
        state.read(&self.raw, data)
    }

    /// Reads a whole message. The unread rest of an earlier one is discarded.
    ///
    /// # Errors
    /// As [`Socket::recv`]; [`Error::TooLong`] for a message of more than `limit` bytes, which is
    /// discarded.
    pub fn recv_message(&self, limit: usize) -> Result<Message, Error> {
        let mut state = self.lock_receiving();
        let mut piece = vec![0; PIECE];
        let mut data = Vec::new();
        let mut read = self.first(&mut state, &mut piece)?;
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
            read = self.receive(&mut state, &mut piece)?;
        }
    }

    /// A reader of the next message, for messages of any length. Blocks until the message begins.
    /// The unread rest of an earlier one is discarded. Other calls that receive block until the
    /// reader is dropped.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn reader(&self) -> Result<MessageReader<'_>, Error> {
        let mut state = self.lock_receiving();
        let mut piece = vec![0; PIECE];
        let first = self.first(&mut state, &mut piece)?;
        Ok(MessageReader::new(self, state, piece, first))
    }

    /// Reads the first bytes of a message.
    fn first(&self, state: &mut Receiving, piece: &mut [u8]) -> Result<Received, Error> {
        self.raw.one_by_one()?;
        loop {
            self.skip(state, piece)?;
            let read = self.receive(state, piece)?;
            if read.begins() {
                return Ok(read);
            }
        }
    }

    /// Discards what is left of a message.
    fn skip(&self, state: &mut Receiving, piece: &mut [u8]) -> Result<(), Error> {
        while state.within {
            if let Err(error) = self.receive(state, piece) {
                // A message that fails before its end has ended, too.
                if state.within || error.errno().is_none() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Takes the oldest completion, if there is one: there is one for each message with
    /// [`Socket::set_completions`], otherwise for each that failed. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn completion(&self) -> Result<Option<Completion>, Error> {
        let found = self.raw.completion();
        found.map_err(Error::kernel("read completions"))
    }

    /// The same, waiting until there is one, or for `timeout`.
    ///
    /// # Errors
    /// As [`Socket::completion`]; the socket's own error, if that ended the wait.
    pub fn wait_completion(&self, timeout: Option<Duration>) -> Result<Option<Completion>, Error> {
        let doing = "wait for completions";
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(completion) = self.completion()? {
                return Ok(Some(completion));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            // Rounded up to whole milliseconds.
            let wait = left.map_or(PollTimeout::NONE, |left| {
                let ms = left.as_nanos().div_ceil(1_000_000);
                PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
            });
            // POLLERR is reported without being requested.
            let mut fds = [PollFd::new(self.raw.as_fd(), PollFlags::empty())];
            match poll(&mut fds, wait) {
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(Error::kernel(doing)(errno.into())),
            }
            if let Some(completion) = self.completion()? {
                return Ok(Some(completion));
            }
            match self.take_error() {
                Ok(None) => return Err(Error::Shutdown),
                Ok(Some(error)) | Err(error) => return Err(Error::kernel(doing)(error)),
            }
        }
    }

    /// Whether calls return EAGAIN instead of blocking. On such sockets, send with
    /// [`Socket::begin`] or `tokio`: after a `send` of which the kernel took a part only, no other
    /// message can be sent.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
        self.raw.socket.set_nonblocking(nonblocking)
    }

    /// The timeout of calls that receive.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.raw.socket.set_read_timeout(timeout)
    }

    /// The timeout of calls that send.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.raw.socket.set_write_timeout(timeout)
    }

    socket_options!();
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.raw.as_raw_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.raw.into_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::HELD;
    use std::io::{Read, Write};

    /// A socket over one end of a pair of Unix sockets that keep records apart; MSG_EOR and
    /// addresses they do not know.
    fn pair() -> (Socket, socket2::Socket) {
        let kind = socket2::Type::SEQPACKET;
        let (a, b) = socket2::Socket::pair(socket2::Domain::UNIX, kind, None).unwrap();
        (Socket::from_raw(Raw::of(a)), b)
    }

    #[test]
    fn a_writer_that_is_dropped_too_early_spoils_the_socket() {
        let (socket, mut peer) = pair();
        let options = SendOptions::default();
        let mut writer = socket.begin_connected(&options).unwrap();
        writer.write_all(&[7; HELD + 1]).unwrap();
        drop(writer);
        assert!(matches!(socket.send(b"x", &options), Err(Error::Abandoned)));
        let mut got = vec![0; HELD + 1];
        assert_eq!(peer.read(&mut got).unwrap(), HELD);
    }

    #[test]
    fn a_writer_that_wrote_nothing_leaves_no_trace() {
        let (socket, mut peer) = pair();
        let options = SendOptions::default();
        drop(socket.begin_connected(&options).unwrap());
        assert_eq!(socket.send(b"x", &options).unwrap(), 0);
        assert_eq!(socket.send(b"yz", &options).unwrap(), 1);
        let mut got = [0; 9];
        assert_eq!(peer.read(&mut got).unwrap(), 1);
        assert_eq!(peer.read(&mut got).unwrap(), 2);
    }

    #[test]
    fn waits_no_longer_than_told() {
        let (socket, _peer) = pair();
        let began = Instant::now();
        let wait = Duration::from_millis(30);
        assert!(socket.wait_completion(Some(wait)).unwrap().is_none());
        assert!(began.elapsed() >= wait);
    }

    #[test]
    fn names_that_are_no_addresses() {
        let error = Socket::bind("here").unwrap_err();
        assert!(error.to_string().starts_with("cannot resolve: "), "{error}");
        assert!(matches!(Socket::bind(&[][..]), Err(Error::Kernel { .. })));
    }
}
