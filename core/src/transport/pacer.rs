// SPDX-License-Identifier: GPL-2.0
//! All tokens of a host leave through here, at the token rate and no faster.
//!
//! Each message that wants tokens is *waiting* until its next one is due by its own rate, and
//! *ready* then. Of those that are ready, the policy's key chooses. One exact [`Shaper`] spaces
//! what leaves.
//!
//! While any message wants tokens the shaper is not idle, though it may have to wait for one to be
//! due. It makes up for that, to a bound: messages' intervals vary, and a shaper that did not allow
//! for it would iron the variation out, and lose its rate.
//!
//! Two hosts that both pace exactly keep in step, and a port where their tokens meet drops those of
//! the same one each time. So what the shaper lets go is late by a random part of an interval
//! ([`Jitter`]), which changes no rate.

use super::heap::Heap;
use super::host::Memory;
use super::jitter::{Rng, NANO};
use super::policy::Key;
use crate::shaper::Shaper;
use crate::units::{Nanos, Rate};

/// How many intervals of the pacer it may make up for: as many tokens as a port's queue holds (TOP
/// section 4.3).
const SLACK_INTERVALS: u32 = 8;

/// Intervals by which a [`Jitter`] may be late, besides a token's place in its interval. Two of
/// them, one of a message and that of the pacer, are late by less than what the pacer makes up for.
const WANDER: u64 = 3;

/// How late tokens are within their intervals: each token by a random part of its interval, and all
/// by some intervals that wander slowly.
///
/// The intervals follow one another exactly, so that a message that has all of the rate uses it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    /// 1/1024 ns.
    late: u64,
}

impl Jitter {
    /// How late the next token is. `interval` in 1/1024 ns.
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

/// See the module's documentation.
pub(crate) struct Pacer<M: Memory> {
    shaper: Shaper,
    slack: Nanos,
    /// Nothing leaves before this, though the shaper would let it.
    gate: Nanos,
    jitter: Jitter,
    waiting: Heap<M, Nanos>,
    ready: Heap<M, Key>,
}

impl Default for Key {
    fn default() -> Self {
        Self::LAST
    }
}

impl<M: Memory> Pacer<M> {
    /// One that is to be [started](Self::start).
    pub(crate) const NEW: Self = Self {
        shaper: Shaper::EMPTY,
        slack: Nanos::ZERO,
        gate: Nanos::ZERO,
        jitter: Jitter { late: 0 },
        waiting: Heap::new(),
        ready: Heap::new(),
    };

    /// From now on it is a pacer for tokens of `wire_len` bytes or a little more.
    pub(crate) fn start(&mut self, rate: Rate, wire_len: u32, now: Nanos) {
        self.slack = rate.duration(wire_len.saturating_mul(SLACK_INTERVALS));
        self.shaper = Shaper::new(rate, self.slack, now);
        self.gate = now;
    }

    /// Another rate from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate, wire_len: u32, now: Nanos) {
        self.slack = rate.duration(wire_len.saturating_mul(SLACK_INTERVALS));
        self.shaper.set_rate(rate, self.slack, now, wire_len);
        // What is late by a part of a long interval must not be so by a part of a short one.
        self.gate = now;
    }

    /// How much lateness is made up for.
    pub(crate) fn slack(&self) -> Nanos {
        self.slack
    }

    /// Makes room for messages up to this index. `false` if there is no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.waiting.reserve(index) && self.ready.reserve(index)
    }

    /// A message wants a token, at `at` at the earliest. If it is ready already, it stays so.
    pub(crate) fn want(&mut self, now: Nanos, index: u32, at: Nanos) {
        if self.waiting.len() == 0 && self.ready.len() == 0 {
            self.shaper.arrive(now);
        }
        if self.ready.key(index).is_none() {
            self.waiting.set(index, at);
        }
    }

    /// A message that was ready waits for its next token.
    pub(crate) fn wait(&mut self, index: u32, at: Nanos) {
        self.ready.remove(index);
        self.waiting.set(index, at);
    }

    /// A waiting message's token is due at `at`.
    pub(crate) fn hasten(&mut self, index: u32, at: Nanos) {
        if self.waiting.key(index).is_some_and(|old| at < old) {
            self.waiting.set(index, at);
        }
    }

    /// Whether a message is waiting or ready.
    pub(crate) fn holds(&self, index: u32) -> bool {
        self.ready.key(index).is_some() || self.waiting.key(index).is_some()
    }

    /// A message wants no token.
    pub(crate) fn drop(&mut self, index: u32) {
        self.waiting.remove(index);
        self.ready.remove(index);
    }

    /// A message whose token is due now.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<u32> {
        match self.waiting.first() {
            Some((at, index)) if at <= now => Some(index),
            _ => None,
        }
    }

    /// That message is ready, or its key is another now.
    pub(crate) fn ready(&mut self, index: u32, key: Key) {
        self.waiting.remove(index);
        self.ready.set(index, key);
    }

    /// The message that is to be given a token at `now`.
    pub(crate) fn first(&self, now: Nanos) -> Option<(Key, u32)> {
        if self.shaper.ready(now) && now >= self.gate {
            self.ready.first()
        } else {
            None
        }
    }

    /// A token leaves. `time`: what it takes at the pacer's rate, in 1/1024 ns.
    pub(crate) fn charge(
        &mut self,
        now: Nanos,
        wire_len: u32,
        time: u64,
        rng: &mut Rng,
        jitter: u32,
    ) {
        self.shaper.charge(now, wire_len);
        self.gate = self.shaper.next() + self.jitter.next(rng, time, jitter);
    }

    /// When there is something to do.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let open = self.shaper.next().max(self.gate);
        if self.ready.len() != 0 {
            // What becomes ready in the meantime is looked at then.
            return Some(open);
        }
        let (at, _) = self.waiting.first()?;
        Some(at.max(open))
    }
}
