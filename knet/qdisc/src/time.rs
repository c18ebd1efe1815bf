// SPDX-License-Identifier: GPL-2.0
//! The clock, and random numbers.

use crate::bindings;

/// `CLOCK_MONOTONIC` in ns. C: `ktime_get_ns`.
#[inline]
pub fn now() -> u64 {
    // SAFETY: can be called in any context. The monotonic clock is never negative.
    unsafe { bindings::ktime_get() as u64 }
}

/// A number that nobody can guess. C: `get_random_u64`.
pub fn random() -> u64 {
    // SAFETY: can be called in any context.
    unsafe { bindings::knet_random() }
}
