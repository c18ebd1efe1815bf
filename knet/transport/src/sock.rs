// SPDX-License-Identifier: GPL-2.0
//! Sockets.

use crate::{
    bindings,
    message::{Report, SockAddress, Wish},
    net::Net,
    transport::{Path, Transport},
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, RangeInclusive},
    ptr::NonNull,
};
use kernel::{
    error::{to_result, Result},
    ffi::{c_long, c_void},
};

/// A socket of the transport, borrowed.
#[repr(transparent)]
pub struct Sock(UnsafeCell<bindings::sock>);

// SAFETY: all that the methods do is made for being called from anywhere.
unsafe impl Send for Sock {}
// SAFETY: as above.
unsafe impl Sync for Sock {}

/// What the kernel knows of a socket.
pub struct View {
    /// The address and port that it is bound to. All zero: any; `::ffff:0.0.0.0`: any of IPv4.
    pub local: SockAddress,
    /// Whom it is connected to.
    pub peer: Option<SockAddress>,
    /// Index of the device that it is bound to; 0: none.
    pub device: u32,
    /// `IPV6_V6ONLY`.
    pub v6only: bool,
    /// `SO_REUSEPORT`, and the user whose socket it is.
    pub shares: Option<u32>,
}

/// What a socket's options tie it to: `SO_BINDTODEVICE` and `SO_MARK`. A message keeps to what they
/// said when it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tie {
    /// Index of the device that packets go and are taken by; 0: any.
    pub device: u32,
    /// The mark of packets that go out, by which rules choose their routes.
    pub mark: u32,
}

impl Tie {
    fn from_raw(raw: bindings::knt_tie) -> Self {
        Self {
            device: raw.device,
            mark: raw.mark,
        }
    }

    pub(crate) fn to_raw(self) -> bindings::knt_tie {
        bindings::knt_tie {
            device: self.device,
            mark: self.mark,
        }
    }
}

impl Sock {
    /// # Safety
    ///
    /// `sk` must be a socket of this transport that lives for `'a`.
    pub(crate) unsafe fn from_raw<'a>(sk: *mut bindings::sock) -> &'a Self {
        // SAFETY: promised by the caller; the type is transparent.
        unsafe { &*sk.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// The number that [`Sock::set_handle`] set; 0 at first.
    pub fn handle(&self) -> u64 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_handle(self.as_raw()) }
    }

