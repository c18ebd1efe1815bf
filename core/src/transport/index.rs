// SPDX-License-Identifier: GPL-2.0
//! A hash table of indices.
//!
//! Linear hashing: the table grows by one bucket at a time, by splitting one chain in two. So no
//! insertion takes long, and chains are short on average for any number of items. Items are indices
//! into the caller's slab; the table has the links between them.

use super::host::Memory;
use super::paged::{unlimited, Paged};
use super::slab::NONE;

#[derive(Clone, Copy)]
struct Link {
    hash: u32,
    next: u32,
}

/// The table.
pub(crate) struct Index<M: Memory> {
    buckets: Paged<M, u32>,
    links: Paged<M, Link>,
    /// 2^`bits` buckets, and `split` more: the first `split` of the former have been split.
    bits: u32,
    split: u32,
    len: u32,
}

/// Chains are this long on average, at most.
const LOAD: u32 = 1;
/// No more buckets than these, and so many times the items, are not too many.
const SMALL: u32 = 256;
const SPARE: u32 = 2;
/// So many buckets are given back in one step.
const MERGES: u32 = 64;

impl<M: Memory> Index<M> {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: Paged::new(),
            links: Paged::new(),
            bits: 0,
            split: 0,
            len: 0,
        }
    }

    /// Makes room for indices up to this one, and for the buckets that so many get. `false`: no
    /// memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.reserve_some(index, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`: see [`Paged::reserve_some`].
    #[inline]
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        let link = || Link {
            hash: 0,
            next: NONE,
        };
        let buckets = index.saturating_add(1) / LOAD;
        self.buckets.reserve_some(buckets, chunks, || NONE)
            && self.links.reserve_some(index, chunks, link)
    }

    /// 2^`bits` - 1. `bits` is below 20: there are fewer than 2^19 items.
    #[inline]
    fn mask(&self) -> u32 {
        1_u32.wrapping_shl(self.bits).wrapping_sub(1)
    }

    #[inline]
    fn bucket(&self, hash: u32) -> u32 {
        let bucket = hash & self.mask();
        if bucket < self.split {
            hash & ((self.mask() << 1) | 1)
        } else {
            bucket
        }
    }

    #[cfg(test)]
    fn next(&self, index: u32) -> u32 {
        self.links.get(index).map_or(NONE, |link| link.next)
    }

    /// The first item with this hash for which `is` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut index = *self.buckets.get(self.bucket(hash))?;
        while let Some(link) = self.links.get(index) {
            step!();
            if link.hash == hash && is(index) {
                return Some(index);
            }
            index = link.next;
        }
        None
    }

    /// The hash of an item in the table.
    #[inline]
    pub(crate) fn hash_of(&self, index: u32) -> u32 {
        self.links.get(index).map_or(0, |link| link.hash)
    }

    /// Adds an item that is not in the table yet, and for which room was made.
    pub(crate) fn insert(&mut self, hash: u32, index: u32) {
        if self.links.get(index).is_none() {
            return;
        }
        self.len = self.len.saturating_add(1);
        let buckets = self.mask().saturating_add(1).saturating_add(self.split);
        if self.len > buckets.saturating_mul(LOAD) {
            self.grow();
        }
        self.push(self.bucket(hash), hash, index);
    }

    /// Removes an item, if it is in the table.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(&Link { hash, next }) = self.links.get(index) else {
            return;
        };
        let bucket = self.bucket(hash);
        let Some(head) = self.buckets.get_mut(bucket) else {
            return;
        };
        if *head == index {
            *head = next;
        } else {
            let mut before = *head;
            loop {
                step!();
                let Some(link) = self.links.get_mut(before) else {
                    return;
                };
                if link.next == index {
                    link.next = next;
                    break;
                }
                before = link.next;
            }
        }
        self.len = self.len.saturating_sub(1);
    }

    fn push(&mut self, bucket: u32, hash: u32, index: u32) {
        if let (Some(head), Some(link)) = (self.buckets.get_mut(bucket), self.links.get_mut(index))
        {
            let next = core::mem::replace(head, index);
            *link = Link { hash, next };
        }
    }

    /// Gives back some of the room beyond `keep` indices, if there are far more buckets than items.
    pub(crate) fn shrink(&mut self, keep: u32) {
        for _ in 0..MERGES {
            if !self.merge() {
                break;
            }
        }
        let buckets = self.mask().saturating_add(1).saturating_add(self.split);
        self.buckets.shrink(buckets.max(keep / LOAD));
        self.links.shrink(keep);
    }

    /// Joins the last bucket with the one that it was split from. `false`: it is needed.
    fn merge(&mut self) -> bool {
        let buckets = self.mask().saturating_add(1).saturating_add(self.split);
        if buckets <= SMALL.max(self.len.saturating_mul(SPARE)) {
            return false;
        }
        if self.split == 0 {
            self.bits = self.bits.saturating_sub(1);
            self.split = self.mask().saturating_add(1);
        }
        self.split = self.split.saturating_sub(1);
        let last = self.split.saturating_add(self.mask()).saturating_add(1);
        let mut index = match self.buckets.get_mut(last) {
            Some(head) => core::mem::replace(head, NONE),
            None => NONE,
        };
        while let Some(&Link { hash, next }) = self.links.get(index) {
            step!();
            self.push(self.bucket(hash), hash, index);
            index = next;
        }
        true
    }

    /// Adds a bucket by splitting one, if there is memory; the table works without.
    fn grow(&mut self) {
        let (from, to) = (
            self.split,
            self.split.saturating_add(self.mask()).saturating_add(1),
        );
        if !self.buckets.reserve(to, || NONE) {
            return;
        }
        let mut index = match self.buckets.get_mut(from) {
            Some(head) => core::mem::replace(head, NONE),
            None => NONE,
        };
        self.split = self.split.saturating_add(1);
        if self.split > self.mask() {
            self.bits = self.bits.saturating_add(1);
            self.split = 0;
        }
        while let Some(&Link { hash, next }) = self.links.get(index) {
            step!();
            self.push(self.bucket(hash), hash, index);
            index = next;
        }
    }
}

#[cfg(test)]
mod tests;
