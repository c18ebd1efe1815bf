// SPDX-License-Identifier: GPL-2.0
//! Messages whose socket was closed while they were under way.
//!
//! Nobody can end them, and nobody is told how they end, so a receiver that takes nothing would
//! hold their memory. They are bounded by number and by bytes that are not acknowledged
//! (`max-orphans`, `orphan-buffer`). Beyond that the one is given up of which a receiver has not
//! taken anything for longest: what goes on is delivered, however many stand still.

use super::heap::Heap;
use super::host::Memory;
use crate::units::Nanos;

/// Counted for each message beside its bytes.
const OVERHEAD: u64 = 1024;

/// The messages by index, each with the time of its last progress.
pub(crate) struct Orphans<M: Memory> {
    order: Heap<M, Nanos>,
    bytes: u64,
}

impl<M: Memory> Orphans<M> {
    pub(crate) const fn new() -> Self {
        Self {
            order: Heap::new(),
            bytes: 0,
        }
    }

    /// Makes room for indices up to this one. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.order.reserve(index)
    }

    /// Gives back some of the room beyond `keep` indices.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.order.shrink(keep);
    }

    /// A message's socket is closed. `left`: bytes that are not acknowledged.
    pub(crate) fn join(&mut self, index: u32, now: Nanos, left: u32) {
        self.order.set(index, now);
        self.bytes = self
            .bytes
            .saturating_add(OVERHEAD.saturating_add(left.into()));
    }

    /// A receiver has taken so many bytes more of one.
    pub(crate) fn progress(&mut self, index: u32, now: Nanos, taken: u32) {
        self.order.set(index, now);
        self.bytes = self.bytes.saturating_sub(taken.into());
    }

    /// One has ended. `left`: bytes that are not acknowledged.
    pub(crate) fn leave(&mut self, index: u32, left: u32) {
        self.order.remove(index);
        self.bytes = self
            .bytes
            .saturating_sub(OVERHEAD.saturating_add(left.into()));
    }

    /// How many there are, and their bytes.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.order.len(), self.bytes)
    }

    /// The one to be given up, if there are more than `most` or they have more than `bytes`.
    pub(crate) fn excess(&self, most: u32, bytes: u32) -> Option<u32> {
        let (count, taken) = self.totals();
        if count <= most && taken <= bytes.into() {
            return None;
        }
        self.order.first().map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::testing::Std;

    #[test]
    fn the_one_that_stood_still_longest_is_the_first_to_go() {
        let mut orphans = Orphans::<Std>::new();
        assert!(orphans.reserve(9));
        for index in 0..4 {
            orphans.join(index, Nanos(u64::from(index)), 5000);
        }
        assert_eq!(orphans.totals(), (4, 4 * 6024));
        assert_eq!(orphans.excess(4, 4 * 6024), None);
        assert_eq!(orphans.excess(3, u32::MAX), Some(0));
        assert_eq!(orphans.excess(4, 4 * 6024 - 1), Some(0));
        orphans.progress(0, Nanos(9), 4000);
        assert_eq!(orphans.totals(), (4, 4 * 6024 - 4000));
        assert_eq!(orphans.excess(3, u32::MAX), Some(1));
        orphans.leave(1, 5000);
        orphans.leave(0, 1000);
        assert_eq!(orphans.totals(), (2, 2 * 6024));
        assert_eq!(orphans.excess(1, u32::MAX), Some(2));
        orphans.leave(2, 5000);
        orphans.leave(3, 5000);
        assert_eq!(orphans.excess(0, 0), None);
        assert_eq!(orphans.totals(), (0, 0));
    }
}
