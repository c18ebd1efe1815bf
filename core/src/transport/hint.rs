// SPDX-License-Identifier: GPL-2.0
//! The entry of a table that was found last: what comes next is often about the same one, and then
//! nothing has to be hashed.

use core::cell::Cell;

use super::slab::NONE;

/// An index, at which something else may be by now: whoever asks compares.
pub(crate) struct Hint(Cell<u32>);

impl Hint {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(NONE))
    }

    /// What is asked for next is probably this.
    #[inline]
    pub(crate) fn set(&self, index: u32) {
        self.0.set(index);
    }

    /// The last index if it `is` the one, or else what `find` finds.
    // A call would take as long as to compare.
    #[inline(always)]
    pub(crate) fn or_find(
        &self,
        is: impl FnOnce(u32) -> bool,
        find: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let last = self.0.get();
        if is(last) {
            return Some(last);
        }
        let found = find()?;
        self.set(found);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_right_is_believed() {
        let hint = Hint::new();
        assert_eq!(hint.or_find(|last| last == 7, || None), None);
        assert_eq!(hint.or_find(|last| last == 7, || Some(7)), Some(7));
        assert_eq!(hint.or_find(|last| last == 7, || Some(9)), Some(7));
        assert_eq!(hint.or_find(|last| last == 9, || Some(9)), Some(9));
        assert_eq!(hint.or_find(|_| false, || None), None);
        hint.set(8);
        assert_eq!(hint.or_find(|last| last == 8, || None), Some(8));
        hint.set(9);
        assert_eq!(hint.or_find(|last| last == 9, || None), Some(9));
    }
}
