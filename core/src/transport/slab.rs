// SPDX-License-Identifier: GPL-2.0
//! A slab with generations: items at the least free indices, so that the end is free when few are
//! left, and can be given back. Each use has a generation of its own, so that stale ids are
//! detected.

use super::host::Memory;
use super::paged::{unlimited, Paged};
use super::used::Used;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

struct Entry<T> {
    generation: u32,
    item: Option<T>,
}

/// A slab of no more entries than these, and so many times its items, is not too large.
const SMALL: u32 = 256;
const SPARE: u32 = 2;
/// So many free indices at the end are looked at in one step.
const LOOKS: u32 = 64;

/// The items.
pub(crate) struct Slab<M: Memory, T> {
    entries: Paged<M, Entry<T>>,
    used: Used<M>,
    /// The free indices below `fresh`.
    free: Used<M>,
    /// Indices from here on are free.
    fresh: u32,
    /// The least free index.
    least: u32,
    len: u32,
    /// How many items were removed: a generation that no entry had before.
    removed: u32,
}

impl<M: Memory, T> Slab<M, T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Paged::new(),
            used: Used::new(),
            free: Used::new(),
            fresh: 0,
            least: 0,
            len: 0,
            removed: 0,
        }
    }

    /// How many items there are.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Makes room for items up to this index. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.reserve_some(index, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`: see [`Paged::reserve_some`].
    #[inline]
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        let generation = self.removed;
        let empty = || Entry {
            generation,
            item: None,
        };
        self.entries.reserve_some(index, chunks, empty)
            && self.used.reserve_some(index, chunks)
            && self.free.reserve_some(index, chunks)
    }

    /// For how many items there is room.
    pub(crate) fn room(&self) -> u32 {
        self.entries.len()
    }

    /// Whether it has much more room than it needs, with `keep` for more than its items.
    #[inline]
    pub(crate) fn is_large(&self, keep: u32) -> bool {
        let needed = self.len.max(keep).saturating_mul(SPARE);
        let least = SMALL.max(Paged::<M, Entry<T>>::LEAST);
        self.entries.len() > needed.saturating_add(least)
    }

    /// Gives back some of the room beyond `keep` indices, if it is large. `false`: there is nothing
    /// that can be given back, as an index at the end is in use.
    pub(crate) fn shrink(&mut self, keep: u32) -> bool {
        if !self.is_large(keep) {
            return false;
        }
        let mut found = false;
        for _ in 0..LOOKS {
            let last = self.fresh.wrapping_sub(1);
            if !self.free.has(last) {
                break;
            }
            self.free.set(last, false);
            self.fresh = last;
            found = true;
        }
        self.least = self.least.min(self.fresh);
        let keep = self.fresh.max(keep);
        let shrunk = self.entries.shrink(keep);
        self.used.shrink(keep);
        self.free.shrink(keep);
        found || shrunk
    }

    /// The index and the generation that the next item will have. `None` if there is no memory.
    pub(crate) fn vacant(&mut self) -> Option<(u32, u32)> {
        let index = self.least;
        if !self.reserve(index) {
            return None;
        }
        Some((index, self.entries.get(index)?.generation))
    }

    /// Puts an item where [`Slab::vacant`] says.
    pub(crate) fn insert(&mut self, item: T) -> Option<u32> {
        self.insert_with(|| item)
    }

    /// The same with an item that is made once there is a place for it, so that a large one is
    /// fewer times on the stack.
    #[inline]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        let (index, _) = self.vacant()?;
        let entry = self.entries.get_mut(index)?;
        entry.item = Some(make());
        if index == self.fresh {
            self.fresh = self.fresh.saturating_add(1);
        } else {
            self.free.set(index, false);
        }
        self.used.set(index, true);
        self.len = self.len.saturating_add(1);
        self.least = match self.len == self.fresh {
            true => self.fresh,
            false => self.free.next(index).unwrap_or(self.fresh),
        };
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
        self.removed = self.removed.wrapping_add(1);
        entry.generation = self.removed;
        self.least = self.least.min(index);
        if index.saturating_add(1) == self.fresh {
            // So what alone comes and goes needs no note of what is free.
            self.fresh = index;
        } else {
            self.free.set(index, true);
        }
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
