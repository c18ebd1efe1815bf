// SPDX-License-Identifier: GPL-2.0
//! Calls that lend pages, and what the error queue says of them.

use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd as _};
use std::time::Instant;

use anyhow::{bail, ensure, Context, Result};
use nix::fcntl::{self, SpliceFFlags};
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags};
use rustix::event::PollFlags;
use socket2::SockRef;
use turnstile_socket::Socket;

use super::super::support::{socket, wait_for, PATIENCE};
use crate::netns::Netns;

/// SO_EE_ORIGIN_ZEROCOPY.
const ORIGIN: u8 = 5;
/// SO_EE_CODE_ZEROCOPY_COPIED.
const COPIED: u8 = 1;

/// A file in memory with these bytes.
pub(super) fn file(bytes: &[u8]) -> Result<File> {
    // SAFETY: the name is a string.
    let fd = unsafe { libc::memfd_create(c"sent".as_ptr(), libc::MFD_CLOEXEC) };
    ensure!(fd >= 0, "memfd_create: {}", io::Error::last_os_error());
    // SAFETY: the kernel has just made it for this process.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes)?;
    Ok(file)
}

/// `sendfile(2)`.
pub(super) fn sendfile(to: &impl AsFd, from: &File, offset: u64, len: usize) -> Result<usize> {
    let mut offset = i64::try_from(offset)?;
    nix::sys::sendfile::sendfile(to, from, Some(&mut offset), len).context("sendfile")
}

/// `splice(2)` from a pipe, of a message that goes on.
pub(super) fn splice(to: &impl AsFd, pipe: &impl AsFd, len: usize) -> Result<usize> {
    let more = SpliceFFlags::SPLICE_F_MORE;
    fcntl::splice(pipe, None, to, None, len, more).context("splice")
}

/// Sets SO_ZEROCOPY.
pub(super) fn set(socket: &impl AsFd, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the value is there for as long as the call.
    let result = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, value, 4)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What SO_ZEROCOPY says.
pub(super) fn is_set(socket: &impl AsFd) -> Result<i32> {
    let (mut value, mut len) = (-1, 4);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: both are there for as long as the call.
    let result = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, value, &raw mut len)
    };
    ensure!(result == 0, "{}", io::Error::last_os_error());
    Ok(value)
}

/// A socket in a namespace that may lend its pages to messages to an address.
pub(super) fn lender(ns: &Netns, to: SocketAddr) -> Result<Socket> {
    let socket = socket(ns, "[::]:0")?;
    socket.connect(to)?;
    set(&socket, 1).context("SO_ZEROCOPY")?;
    Ok(socket)
}

/// A call with MSG_ZEROCOPY and these flags.
pub(super) fn lend(socket: &impl AsFd, data: &[u8], flags: i32) -> io::Result<usize> {
    SockRef::from(socket).send_with_flags(data, libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL | flags)
}

/// Calls whose pages are the program's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) copied: bool,
}

/// One report, if there is one.
pub(super) fn returned(socket: &impl AsFd) -> Result<Option<Returned>> {
    let mut none = [0; 0];
    let mut buffers = [IoSliceMut::new(&mut none)];
    let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let fd = socket.as_fd().as_raw_fd();
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(fd, &mut buffers, Some(&mut space), flags) {
        Err(nix::Error::EAGAIN) => return Ok(None),
        message => message.context("the error queue")?,
    };
    let error = match message.cmsgs()?.next() {
        Some(
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _),
        ) => error,
        other => bail!("a report of nothing: {other:?}"),
    };
    ensure!(
        error.ee_origin == ORIGIN && error.ee_errno == 0,
        "another report: {error:?}"
    );
    Ok(Some(Returned {
        first: error.ee_info,
        last: error.ee_data,
        copied: error.ee_code & COPIED != 0,
    }))
}

/// The reports of the calls from one number up to another, which come in any order, each once.
pub(super) fn all_returned(socket: &impl AsFd, first: u32, end: u32) -> Result<Vec<Returned>> {
    let mut open = vec![true; end as usize];
    open[..first as usize].fill(false);
    let mut reports = Vec::new();
    let began = Instant::now();
    while open.contains(&true) {
        ensure!(began.elapsed() < PATIENCE, "after {reports:?} nothing");
        wait_for(socket, PollFlags::ERR)?;
        while let Some(report) = returned(socket)? {
            for number in report.first..=report.last {
                let open = open.get_mut(number as usize).filter(|open| **open);
                *open.with_context(|| format!("{report:?} after {reports:?}"))? = false;
            }
            reports.push(report);
        }
    }
    Ok(reports)
}
