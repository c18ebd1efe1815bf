// SPDX-License-Identifier: GPL-2.0
//! The token pacer: all tokens for one link leave through it, no faster than its token rate.
//!
//! A message that wants tokens is *waiting* until its next one is due by its own rate, and then
//! *ready*. Among ready messages the policy's key chooses. One exact [`Shaper`] spaces the tokens.
//!
//! While any message wants tokens the shaper is not idle, even if none is ready, and it makes up
//! for such waits to a bound. Messages' intervals are randomized; a shaper that did not allow for
//! that would even them out, and fall short of its rate.
//!
//! Two hosts that both pace exactly stay in step, and a port where their tokens meet drops those of
//! the same one each time. So each token leaves late by a random part of an interval ([`Jitter`]),
//! which does not change the rate.

use super::config::Speed;
use super::heap::{Nodes, Places};
use super::host::Memory;
use super::jitter::{Rng, NANO};
use super::paged::unlimited;
use super::policy::Key;
use crate::port::config::{beyond_token, TOKEN_WIRE_LEN};
use crate::shaper::Shaper;
use crate::units::Nanos;

/// Lateness that the shaper makes up for, in intervals: as many tokens as a port's queue holds (TOP
/// section 4.3).
const SLACK_INTERVALS: u32 = 8;
/// After a loss of data that tokens for several had asked for there are single ones for so long:
/// ports on the way may take each for one, and do not drop what they would drop of as many.
const LOST: Nanos = Nanos(10 * Nanos::SECOND.0);

/// Intervals by which a [`Jitter`] may be late, besides a token's place in its interval. A
/// message's and the pacer's together stay below the lateness that the pacer makes up for.
const WANDER: u64 = 3;

/// Random lateness of tokens: of each by a part of its interval, and of all by a slowly drifting
/// number of intervals.
///
/// The intervals follow one another exactly, so that a message with all of the rate uses it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    /// 1/1024 ns.
    late: u64,
}

impl Jitter {
    /// The lateness of the next token. `interval` is in 1/1024 ns.
    pub(crate) fn next(&mut self, rng: &mut Rng, interval: u64, jitter: u32) -> Nanos {
        let step = rng.drift(interval, jitter);
        self.late = self
            .late
            .saturating_add(step)
            .saturating_sub(interval)
            .min(interval.saturating_mul(WANDER));
        let place = rng.place(interval, jitter);
        Nanos(self.late.saturating_add(place) / NANO)
    }
}

/// See the module's documentation. All pacers of an endpoint share one table of places, which most
/// calls get: a message is in at most one queue of them all.
pub(crate) struct Pacer<M: Memory> {
    shaper: Shaper,
    slack: Nanos,
    /// Nothing leaves before this, though the shaper would let it.
    gate: Nanos,
    jitter: Jitter,
    /// How much of the link's time in the coming round trip nothing was asked for, as of when that
    /// was last looked at; and how much of it is taken twice.
    unused: Nanos,
    owed: Nanos,
    /// How much less may be owed soon, for what was asked for and is not used.
    saved: Nanos,
    looked: Nanos,
    rtt: Nanos,
    /// When data came last that no token had asked for.
    unasked: Option<Nanos>,
    /// When data was missing last for which tokens for several had asked.
    lost: Option<Nanos>,
    waiting: Nodes<M, Nanos>,
    ready: Nodes<M, Key>,
}

impl Default for Key {
    fn default() -> Self {
        Self::LAST
    }
}

impl<M: Memory> Pacer<M> {
    /// A pacer that has to be [started](Self::start).
    pub(crate) const NEW: Self = Self {
        shaper: Shaper::EMPTY,
        slack: Nanos::ZERO,
        gate: Nanos::ZERO,
        jitter: Jitter { late: 0 },
        unused: Nanos::ZERO,
        owed: Nanos::ZERO,
        saved: Nanos::ZERO,
        looked: Nanos::ZERO,
        rtt: Nanos::ZERO,
        unasked: None,
        lost: None,
        waiting: Nodes::new(),
        ready: Nodes::new(),
    };

    /// Starts it for the tokens of a link of this speed.
    pub(crate) fn start(&mut self, speed: &Speed, now: Nanos) {
        self.shaper = Shaper::EMPTY;
        self.shaper.arrive(now);
        self.set_speed(speed, now);
    }

    /// Changes the speed from now on.
    pub(crate) fn set_speed(&mut self, speed: &Speed, now: Nanos) {
        let rate = speed.token_rate;
        self.slack = rate.duration(TOKEN_WIRE_LEN.saturating_mul(SLACK_INTERVALS));
        self.shaper.set_beyond(&beyond_token(speed.link_rate));
        self.shaper.set_rate(rate, self.slack, now, TOKEN_WIRE_LEN);
        // Lateness is a part of an interval: one of a long interval must not carry over to a short
        // one.
        self.gate = now;
    }

    /// The lateness that is made up for.
    pub(crate) fn slack(&self) -> Nanos {
        self.slack
    }

