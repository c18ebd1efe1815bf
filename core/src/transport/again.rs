// SPDX-License-Identifier: GPL-2.0
//! How much of an outgoing message may be sent once more.
//!
//! A receiver names what it misses, and a few bytes can name everything that is under way. One that
//! takes nothing would draw all of it in each round trip, for as long as a message may stand still.
//! So what is sent again is paid for by progress, as what a stranger is sent is by what came from
//! it: for each byte that is acknowledged two may be sent again, up to a *flight*, as much as is
//! under way. That is more than any path loses which a message gets through at all, and after an
//! outage it doubles what goes in a round trip, as TCP's slow start does.
//!
//! What has come to its end is given more by time alone, in rounds: the first at once and a flight
//! long, each of the next half as long as the one before, and after twice the time. They end at
//! [`LEAST`] packets in each [`LONGEST`]. They begin anew when progress has paid for a flight since
//! they began, which what a round has given does not count for: or who acknowledges a packet as
//! soon as a round has begun would have all rounds again for it. When it has paid for as much as
//! the last round had, the next one is at once and twice as long: a flight may be all that has come
//! but for a few packets, and to pay for all of that took minutes. All that is ever sent again is
//! therefore less than six times what is acknowledged, two of it paid for and four by rounds, two
//! flights, and these packets.

use crate::units::Nanos;

/// A round has so many packets at least: short messages are lost as a whole.
const LEAST: u32 = 32;
/// Between two rounds there is no more time than this, as between two probes.
const LONGEST: Nanos = Nanos::SECOND;
/// Bytes that may be sent again for each that is acknowledged.
const TIMES: i64 = 2;
/// After so many rounds without progress all that was under way was sent more than once for
/// nothing.
const FRUITLESS: u8 = 8;

/// See the module's documentation.
pub(crate) struct Again {
    /// Bytes that may be sent again now; less than 0: a packet was longer than what was left.
    spare: i64,
    /// Bytes that progress has paid for since the rounds began.
    paid: i64,
    /// When the next round begins, at the earliest, and how many there were in a row.
    next: Nanos,
    rounds: u8,
    /// From this on the time between two doubles.
    first: Nanos,
}

impl Again {
    /// `first`: the time between the first two rounds, until a round trip is known.
    pub(crate) const fn new(first: Nanos) -> Self {
        Self {
            spare: 0,
            paid: 0,
            next: Nanos::ZERO,
            rounds: 0,
            first,
        }
    }

    /// A round trip takes so long.
    pub(crate) fn trip(&mut self, rtt: Nanos) {
        self.first = rtt;
    }

    /// Whether a packet may be sent again now, of a message of which so many bytes are under way,
    /// in packets of `mss`.
    pub(crate) fn may(&mut self, now: Nanos, flight: u32, mss: u32) -> bool {
        if self.spare <= 0 && now >= self.next {
            if self.rounds == 0 {
                self.paid = 0;
            }
            let part = flight.checked_shr(self.rounds.into()).unwrap_or(0);
            self.spare = part.max(mss.saturating_mul(LEAST)).into();
            let times = 1_u64.wrapping_shl(self.rounds.into());
            self.next = now + Nanos(self.first.0.saturating_mul(times)).min(LONGEST);
            self.rounds = self.rounds.saturating_add(1).min(63);
        }
        self.spare > 0
    }

    /// When more may be sent again, if nothing may before.
    pub(crate) fn held_until(&self) -> Option<Nanos> {
        (self.spare <= 0).then_some(self.next)
    }

