// SPDX-License-Identifier: GPL-2.0
//! A child qdisc: one that somebody has grafted on a class.
//!
//! Children belong to knet: it exchanges them, empties them and lets go of them under RTNL, which
//! is where the kernel wants that. An implementation names them by their place
//! ([`Qdisc::child_place`](crate::Qdisc::child_place)), gives packets to them and takes packets
//! from them with [`Enqueuing::give`](crate::Enqueuing::give) and
//! [`Dequeuing::take`](crate::Dequeuing::take), and sees of them what [`Child`] shows.

use crate::bindings;
use core::{marker::PhantomData, ptr::NonNull};

/// How many children a qdisc may have at most.
pub const MAX_CHILDREN: usize = 16;

/// A child qdisc, seen from its parent. Maps to C's `struct Qdisc *` in a class.
///
/// # Invariants
///
/// Valid for `'a`: children are exchanged under RTNL with the root lock held, and one of these is
/// held for all that time.
#[derive(Clone, Copy)]
pub struct Child<'a>(NonNull<bindings::Qdisc>, PhantomData<&'a bindings::Qdisc>);

impl Child<'_> {
    /// # Safety
    ///
    /// `sch` must stay a valid qdisc for the lifetime of the result.
    pub(crate) unsafe fn from_raw(sch: NonNull<bindings::Qdisc>) -> Self {
        // INVARIANT: promised by the caller.
        Child(sch, PhantomData)
    }

    /// The child's handle, e.g. `0x8001_0000` for `8001:`.
    pub fn handle(self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { (*self.0.as_ptr()).handle }
    }

    /// Packets that the child holds. A GSO super-packet is one.
    #[inline]
    pub fn queued(self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { bindings::knet_qdisc_qlen(self.0.as_ptr()) }
    }

    /// Bytes that the child holds.
    pub fn backlog(self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { (*self.0.as_ptr()).qstats.backlog }
    }
}
