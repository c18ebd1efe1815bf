// SPDX-License-Identifier: GPL-2.0
//! How many cache lines of a port a token touches.
//!
//! A line that is not in the cache costs some hundred instructions' time, which a count of instructions does not show. So the fields that a usual
//! token needs stand together, and the build fails if they no longer do: who embeds a port can add these numbers to its own and
//! assert what they come to.

use core::mem::{offset_of, size_of};

use super::line::{Line, Slot};
use super::Port;
use crate::queue::Queue;
use crate::shaper::Shaper;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// How many cache lines fields at these offsets, of these sizes, are in. The structure begins with a line.
pub const fn lines_of(fields: &[(usize, usize)]) -> usize {
    let mut count = 0;
    let mut i = 0;
    while i < fields.len() {
        let (offset, size) = fields[i];
        let mut line = offset / CACHE_LINE;
        while line * CACHE_LINE < offset + size {
            let mut seen = false;
            let mut j = 0;
            while j < i {
                let (offset, size) = fields[j];
                seen |= offset / CACHE_LINE <= line && line * CACHE_LINE < offset + size;
                j += 1;
            }
            if !seen {
                count += 1;
            }
            line += 1;
        }
        i += 1;
    }
    count
}

impl<Q: Queue> Port<Q> {
    /// Cache lines of the port that a usual token touches from its arrival until it has left, by the class that it names or by its header, where the port is
    /// not shaped: the first two, with the words of the port and the group's shaper, and its band's.
    pub const TOKEN_LINES: usize = lines_of(&Self::TOKEN_FIELDS);

    /// As [`Port::TOKEN_LINES`], for a token that others were queued before: its wait is one to be counted.
    pub const LATE_TOKEN_LINES: usize = {
        let [a, b, c, d, e, f] = Self::TOKEN_FIELDS;
        let waits = Self::LINE + offset_of!(Line<Q>, waits);
        lines_of(&[a, b, c, d, e, f, (waits, 16)])
    };

    /// The line of the token band of the highest priority. Each has as many cache lines as any other.
    const LINE: usize = offset_of!(Self, lines)
        + Slot::new(crate::band::Band::Token(0)).index() * size_of::<Line<Q>>();

    const TOKEN_FIELDS: [(usize, usize); 6] = [
        (offset_of!(Self, busy), 4 + 4),
        (offset_of!(Self, expiry), 8),
        (offset_of!(Self, classes), super::MINORS),
        (offset_of!(Self, framing), 4 + 2),
        (offset_of!(Self, group), Shaper::HOT),
        (Self::LINE, offset_of!(Line<Q>, waits)),
    ];
}
