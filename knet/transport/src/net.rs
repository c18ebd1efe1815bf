// SPDX-License-Identifier: GPL-2.0
//! A network namespace: its state, lock, timer and the packets that it sends.

use crate::{bindings, transport::Transport};
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
                _private: PhantomData,
            },
        })
    }
}

/// The packets to send when the lock is released.
pub struct Outbox {
    _private: PhantomData<*mut ()>,
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
    }
}
