// SPDX-License-Identifier: GPL-2.0
//! A child qdisc: one that somebody has grafted on a class.
//!
//! Packets go in and out by [`Enqueuing::give`](crate::Enqueuing::give) and [`Dequeuing::take`](crate::Dequeuing::take), and not by methods of the
//! child: whoever holds one has borrowed the qdisc that it is part of.

use crate::bindings;
use core::{mem, ptr::NonNull};

/// An owned reference to a child qdisc. Maps to C's `struct Qdisc *` in a class.
///
/// # Invariants
///
/// Holds one reference, which is given back under RTNL: either to the kernel, by `graft`, or on drop.
pub struct Child(NonNull<bindings::Qdisc>);

// SAFETY: qdiscs are used under their root's lock, from any CPU.
unsafe impl Send for Child {}

impl Child {
    /// # Safety
    ///
    /// `sch` must be a qdisc of which the caller gives away a reference.
    pub(crate) unsafe fn from_raw(sch: NonNull<bindings::Qdisc>) -> Self {
        Child(sch)
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::Qdisc {
        self.0.as_ptr()
    }

    pub(crate) fn into_raw(self) -> *mut bindings::Qdisc {
        let sch = self.as_ptr();
        mem::forget(self);
        sch
    }

    /// The child's handle, e.g. `0x8001_0000` for `8001:`.
    pub fn handle(&self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { (*self.as_ptr()).handle }
    }

    /// Packets that the child holds. A GSO super-packet is one.
    #[inline]
    pub fn queued(&self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { bindings::knet_qdisc_qlen(self.as_ptr()) }
    }

    /// Bytes that the child holds.
    pub fn backlog(&self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { (*self.as_ptr()).qstats.backlog }
    }

    /// Drops everything the child holds.
    pub fn reset(&mut self) {
        // SAFETY: valid by the type's invariant; reset runs under RTNL, with the lock where it is needed.
        unsafe { bindings::qdisc_reset(self.as_ptr()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: gives back the reference we hold, under RTNL by the type's invariant.
        unsafe { bindings::qdisc_put(self.as_ptr()) }
    }
}
