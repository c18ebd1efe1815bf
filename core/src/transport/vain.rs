// SPDX-License-Identifier: GPL-2.0
//! Counts of messages that ended in vain, by their senders: those with a ticket that ended before
//! anything answered what they drew.
//!
//! A ticket shows who had an address when it was given. So what is sent because of it is bounded
//! until something answers, for all messages of an address together; and those that ended
//! unanswered are counted here, or who has the ticket of an earlier owner would end his messages
//! and begin others. Peers without messages are forgotten, so the counts are of hashes of
//! addresses: two of them may share one. That costs who is honest part of what is sent to him in
//! the first round trip, until he answers.

/// So many counts there are, 1 KiB of them: a power of two.
const COUNTS: usize = 512;

/// The counts of the present time.
pub(crate) struct Vain {
    counts: [u16; COUNTS],
    /// Which time that is: tickets are of times, and so are the counts.
    time: u64,
    /// Nothing was counted.
    none: bool,
}

impl Vain {
    pub(crate) const NEW: Self = Self {
        counts: [0; COUNTS],
        time: 0,
        none: true,
    };

    /// Whether nothing was counted, so that no hash is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.none
    }

    fn slot(hash: u64) -> usize {
        hash as usize % COUNTS
    }

    /// One more ended.
    pub(crate) fn note(&mut self, time: u64, hash: u64) {
        if time != self.time && !self.none {
            self.counts = [0; COUNTS];
        }
        (self.time, self.none) = (time, false);
        if let Some(count) = self.counts.get_mut(Self::slot(hash)) {
            *count = count.saturating_add(1);
        }
    }

    /// How many did in this time.
    pub(crate) fn count(&self, time: u64, hash: u64) -> u32 {
        if time != self.time {
            return 0;
        }
        let count = self.counts.get(Self::slot(hash)).copied();
        count.unwrap_or(0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_a_time_and_an_address() {
        let mut vain = Vain::NEW;
        assert!(vain.is_empty());
        for _ in 0..3 {
            vain.note(7, 5);
        }
        assert!(!vain.is_empty());
        assert_eq!((vain.count(7, 5), vain.count(7, 6)), (3, 0));
        assert_eq!((vain.count(6, 5), vain.count(8, 5)), (0, 0));
        vain.note(8, 6);
        assert_eq!((vain.count(8, 5), vain.count(8, 6)), (0, 1));
    }

    #[test]
    fn a_count_ends_at_its_largest() {
        let mut vain = Vain::NEW;
        for _ in 0..70_000 {
            vain.note(1, 600);
        }
        assert_eq!(vain.count(1, 600), 65_535);
    }
}