    /// Sets the number by which the namespace's state knows the socket.
    pub fn set_handle(&self, handle: u64) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_set_handle(self.as_raw(), handle) }
    }

    /// A reference that keeps the socket.
    pub fn hold(&self) -> SockRef {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_hold(self.as_raw()) };
        // SAFETY: a reference's address.
        SockRef(unsafe { NonNull::new_unchecked(self.as_raw()) })
    }

    /// What the kernel knows of it now.
    pub fn view(&self) -> View {
        let mut raw = bindings::knt_sock_view::default();
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_view(self.as_raw(), &mut raw) };
        View {
            local: SockAddress::from_raw(&raw.local),
            peer: (raw.peer.port != 0).then(|| SockAddress::from_raw(&raw.peer)),
            device: raw.device,
            v6only: raw.v6only,
            shares: raw.shares.then_some(raw.owner),
        }
    }

    /// Whom it is connected to, as in [`Sock::view`].
    pub fn peer(&self) -> Option<SockAddress> {
        let mut raw = bindings::knt_address::default();
        // SAFETY: the socket lives.
        let connected = unsafe { bindings::knt_sock_peer(self.as_raw(), &mut raw) };
        connected.then(|| SockAddress::from_raw(&raw))
    }

    /// The ports from which the kernel chooses one for it: `net.ipv4.ip_local_port_range` of its
    /// namespace.
    pub fn chosen_ports(&self) -> RangeInclusive<u16> {
        // SAFETY: the socket lives.
        let ports = unsafe { bindings::knt_sock_chosen(self.as_raw()) };
        ports.first..=ports.last
    }

    /// Whom it counts for, where users share something.
    pub fn user(&self) -> u32 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_user(self.as_raw()) }
    }

    /// What it is tied to now.
    pub fn tie(&self) -> Tie {
        // SAFETY: the socket lives.
        Tie::from_raw(unsafe { bindings::knt_sock_tie(self.as_raw()) })
    }

    /// Whether it is shut down for reading.
    pub fn no_receive(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_is_shut(self.as_raw(), false) }
    }

    /// Whether it is shut down for writing.
    pub fn no_send(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_is_shut(self.as_raw(), true) }
    }

    /// `SO_SNDBUF`, in the kernel's way of counting, which is twice what the application said.
    pub fn send_buffer(&self) -> u32 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_buffer(self.as_raw(), true) }
    }

    /// `SO_RCVBUF`, counted likewise.
    pub fn receive_buffer(&self) -> u32 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_buffer(self.as_raw(), false) }
    }

    /// Its port; 0: none yet.
    pub fn port(&self) -> u16 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_port(self.as_raw()) }
    }

    /// Whether it has a peer.
    pub fn is_connected(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_is_connected(self.as_raw()) }
    }

    /// Sets `SO_SNDBUF` and `SO_RCVBUF`, in the kernel's way of counting.
    pub fn set_buffers(&self, send: u32, receive: u32) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_set_buffers(self.as_raw(), send, receive) }
    }

    /// Whether the application has set `SO_RCVBUF`.
    pub fn receive_is_set(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_receive_is_set(self.as_raw()) }
    }

    /// Whether the application has set `SO_SNDBUF`.
    pub fn send_is_set(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_send_is_set(self.as_raw()) }
    }

    /// By how much receive buffers may still grow, in the kernel's way of counting, with what all
    /// sockets of the machine have.
    pub fn may_grow(&self) -> u32 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_may_grow(self.as_raw()) }
    }

    /// Changes `SO_RCVBUF`, in the kernel's way of counting, unless the application has set it or
    /// it is not `from` any more. It was `first` at first: what it has beyond that counts to what
    /// [`may_grow`](Self::may_grow) tells. If the application has set it, no more than up to `to`
    /// of what it had grown to still counts, nor less than up to the size that it has.
    pub fn resize_receive(&self, from: u32, to: u32, first: u32) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_resize_receive(self.as_raw(), from, to, first) }
    }

    /// The error that is pending on the socket. It is not any more then.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> Result {
        // SAFETY: the socket lives.
        to_result(unsafe { bindings::knt_sock_error(self.as_raw()) })
    }

    /// Whether an error is pending.
    pub fn has_error(&self) -> bool {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_has_error(self.as_raw()) }
    }

    /// Makes an errno pending.
    pub fn set_error(&self, errno: u32) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_set_error(self.as_raw(), errno) }
    }

    /// Queues a report. If there is no room, a later one tells how many were lost.
    pub fn report(&self, report: &Report) {
        let raw = bindings::knt_report {
            peer: report.peer.to_raw(),
            error: report.error,
            info: report.elapsed,
            number: report.number,
        };
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_report(self.as_raw(), &raw) }
    }

    /// How often [`Sock::readable`] and [`Sock::set_error`] were called, for
    /// [`Caller::wait_for_news`].
    pub fn news(&self) -> u32 {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_news(self.as_raw()) }
    }

    /// Wakes who waits for something to read.
    pub fn readable(&self) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_readable(self.as_raw()) }
    }

    /// Wakes who waits for room to write in so many milliseconds.
    pub fn writable_later(&self, ms: u32) {
        // SAFETY: the socket lives, and its timer until it is closed, which stops it.
        unsafe { bindings::knt_sock_writable_later(self.as_raw(), ms) }
    }

    /// Wakes who waits for room to write.
    pub fn writable(&self) {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_writable(self.as_raw()) }
    }
}

/// A socket during a call of the application, which has the socket's lock.
#[derive(Clone, Copy)]
pub struct LockedSock<'a>(&'a Sock, PhantomData<*mut ()>);

impl Deref for LockedSock<'_> {
    type Target = Sock;

    fn deref(&self) -> &Sock {
        self.0
    }
}

impl<'a> LockedSock<'a> {
    /// # Safety
    ///
    /// The caller has the socket's lock, in process context, for as long as the value lives.
    pub(crate) unsafe fn new(sock: &'a Sock) -> Self {
        Self(sock, PhantomData)
    }
}

/// A socket during a call of the application that may wait: to write, to read, or to close.
#[derive(Clone, Copy)]
pub struct Caller<'a>(LockedSock<'a>);

impl<'a> Deref for Caller<'a> {
    type Target = LockedSock<'a>;

    fn deref(&self) -> &LockedSock<'a> {
        &self.0
    }
}

impl<'a> Caller<'a> {
    /// # Safety
    ///
    /// As for [`LockedSock::new`]; and nothing depends on the lock not being released in between.
    pub(crate) unsafe fn new(sock: &'a Sock) -> Self {
        // SAFETY: promised by the caller.
        Self(unsafe { LockedSock::new(sock) })
    }

    /// Gives the socket a port, if it has none. Sleeps.
    ///
    /// # Errors
    /// Those of [`Transport::sock_bind`].
    pub fn autobind<T: Transport>(&self, _net: &mut Net<'_, T>) -> Result {
        // SAFETY: with the socket's lock. The namespace's is free for `sock_bind`: `_net` is not
        // borrowed.
        to_result(unsafe { bindings::knt_sock_autobind(self.as_raw()) })
    }