    /// Makes room for one message more than `others`. `false` if there is no memory.
    pub(crate) fn reserve(&mut self, others: u32) -> bool {
        self.reserve_some(others, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`.
    #[inline]
    pub(crate) fn reserve_some(&mut self, others: u32, chunks: &mut u32) -> bool {
        self.waiting.reserve_some(others, chunks) && self.ready.reserve_some(others, chunks)
    }

    /// Gives back some of the room beyond `keep` messages.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.waiting.shrink(keep);
        self.ready.shrink(keep);
    }

    /// Whether any message wants a token.
    fn wants(&self) -> bool {
        self.waiting.len() != 0 || self.ready.len() != 0
    }

    /// Whether no more than one message does.
    pub(crate) fn is_alone(&self) -> bool {
        self.waiting.len().saturating_add(self.ready.len()) <= 1
    }

    /// A message wants a token, at `at` at the earliest. A message that is ready stays ready.
    pub(crate) fn want(&mut self, places: &mut Places<M>, now: Nanos, index: u32, at: Nanos) {
        if !self.wants() {
            self.look(now);
            self.shaper.arrive(now);
        }
        if self.ready.key(places, index).is_none() {
            self.waiting.set(places, index, at);
        }
    }

    /// A message that was ready waits for its next token.
    pub(crate) fn wait(&mut self, places: &mut Places<M>, index: u32, at: Nanos) {
        self.ready.remove(places, index);
        self.waiting.set(places, index, at);
    }

    /// A waiting message's token is due at `at`.
    pub(crate) fn hasten(&mut self, places: &mut Places<M>, index: u32, at: Nanos) {
        if self.waiting.key(places, index).is_some_and(|old| at < old) {
            self.waiting.set(places, index, at);
        }
    }

    /// Whether a message is waiting or ready.
    pub(crate) fn holds(&self, places: &Places<M>, index: u32) -> bool {
        self.ready.key(places, index).is_some() || self.waiting.key(places, index).is_some()
    }

    /// A message wants no token.
    pub(crate) fn drop(&mut self, places: &mut Places<M>, index: u32) {
        self.waiting.remove(places, index);
        self.ready.remove(places, index);
    }

    /// A message whose token is due now.
    pub(crate) fn due(&self, now: Nanos) -> Option<u32> {
        match self.waiting.first() {
            Some((at, index)) if at <= now => Some(index),
            _ => None,
        }
    }

    /// Makes that message ready, or changes its key.
    pub(crate) fn ready(&mut self, places: &mut Places<M>, index: u32, key: Key) {
        self.waiting.remove(places, index);
        self.ready.set(places, index, key);
    }

    /// The message that gets a token at `now`.
    pub(crate) fn first(&self, now: Nanos) -> Option<(Key, u32)> {
        if self.shaper.ready(now) && now >= self.gate {
            self.ready.first()
        } else {
            None
        }
    }

    /// A token leaves that stands for `worth`, and takes the time of so many. `time`: that of one
    /// at the pacer's rate, in 1/1024 ns, which is also what it may be late by.
    pub(crate) fn charge(
        &mut self,
        now: Nanos,
        (wire_len, worth): (u32, u8),
        time: u64,
        rng: &mut Rng,
        jitter: u32,
    ) {
        let worth = u32::from(worth);
        match worth {
            1 => self.shaper.charge(now, wire_len),
            _ => self
                .shaper
                .charge_super(now, wire_len.saturating_mul(worth), worth),
        };
        if self.owed != Nanos::ZERO {
            let most = Nanos(time.saturating_mul(worth.into()) / NANO);
            self.shaper.delay(self.owed.min(most));
            self.owed = self.owed - most;
        }
        self.gate = self.shaper.next() + self.jitter.next(rng, time, jitter);
    }

    /// Something came that no token had asked for, and took so much of the link's `time`: as much
    /// less is asked for, but never less than half. `rtt`: when a token's packet comes.
    pub(crate) fn spend(&mut self, now: Nanos, time: Nanos, rtt: Nanos) {
        self.rtt = rtt;
        self.look(now);
        let saved = self.saved;
        self.saved = saved - time;
        let time = time - saved;
        let rest = time - self.unused;
        self.unused = self.unused - time;
        self.owed = (self.owed + rest).min(rtt + rtt);
    }

    /// Data came that no token had asked for, or is about to.
    pub(crate) fn unasked(&mut self, now: Nanos) {
        self.unasked = Some(now);
    }

    /// Data is missing for which tokens for several had asked.
    pub(crate) fn lost(&mut self, now: Nanos) {
        self.lost = Some(now);
    }

    /// Whether all data that came in `time` was asked for, and for long none was
    /// [lost](Self::lost).
    pub(crate) fn is_quiet(&self, now: Nanos, time: Nanos) -> bool {
        self.unasked.is_none_or(|at| now - at >= time)
            && self.lost.is_none_or(|at| now - at >= LOST)
    }

    /// So much of the link's time was asked for and is not used: as much less is owed, now or soon.
    pub(crate) fn save(&mut self, time: Nanos) {
        self.saved = (self.saved + (time - self.owed)).min(self.slack);
        self.owed = self.owed - time;
    }

    /// Notes how much of the time until now went unused.
    ///
    /// A token's packet comes a round trip later. So what comes unasked is in nobody's way as far
    /// as nothing was asked for a round trip ago, and no token has to wait for it.
    ///
    /// While messages want tokens the shaper makes up for its lateness within the slack, and each
    /// token is late by its jitter: that time is not unused.
    fn look(&mut self, now: Nanos) {
        let late = match self.wants() {
            true => self.slack,
            false => Nanos::ZERO,
        };
        let idle = now - (self.shaper.next() + late).max(self.looked);
        let busy = (now - self.looked) - idle;
        let left = idle - self.owed;
        self.owed = self.owed - idle;
        self.unused = ((self.unused - busy) + left).min(self.rtt);
        self.looked = now;
    }

    /// When the pacer next has something to do.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let open = self.shaper.next().max(self.gate);
        if self.ready.len() != 0 {
            // Messages that become ready in the meantime are considered then.
            return Some(open);
        }
        let (at, _) = self.waiting.first()?;
        Some(at.max(open))
    }
}

#[cfg(test)]
mod tests;
