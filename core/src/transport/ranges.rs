// SPDX-License-Identifier: GPL-2.0
//! A set of bytes as a bounded, sorted list of ranges.

/// `start..end`, not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// At most `N` ranges, ascending, with at least one byte between them.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<const N: usize> {
    ranges: [Range; N],
    len: usize,
}

impl<const N: usize> Ranges<N> {
    pub(crate) const fn new() -> Self {
        Self {
            ranges: [const { Range { start: 0, end: 0 } }; N],
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Range] {
        self.ranges.get(..self.len).unwrap_or(&[])
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many numbers are in the set.
    pub(crate) fn bytes(&self) -> u32 {
        self.as_slice().iter().fold(0, |sum: u32, range| {
            sum.saturating_add(range.end.saturating_sub(range.start))
        })
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The first range.
    #[inline]
    pub(crate) fn first(&self) -> Option<Range> {
        self.as_slice().first().copied()
    }

    /// The last range.
    #[inline]
    pub(crate) fn last(&self) -> Option<Range> {
        self.as_slice().last().copied()
    }

    /// The end of the last range; 0 if there is none.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        self.as_slice().last().map_or(0, |last| last.end)
    }

    /// The end of the contiguous bytes from 0 on.
    #[inline]
    pub(crate) fn contiguous(&self) -> u32 {
        match self.first() {
            Some(Range { start: 0, end }) => end,
            _ => 0,
        }
    }

    /// How many ranges end before `start` without touching it, which is the index of the first
    /// other one.
    #[inline]
    fn place(&self, start: u32) -> usize {
        // New bytes mostly come at the end.
        let mut place = self.len;
        while let Some(before) = place.checked_sub(1) {
            match self.ranges.get(before) {
                Some(range) if range.end >= start => place = before,
                _ => break,
            }
        }
        place
    }

    /// The first part of `start..end` that is not in the set.
    pub(crate) fn missing(&self, start: u32, end: u32) -> Option<Range> {
        let mut start = start;
        for range in self.as_slice().get(self.place(start)..)? {
            if range.start > start {
                let end = end.min(range.start);
                return (start < end).then_some(Range { start, end });
            }
            start = start.max(range.end);
        }
        (start < end).then_some(Range { start, end })
    }

    /// Whether any of `start..end` is in the set.
    pub(crate) fn overlaps(&self, start: u32, end: u32) -> bool {
        let first = self.as_slice().get(self.place(start.saturating_add(1)));
        start < end && first.is_some_and(|range| range.start < end)
    }

    /// Adds `start..end`. `false`, and nothing has changed, if that needs another range and there
    /// is no room.
    pub(crate) fn insert(&mut self, start: u32, end: u32) -> bool {
        if start >= end {
            return true;
        }
        let place = self.place(start);
        let (mut low, mut high, mut after) = (start, end, place);
        while let Some(range) = self.as_slice().get(after) {
            if range.start > end {
                break;
            }
            low = low.min(range.start);
            high = high.max(range.end);
            after = after.saturating_add(1);
        }
        let new = Range {
            start: low,
            end: high,
        };
        self.replace(place, after, &[new])
    }

    /// Removes `start..end`. `false`, and nothing has changed, if that needs another range and
    /// there is no room.
    pub(crate) fn remove(&mut self, start: u32, end: u32) -> bool {
        if start >= end {
            return true;
        }
        let place = self.place(start.saturating_add(1));
        let mut rest = [Range::default(); 2];
        let (mut count, mut after) = (0_usize, place);
        while let Some(&range) = self.as_slice().get(after) {
            if range.start >= end {
                break;
            }
            if range.start < start {
                rest = [
                    Range {
                        end: start,
                        ..range
                    },
                    Range::default(),
                ];
                count = 1;
            }
            if range.end > end {
                if let Some(slot) = rest.get_mut(count) {
                    *slot = Range {
                        start: end,
                        ..range
                    };
                    count = count.saturating_add(1);
                }
            }
            after = after.saturating_add(1);
        }
        let rest = rest.get(..count).unwrap_or(&[]);
        self.replace(place, after, rest)
    }

    /// Replaces the ranges `from..to` by `new`.
    fn replace(&mut self, from: usize, to: usize, new: &[Range]) -> bool {
        let gone = to.saturating_sub(from);
        let len = self.len.saturating_sub(gone).saturating_add(new.len());
        if len > N {
            return false;
        }
        let rest = from.saturating_add(new.len());
        if rest != to {
            if to > self.len || rest > N {
                return false;
            }
            // `to..self.len` is within the array, and so is its destination: `len` is at most N.
            if rest < to {
                let mut offset = 0;
                while let Some(&range) = self.as_slice().get(to.saturating_add(offset)) {
                    if let Some(slot) = self.ranges.get_mut(rest.saturating_add(offset)) {
                        *slot = range;
                    }
                    offset = offset.saturating_add(1);
                }
            } else {
                let mut offset = self.len.saturating_sub(to);
                while let Some(before) = offset.checked_sub(1) {
                    let range = self.ranges.get(to.saturating_add(before)).copied();
                    if let (Some(range), Some(slot)) =
                        (range, self.ranges.get_mut(rest.saturating_add(before)))
                    {
                        *slot = range;
                    }
                    offset = before;
                }
            }
        }
        let mut at = from;
        for range in new {
            if let Some(slot) = self.ranges.get_mut(at) {
                *slot = *range;
            }
            at = at.saturating_add(1);
        }
        self.len = len;
        true
    }
}

#[cfg(test)]
mod tests;
