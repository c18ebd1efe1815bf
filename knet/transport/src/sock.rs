// SPDX-License-Identifier: GPL-2.0
//! Sockets.

use crate::{bindings, net::Net, transport::Transport};
use core::{cell::UnsafeCell, ops::Deref, ptr::NonNull};

/// A socket of the transport, borrowed.
#[repr(transparent)]
pub struct Sock(UnsafeCell<bindings::sock>);

// SAFETY: all that the methods do is made for being called from anywhere.
unsafe impl Send for Sock {}
// SAFETY: as above.
unsafe impl Sync for Sock {}

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

    /// The socket's network namespace. `T` must be the transport that is registered: there is one in a module.
    pub(crate) fn net<T: Transport>(&self) -> &Net<T> {
        // SAFETY: the socket holds its namespace.
        unsafe { Net::from_raw(bindings::knt_sock_net(self.as_raw())) }
    }

    /// A reference that keeps the socket.
    pub fn hold(&self) -> SockRef {
        // SAFETY: the socket lives.
        unsafe { bindings::knt_sock_hold(self.as_raw()) };
        // SAFETY: a reference's address.
        SockRef(unsafe { NonNull::new_unchecked(self.as_raw()) })
    }
}

/// A reference to a socket that keeps it, its namespace and the module. May be dropped anywhere.
pub struct SockRef(NonNull<bindings::sock>);

// SAFETY: as for `Sock`.
unsafe impl Send for SockRef {}
// SAFETY: as for `Sock`.
unsafe impl Sync for SockRef {}

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
