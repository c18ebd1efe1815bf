// SPDX-License-Identifier: GPL-2.0
//! The sender's replay window for tokens: each is answered once.

/// How far behind the highest sequence number a token may be.
pub(crate) const WINDOW: u16 = 512;

const WORDS: usize = (WINDOW / 64) as usize;

/// The sequence numbers of a message's tokens that were seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// A number has been seen. The first one may be any.
    begun: bool,
    highest: u16,
    /// Bit `s % WINDOW`: `s` was seen, for the last `WINDOW` numbers up to `highest`.
    bits: [u64; WORDS],
}

impl Seen {
    pub(crate) const fn new() -> Self {
        Self {
            begun: false,
            highest: 0,
            bits: [0; WORDS],
        }
    }

    /// Records a number. `true` if it is new; one more than [`WINDOW`] behind counts as seen.
    pub(crate) fn accept(&mut self, sequence: u16) -> bool {
        if !self.begun {
            (self.begun, self.highest) = (true, sequence);
            self.set(sequence, true);
            return true;
        }
        let ahead = sequence.wrapping_sub(self.highest);
        if ahead != 0 && ahead < 1 << 15 {
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
        } else if self.highest.wrapping_sub(sequence) >= WINDOW || self.is_set(sequence) {
            return false;
        }
        self.set(sequence, true);
        true
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

#[cfg(test)]
mod tests;
