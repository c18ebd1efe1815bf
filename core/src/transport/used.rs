// SPDX-License-Identifier: GPL-2.0
//! Which indices of a slab are in use, so that the next one is found in constant time, however few
//! there are among how many free ones.
//!
//! A bit for each index, and a bit for each group of them that is not empty.

use super::host::Memory;
use super::paged::Paged;

/// Words of a group: a power of two, and not more than a leaf of the array has.
const GROUP: u32 = 8;
/// Indices of a group.
const SPAN: u32 = GROUP * 64;
/// Words that have a bit for each group.
const GROUPS: usize = 64;
/// The most indices: more than any table has.
pub(crate) const MAX: u32 = SPAN * 64 * GROUPS as u32;

pub(crate) struct Used<M: Memory> {
    words: Paged<M, u64>,
    /// That of the first group is never looked at.
    groups: [u64; GROUPS],
}

impl<M: Memory> Used<M> {
    pub(crate) const fn new() -> Self {
        Self {
            words: Paged::new(),
            groups: [0; GROUPS],
        }
    }

    /// Makes room for indices up to this one, with no more than so many `chunks`: see
    /// [`Paged::reserve_some`]. `false`: also if there are too many.
    #[inline]
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        index < MAX && self.words.reserve_some(index / 64, chunks, || 0)
    }

    /// Gives room back beyond this many indices, if it can: none of them is in use.
    pub(crate) fn shrink(&mut self, keep: u32) -> bool {
        self.words.shrink((keep / 64).saturating_add(1))
    }

    /// Whether an index is in use.
    #[inline]
    pub(crate) fn has(&self, index: u32) -> bool {
        let word = self.words.get(index / 64).copied().unwrap_or(0);
        word & (1 << (index % 64)) != 0
    }

    /// Says whether an index is in use. There must be room for it.
    pub(crate) fn set(&mut self, index: u32, used: bool) {
        let Some(word) = self.words.get_mut(index / 64) else {
            return;
        };
        let before = core::mem::replace(word, with(*word, index, used));
        if (before != 0) == (*word != 0) {
            // Its group has some as before.
            return;
        }
        let group = index / SPAN;
        if group == 0 {
            // Nobody asks for what comes after a group that is before all others.
            return;
        }
        let any = used || self.first_in(group * GROUP, GROUP).is_some();
        if let Some(word) = self.groups.get_mut((group / 64) as usize) {
            *word = with(*word, group, any);
        }
    }

    /// The first index in use in some words, which are of one group.
    fn first_in(&self, from: u32, words: u32) -> Option<u32> {
        let mut first = from.saturating_mul(64);
        for word in self.words.run(from, words) {
            step!();
            if *word != 0 {
                return Some(first.saturating_add(word.trailing_zeros()));
            }
            first = first.saturating_add(64);
        }
        None
    }

    /// The first index in use, from `from` on.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        if from >= MAX {
            return None;
        }
        let word = *self.words.get(from / 64)? & (u64::MAX << (from % 64));
        if word != 0 {
            return Some((from / 64 * 64).saturating_add(word.trailing_zeros()));
        }
        let after = (from / SPAN).saturating_add(1);
        let next = from / 64 + 1;
        let rest = self.first_in(next, after.saturating_mul(GROUP).saturating_sub(next));
        if rest.is_some() {
            return rest;
        }
        let mut mask = u64::MAX << (after % 64);
        for at in after / 64..GROUPS as u32 {
            step!();
            let word = *self.groups.get(at as usize)? & mask;
            if word != 0 {
                let group = (at * 64).saturating_add(word.trailing_zeros());
                let first = group.saturating_mul(GROUP);
                return self.first_in(first, GROUP);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[inline]
fn with(word: u64, bit: u32, set: bool) -> u64 {
    let bit = 1_u64 << (bit % 64);
    if set {
        word | bit
    } else {
        word & !bit
    }
}

#[cfg(test)]
mod tests;
