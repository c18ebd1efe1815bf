// SPDX-License-Identifier: GPL-2.0
//! A number that the qdiscs of a network namespace count together.

use crate::bindings;
use core::{ops::Deref, ptr::NonNull, sync::atomic::AtomicU64};
use kernel::prelude::*;

/// A handle of the namespace's number, which begins with 0 and lives as long as any handle.
///
/// # Invariants
///
/// It is a user of what it points to.
pub struct Tally(NonNull<bindings::knet_tally>);

impl Tally {
    /// The number of the device's namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `dev` must be valid, and the caller must be allowed to sleep.
    pub(crate) unsafe fn of(dev: *mut bindings::net_device) -> Result<Self> {
        // SAFETY: promised by the caller.
        let tally = unsafe { bindings::knet_tally_get(dev) };
        // INVARIANT: C has counted this user.
        NonNull::new(tally).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for Tally {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        // SAFETY: by the invariant it is valid as long as this is. The number is 8 bytes of which
        // C knows nothing but that they are 0 at first; all others use them as this does.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.0.as_ptr()).value) }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        // SAFETY: by the invariant it is a user, and is none from now on.
        unsafe { bindings::knet_tally_put(self.0.as_ptr()) }
    }
}

// SAFETY: the number is atomic, and users are counted with a lock.
unsafe impl Send for Tally {}
