// SPDX-License-Identifier: GPL-2.0
//! What `sendmsg` and `recvmsg` are given, and the reports of the error queue.

use crate::{bindings, net::Net, sock::Sock, transport::Transport};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::error::{to_result, Result};

/// An address as the application knows it. IPv4 addresses are mapped (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SockAddress {
    /// The IP address.
    pub ip: [u8; 16],
    /// The device's index, if the address is of that device's link only; 0 otherwise.
    pub scope: u32,
    /// The transport's port.
    pub port: u16,
}

impl SockAddress {
    pub(crate) fn from_raw(raw: &bindings::knt_address) -> Self {
        Self {
            ip: raw.ip,
            scope: raw.scope,
            port: raw.port,
        }
    }

    pub(crate) fn to_raw(self) -> bindings::knt_address {
        bindings::knt_address {
            ip: self.ip,
            scope: self.scope,
            port: self.port,
            v4: false,
        }
    }
}

/// How a message is to go, other than by its socket.
#[derive(Clone, Copy, Default)]
pub struct Wish {
    /// The local address; all zero: the socket's, or any.
    pub source: [u8; 16],
    /// Index of the device; 0: the socket's, or any.
    pub device: u32,
}

/// What `sendmsg` says beside the data. All values are in range.
pub struct SendOptions {
    /// Which way.
    pub wish: Wish,
    /// The destination.
    pub to: Option<SockAddress>,
    /// The message's length; not 0.
    pub length: Option<u64>,
    /// ns from now.
    pub deadline: Option<u64>,
    /// The coflow; not 0.
    pub coflow: Option<u32>,
    /// 0..=7.
    pub priority: Option<u8>,
    /// Whether the receiver is to learn the length only at the end.
    pub unknown_size: Option<bool>,
    /// `MSG_MORE`: the message goes on.
    pub more: bool,
    /// `MSG_DONTWAIT`, or the file does not block.
    pub dont_wait: bool,
}

impl SendOptions {
    /// Whether there is ancillary data, which is for the call that begins a message.
    pub fn begins(&self) -> bool {
        self.length.is_some()
            || self.deadline.is_some()
            || self.coflow.is_some()
            || self.priority.is_some()
            || self.unknown_size.is_some()
            || self.wish.source != [0; 16]
            || self.wish.device != 0
    }
}

/// What `recvmsg` asks for.
#[derive(Clone, Copy)]
pub struct ReceiveFlags {
    /// `MSG_PEEK`: leave it there.
    pub peek: bool,
    /// `MSG_DONTWAIT`, or the file does not block.
    pub dont_wait: bool,
    /// `MSG_WAITALL`: wait until the buffer is full, or the message ends.
    pub wait_all: bool,
    /// `MSG_ERRQUEUE`: a report.
    pub reports: bool,
}

impl ReceiveFlags {
    pub(crate) fn new(flags: i32) -> Self {
        let has = |bit: u32| flags as u32 & bit != 0;
        Self {
            peek: has(bindings::KNT_MSG_PEEK),
            dont_wait: has(bindings::KNT_MSG_DONTWAIT),
            wait_all: has(bindings::KNT_MSG_WAITALL),
            reports: has(bindings::KNT_MSG_ERRQUEUE),
        }
    }
}

/// A call's `struct msghdr`.
struct Call<'a> {
    raw: NonNull<bindings::msghdr>,
    sock: &'a Sock,
    _call: PhantomData<&'a mut bindings::msghdr>,
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// `raw` must be that of a call for `sock`, with the socket's lock, for as long as the value
    /// lives.
    unsafe fn from_raw(raw: *mut bindings::msghdr, sock: &'a Sock) -> Option<Self> {
        Some(Self {
            raw: NonNull::new(raw)?,
            sock,
            _call: PhantomData,
        })
    }
}

/// What `sendmsg` is given: ancillary data is in the kernel's memory, and there is only to be read.
pub struct Sending<'a>(Call<'a>);

