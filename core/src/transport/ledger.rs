// SPDX-License-Identifier: GPL-2.0
//! The fate of a message's tokens: which were answered, and which are lost. Kept by the receiver,
//! which gives the tokens.
//!
//! A token is *outstanding* until it is *answered* by data that echoes its sequence number, or
//! taken for *lost*: because more later tokens than a tolerance for reordering have been answered,
//! or because it is too old. If a token taken for lost is answered after all, the count is
//! corrected, and the tolerance grows.

/// The most outstanding tokens: a quarter of the sequence numbers, so that they are unambiguous.
pub(crate) const MAX_OUTSTANDING: u32 = 1 << 14;
/// The initial tolerance, as TCP's three duplicate acknowledgements (RFC 5681).
const TOLERANCE: u16 = 3;
/// The greatest tolerance.
const MAX_TOLERANCE: u16 = 32;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// The next token's number.
    next: u16,
    /// All tokens before this one are answered or lost.
    resolved: u16,
    /// One above the highest that was answered or given up. `resolved <= edge <= next`, and
    /// `edge - resolved` is at most the tolerance.
    edge: u16,
    /// Bit i: `edge - 1 - i` was answered.
    bits: u64,
    tolerance: u16,
    outstanding: u32,
    /// Since the counts were last taken.
    answered: u32,
    lost: u32,
}

/// What kind of answer a DATA is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To a token that was outstanding.
    New,
    /// To one that was taken for lost.
    Late,
    /// To one that was answered before, is too old to tell, or was never sent.
    Unasked,
}

impl Ledger {
    /// `first`: the first token's number.
    pub(crate) const fn new(first: u16) -> Self {
        Self {
            next: first,
            resolved: first,
            edge: first,
            bits: 0,
            tolerance: TOLERANCE,
            outstanding: 0,
            answered: 0,
            lost: 0,
        }
    }

    /// The next token's number.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.next
    }

    /// How many tokens may still be answered.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The tolerance: so many later tokens are answered before one is taken for lost.
    #[inline]
    pub(crate) fn tolerance(&self) -> u16 {
        self.tolerance
    }

    /// Whether another token may be sent.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        u32::from(self.next.wrapping_sub(self.resolved)) >= MAX_OUTSTANDING
    }

    /// Records that a token is sent. Returns its number.
    pub(crate) fn send(&mut self) -> u16 {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.outstanding = self.outstanding.saturating_add(1);
        sequence
    }

    /// Whether this token and those behind it, so many in all, are outstanding, and newer than all
    /// that were answered.
    pub(crate) fn is_next(&self, sequence: u16, count: u16) -> bool {
        let ahead = sequence.wrapping_sub(self.edge);
        let known = self.next.wrapping_sub(self.edge);
        ahead < known && count <= known.saturating_sub(ahead)
    }

    /// Data came that echoes this number.
    pub(crate) fn answer(&mut self, sequence: u16) -> Answer {
        let ahead = sequence.wrapping_sub(self.edge);
        if ahead < self.next.wrapping_sub(self.edge) {
            self.outstanding = self.outstanding.saturating_sub(1);
            self.answered = self.answered.saturating_add(1);
            let edge = sequence.wrapping_add(1);
            let unresolved = edge.wrapping_sub(self.resolved);
            let gone = unresolved.saturating_sub(self.tolerance);
            self.resolve(gone);
            self.shift(edge);
            self.bits |= 1;
            return Answer::New;
        }
        let behind = self.edge.wrapping_sub(1).wrapping_sub(sequence);
        if behind >= 64 || self.bits & (1 << behind) != 0 {
            return Answer::Unasked;
        }
        self.bits |= 1 << behind;
        self.answered = self.answered.saturating_add(1);
        if sequence.wrapping_sub(self.resolved) < self.edge.wrapping_sub(self.resolved) {
            self.outstanding = self.outstanding.saturating_sub(1);
            return Answer::New;
        }
        self.lost = self.lost.saturating_sub(1);
        // Not `clamp`, which panics if its bounds are the wrong way round.
        let late = behind.saturating_add(1);
        self.tolerance = late.max(self.tolerance).min(MAX_TOLERANCE);
        Answer::Late
    }

    /// Data came that echoes this number, and data that echoes those behind it, so many in all,
    /// which [are outstanding](Self::is_next).
    pub(crate) fn answer_next(&mut self, sequence: u16, count: u16) {
        if count > MAX_TOLERANCE {
            // More than there are bits for, with those that are not resolved yet.
            for number in 0..count {
                self.answer(sequence.wrapping_add(number));
            }
            return;
        }
        self.outstanding = self.outstanding.saturating_sub(count.into());
        self.answered = self.answered.saturating_add(count.into());
        let edge = sequence.wrapping_add(count);
        // The first one of them is the first that may take others for lost.
        let first = sequence.wrapping_add(1).wrapping_sub(self.resolved);
        self.resolve(first.saturating_sub(self.tolerance));
        self.shift(edge);
        self.bits |= mask(count);
        let unresolved = edge.wrapping_sub(self.resolved);
        self.resolve(unresolved.saturating_sub(self.tolerance));
    }

    /// Gives up all unanswered tokens before `sequence`. Returns how many those are.
    pub(crate) fn give_up(&mut self, sequence: u16) -> u32 {
        let gone = sequence.wrapping_sub(self.resolved);
        if gone == 0 || gone > self.next.wrapping_sub(self.resolved) {
            return 0;
        }
        self.resolve(gone)
    }

    /// Resolves the next `count` tokens after `resolved`: those without an answer are lost.
    fn resolve(&mut self, count: u16) -> u32 {
        // Only those before `edge` can have been answered, and these are at most as many as the
        // tolerance.
        let known = self.edge.wrapping_sub(self.resolved);
        let looked = count.min(known);
        let bits = mask(known) & !mask(known.wrapping_sub(looked));
        let answered = (self.bits & bits).count_ones();
        let lost = u32::from(count).saturating_sub(answered);
        self.lost = self.lost.saturating_add(lost);
        self.outstanding = self.outstanding.saturating_sub(lost);
        self.resolved = self.resolved.wrapping_add(count);
        if count > known {
            self.shift(self.resolved);
        }
        lost
    }

    fn shift(&mut self, edge: u16) {
        let by = edge.wrapping_sub(self.edge);
        self.bits = self.bits.checked_shl(by.into()).unwrap_or(0);
        self.edge = edge;
    }

    /// How many tokens were answered and how many lost since the last call.
    pub(crate) fn take(&mut self) -> (u32, u32) {
        (
            core::mem::take(&mut self.answered),
            core::mem::take(&mut self.lost),
        )
    }
}

/// The lowest `count` bits, at most 64.
#[inline]
fn mask(count: u16) -> u64 {
    1_u64.checked_shl(count.into()).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests;
