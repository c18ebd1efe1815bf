// SPDX-License-Identifier: GPL-2.0
//! The least progress of an incoming message that others wait for.
//!
//! A message may be slow or rest for as long as it disturbs nobody. But one that holds room in a
//! receive buffer, or that is read and not complete, may hold up others: whoever begins messages
//! and does not go on with them would otherwise block a socket for the price of a few packets. So
//! while others wait ([`Host::is_wanted`](super::host::Host::is_wanted)), a message is looked at
//! once in a [`PERIODS`]th of `timeout`, and given up if between two looks nothing of it came
//! (unless its user is [patient](Least::always)), or in all of `timeout` less than its user says.
//! After [`DOUBLED`] of these times it should come twice as fast, and so on: others do not wait for
//! ever, however long a message is.
//!
//! Its sender is not blamed for what it cannot help: that its window is closed, or that it got no
//! token because the policy gives them to others.

use super::host::Least;
use crate::units::Nanos;

/// A message is looked at so many times in `timeout`.
const PERIODS: u64 = 32;
/// While others wait, a message should come twice as fast after so many times of `timeout` each.
const DOUBLED: u32 = 16;
/// A sender was asked, and has not answered, if it had got so many tokens a period ago: where many
/// messages meet, half of all tokens are lost, but not so many in a row.
const ASKED: u32 = 8;

/// What a look needs to know of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Bytes that have come.
    pub(crate) received: u32,
    /// Tokens that were sent.
    pub(crate) tokens: u32,
    /// The sender has said that it has nothing to send, or has not proved its address, or has not
    /// answered all that may be sent to it before it does.
    pub(crate) idle: bool,
    /// The sender may not send more.
    pub(crate) closed: bool,
}

/// What there was at the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    next: Nanos,
    received: u32,
    tokens: u32,
    /// Tokens that were sent before something came last.
    answered: u32,
    /// Since when others wait, less the time in which it got no tokens; and what had come then.
    wanted: Option<(Nanos, u32)>,
    /// For so many times of `timeout` before.
    times: u32,
}

impl Progress {
    /// A message begins.
    pub(crate) fn new(now: Nanos, timeout: Nanos) -> Self {
        Self {
            next: now + Nanos(timeout.0 / PERIODS),
            received: 0,
            tokens: 0,
            answered: 0,
            wanted: None,
            times: 0,
        }
    }

