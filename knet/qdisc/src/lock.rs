// SPDX-License-Identifier: GPL-2.0
//! A lock for what several qdiscs share whose packets pass under locks of their own.

use crate::bindings;
use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    sync::{Arc, UniqueArc},
};

/// A value that qdiscs share, and the lock that it is used under; a handle of it. It lives as long
/// as any handle. Maps to C's `spin_lock_bh`.
///
/// On the packet path it is taken inside the qdisc's own lock. Whoever has it does not wait, and
/// does not take it again.
pub struct Lock<T>(Arc<Inner<T>>);

struct Inner<T> {
    lock: UnsafeCell<bindings::knet_lock>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one at a time, with the lock, and may be so by any thread.
unsafe impl<T: Send> Send for Inner<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Inner<T> {}

impl<T: Send> Lock<T> {
    /// A lock with the value that `make` gives, which is made where it stays, as far as the
    /// compiler can: it would be much for a stack. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub fn new(make: impl FnOnce() -> T) -> Result<Self> {
        let mut place = UniqueArc::<Inner<T>>::new_uninit(GFP_KERNEL)?;
        let inner: *mut Inner<T> = place.as_mut_ptr();
        // SAFETY: memory for one, that nobody else has yet and that does not move. Both fields are
        // initialised, of which C takes the lock as bytes.
        let whole = unsafe {
            (&raw mut (*inner).value).cast::<T>().write(make());
            bindings::knet_lock_init((&raw mut (*inner).lock).cast());
            place.assume_init()
        };
        Ok(Lock(whole.into()))
    }

    /// Works on the value with the lock. From anywhere but interrupts.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: initialised by `new`; who has the lock has the value for itself. `work` gets a
        // reference that is over when it returns. It cannot get here again for this value: it would
        // wait for ever, and not have a second reference.
        unsafe {
            bindings::knet_lock(self.0.lock.get());
            let result = work(&mut *self.0.value.get());
            bindings::knet_unlock(self.0.lock.get());
            result
        }
    }
}

impl<T> Clone for Lock<T> {
    fn clone(&self) -> Self {
        Lock(self.0.clone())
    }
}
