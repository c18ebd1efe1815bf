// SPDX-License-Identifier: GPL-2.0
//! A priority queue of indices: a 4-ary heap whose entries can be moved and removed.
//!
//! A table has each index's place in the heap. All operations take O(log n) in the worst case and
//! not only on average, because they run with a lock held. (A pairing heap is as fast on average,
//! but a single removal can take O(n).)

use super::host::Memory;
use super::paged::{unlimited, Paged};
use super::slab::NONE;

/// The queue: each index is in it at most once, with a key; the least key comes first, equal keys
/// in any order.
pub(crate) struct Heap<M: Memory, K> {
    nodes: Nodes<M, K>,
    places: Places<M>,
}

impl<M: Memory, K: Ord + Copy + Default> Heap<M, K> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Nodes::new(),
            places: Places::new(),
        }
    }

    /// Makes room for indices up to this one, so that [`Heap::set`] works for these. `false`: no
    /// memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.reserve_some(index, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`: see [`Paged::reserve_some`].
    #[inline]
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        self.nodes.reserve_some(index, chunks) && self.places.reserve_some(index, chunks)
    }

    /// Gives back some of the room beyond `keep` indices.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.nodes.shrink(keep);
        self.places.shrink(keep);
    }

    /// How many indices are in it.
    pub(crate) fn len(&self) -> u32 {
        self.nodes.len()
    }

    /// The least key and its index.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.nodes.first()
    }

    /// The key of an index.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Option<K> {
        self.nodes.key(&self.places, index)
    }

    /// Inserts an index, or changes its key.
    pub(crate) fn set(&mut self, index: u32, key: K) {
        self.nodes.set(&mut self.places, index, key);
    }

    /// Removes an index, if it is in the queue.
    pub(crate) fn remove(&mut self, index: u32) {
        self.nodes.remove(&mut self.places, index);
    }
}

/// By index: where among the nodes of its queue it is. Several queues may share this, if each index
/// is in at most one of them.
pub(crate) struct Places<M: Memory>(Paged<M, u32>);

impl<M: Memory> Places<M> {
    pub(crate) const fn new() -> Self {
        Self(Paged::new())
    }

    /// Makes room for indices up to this one. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.0.reserve(index, || NONE)
    }

    /// The same, with no more than so many `chunks`: see [`Paged::reserve_some`].
    #[inline]
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        self.0.reserve_some(index, chunks, || NONE)
    }

    /// Gives back some of the room beyond `keep` indices, which are in no queue.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.0.shrink(keep);
    }
}

/// A queue whose [`Places`] are kept elsewhere: each call gets the same ones.
pub(crate) struct Nodes<M: Memory, K> {
    nodes: Paged<M, (K, u32)>,
    len: u32,
    /// The first node once more, since it is asked for most.
    first: Option<(K, u32)>,
}

impl<M: Memory, K: Ord + Copy + Default> Nodes<M, K> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Paged::new(),
            len: 0,
            first: None,
        }
    }

    /// Makes room for one index more than `others`, with no more than so many `chunks`: see
    /// [`Paged::reserve_some`].
    #[inline]
    pub(crate) fn reserve_some(&mut self, others: u32, chunks: &mut u32) -> bool {
        let empty = || (K::default(), NONE);
        self.nodes.reserve_some(others, chunks, empty)
    }

    /// Gives back some of the room beyond `keep` indices.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.nodes.shrink(keep.max(self.len));
    }

    /// How many indices are in it.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The least key and its index.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.first
    }

    /// The key of an index.
    #[inline]
    pub(crate) fn key(&self, places: &Places<M>, index: u32) -> Option<K> {
        let (_, key) = self.find(places, index)?;
        Some(key)
    }

    /// Inserts an index, or changes its key.
    pub(crate) fn set(&mut self, places: &mut Places<M>, index: u32, key: K) {
        match self.find(places, index) {
            Some((place, old)) if key < old => self.up(places, place, key, index),
            Some((place, _)) => self.down(places, place, key, index),
            // No room was made for it.
            None if places.0.get(index).is_none() => {}
            None => {
                let place = self.len;
                self.len = self.len.saturating_add(1);
                self.up(places, place, key, index);
            }
        }
    }

    /// Removes an index, if it is in the queue.
    pub(crate) fn remove(&mut self, places: &mut Places<M>, index: u32) {
        let Some((place, old)) = self.find(places, index) else {
            return;
        };
        self.len = self.len.saturating_sub(1);
        if self.len == 0 {
            self.first = None;
        }
        if let Some(place) = places.0.get_mut(index) {
            *place = NONE;
        }
        // The last node takes its place.
        let Some(&(key, last)) = self.nodes.get(self.len) else {
            return;
        };
        if place < self.len {
            if key < old {
                self.up(places, place, key, last);
            } else {
                self.down(places, place, key, last);
            }
        }
    }

    /// An index's node, and its key. What is in another queue with the same places has no node
    /// here, though it may have the place of one.
    #[inline]
    fn find(&self, places: &Places<M>, index: u32) -> Option<(u32, K)> {
        let place = *places.0.get(index)?;
        let (key, it) = self.at(place)?;
        (it == index).then_some((place, key))
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
    fn put(&mut self, places: &mut Places<M>, place: u32, key: K, index: u32) {
        if let Some(node) = self.nodes.get_mut(place) {
            *node = (key, index);
            if place == 0 {
                self.first = Some((key, index));
            }
        }
        if let Some(slot) = places.0.get_mut(index) {
            *slot = place;
        }
    }

    /// Puts a node at `place` or above it.
    fn up(&mut self, places: &mut Places<M>, mut place: u32, key: K, index: u32) {
        while place != 0 {
            step!();
            let above = place.wrapping_sub(1) / 4;
            let Some((other, it)) = self.at(above) else {
                break;
            };
            if other <= key {
                break;
            }
            self.put(places, place, other, it);
            place = above;
        }
        self.put(places, place, key, index);
    }

    /// Puts a node at `place` or below it.
    fn down(&mut self, places: &mut Places<M>, mut place: u32, key: K, index: u32) {
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
                    self.put(places, place, other, it);
                    place = child;
                }
                _ => break,
            }
        }
        self.put(places, place, key, index);
    }
}

#[cfg(test)]
mod tests;
