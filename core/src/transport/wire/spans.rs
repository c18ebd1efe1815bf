// SPDX-License-Identifier: GPL-2.0
//! The parts of a message that a RESEND names.

use core::fmt;

use super::{MAX_LENGTH, MAX_SPANS};

/// Bytes of a message, `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// How many bytes.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// No byte at all.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// Up to [`MAX_SPANS`] spans: none empty, ascending, disjoint.
#[derive(Clone, Copy, Default)]
pub struct Spans {
    spans: [Span; MAX_SPANS],
    len: usize,
}

impl Spans {
    /// None yet.
    pub const EMPTY: Self = Self {
        spans: [Span { start: 0, end: 0 }; MAX_SPANS],
        len: 0,
    };

    /// Adds `start..end` after the others. `false`, and nothing is added, if it is empty, begins
    /// before the last one's end, ends beyond [`MAX_LENGTH`], or there is no room.
    #[inline]
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let last = self.as_slice().last().map_or(0, |span| span.end);
        if start < last || end <= start || end > MAX_LENGTH {
            return false;
        }
        match self.spans.get_mut(self.len) {
            Some(free) => {
                *free = Span { start, end };
                self.len = self.len.wrapping_add(1);
                true
            }
            None => false,
        }
    }

    /// In ascending order.
    #[inline]
    pub fn as_slice(&self) -> &[Span] {
        self.spans.get(..self.len).unwrap_or(&[])
    }

    /// In ascending order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Span> {
        self.as_slice().iter()
    }

    /// How many.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// None.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Another one would not fit.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.len >= MAX_SPANS
    }
}

impl<'a> IntoIterator for &'a Spans {
    type Item = &'a Span;
    type IntoIter = core::slice::Iter<'a, Span>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Spans {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Spans {}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
