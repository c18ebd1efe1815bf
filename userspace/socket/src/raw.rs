// SPDX-License-Identifier: GPL-2.0
//! Thin wrappers of the system calls: each makes one call, without retries or further waits.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, MaybeUninitSlice, MsgHdr, MsgHdrMut, Protocol, SockAddr, Type};
use turnstile_core::transport::uapi::{ancillary as number, sockopt, IPPROTO_TURNSTILE};

use crate::ancillary;
use crate::message::{Completion, Info, Lost, Received, LEVEL};
use crate::Error;

/// Space for the ancillary data of a read, or of the error queue: two addresses and a
/// `sock_extended_err`.
const CONTROL: usize = ancillary::space(number::INFO_LEN) + ancillary::space(16 + 28) + 64;

/// An option of 32 bits, an `int` unless it says otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opt {
    ReceiveInfo,
    Completions,
    DefaultPriority,
    Key,
    AcceptKey,
    /// A `u32`, only read.
    Number,
    /// Only read.
    Open,
}

impl Opt {
    fn number(self) -> libc::c_int {
        let number = match self {
            Self::ReceiveInfo => sockopt::RECVINFO,
            Self::Completions => sockopt::COMPLETIONS,
            Self::DefaultPriority => sockopt::DEFAULT_PRIORITY,
            Self::Key => sockopt::KEY,
            Self::AcceptKey => sockopt::ACCEPT_KEY,
            Self::Number => sockopt::NUMBER,
            Self::Open => sockopt::OPEN,
        };
        number as libc::c_int
    }
}

