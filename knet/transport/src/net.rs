// SPDX-License-Identifier: GPL-2.0
//! A network namespace: its state, lock, timer and the packets that it sends.

use crate::{
    bindings,
    buffer::Written,
    transport::{Path, Transport},
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};
use kernel::error::{to_result, Result};

/// `CLOCK_MONOTONIC`, ns. The timer runs by it.
pub fn now() -> u64 {
    // SAFETY: no preconditions.
    unsafe { bindings::knt_now() }
}

/// `CLOCK_TAI` or `CLOCK_REALTIME`, ns.
pub fn wall_clock(tai: bool) -> u64 {
    // SAFETY: no preconditions.
    unsafe { bindings::knt_wall_clock(tai) }
}

/// A random number that nobody can guess.
pub fn random() -> u64 {
    // SAFETY: no preconditions.
    unsafe { bindings::knt_random() }
}

/// A network namespace, as the transport `T` sees it.
#[repr(transparent)]
pub struct Net<T: Transport>(UnsafeCell<bindings::knt_net>, PhantomData<T>);

impl<T: Transport> Net<T> {
    /// # Safety
    ///
    /// `net` must live for `'a`, and its state be `T`'s: `T` is the transport that is registered.
    pub(crate) unsafe fn from_raw<'a>(net: *mut bindings::knt_net) -> &'a Self {
        // SAFETY: promised by the caller; the type is transparent.
        unsafe { &*net.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::knt_net {
        self.0.get()
    }

    /// Makes the state and opens the UDP port, if that was not done yet. Sleeps.
    ///
    /// # Errors
    /// `ENOMEM`; `EADDRINUSE` when another program has the port.
    pub fn open(&self) -> Result {
        // SAFETY: the namespace lives.
        to_result(unsafe { bindings::knt_net_open(self.as_raw()) })
    }

    /// Locks the state; `None` if there is none yet. Bottom halves are off until it is released: no sleeping.
    pub fn lock(&self) -> Option<Locked<'_, T>> {
        // SAFETY: the namespace lives.
        let state = unsafe { bindings::knt_net_state(self.as_raw()) };
        let state = NonNull::new(state)?.cast();
        // SAFETY: the namespace lives. The lock is never held here: its holder has a `Locked`, and code
        // that has one does not come here again without a deadlock, which lockdep reports and nothing else suffers from.
        unsafe { bindings::knt_net_lock(self.as_raw()) };
        Some(Locked {
            net: self,
            state,
            outbox: Outbox {
                packets: bindings::knt_outbox::default(),
                net: self.as_raw(),
            },
        })
    }
}

/// The packets to send when the lock is released.
///
/// # Invariants
///
/// `net` lives as long as this.
pub struct Outbox {
    packets: bindings::knt_outbox,
    pub(crate) net: *mut bindings::knt_net,
}

/// A packet to send.
pub struct Departure<'a> {
    /// Whom to, and from which address.
    pub to: Path,
    /// The transport's header.
    pub head: &'a [u8],
    /// What follows it: bytes `offset..offset + len` of what was written.
    pub payload: Option<(&'a Written, u32, u32)>,
    /// DSCP and ECN of IP's header.
    pub tos: u8,
}

impl Outbox {
    /// Adds a packet. `false`: no memory, or the payload is not there any more.
    pub fn add(&mut self, departure: &Departure<'_>) -> bool {
        let (out, offset, len) = match departure.payload {
            Some((written, offset, len)) => (written.as_raw(), offset, len),
            None => (core::ptr::null_mut(), 0, 0),
        };
        let raw = bindings::knt_departure {
            to: bindings::knt_path {
                ip: departure.to.ip,
                local: departure.to.local,
                scope: departure.to.scope,
            },
            head: departure.head.as_ptr(),
            head_len: departure.head.len() as u32,
            out,
            offset,
            len,
            tos: departure.tos,
            mark: 0,
        };
        // SAFETY: all pointers are to what lives during the call.
        unsafe { bindings::knt_outbox_add(&mut self.packets, &raw) }
    }
}

/// A namespace's state, locked.
pub struct Locked<'a, T: Transport> {
    net: &'a Net<T>,
    state: NonNull<T::State>,
    outbox: Outbox,
}

impl<T: Transport> Locked<'_, T> {
    /// The state, and where packets to send go.
    pub fn parts(&mut self) -> (&mut T::State, &mut Outbox) {
        // SAFETY: the lock excludes all others, and the state lives as long as the namespace.
        (unsafe { self.state.as_mut() }, &mut self.outbox)
    }
}

impl<T: Transport> Deref for Locked<'_, T> {
    type Target = T::State;

    fn deref(&self) -> &T::State {
        // SAFETY: as in `parts`.
        unsafe { self.state.as_ref() }
    }
}

impl<T: Transport> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T::State {
        // SAFETY: as in `parts`.
        unsafe { self.state.as_mut() }
    }
}

impl<T: Transport> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        let at = T::next_timer(self).unwrap_or(u64::MAX);
        // SAFETY: the lock is held, and given back.
        unsafe {
            bindings::knt_net_arm(self.net.as_raw(), at);
            bindings::knt_net_unlock(self.net.as_raw());
        }
        if !self.outbox.packets.first.is_null() {
            // SAFETY: the packets are given away, and the lock is not held any more.
            unsafe { bindings::knt_outbox_send(self.net.as_raw(), &mut self.outbox.packets) }
        }
    }
}
