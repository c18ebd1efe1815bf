// SPDX-License-Identifier: GPL-2.0
//! How many cache lines of a port a token touches.
//!
//! A line that is not in the cache costs some hundred instructions' time, which a count of
//! instructions does not show. So the fields that a token on the fast path needs stand together,
//! and the build fails if they no longer do: who embeds a port can add these numbers to its own and
//! assert what they come to.

use core::mem::{offset_of, size_of};

use super::line::{Line, Slot};
use super::Port;
use crate::queue::Queue;
use crate::shaper::Shaper;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// How many cache lines fields at these offsets, of these sizes, are in. The structure begins with
/// a line.
pub const fn lines_of(fields: &[(usize, usize)]) -> usize {
    let mut count: usize = 0;
    let mut i: usize = 0;
    while i < fields.len() {
        let mut line = first_line(fields[i]);
        while line < end_line(fields[i]) {
            let mut seen = false;
            let mut j: usize = 0;
            while j < i {
                seen |= first_line(fields[j]) <= line && line < end_line(fields[j]);
                j = j.wrapping_add(1);
            }
            if !seen {
                count = count.wrapping_add(1);
            }
            line = line.wrapping_add(1);
        }
        i = i.wrapping_add(1);
    }
    count
}

/// The line that a field of this offset and size begins in.
const fn first_line((offset, _): (usize, usize)) -> usize {
    offset / CACHE_LINE
}

/// The line behind the one that it ends in.
const fn end_line((offset, size): (usize, usize)) -> usize {
    offset.wrapping_add(size).div_ceil(CACHE_LINE)
}

impl<Q: Queue> Port<Q> {
    /// Cache lines of the port that a token on the fast path touches until it has left, by
    /// the class that it names or by its header, where the port is not shaped: the first two, with
    /// the words of the port and the group's shaper, and its band's.
    pub const TOKEN_LINES: usize = lines_of(&Self::TOKEN_FIELDS);

    /// As [`Port::TOKEN_LINES`], for a token that others were queued before: its wait is one to be
    /// counted.
    pub const LATE_TOKEN_LINES: usize = {
        let [a, b, c, d, e, f] = Self::TOKEN_FIELDS;
        let waits = Self::LINE + offset_of!(Line<Q>, waits);
        lines_of(&[a, b, c, d, e, f, (waits, 16)])
    };

    /// The line of the token band of the highest priority. Each has as many cache lines as any
    /// other.
    const LINE: usize = offset_of!(Self, lines)
        + Slot::new(crate::port::band::Band::Token(0)).index() * size_of::<Line<Q>>();

    const TOKEN_FIELDS: [(usize, usize); 6] = [
        (offset_of!(Self, backlogged), 4 + 4),
        (offset_of!(Self, expiry), 8),
        (offset_of!(Self, classes), super::MINORS),
        (offset_of!(Self, framing), 4 + 2),
        (offset_of!(Self, group), Shaper::HOT),
        (Self::LINE, offset_of!(Line<Q>, waits)),
    ];
}
