// SPDX-License-Identifier: GPL-2.0
//! A growing array in chunks: it allocates little at once, and never moves its items.
//!
//! A tree of three levels: a root, directories, leaves. The first leaf and the first directory
//! stand alone, since most tables have no more most of the time. No chunk exceeds [`CHUNK_BYTES`],
//! so that it can be allocated in atomic context, and growing copies nothing. It shrinks by a leaf
//! at a time, from its end.

use super::host::{Memory, CHUNK_BYTES};

/// How many directories.
const ROOT: usize = 256;
/// How many leaves a directory has.
const DIRECTORY: usize = 256;

type Leaf<M, T> = <M as Memory>::Chunk<T>;
type Directory<M, T> = <M as Memory>::Chunk<Option<Leaf<M, T>>>;
type Root<M, T> = <M as Memory>::Chunk<Option<Directory<M, T>>>;

/// The array. Items are made when it grows.
pub(crate) struct Paged<M: Memory, T> {
    first: Option<Leaf<M, T>>,
    /// The next leaves: the first place is empty.
    near: Option<Directory<M, T>>,
    /// The first place is empty.
    root: Option<Root<M, T>>,
    len: u32,
}

impl<M: Memory, T> Paged<M, T> {
    /// A leaf has 2^`SHIFT` items: as many as fit in a chunk, from 8 to 1024.
    const SHIFT: u32 = {
        let mut shift = 3;
        while shift < 10 && (size_of::<T>() << (shift + 1)) <= CHUNK_BYTES {
            shift += 1;
        }
        shift
    };
    const MASK: u32 = (1 << Self::SHIFT) - 1;
    /// No fewer items than these can be given back to.
    pub(crate) const LEAST: u32 = 2 << Self::SHIFT;
    /// The most items that it can have.
    pub(crate) const MAX: u32 = ((ROOT * DIRECTORY) as u32) << Self::SHIFT;

    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            near: None,
            root: None,
            len: 0,
        }
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Grows to more than `index` items, if it has fewer. `false`: no memory, or too long; it may
    /// have grown in part.
    #[inline]
    pub(crate) fn reserve(&mut self, index: u32, fill: impl FnMut() -> T) -> bool {
        index < self.len || self.grow(index, &mut unlimited(), fill)
    }

    /// The same, but it allocates no more than so many `chunks`, and subtracts those that it has.
    /// `false` with none left: it may go on with more.
    #[inline]
    pub(crate) fn reserve_some(
        &mut self,
        index: u32,
        chunks: &mut u32,
        fill: impl FnMut() -> T,
    ) -> bool {
        index < self.len || self.grow(index, chunks, fill)
    }

    #[cold]
    fn grow(&mut self, index: u32, chunks: &mut u32, mut fill: impl FnMut() -> T) -> bool {
        if index >= Self::MAX {
            return false;
        }
        while self.len <= index {
            if self.len == 0 {
                self.first = chunk::<M, _>(1 << Self::SHIFT, chunks, &mut fill);
                if self.first.is_none() {
                    return false;
                }
                self.len = 1 << Self::SHIFT;
                continue;
            }
            let leaf = self.len >> Self::SHIFT;
            let (high, low) = (leaf as usize / DIRECTORY, leaf as usize % DIRECTORY);
            if high != 0 && self.root.is_none() {
                self.root = chunk::<M, _>(ROOT, chunks, || None);
            }
            let Some(directory) = self.directory_mut(high) else {
                return false;
            };
            if directory.is_none() {
                *directory = chunk::<M, _>(DIRECTORY, chunks, || None);
            }
            let Some(slot) = directory.as_mut().and_then(|d| d.as_mut().get_mut(low)) else {
                return false;
            };
            *slot = chunk::<M, _>(1 << Self::SHIFT, chunks, &mut fill);
            if slot.is_none() {
                return false;
            }
            self.len = self.len.saturating_add(1 << Self::SHIFT);
        }
        true
    }

    /// Gives the last leaf back, if no item below `keep` is in it or in the one before: what comes
    /// and goes at a leaf's border allocates nothing. `false`: there is nothing to give back.
    pub(crate) fn shrink(&mut self, keep: u32) -> bool {
        let leaf = 1 << Self::SHIFT;
        if self.len < keep.saturating_add(2 * leaf) {
            return false;
        }
        self.len = self.len.saturating_sub(leaf);
        let last = (self.len >> Self::SHIFT) as usize;
        let (high, low) = (last / DIRECTORY, last % DIRECTORY);
        if let Some(directory) = self.directory_mut(high) {
            if low == 0 || last == 1 {
                *directory = None;
            } else if let Some(slot) = directory.as_mut().and_then(|d| d.as_mut().get_mut(low)) {
                *slot = None;
            }
        }
        if last == DIRECTORY {
            self.root = None;
        }
        true
    }

    /// The place of a directory.
    #[inline]
    fn directory_mut(&mut self, high: usize) -> Option<&mut Option<Directory<M, T>>> {
        match high {
            0 => Some(&mut self.near),
            _ => self.root.as_mut()?.as_mut().get_mut(high),
        }
    }

    /// The leaf that has an index, or would have it.
    #[inline]
    fn leaf(&self, index: u32) -> Option<&[T]> {
        if index >> Self::SHIFT == 0 {
            return Some(self.first.as_ref()?.as_ref());
        }
        let leaf = (index >> Self::SHIFT) as usize;
        let directory = match leaf / DIRECTORY {
            0 => &self.near,
            high => self.root.as_ref()?.as_ref().get(high)?,
        };
        let leaf = directory.as_ref()?.as_ref().get(leaf % DIRECTORY)?;
        Some(leaf.as_ref()?.as_ref())
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.leaf(index)?.get((index & Self::MASK) as usize)
    }

    /// Up to `count` items from `from` on: as many of them as one leaf has.
    #[inline]
    pub(crate) fn run(&self, from: u32, count: u32) -> &[T] {
        let first = (from & Self::MASK) as usize;
        let rest = self.leaf(from).and_then(|leaf| leaf.get(first..));
        let rest = rest.unwrap_or_default();
        rest.get(..count as usize).unwrap_or(rest)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        if index >> Self::SHIFT == 0 {
            return self.first.as_mut()?.as_mut().get_mut(index as usize);
        }
        let leaf = (index >> Self::SHIFT) as usize;
        let directory = self.directory_mut(leaf / DIRECTORY)?.as_mut()?;
        let leaf = directory.as_mut().get_mut(leaf % DIRECTORY)?.as_mut()?;
        leaf.as_mut().get_mut((index & Self::MASK) as usize)
    }
}

/// As many chunks as are wanted.
#[inline]
pub(crate) fn unlimited() -> u32 {
    u32::MAX
}

/// Allocates a chunk, if there are any left.
fn chunk<M: Memory, T>(
    len: usize,
    left: &mut u32,
    mut fill: impl FnMut() -> T,
) -> Option<M::Chunk<T>> {
    *left = left.checked_sub(1)?;
    M::chunk(len, |_| {
        step!();
        fill()
    })
}

#[cfg(test)]
mod tests;
