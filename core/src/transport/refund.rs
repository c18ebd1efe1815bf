// SPDX-License-Identifier: GPL-2.0
//! Tokens that were lost asked for nothing: the link's time for which they were sent is given back.
//!
//! Where each host sends to many others, receivers choose the same sender now and then, whose port
//! drops the tokens of all but one at a time. A pacer that counted these as if their packets came
//! would leave its link idle for as long, though other senders wait: 16 hosts that all send to each
//! other had 61 % of their links, and messages of 60 kB at a load of 75 % waited ever longer.
//!
//! What is given back is soon enough asked for again, and bounded: when no more tokens are lost at
//! once, a queue forms before this host of as many packets as were asked for beyond the link's
//! rate in a round trip.

use crate::units::Nanos;

/// What is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refund {
    /// And not used yet.
    open: Nanos,
    /// What was used in this round trip.
    used: Nanos,
    /// When it began.
    began: Nanos,
}

impl Refund {
    pub(crate) const NONE: Self = Self {
        open: Nanos::ZERO,
        used: Nanos::ZERO,
        began: Nanos::ZERO,
    };

    /// Tokens that stand for so much `time` are known to be lost. `rtt`: a round trip, in which no
    /// more than `most` is given back.
    pub(crate) fn lost(&mut self, now: Nanos, time: Nanos, rtt: Nanos, most: Nanos) {
        if now - self.began >= rtt {
            (self.began, self.used) = (now, Nanos::ZERO);
        }
        self.open = (self.open + time).min(most - self.used);
    }

    /// How much earlier the next token may leave, which is no more than `most`.
    pub(crate) fn take(&mut self, most: Nanos) -> Nanos {
        let back = self.open.min(most);
        self.open = self.open - back;
        self.used += back;
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos(1000);
    const MOST: Nanos = Nanos(80);

    #[test]
    fn what_was_lost_is_given_back_once() {
        let mut refund = Refund::NONE;
        assert_eq!(refund.take(MOST), Nanos::ZERO);
        refund.lost(Nanos(5000), Nanos(30), RTT, MOST);
        assert_eq!(refund.take(Nanos(20)), Nanos(20));
        assert_eq!(refund.take(Nanos(20)), Nanos(10));
        assert_eq!(refund.take(Nanos(20)), Nanos::ZERO);
    }

    #[test]
    fn no_more_than_so_much_in_a_round_trip() {
        let mut refund = Refund::NONE;
        for round in 1..4 {
            let mut sum = Nanos::ZERO;
            for n in 0..10 {
                let now = Nanos(round * RTT.0 + n * 100);
                refund.lost(now, Nanos(30), RTT, MOST);
                sum += refund.take(Nanos(20));
            }
            assert_eq!(sum, MOST);
        }
    }
}
