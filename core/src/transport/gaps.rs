// SPDX-License-Identifier: GPL-2.0
//! When a receiver asks for what is missing.
//!
//! Data comes in the order of the message, but for what was lost, what was sent again, and what the
//! network reordered. So a gap is *pending* first, for a quarter of a round trip or until data for
//! some later tokens has come, and is then *named* in a RESEND. A sender sends what was named
//! first. So when data for tokens that were sent after the RESEND comes and the first gap is still
//! there, something was lost again, and all gaps are named once more; not before a round trip has
//! passed.
//!
//! What is missing at the end is no gap. It is named when the sender says that it has sent all, or
//! is silent.

use super::ranges::Ranges;
use super::wire::Spans;
use crate::units::Nanos;

/// How many ranges of a message are kept apart: with more gaps, what comes behind them is as if
/// lost.
pub(crate) const RANGES: usize = 32;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// Gaps between `named` and this are pending; 0: none.
    pending: u32,
    since: Nanos,
    /// Data for so many tokens came since.
    later: u16,
    /// Gaps below this have been named, lastly at `at`.
    named: u32,
    at: Nanos,
    /// Data for so many tokens from `sequence` on, which were sent after that, did not fill the
    /// first gap, which begins at `head`.
    head: u32,
    sequence: u16,
    misses: u16,
}

impl Gaps {
    /// Data came; `token`: what it answered. `tolerance`: the ledger's. `next`: the next token's
    /// number.
    pub(crate) fn came(&mut self, now: Nanos, ranges: &Ranges<RANGES>, token: Option<u16>) {
        let contiguous = ranges.contiguous();
        let top = ranges.as_slice().last().map_or(0, |last| last.start);
        if contiguous >= top {
            self.pending = 0;
            self.named = self.named.max(contiguous);
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

    /// All up to `limit` has been sent, says the sender.
    pub(crate) fn all_sent(&mut self, now: Nanos, limit: u32) {
        if self.pending == 0 {
            (self.since, self.later) = (now, 0);
        }
        self.pending = limit.max(1);
    }

    /// When something is to be named, if nothing comes before.
    pub(crate) fn due(&self, rtt: Nanos) -> Option<Nanos> {
        (self.pending != 0).then(|| self.since + Nanos(rtt.0 / 4))
    }

    /// What is to be named now.
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
        let (from, to) = if self.misses >= tolerance && now - self.at >= rtt {
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

    /// All that is missing below `limit`: nothing else helps.
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
            // The rest in its turn.
            (self.pending, self.since, self.later) = (to, now, 0);
        } else {
            at = to;
            self.pending = 0;
        }
        if spans.is_empty() {
            return None;
        }
        // What is missing at the end will come in its turn: what is lost then are gaps again.
        self.named = self.named.max(at.min(ranges.end()));
        (self.at, self.head, self.misses, self.sequence) = (now, ranges.contiguous(), 0, next);
        Some(spans)
    }
}

#[cfg(test)]
mod tests;