    /// When to look.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Looks. `least`: how many bytes should come in `timeout`, if others wait. `false`: the
    /// message is to be given up.
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        timeout: Nanos,
        facts: &Facts,
        least: Option<Least>,
    ) -> bool {
        let period = Nanos(timeout.0 / PERIODS);
        self.next = now + period;
        let came = facts.received > self.received;
        if came {
            self.answered = facts.tokens;
        }
        let asked = facts.idle || self.tokens.saturating_sub(self.answered) >= ASKED;
        (self.received, self.tokens) = (facts.received, facts.tokens);
        let Some(least) = least else {
            (self.wanted, self.times) = (None, 0);
            return true;
        };
        if facts.closed {
            self.wanted = None;
            return true;
        }
        let Some((since, before)) = self.wanted else {
            self.wanted = Some((now, facts.received));
            return true;
        };
        if !came && !asked {
            self.wanted = Some((since + period, before));
            return true;
        }
        if now - since < timeout {
            return came || !least.always;
        }
        self.wanted = Some((now, facts.received));
        let doubled = 1_u32.checked_shl(self.times / DOUBLED).unwrap_or(u32::MAX);
        self.times = self.times.saturating_add(1);
        let enough = facts.received.saturating_sub(before) >= least.bytes.saturating_mul(doubled);
        enough && (came || !least.always)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Nanos = Nanos(32_000);

    /// Looks once in each period, while others wait. Returns when the message is given up.
    fn given_up(facts: impl FnMut(u64) -> Facts, bytes: Option<u32>) -> Option<u64> {
        let always = true;
        given_up_by(facts, bytes.map(|bytes| Least { bytes, always }))
    }

    fn given_up_by(mut facts: impl FnMut(u64) -> Facts, least: Option<Least>) -> Option<u64> {
        let mut progress = Progress::new(Nanos(0), TIMEOUT);
        for look in 1..100 {
            assert_eq!(progress.next(), Nanos(look * 1000));
            if !progress.look(progress.next(), TIMEOUT, &facts(look), least) {
                return Some(look);
            }
        }
        None
    }

    fn facts(received: u64, tokens: u64) -> Facts {
        Facts {
            received: received as u32,
            tokens: tokens as u32,
            idle: false,
            closed: false,
        }
    }

    #[test]
    fn what_stands_still_is_given_up_once_others_wait() {
        assert_eq!(given_up(|look| facts(50, 20 * look), Some(1)), Some(3));
        assert_eq!(given_up(|look| facts(50, look), None), None);
        let idle = |_| Facts {
            idle: true,
            ..facts(50, 7)
        };
        assert_eq!(given_up(idle, Some(1)), Some(2));
    }

    #[test]
    fn what_creeps_is_given_up_after_the_timeout() {
        assert_eq!(given_up(|look| facts(look, look), Some(100)), Some(33));
        assert_eq!(given_up(|look| facts(look * 10, look), Some(100)), None);
    }

    #[test]
    fn nobody_waits_for_ever_for_a_long_message_that_is_slow() {
        // Eleven times as much as is wanted at first: enough for the times of three doublings.
        let end = |bytes: u64| {
            let least = Least {
                bytes: 100,
                always: true,
            };
            let mut progress = Progress::new(Nanos(0), TIMEOUT);
            (1..10_000_u64).find(|look| {
                let facts = facts(look * bytes / 32, *look);
                !progress.look(progress.next(), TIMEOUT, &facts, Some(least))
            })
        };
        assert_eq!(end(1100), Some(1 + (4 * 16 + 1) * 32));
        assert_eq!(end(101), Some(1 + (16 + 1) * 32));
        // Nor if it closes its window now and then, or sends as much as there is at last.
        assert!(end(1 << 26).is_some_and(|look| look < 21 * 16 * 33));
        let mut progress = Progress::new(Nanos(0), TIMEOUT);
        let given_up = (1..10_000_u64).find(|look| {
            let facts = Facts {
                closed: look % 50 == 0,
                ..facts(look * 40, *look)
            };
            let least = Least {
                bytes: 100,
                always: true,
            };
            !progress.look(progress.next(), TIMEOUT, &facts, Some(least))
        });
        assert!(given_up.is_some());
        // Who is waited for only now and then may take all time there is.
        let mut progress = Progress::new(Nanos(0), TIMEOUT);
        for look in 1..10_000_u64 {
            let least = Least {
                bytes: 100,
                always: true,
            };
            let wanted = (look % 500 != 0).then_some(least);
            let facts = facts(look * 4, look);
            assert!(progress.look(progress.next(), TIMEOUT, &facts, wanted));
        }
    }

    #[test]
    fn who_may_not_send_is_not_blamed() {
        let closed = |look| Facts {
            closed: true,
            ..facts(50, look)
        };
        assert_eq!(given_up(closed, Some(100)), None);
        // No token in all the time, and then some.
        assert_eq!(given_up(|_| facts(50, 7), Some(100)), None);
        let late = |look: u64| facts(50, 20 * look.saturating_sub(70));
        assert_eq!(given_up(late, Some(100)), Some(72));
    }

    #[test]
    fn who_is_waited_for_patiently_may_rest() {
        let least = Some(Least {
            bytes: 100,
            always: false,
        });
        // Nothing for all of the time, or too little.
        assert_eq!(given_up_by(|look| facts(0, 20 * look), least), Some(33));
        let late = |look: u64| facts(if look > 32 { 99 } else { 0 }, 20 * look);
        assert_eq!(given_up_by(late, least), Some(33));
        // Enough at once, and then nothing for nearly as long.
        let at_once = |look: u64| facts(look / 30 * 100, 20 * look);
        assert_eq!(given_up_by(at_once, least), None);
    }

    #[test]
    fn time_in_which_nobody_waited_does_not_count() {
        let mut progress = Progress::new(Nanos(0), TIMEOUT);
        for look in 1..200 {
            let least = (look % 2 == 0).then_some(Least {
                bytes: 100,
                always: true,
            });
            let now = progress.next();
            assert!(progress.look(now, TIMEOUT, &facts(50, look), least));
        }
    }
}
