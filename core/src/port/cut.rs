// SPDX-License-Identifier: GPL-2.0
//! Super-packets: which stay whole, and into how long pieces others are cut.
//!
//! Whoever hands packets to the port asks here first, and cuts. A whole super-packet costs as much
//! as one packet, and single packets of it cost several times as much as the rest of their way; but
//! what is being sent cannot be interrupted, and tokens and signals wait for it. So
//! [`SplitGso::Auto`](super::config::SplitGso::Auto) allows a super-packet as many bytes as the
//! link sends in a time that is given ([`GsoHold`](super::config::GsoHold)), which is what a token
//! waits for at most, to the nanosecond.
//!
//! - *Pieces* are super-packets of as many segments as that takes. Since their number is what they
//!   cost, the segments are spread over as few pieces as possible evenly: a token then waits for
//!   less.
//! - Only what goes to the data band stays whole, short messages' packets that may go before others
//!   among them. Tokens are paced one by one, signals are charged one by one, and of unscheduled
//!   packets few may wait.
//! - A full queue drops a piece as a whole. So none is longer than an eighth of what the data band
//!   may hold.
//! - Markers and pauses count by packets: ports that have them split all.

use super::{Port, Slot};
use crate::port::band::Band;
use crate::port::config::WHOLE_ALL;
use crate::queue::{Meta, Queue};

/// What becomes of a super-packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It stays as it is.
    Whole,
    /// It is cut into super-packets of so many segments, two or more; the last one may have fewer.
    Pieces(u32),
    /// It is split into its segments.
    Single,
}

impl<Q: Queue> Port<Q> {
    /// How a super-packet that goes to `slot`, and that `meta` tells of, is cut. `segment` says how
    /// long its segments are, as tc counts them, but for the last one; `None` if it cannot be cut
    /// into pieces. It is asked where that matters.
    pub fn cut(&self, slot: Slot, meta: &Meta, segment: impl FnOnce() -> Option<u32>) -> Cut {
        let most = self.resolved.whole;
        if most == WHOLE_ALL {
            return Cut::Whole;
        }
        if slot.band() != Band::Data || most == 0 {
            return Cut::Single;
        }
        if meta.wire_len <= most {
            return Cut::Whole;
        }
        let pieces = segment().and_then(|len| {
            let fitting = most.checked_div(self.framing.wire_len(len, 1))?;
            let last = meta.segs.checked_sub(1)?;
            // Rounded up, both.
            let pieces = last.checked_div(fitting)?.wrapping_add(1);
            let each = last.checked_div(pieces)?.wrapping_add(1);
            // One of as many segments is what it is already, and too long.
            (each > 1 && each < meta.segs).then_some(Cut::Pieces(each))
        });
        pieces.unwrap_or(Cut::Single)
    }
}
