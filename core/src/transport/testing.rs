// SPDX-License-Identifier: GPL-2.0
//! Memory for unit tests that can be made to run out.

use std::cell::Cell;
use std::vec::Vec;

use super::host::{Memory, CHUNK_BYTES};

std::thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// So many more chunks can be allocated by this thread.
pub(crate) fn chunks_left(count: usize) {
    LEFT.with(|left| left.set(count));
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