/// A socket of the transport.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) socket: socket2::Socket,
    /// AF_INET6.
    v6: bool,
    /// Reads may be of several messages in turn.
    interleaved: AtomicBool,
}

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Raw {
    /// A new socket, bound to `local`.
    pub(crate) fn bind(local: SocketAddr) -> Result<Self, Error> {
        let protocol = Protocol::from(i32::from(IPPROTO_TURNSTILE));
        let kind = Type::from(libc::SOCK_RDM);
        let socket = socket2::Socket::new(Domain::for_address(local), kind, Some(protocol))
            .map_err(Error::open)?;
        let raw = Self {
            socket,
            v6: local.is_ipv6(),
            interleaved: AtomicBool::new(false),
        };
        raw.set(Opt::ReceiveInfo, 1)
            .map_err(Error::kernel("set up the socket"))?;
        raw.socket
            .bind(&local.into())
            .map_err(Error::kernel("bind"))?;
        Ok(raw)
    }

    /// For tests: any socket in the place of one of the transport's.
    #[cfg(test)]
    pub(crate) fn of(socket: socket2::Socket) -> Self {
        Self {
            socket,
            v6: false,
            interleaved: AtomicBool::new(false),
        }
    }

    /// Converts an address to this socket's family: an AF_INET6 socket has IPv4 as
    /// `::ffff:a.b.c.d`.
    pub(crate) fn address(&self, to: SocketAddr) -> SockAddr {
        match to.ip() {
            IpAddr::V4(ip) if self.v6 => SocketAddr::from((ip.to_ipv6_mapped(), to.port())).into(),
            _ => to.into(),
        }
    }

    /// `sendmsg(2)`. With `more` the message stays open.
    pub(crate) fn send(
        &self,
        data: &[u8],
        to: Option<&SockAddr>,
        control: &[u8],
        more: bool,
    ) -> io::Result<usize> {
        let buffers = [IoSlice::new(data)];
        let mut message = MsgHdr::new().with_buffers(&buffers);
        if let Some(to) = to {
            message = message.with_addr(to);
        }
        if !control.is_empty() {
            message = message.with_control(control);
        }
        let more = if more { libc::MSG_MORE } else { 0 };
        self.socket.sendmsg(&message, libc::MSG_NOSIGNAL | more)
    }

    /// `recvmsg(2)`. `None`: the socket was shut down.
    pub(crate) fn receive(&self, data: &mut [u8]) -> io::Result<Option<Received>> {
        let mut from = any_address();
        let mut control = [0; CONTROL];
        let (len, flags, used) = self.receive_into(data, &mut from, &mut control, 0)?;
        if len == 0 {
            return Ok(None);
        }
        let from = from.as_socket().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a sender without an address")
        })?;
        let info = Info::decode(control.get(..used).unwrap_or(&control));
        Ok(Some(Received {
            len,
            from,
            end_of_message: flags.is_end_of_record(),
            info,
        }))
    }

    /// Takes the oldest completion from the error queue.
    pub(crate) fn completion(&self) -> io::Result<Option<Completion>> {
        loop {
            let mut from = any_address();
            let mut control = [0; CONTROL];
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            match self.receive_into(&mut [], &mut from, &mut control, flags) {
                // Skip other entries of the error queue.
                Ok((_, _, used)) => {
                    let control = control.get(..used).unwrap_or(&control);
                    if let Some(lost) = Lost::decode(control) {
                        return Err(io::Error::other(lost));
                    }
                    if let Some(found) = Completion::decode(control) {
                        return Ok(Some(found));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn receive_into(
        &self,
        data: &mut [u8],
        from: &mut SockAddr,
        control: &mut [u8],
        flags: libc::c_int,
    ) -> io::Result<(usize, socket2::RecvFlags, usize)> {
        let (data, control) = (to_write(data), to_write(control));
        let mut buffers = [MaybeUninitSlice::new(data)];
        let mut message = MsgHdrMut::new()
            .with_addr(from)
            .with_buffers(&mut buffers)
            .with_control(control);
        let len = self.socket.recvmsg(&mut message, flags)?;
        Ok((len, message.flags(), message.control_len()))
    }

    /// Sets an option.
    pub(crate) fn set(&self, option: Opt, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the value is an int, its length is passed, and it outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                LEVEL,
                option.number(),
                std::ptr::from_ref(&value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        checked(result)
    }

    /// Sets what reads tell of messages: 0 nothing, 1 facts, 2 facts, with pieces of several in
    /// turn.
    pub(crate) fn set_info(&self, value: libc::c_int) -> io::Result<()> {
        self.set(Opt::ReceiveInfo, value)?;
        self.interleaved.store(value == 2, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses to put a message together from reads that may be of several.
    pub(crate) fn one_by_one(&self) -> Result<(), Error> {
        if self.interleaved.load(Ordering::Relaxed) {
            return Err(Error::Interleaved);
        }
        Ok(())
    }

    /// Sets an option that is a message's number.
    pub(crate) fn set_number(&self, option: u32, number: u64) -> io::Result<()> {
        // SAFETY: the value is a u64, its length is passed, and it outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                LEVEL,
                option as libc::c_int,
                std::ptr::from_ref(&number).cast(),
                size_of_val(&number) as libc::socklen_t,
            )
        };
        checked(result)
    }

    /// Reads an option.
    pub(crate) fn get(&self, option: Opt) -> io::Result<libc::c_int> {
        let mut value: libc::c_int = 0;
        let mut len = size_of_val(&value) as libc::socklen_t;
        // SAFETY: there is room for an int, whose length is passed, and both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                LEVEL,
                option.number(),
                std::ptr::from_mut(&mut value).cast(),
                &mut len,
            )
        };
        checked(result).map(|()| value)
    }

    /// The number that the next message will have.
    pub(crate) fn next_number(&self) -> io::Result<u32> {
        Ok(self.get(Opt::Number)? as u32)
    }

    /// Whether a message is open on the socket.
    pub(crate) fn is_open(&self) -> io::Result<bool> {
        Ok(self.get(Opt::Open)? != 0)
    }

    /// Bytes that can be read (`SIOCINQ`), or are not acknowledged (`SIOCOUTQ`).
    pub(crate) fn queued(&self, outgoing: bool) -> io::Result<usize> {
        let request = if outgoing {
            libc::TIOCOUTQ
        } else {
            libc::FIONREAD
        };
        let mut bytes: libc::c_int = 0;
        // SAFETY: both requests write one int, for which there is room.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), request, &mut bytes) };
        checked(result).map(|()| usize::try_from(bytes).unwrap_or(0))
    }

    /// Gives up the descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.socket.into()
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Space for an address of either family. The kernel gets its length, and writes no more.
fn any_address() -> SockAddr {
    SocketAddr::from(([0u16; 8], 0)).into()
}

/// Bytes that the kernel may write to.
fn to_write(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: only the kernel writes there, and it writes initialized bytes.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_either_family_are_told_whole() {
        // UDP tells senders by the same call.
        for (bound, to, from) in [
            ("[::]:0", "127.0.0.1", "::ffff:127.0.0.1"),
            ("127.0.0.1:0", "127.0.0.1", "127.0.0.1"),
        ] {
            let receiver = std::net::UdpSocket::bind(bound).unwrap();
            let port = receiver.local_addr().unwrap().port();
            let sender = std::net::UdpSocket::bind((to, 0)).unwrap();
            sender.send_to(b"x", (to, port)).unwrap();
            let read = Raw::of(receiver.into()).receive(&mut [0; 9]).unwrap();
            let want = SocketAddr::new(from.parse().unwrap(), sender.local_addr().unwrap().port());
            assert_eq!(read.unwrap().from, want);
        }
    }

    #[test]
    fn addresses_in_the_family_of_the_socket() {
        // Any socket will do: only its family counts.
        let raw = |v6| Raw {
            v6,
            ..Raw::of(socket2::Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap())
        };
        let v4: SocketAddr = "10.0.0.1:5000".parse().unwrap();
        let v6: SocketAddr = "[fe80::1%3]:5000".parse().unwrap();
        assert_eq!(raw(false).address(v4).as_socket(), Some(v4));
        assert_eq!(
            raw(true).address(v4).as_socket(),
            Some("[::ffff:10.0.0.1]:5000".parse().unwrap())
        );
        assert_eq!(raw(true).address(v6).as_socket(), Some(v6));
    }
}
