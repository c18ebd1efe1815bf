// SPDX-License-Identifier: GPL-2.0
//! A bounded FIFO that counts what it loses.

use core::ops::DerefMut;

/// Items that do not fit are lost, and counted.
#[derive(Debug)]
pub struct Ring<S> {
    storage: S,
    /// Where the oldest item is.
    first: usize,
    len: usize,
    lost: u64,
}

impl<T: Copy, S: DerefMut<Target = [T]>> Ring<S> {
    /// An empty queue with room for as many items as `storage` has, whose contents do not matter.
    pub const fn new(storage: S) -> Self {
        Self {
            storage,
            first: 0,
            len: 0,
            lost: 0,
        }
    }

    /// The place `ahead` places after the first one.
    fn place(&self, ahead: usize) -> usize {
        let place = self.first.saturating_add(ahead);
        match place.checked_sub(self.storage.len()) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }

    /// Adds an item. `false`: there was no room, and it is lost.
    pub fn push(&mut self, item: T) -> bool {
        if self.len >= self.storage.len() {
            self.lose(1);
            return false;
        }
        let place = self.place(self.len);
        match self.storage.get_mut(place) {
            Some(free) => {
                *free = item;
                self.len = self.len.saturating_add(1);
                true
            }
            None => false,
        }
    }

    /// Counts items that were lost elsewhere.
    pub fn lose(&mut self, items: u64) {
        self.lost = self.lost.saturating_add(items);
    }

    /// The oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let item = self.storage.get(self.first).copied();
        self.first = self.place(1);
        item
    }

    /// How many items were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        core::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests;
