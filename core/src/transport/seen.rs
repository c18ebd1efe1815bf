// SPDX-License-Identifier: GPL-2.0
//! The sender's replay window for tokens: each is answered once.
//!
//! Numbers have 16 bits, so an old one looks like one that is yet to come. The receiver has
//! [`MAX_OUTSTANDING`] tokens under way at most, and where none of them is answered it goes on with
//! single ones. So however many get lost in a row, the next one is not much further ahead than that
//! of the last one that was taken; what is, is refused as an old one that came again.
//!
//! How many single tokens were lost is known by their time only. So what may be ahead grows with
//! the time in which none was taken: 7630 numbers in a second, faster than a receiver counts that
//! is not answered. With the least `rto` that gives some 1200 tokens in a second, and 3300 grants
//! with REN (`single_tokens_are_counted_faster_than_they_are_given`). Whatever was lost or came
//! again, a message goes on after 6.4 s: then any number is new.
//!
//! A receiver that forgot the message, and begins it once more, begins with another number. As long
//! as it has acknowledged nothing its numbers are taken soon ([`Seen::begins_again`]), as those of
//! an RTP source that restarts (RFC 3550, appendix A.1).

use super::ledger::MAX_OUTSTANDING;
use crate::units::Nanos;

/// How far behind the highest sequence number a token may be.
pub(crate) const WINDOW: u16 = 512;
/// A number that is so far ahead is no new one, if one was taken just now. It leaves some for
/// single tokens, and for data that was under way for longer than the receiver thought.
pub(crate) const AHEAD: u32 = MAX_OUTSTANDING + 512;
/// It may be one further ahead for each 2^17 ns (131 us) in which none was taken.
const STEP_BITS: u32 = 17;

/// So many tokens near each other, all of them too far ahead, are of a receiver that restarted.
const RESTARTED: u8 = 4;

const WORDS: usize = (WINDOW / 64) as usize;

/// The sequence numbers of a message's tokens that were seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When the last number was taken. The first one may be any.
    taken: Option<Nanos>,
    highest: u16,
    /// Bit `s % WINDOW`: `s` was seen, for the last `WINDOW` numbers up to `highest`.
    bits: [u64; WORDS],
    /// The last number that was too far ahead, and how many near it were.
    refused: u16,
    near: u8,
    /// The highest number of a receiver's former life: its tokens may still be under way.
    former: Option<u16>,
}

impl Seen {
    pub(crate) const fn new() -> Self {
        Self {
            taken: None,
            highest: 0,
            bits: [0; WORDS],
            refused: 0,
            near: 0,
            former: None,
        }
    }

    /// A number was refused. Whether its receiver has begun once more, with other numbers: then
    /// this is the first that was taken. `early`: nothing was acknowledged. Later only where that
    /// has been so, as the former tokens may still come: else whoever repeats old tokens could have
    /// the sender answer them once more.
    pub(crate) fn begins_again(&mut self, now: Nanos, sequence: u16, early: bool) -> bool {
        let behind = self.highest.wrapping_sub(sequence);
        if behind < WINDOW || !early && self.former.is_none() {
            return false;
        }
        let apart = |other: u16| {
            let apart = sequence.wrapping_sub(other);
            apart.min(apart.wrapping_neg())
        };
        let from_last = apart(self.refused);
        if from_last == 0 && self.near != 0 {
            return false;
        }
        self.near = match from_last < WINDOW {
            true => self.near.saturating_add(1),
            false => 1,
        };
        self.refused = sequence;
        if self.near < RESTARTED || self.former.is_some_and(|former| apart(former) < WINDOW) {
            return false;
        }
        *self = Self {
            former: self.former.or(Some(self.highest)),
            ..Self::new()
        };
        self.accept(now, sequence)
    }

    /// Records a number. `true` if it is new; one more than [`WINDOW`] behind counts as seen, and
    /// so does one that is too far ahead.
    pub(crate) fn accept(&mut self, now: Nanos, sequence: u16) -> bool {
        let Some(taken) = self.taken else {
            (self.taken, self.highest) = (Some(now), sequence);
            self.set(sequence, true);
            return true;
        };
        let ahead = sequence.wrapping_sub(self.highest);
        if self.highest.wrapping_sub(sequence) < WINDOW {
            if self.is_set(sequence) {
                return false;
            }
        } else if u32::from(ahead) < AHEAD || is_in_time(now - taken, ahead) {
            if ahead >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                let mut between = self.highest;
                while between != sequence {
                    between = between.wrapping_add(1);
                    self.set(between, false);
                }
            }
            self.highest = sequence;
        } else {
            return false;
        }
        self.taken = Some(now);
        self.set(sequence, true);
        true
    }

    /// Whether this number and those behind it, so many in all, are newer than all that were seen,
    /// and not too far ahead.
    pub(crate) fn are_next(&self, sequence: u16, count: u8) -> bool {
        let ahead = u32::from(sequence.wrapping_sub(self.highest));
        self.taken.is_some() && ahead != 0 && ahead.saturating_add(count.into()) < AHEAD
    }

    /// How many numbers are between the highest that was taken and this one, if it is new.
    pub(crate) fn skipped(&self, sequence: u16) -> u32 {
        let ahead = u32::from(sequence.wrapping_sub(self.highest));
        match self.taken {
            Some(_) if ahead < AHEAD => ahead.saturating_sub(1),
            _ => 0,
        }
    }

    fn is_set(&self, sequence: u16) -> bool {
        let word = self.bits.get(usize::from(sequence % WINDOW / 64));
        word.is_some_and(|word| word & (1 << (sequence % 64)) != 0)
    }

    fn set(&mut self, sequence: u16, value: bool) {
        let bit = 1 << (sequence % 64);
        if let Some(word) = self.bits.get_mut(usize::from(sequence % WINDOW / 64)) {
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

/// Whether a receiver may have come so far with its numbers since one was taken.
#[cold]
fn is_in_time(since: Nanos, ahead: u16) -> bool {
    (since.0 >> STEP_BITS).saturating_add(AHEAD.into()) > ahead.into()
}

#[cfg(test)]
mod tests;