impl<'a> Sending<'a> {
    /// # Safety
    ///
    /// `raw` must be that of a `sendmsg` for `sock`, with the socket's lock, for as long as the
    /// value lives.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::msghdr, sock: &'a Sock) -> Option<Self> {
        // SAFETY: promised by the caller.
        Some(Self(unsafe { Call::from_raw(raw, sock) }?))
    }

    pub(crate) fn as_raw(&mut self) -> *mut bindings::msghdr {
        self.0.raw.as_ptr()
    }

    /// Reads the destination, the flags and the ancillary data.
    ///
    /// # Errors
    /// `EINVAL`, `EAFNOSUPPORT`, `ENETUNREACH`, `EOPNOTSUPP`: what is wrong with them; `EPERM`: a
    /// program of the socket's cgroup refuses the destination.
    pub fn options(&mut self) -> Result<SendOptions> {
        let mut raw = bindings::knt_send_options::default();
        // SAFETY: both live, and the call is a `sendmsg`.
        to_result(unsafe {
            bindings::knt_msg_send_options(self.0.sock.as_raw(), self.as_raw(), &mut raw)
        })?;
        Ok(SendOptions {
            wish: Wish {
                source: raw.wish.source,
                device: raw.wish.device,
            },
            to: raw.has_to.then(|| SockAddress::from_raw(&raw.to)),
            length: (raw.length != 0).then_some(raw.length),
            deadline: raw.has_deadline.then_some(raw.deadline),
            coflow: (raw.coflow != 0).then_some(raw.coflow),
            priority: u8::try_from(raw.priority).ok(),
            unknown_size: raw.has_unknown_size.then_some(raw.unknown_size),
            more: raw.more,
            dont_wait: raw.dont_wait,
        })
    }
}

/// What `recvmsg` is given: ancillary data is the application's memory, and there is only to be
/// written.
pub struct Receiving<'a>(Call<'a>);

impl<'a> Receiving<'a> {
    /// # Safety
    ///
    /// `raw` must be that of a `recvmsg` for `sock`, with the socket's lock, for as long as the
    /// value lives.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::msghdr, sock: &'a Sock) -> Option<Self> {
        // SAFETY: promised by the caller.
        Some(Self(unsafe { Call::from_raw(raw, sock) }?))
    }

    pub(crate) fn as_raw(&mut self) -> *mut bindings::msghdr {
        self.0.raw.as_ptr()
    }

    /// Says whom what was received is from.
    pub fn set_source(&mut self, from: SockAddress) {
        // SAFETY: both live, and the call is a `recvmsg`: there is room for any address.
        unsafe {
            bindings::knt_msg_set_source(self.0.sock.as_raw(), self.as_raw(), &from.to_raw());
        }
    }

    /// Says which local address it came to, and by which device, if the application asked. Sleeps.
    pub fn put_local<T: Transport>(&mut self, _net: &mut Net<'_, T>, local: [u8; 16], device: u32) {
        // SAFETY: both live, the call is a `recvmsg`, and there are 16 bytes.
        unsafe {
            bindings::knt_msg_put_local(
                self.0.sock.as_raw(),
                self.as_raw(),
                local.as_ptr(),
                device,
            );
        }
    }

    /// Says that the message's end was reached (`MSG_EOR`).
    pub fn set_end(&mut self) {
        // SAFETY: it lives.
        unsafe { bindings::knt_msg_set_flags(self.as_raw(), true, false) }
    }

    /// Adds the message's number, its length, the offset of what was read, and its age in ns.
    /// Sleeps.
    pub fn put_info<T: Transport>(&mut self, _net: &mut Net<'_, T>, info: [u64; 4]) {
        // SAFETY: it lives, the call is a `recvmsg`, and there are four numbers.
        unsafe { bindings::knt_msg_put_info(self.as_raw(), info.as_ptr()) }
    }

    /// Takes a report from the error queue. Sleeps.
    ///
    /// # Errors
    /// `EAGAIN`: there is none.
    pub fn take_report<T: Transport>(&mut self, _net: &mut Net<'_, T>, len: usize) -> Result {
        // SAFETY: both live, and the call is a `recvmsg`.
        to_result(unsafe {
            bindings::knt_msg_receive_error(self.0.sock.as_raw(), self.as_raw(), len)
        })
    }
}

/// What became of a message that was sent.
pub struct Report {
    /// Whom it was for.
    pub peer: SockAddress,
    /// The errno; 0: it was delivered.
    pub error: u32,
    /// us that it took.
    pub elapsed: u32,
    /// Its number on the socket.
    pub number: u32,
}
