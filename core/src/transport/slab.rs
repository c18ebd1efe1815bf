// SPDX-License-Identifier: GPL-2.0
//! A slab with generations: items at small indices, which are reused. Each use has a generation of
//! its own, so that stale ids are detected.

use super::host::Memory;
use super::paged::Paged;
use super::used::Used;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

struct Entry<T> {
    generation: u32,
    /// While there is no item: the next free index.
    next: u32,
    item: Option<T>,
}

/// The items.
pub(crate) struct Slab<M: Memory, T> {
    entries: Paged<M, Entry<T>>,
    used: Used<M>,
    /// Head of the list of free indices below `fresh`.
    free: u32,
    /// Indices from here on were never used.
    fresh: u32,
    len: u32,
}

impl<M: Memory, T> Slab<M, T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Paged::new(),
            used: Used::new(),
            free: NONE,
            fresh: 0,
            len: 0,
        }
    }

    /// How many items there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Makes room for items up to this index. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        let empty = || Entry {
            generation: 0,
            next: NONE,
            item: None,
        };
        self.entries.reserve(index, empty) && self.used.reserve(index)
    }

    /// The index and the generation that the next item will have. `None` if there is no memory.
    pub(crate) fn vacant(&mut self) -> Option<(u32, u32)> {
        let index = if self.free == NONE {
            self.fresh
        } else {
            self.free
        };
        if !self.reserve(index) {
            return None;
        }
        Some((index, self.entries.get(index)?.generation))
    }

    /// Puts an item where [`Slab::vacant`] says.
    pub(crate) fn insert(&mut self, item: T) -> Option<u32> {
        let (index, _) = self.vacant()?;
        let entry = self.entries.get_mut(index)?;
        if self.free == NONE {
            self.fresh = self.fresh.saturating_add(1);
        } else {
            self.free = entry.next;
        }
        entry.item = Some(item);
        self.used.set(index, true);
        self.len = self.len.saturating_add(1);
        Some(index)
    }

    /// Removes an item and returns it.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        self.remove_part(index, |item| item)
    }

    /// Removes an item in place and returns a part of it, so that the rest is not moved.
    pub(crate) fn remove_part<P>(&mut self, index: u32, part: impl FnOnce(T) -> P) -> Option<P> {
        let entry = self.entries.get_mut(index)?;
        let item = part(entry.item.take()?);
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.used.set(index, false);
        self.len = self.len.saturating_sub(1);
        Some(item)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index)?.item.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index)?.item.as_mut()
    }

    /// Whether this index is in use, with this generation.
    #[inline]
    pub(crate) fn is(&self, index: u32, generation: u32) -> bool {
        self.entries
            .get(index)
            .is_some_and(|entry| entry.item.is_some() && entry.generation == generation)
    }

    /// The generation of the present, or next, item at an index.
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.entries.get(index).map_or(0, |entry| entry.generation)
    }

    /// Says whether an item is to be found by [`Slab::next`]; at first it is.
    pub(crate) fn show(&mut self, index: u32, shown: bool) {
        self.used.set(index, shown);
    }

    /// The first index in use, from `from` on.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        self.used.next(from)
    }
}

#[cfg(test)]
mod tests;
