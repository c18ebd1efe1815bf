// SPDX-License-Identifier: GPL-2.0
//! The clock.

use crate::bindings;

/// `CLOCK_MONOTONIC` in ns. C: `ktime_get_ns`.
#[inline]
pub fn now() -> u64 {
    // SAFETY: can be called in any context. The monotonic clock is never negative.
    unsafe { bindings::ktime_get() as u64 }
}
