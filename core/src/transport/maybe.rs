// SPDX-License-Identifier: GPL-2.0
//! A time that there may be, in eight bytes instead of the sixteen of an `Option`: messages are
//! large, and are made on the kernel's stack.

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

#[cfg(test)]
mod tests {
    use super::*;

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
