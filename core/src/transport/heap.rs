// SPDX-License-Identifier: GPL-2.0
//! A priority queue of indices: a 4-ary heap whose entries can be moved and removed.
//!
//! A table has each index's place in the heap. All operations take O(log n) in the worst case and
//! not only on average, because they run with a lock held. (A pairing heap is as fast on average,
//! but a single removal can take O(n).)

use super::host::Memory;
use super::paged::Paged;
use super::slab::NONE;

/// The queue: each index is in it at most once, with a key; the least key comes first, equal keys
/// in any order.
pub(crate) struct Heap<M: Memory, K> {
    nodes: Paged<M, (K, u32)>,
    /// By index: where in `nodes`.
    places: Paged<M, u32>,
    len: u32,
}

impl<M: Memory, K: Ord + Copy + Default> Heap<M, K> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Paged::new(),
            places: Paged::new(),
            len: 0,
        }
    }

    /// Makes room for indices up to this one, so that [`Heap::set`] works for these. `false`: no
    /// memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.nodes.reserve(index, || (K::default(), NONE)) && self.places.reserve(index, || NONE)
    }

    /// How many indices are in it.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The least key and its index.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.at(0)
    }

    /// The key of an index.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Option<K> {
        Some(self.at(*self.places.get(index)?)?.0)
    }

    /// Inserts an index, or changes its key.
    pub(crate) fn set(&mut self, index: u32, key: K) {
        let Some(&place) = self.places.get(index) else {
            return;
        };
        if place < self.len {
            let old = self.at(place).map_or(key, |(old, _)| old);
            if key < old {
                self.up(place, key, index);
            } else {
                self.down(place, key, index);
            }
        } else {
            let place = self.len;
            self.len = self.len.saturating_add(1);
            self.up(place, key, index);
        }
    }

    /// Removes an index, if it is in the queue.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(&place) = self.places.get(index) else {
            return;
        };
        if place >= self.len {
            return;
        }
        self.len = self.len.saturating_sub(1);
        if let Some(place) = self.places.get_mut(index) {
            *place = NONE;
        }
        // The last node takes its place.
        let Some(&(key, last)) = self.nodes.get(self.len) else {
            return;
        };
        if place < self.len {
            let old = self.at(place).map_or(key, |(old, _)| old);
            if key < old {
                self.up(place, key, last);
            } else {
                self.down(place, key, last);
            }
        }
    }

    #[inline]
    fn at(&self, place: u32) -> Option<(K, u32)> {
        if place < self.len {
            self.nodes.get(place).copied()
        } else {
            None
        }
    }

    /// Puts a node at `place`.
    #[inline]
    fn put(&mut self, place: u32, key: K, index: u32) {
        if let Some(node) = self.nodes.get_mut(place) {
            *node = (key, index);
        }
        if let Some(slot) = self.places.get_mut(index) {
            *slot = place;
        }
    }

    /// Puts a node at `place` or above it.
    fn up(&mut self, mut place: u32, key: K, index: u32) {
        while place != 0 {
            step!();
            let above = place.wrapping_sub(1) / 4;
            let Some((other, it)) = self.at(above) else {
                break;
            };
            if other <= key {
                break;
            }
            self.put(place, other, it);
            place = above;
        }
        self.put(place, key, index);
    }

    /// Puts a node at `place` or below it.
    fn down(&mut self, mut place: u32, key: K, index: u32) {
        loop {
            let first = place.saturating_mul(4).saturating_add(1);
            let mut least: Option<(K, u32, u32)> = None;
            let mut child = first;
            while child < first.saturating_add(4) {
                step!();
                match (self.at(child), least) {
                    (None, _) => break,
                    (Some((other, _)), Some((least, ..))) if least <= other => {}
                    (Some((other, it)), _) => least = Some((other, it, child)),
                }
                child = child.saturating_add(1);
            }
            match least {
                Some((other, it, child)) if other < key => {
                    self.put(place, other, it);
                    place = child;
                }
                _ => break,
            }
        }
        self.put(place, key, index);
    }
}

#[cfg(test)]
mod tests;