    /// The path to an address for packets from this UDP port, what the socket is tied to, and how
    /// long a packet may be there, IP header included. Sleeps.
    ///
    /// # Errors
    /// `ENETUNREACH`, `EACCES`, …: there is none; `EINVAL`: the wish is not one for this socket.
    pub fn route<T: Transport>(
        &self,
        _net: &mut Net<'_, T>,
        to: &SockAddress,
        wish: &Wish,
        port: u16,
    ) -> Result<(Path, Tie, u32)> {
        let mut way = bindings::knt_way_out::default();
        let wish = bindings::knt_wish {
            source: wish.source,
            device: wish.device,
        };
        // SAFETY: the socket lives.
        to_result(unsafe {
            bindings::knt_route(self.as_raw(), &to.to_raw(), &wish, port, &mut way)
        })?;
        Ok((Path::from_raw(&way.path), Tie::from_raw(way.tie), way.mtu))
    }

    /// How long a call may wait for room (`send`) or for data.
    pub fn timeout(&self, send: bool, dont_wait: bool) -> Timeout {
        // SAFETY: the socket lives.
        Timeout(unsafe { bindings::knt_sock_timeout(self.as_raw(), send, dont_wait) })
    }

    /// Waits until `ready` says `true`. The socket's lock is released meanwhile.
    ///
    /// # Errors
    /// `EAGAIN`: the time is over; `EINTR` or `ERESTARTSYS`: a signal came.
    pub fn wait<'n, T: Transport>(
        &self,
        net: &mut Net<'n, T>,
        timeout: &mut Timeout,
        mut ready: impl FnMut(&mut Net<'n, T>) -> bool,
    ) -> Result {
        self.wait_for(timeout, || ready(net))
    }

    /// Waits until the socket wakes who waits, unless there is news since [`Sock::news`] said
    /// `seen`. The socket's lock is released meanwhile. Cheaper than [`Caller::wait`] for who looks
    /// afterwards what there is.
    ///
    /// # Errors
    /// `EAGAIN`: the time is over; `EINTR` or `ERESTARTSYS`: a signal came.
    pub fn wait_for_news<T: Transport>(
        &self,
        _net: &mut Net<'_, T>,
        timeout: &mut Timeout,
        seen: u32,
    ) -> Result {
        // SAFETY: with the socket's lock, which may be released.
        to_result(unsafe { bindings::knt_sock_wait_for_news(self.as_raw(), &mut timeout.0, seen) })
    }

    fn wait_for<F: FnMut() -> bool>(&self, timeout: &mut Timeout, mut ready: F) -> Result {
        // SAFETY: with the socket's lock, which may be released; `ask` is for an `F`, and that
        // lives during the call.
        to_result(unsafe {
            bindings::knt_sock_wait(
                self.as_raw(),
                &mut timeout.0,
                Some(ask::<F>),
                core::ptr::from_mut(&mut ready).cast(),
            )
        })
    }
}

/// # Safety
///
/// `ready` must be an `F`, and nobody else use it during the call.
unsafe extern "C" fn ask<F: FnMut() -> bool>(ready: *mut c_void) -> bool {
    // SAFETY: `Caller::wait_for` passes an `F`.
    unsafe { (*ready.cast::<F>())() }
}

/// How long a call may still wait.
#[derive(Clone, Copy)]
pub struct Timeout(pub(crate) c_long);

impl Timeout {
    /// Not at all.
    pub fn is_over(self) -> bool {
        self.0 == 0
    }
}

/// A reference to a socket that keeps it, its namespace and the module. May be dropped anywhere.
pub struct SockRef(NonNull<bindings::sock>);

// SAFETY: as for `Sock`.
unsafe impl Send for SockRef {}
// SAFETY: as for `Sock`.
unsafe impl Sync for SockRef {}

impl SockRef {
    /// Gives the reference to C.
    pub(crate) fn into_raw(self) -> *mut bindings::sock {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Deref for SockRef {
    type Target = Sock;

    fn deref(&self) -> &Sock {
        // SAFETY: the reference keeps the socket alive.
        unsafe { Sock::from_raw(self.0.as_ptr()) }
    }
}

impl Clone for SockRef {
    fn clone(&self) -> Self {
        self.hold()
    }
}

impl Drop for SockRef {
    fn drop(&mut self) {
        // SAFETY: the reference is given back.
        unsafe { bindings::knt_sock_put(self.0.as_ptr()) }
    }
}
