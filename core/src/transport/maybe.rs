// SPDX-License-Identifier: GPL-2.0
//! A time or an index that there may be, in half the bytes of an `Option`: messages are large, and
//! are made on the kernel's stack.

use super::slab::NONE;
use crate::units::Nanos;

/// `Option<Nanos>` for times below [`Nanos::MAX`], which is 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maybe(Nanos);

impl Maybe {
    pub(crate) const NONE: Self = Self(Nanos::MAX);

    /// A time.
    #[inline]
    pub(crate) fn some(time: Nanos) -> Self {
        Self(time)
    }

    #[inline]
    pub(crate) fn get(self) -> Option<Nanos> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl From<Option<Nanos>> for Maybe {
    #[inline]
    fn from(time: Option<Nanos>) -> Self {
        time.map_or(Self::NONE, Self)
    }
}

/// `Option<u32>` for indices of a table, which are below [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaybeIndex(u32);

impl MaybeIndex {
    pub(crate) const NONE: Self = Self(NONE);

    #[inline]
    pub(crate) fn get(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }

    /// There is none any more: the one that there was.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        core::mem::replace(self, Self::NONE).get()
    }
}

impl From<Option<u32>> for MaybeIndex {
    #[inline]
    fn from(index: Option<u32>) -> Self {
        index.map_or(Self::NONE, Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_what_it_was_made_from_until_it_is_taken() {
        for index in [None, Some(0), Some(u32::MAX - 1)] {
            let mut it = MaybeIndex::from(index);
            assert_eq!(it.get(), index);
            assert_eq!((it.take(), it.get()), (index, None));
        }
        assert_eq!(size_of::<MaybeIndex>(), 4);
    }

    #[test]
    fn it_is_what_it_was_made_from() {
        for time in [None, Some(Nanos(0)), Some(Nanos(u64::MAX - 1))] {
            assert_eq!(Maybe::from(time).get(), time);
        }
        assert_eq!(Maybe::some(Nanos(7)).get(), Some(Nanos(7)));
        assert_eq!(Maybe::NONE.get(), None);
        assert_eq!(size_of::<Maybe>(), 8);
    }
}
