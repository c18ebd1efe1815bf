// SPDX-License-Identifier: GPL-2.0
//! Memory for unit tests that can be made to run out, and the count of steps.

use std::cell::Cell;
use std::vec::Vec;

use super::host::{Memory, CHUNK_BYTES};

std::thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// So many more chunks can be allocated by this thread.
pub(crate) fn chunks_left(count: usize) {
    LEFT.with(|left| left.set(count));
}

/// A step of a table.
pub(crate) fn step() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// The steps of all tables in this thread.
pub(crate) fn steps() -> u64 {
    STEPS.with(Cell::get)
}

pub(crate) enum Std {}

impl Memory for Std {
    type Chunk<T> = Vec<T>;
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Vec<T>> {
        assert!(len * size_of::<T>() <= CHUNK_BYTES || len == 8);
        let left = LEFT.with(Cell::get).checked_sub(1)?;
        LEFT.with(|cell| cell.set(left));
        Some((0..len).map(fill).collect())
    }
}
