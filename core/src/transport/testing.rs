// SPDX-License-Identifier: GPL-2.0
//! Memory for unit tests that can be made to run out, and the count of steps.

use std::cell::Cell;
use std::vec::Vec;

use super::host::{Memory, CHUNK_BYTES};

std::thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static CHUNKS: Cell<usize> = const { Cell::new(0) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static FILLED: Cell<u64> = const { Cell::new(0) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// So many more chunks can be allocated by this thread.
pub(crate) fn chunks_left(count: usize) {
    LEFT.with(|left| left.set(count));
}

/// How many chunks this thread has.
pub(crate) fn chunks() -> usize {
    CHUNKS.with(Cell::get)
}

/// A chunk that is counted while it lives.
pub(crate) struct Counted<T>(Vec<T>);

impl<T> AsRef<[T]> for Counted<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T> AsMut<[T]> for Counted<T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        CHUNKS.with(|chunks| chunks.set(chunks.get() - 1));
    }
}

/// A step of a table.
pub(crate) fn step() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// The steps of all tables in this thread.
pub(crate) fn steps() -> u64 {
    STEPS.with(Cell::get)
}

/// How many of these filled new chunks with items.
pub(crate) fn fills() -> u64 {
    FILLED.with(Cell::get)
}

/// How often this thread has asked for a chunk, and got one or not.
pub(crate) fn asked() -> u64 {
    ASKED.with(Cell::get)
}

pub(crate) enum Std {}

impl Memory for Std {
    type Chunk<T> = Counted<T>;
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Counted<T>> {
        assert!(len * size_of::<T>() <= CHUNK_BYTES || len == 8);
        ASKED.with(|asked| asked.set(asked.get() + 1));
        let left = LEFT.with(Cell::get).checked_sub(1)?;
        LEFT.with(|cell| cell.set(left));
        CHUNKS.with(|chunks| chunks.set(chunks.get() + 1));
        FILLED.with(|filled| filled.set(filled.get() + len as u64));
        Some(Counted((0..len).map(fill).collect()))
    }
}
