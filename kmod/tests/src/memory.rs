// SPDX-License-Identifier: GPL-2.0
//! Memory, which there is as long as a test wants.

use std::cell::Cell;

/// There is none.
#[derive(Debug)]
pub(crate) struct NoMemory;

std::thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// As the kernel's.
pub(crate) struct Flags;

/// As the module's `atomic`.
pub(crate) fn atomic() -> Flags {
    Flags
}

/// So many allocations succeed from now on in this thread.
pub(crate) fn runs_out_after(allocations: u32) {
    LEFT.set(allocations);
}

/// Whether an allocation succeeds.
pub(crate) fn is_left() -> bool {
    let left = LEFT.get();
    if left != u32::MAX {
        LEFT.set(left.saturating_sub(1));
    }
    left != 0
}