    /// So many bytes were.
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.spare = self.spare.saturating_sub(bytes.into());
    }

    /// So many bytes more were acknowledged, after `flight` had been under way.
    pub(crate) fn acknowledged(&mut self, bytes: u32, flight: u32, mss: u32) {
        let most = i64::from(flight.max(mss.saturating_mul(LEAST)));
        let more = i64::from(bytes).saturating_mul(TIMES);
        if self.spare < most {
            self.spare = self.spare.saturating_add(more).min(most);
        }
        self.paid = self.paid.saturating_add(more);
        if self.paid >= most {
            (self.rounds, self.next, self.paid) = (0, Nanos::ZERO, 0);
            return;
        }
        let least = mss.saturating_mul(LEAST);
        let size = |rounds: u8| flight.checked_shr(rounds.into()).unwrap_or(0);
        let last = size(self.rounds.saturating_sub(1)).max(least);
        if self.rounds > 1 && self.paid >= last.into() {
            // The next round is at once, and twice as long.
            while self.rounds > 1 && size(self.rounds.saturating_sub(1)) / 2 <= last {
                self.rounds = self.rounds.saturating_sub(1);
            }
            (self.next, self.paid) = (Nanos::ZERO, 0);
        }
    }

    /// Whether so much was sent again for nothing that a receiver which answers is no better than
    /// one that is silent.
    pub(crate) fn is_fruitless(&self) -> bool {
        self.rounds >= FRUITLESS
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const MSS: u32 = 1000;
    const RTT: Nanos = Nanos(50_000);
    const FLIGHT: u32 = 2_000_000;

    /// Bytes that are sent again in so many rounds in a row, and when the next one begins.
    fn rounds(again: &mut Again, mut now: Nanos, count: u32) -> (u32, Nanos) {
        let mut bytes = 0_u32;
        for _ in 0..count {
            while again.may(now, FLIGHT, MSS) {
                again.sent(MSS);
                bytes += MSS;
            }
            now = again.held_until().unwrap();
            assert!(!again.may(now - Nanos(1), FLIGHT, MSS));
        }
        (bytes, now)
    }

    #[test]
    fn rounds_become_shorter_and_rarer() {
        let mut again = Again::new(Nanos(2_000_000));
        again.trip(RTT);
        let now = Nanos(1_000_000);
        assert_eq!(rounds(&mut again, now, 1), (FLIGHT, now + RTT));
        let next = now + RTT;
        assert_eq!(rounds(&mut again, next, 1), (FLIGHT / 2, next + RTT + RTT));
        let (bytes, next) = rounds(&mut again, next + RTT + RTT, 20);
        assert!(bytes < FLIGHT / 2 + 20 * LEAST * MSS, "{bytes}");
        assert!(again.is_fruitless());
        assert_eq!(rounds(&mut again, next, 1), (LEAST * MSS, next + LONGEST));
        assert!(rounds(&mut again, next + LONGEST, 100).0 == 100 * LEAST * MSS);
    }

    #[test]
    fn progress_pays_for_as_much_as_was_under_way() {
        let mut again = Again::new(RTT);
        let (_, next) = rounds(&mut again, Nanos(0), 10);
        // A byte for each packet is next to nothing.
        for byte in 0..100 {
            again.acknowledged(1, FLIGHT, MSS);
            assert_eq!(again.may(next - Nanos(1), FLIGHT, MSS), byte == 0);
            if byte == 0 {
                again.sent(MSS);
            }
        }
        assert!(again.is_fruitless());
        again.acknowledged(FLIGHT / 2 + MSS, FLIGHT, MSS);
        assert!(again.may(next - Nanos(1), FLIGHT, MSS) && !again.is_fruitless());
        again.sent(FLIGHT);
        assert_eq!(rounds(&mut again, next, 1), (FLIGHT, next + RTT));
    }

    /// What is under way may have come but for a few packets here and there: to pay for all of it
    /// would take for ever.
    #[test]
    fn progress_makes_rounds_longer_again() {
        let mut again = Again::new(RTT);
        let (_, next) = rounds(&mut again, Nanos(0), 20);
        let mut lengths = Vec::new();
        for _ in 0..5 {
            let paid = lengths.last().copied().unwrap_or(LEAST * MSS);
            again.acknowledged(paid / 2, FLIGHT, MSS);
            again.spare = 0;
            lengths.push(rounds(&mut again, next - Nanos(1), 1).0);
        }
        for pair in lengths.windows(2) {
            assert!(
                pair[1] > pair[0] && pair[1] <= 2 * pair[0] + MSS,
                "{lengths:?}"
            );
        }
    }

    /// Who acknowledges half a packet whenever a round has begun has no more rounds for it.
    #[test]
    fn a_round_that_has_just_begun_is_no_progress() {
        let mut again = Again::new(RTT);
        let (mut now, mut rounds, mut acknowledged, mut bytes) = (Nanos(0), 0_u64, 0_u64, 0_u64);
        for _ in 0..200_000 {
            let begins = again.spare <= 0;
            if !again.may(now, FLIGHT, MSS) {
                now = again.held_until().unwrap();
                continue;
            }
            again.sent(MSS);
            bytes += u64::from(MSS);
            if begins {
                again.acknowledged(MSS / 2, FLIGHT, MSS);
                acknowledged += u64::from(MSS / 2);
                rounds += 1;
            }
        }
        let least = rounds * u64::from(LEAST * MSS);
        let most = 6 * acknowledged + 2 * u64::from(FLIGHT) + least;
        assert!(bytes <= most, "{bytes} for {acknowledged}");
    }

    #[test]
    fn short_messages_have_some_packets() {
        let mut again = Again::new(RTT);
        assert!(again.may(Nanos(0), 1, MSS));
        again.sent(LEAST * MSS - 1);
        assert!(again.may(Nanos(0), 1, MSS));
        again.sent(MSS);
        assert!(!again.may(RTT - Nanos(1), 1, MSS) && again.may(RTT, 1, MSS));
    }
}
