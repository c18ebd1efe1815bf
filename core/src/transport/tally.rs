// SPDX-License-Identifier: GPL-2.0
//! How many entries of a table belong to each network, so that none has more than its share.

use super::hint::Hint;
use super::host::Memory;
use super::index::Index;
use super::net::Net;
use super::paged::unlimited;
use super::siphash::Key;
use super::slab::{Slab, NONE};

struct Entry {
    net: Net,
    count: u32,
}

/// The networks that have any.
pub(crate) struct Tally<M: Memory> {
    all: Slab<M, Entry>,
    index: Index<M>,
    last: Hint,
    /// The latest network that has none: it may soon have one again.
    empty: u32,
}

impl<M: Memory> Tally<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
            last: Hint::new(),
            empty: NONE,
        }
    }

    /// Makes room for networks up to this index, and the one that was emptied last. `false`: no
    /// memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.reserve_some(index, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`.
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        let index = index.saturating_add(1);
        self.all.reserve_some(index, chunks) && self.index.reserve_some(index, chunks)
    }

    /// Gives back some of the room beyond `keep` networks.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.all.shrink(keep);
        self.index.shrink(self.all.room());
    }

    fn find(&self, key: &Key, net: Net) -> Option<u32> {
        if self.all.len() == 0 {
            return None;
        }
        let is = |index| self.all.get(index).is_some_and(|entry| entry.net == net);
        let find = || self.index.find(net.hash(key), is);
        self.last.or_find(is, find)
    }

    /// How many a network has.
    pub(crate) fn count(&self, key: &Key, net: Net) -> u32 {
        self.find(key, net)
            .and_then(|index| self.all.get(index))
            .map_or(0, |entry| entry.count)
    }

    /// One more: the network's index. `None`: no memory, it is not counted.
    pub(crate) fn join(&mut self, key: &Key, net: Net) -> Option<u32> {
        let index = match self.find(key, net) {
            Some(index) => index,
            None => {
                let (index, _) = self.all.vacant()?;
                if !self.index.reserve(index) {
                    return None;
                }
                let index = self.all.insert(Entry { net, count: 0 })?;
                self.index.insert(net.hash(key), index);
                index
            }
        };
        let entry = self.all.get_mut(index)?;
        entry.count = entry.count.saturating_add(1);
        Some(index)
    }

    /// One less.
    pub(crate) fn leave(&mut self, index: u32) {
        let Some(entry) = self.all.get_mut(index) else {
            return;
        };
        entry.count = entry.count.saturating_sub(1);
        if entry.count != 0 {
            return;
        }
        let before = core::mem::replace(&mut self.empty, index);
        if before != index {
            self.forget(before);
        }
        // At the end it would keep the table from shrinking.
        if index > self.all.len() {
            self.forget(index);
        }
    }

    /// Removes a network that has none.
    fn forget(&mut self, index: u32) {
        if self.all.get(index).is_some_and(|it| it.count == 0) {
            self.index.remove(index);
            self.all.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
