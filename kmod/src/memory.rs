// SPDX-License-Identifier: GPL-2.0
//! Where the endpoint's tables are.

use kernel::alloc::{flags::__GFP_NOWARN, Flags};
use kernel::prelude::*;
use turnstile_core::transport::host::Memory;

/// Memory that can be had under the namespace's lock. In a system call it counts to the memory
/// cgroup of who calls; while a packet or the timer is worked on there is nobody, and what the
/// tables need then is had ahead where that matters (`Endpoint::prepare`).
#[inline]
pub(crate) fn atomic() -> Flags {
    GFP_ATOMIC | (GFP_KERNEL_ACCOUNT & !GFP_KERNEL)
}

/// The kernel's small allocations.
pub(crate) struct Kernel;

/// An array that does not grow.
pub(crate) struct Chunk<T>(KVec<T>);

impl<T> AsRef<[T]> for Chunk<T> {
    #[inline]
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T> AsMut<[T]> for Chunk<T> {
    #[inline]
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl Memory for Kernel {
    type Chunk<T> = Chunk<T>;

    fn chunk<T>(len: usize, mut fill: impl FnMut(usize) -> T) -> Option<Chunk<T>> {
        let mut items = KVec::with_capacity(len, atomic() | __GFP_NOWARN).ok()?;
        for i in 0..len {
            items.push_within_capacity(fill(i)).ok()?;
        }
        Some(Chunk(items))
    }
}
