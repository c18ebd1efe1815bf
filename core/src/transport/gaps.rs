// SPDX-License-Identifier: GPL-2.0
//! Loss detection at the receiver: when a RESEND names the gaps in a message.
//!
//! Data comes in the order of the message, except for losses, retransmissions and reordering. A new
//! gap is *pending* for a quarter of a round trip or until data for some later tokens has come, and
//! is then *named* in a RESEND. A sender sends named bytes before anything new. So if data for
//! tokens that were sent after the RESEND comes and the first gap is still there, something was
//! lost again, and all gaps are named once more, but at most once per round trip.
//!
//! Bytes missing at the end are no gap. They are named when the sender says that it has sent all,
//! or is silent.

use super::ranges::Ranges;
use super::wire::Spans;
use crate::units::Nanos;

/// The most ranges of a message that are kept: with more gaps, data behind them is dropped. More
/// would make a message larger than a kernel stack has room for.
pub(crate) const RANGES: usize = 24;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// Gaps between `named` and this are pending; 0: none.
    pending: u32,
    since: Nanos,
    /// How many tokens have been answered since.
    later: u16,
    /// Gaps below this have been named, lastly at `at`.
    named: u32,
    at: Nanos,
    /// So many answers to tokens from `sequence` on, which were sent after that, did not fill the
    /// first gap, which begins at `head`.
    head: u32,
    sequence: u16,
    misses: u16,
}

impl Gaps {
    /// Data came. `token`: the token it answered. `tolerance`: the ledger's. `next`: the next
    /// token's number.
    pub(crate) fn came(&mut self, now: Nanos, ranges: &Ranges<RANGES>, token: Option<u16>) {
        let contiguous = ranges.contiguous();
        let top = ranges.as_slice().last().map_or(0, |last| last.start);
        if contiguous >= top {
            self.pending = 0;
            self.named = self.named.max(contiguous);
            // What counted for a gap before says nothing of the next one.
            (self.head, self.misses) = (contiguous, 0);
            return;
        }
        if self.pending != 0 {
            self.later = self.later.saturating_add(u16::from(token.is_some()));
        } else if top > self.named.max(contiguous) {
            (self.pending, self.since, self.later) = (top, now, 0);
        }
        if contiguous >= self.named || contiguous != self.head {
            (self.head, self.misses) = (contiguous, 0);
        } else if token.is_some_and(|token| token.wrapping_sub(self.sequence) < 1 << 15) {
            self.misses = self.misses.saturating_add(1);
        }
    }

    /// The sender says that it has sent everything up to `limit`.
    pub(crate) fn all_sent(&mut self, now: Nanos, limit: u32) {
        if self.pending == 0 {
            (self.since, self.later) = (now, 0);
        }
        self.pending = limit.max(1);
    }

    /// When a gap will be named, unless data comes before.
    pub(crate) fn due(&self, rtt: Nanos) -> Option<Nanos> {
        (self.pending != 0).then(|| self.since + Nanos(rtt.0 / 4))
    }

    /// The gaps to be named now.
    pub(crate) fn name(
        &mut self,
        now: Nanos,
        ranges: &Ranges<RANGES>,
        rtt: Nanos,
        tolerance: u16,
        next: u16,
    ) -> Option<Spans> {
        let contiguous = ranges.contiguous();
        let waited = self.due(rtt).is_some_and(|due| now >= due) || self.later >= tolerance;
        let again = self.misses >= tolerance && self.named > contiguous;
        let (from, to) = if again && now - self.at >= rtt {
            (contiguous, self.named)
        } else if self.pending != 0 && waited {
            let from = if now - self.at >= rtt + rtt {
                contiguous
            } else {
                self.named.max(contiguous)
            };
            (from, self.pending)
        } else {
            return None;
        };
        self.name_between(now, ranges, from, to, next)
    }

    /// Everything that is missing below `limit`, as the sender is silent.
    pub(crate) fn name_all(
        &mut self,
        now: Nanos,
        ranges: &Ranges<RANGES>,
        limit: u32,
        next: u16,
    ) -> Option<Spans> {
        self.name_between(now, ranges, ranges.contiguous(), limit, next)
    }

    fn name_between(
        &mut self,
        now: Nanos,
        ranges: &Ranges<RANGES>,
        from: u32,
        to: u32,
        next: u16,
    ) -> Option<Spans> {
        let mut spans = Spans::EMPTY;
        let mut at = from;
        while let Some(gap) = ranges.missing(at, to) {
            if !spans.push(gap.start, gap.end) {
                break;
            }
            at = gap.end;
        }
        if ranges.missing(at, to).is_some() {
            // More gaps than a RESEND holds: the rest stays pending.
            (self.pending, self.since, self.later) = (to, now, 0);
        } else {
            at = to;
            if self.pending <= to {
                self.pending = 0;
            }
        }
        if spans.is_empty() {
            return None;
        }
        // Only up to the end of what has come: losses behind it will show as gaps again.
        self.named = self.named.max(at.min(ranges.end()));
        (self.at, self.head, self.misses, self.sequence) = (now, ranges.contiguous(), 0, next);
        Some(spans)
    }
}

#[cfg(test)]
mod tests;
