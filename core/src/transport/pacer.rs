// SPDX-License-Identifier: GPL-2.0
//! All tokens of a host leave through here, at the token rate and no faster.
//!
//! Each message that wants tokens is *waiting* until its next one is due by its own rate, and *ready* then. Of those that are ready, the policy's key
//! chooses. One exact [`Shaper`] spaces what leaves.
//!
//! While any message wants tokens the shaper is not idle, though it may have to wait for one to be due. It makes up for that, to a bound: messages'
//! intervals vary, and a shaper that did not allow for it would iron the variation out, and lose its rate.

use super::heap::Heap;
use super::host::Memory;
use super::policy::Key;
use crate::shaper::Shaper;
use crate::units::{Nanos, Rate};

/// How many intervals of the pacer it may make up for: as many tokens as a port's queue holds (TOP section 4.3).
const SLACK_INTERVALS: u32 = 8;

/// See the module's documentation.
pub(crate) struct Pacer<M: Memory> {
    shaper: Shaper,
    slack: Nanos,
    waiting: Heap<M, Nanos>,
    ready: Heap<M, Key>,
}

impl Default for Key {
    fn default() -> Self {
        Self::LAST
    }
}

impl<M: Memory> Pacer<M> {
    /// A pacer for tokens of `wire_len` bytes or a little more.
    pub(crate) fn new(rate: Rate, wire_len: u32, now: Nanos) -> Self {
        let slack = rate.duration(wire_len.saturating_mul(SLACK_INTERVALS));
        Self {
            shaper: Shaper::new(rate, slack, now),
            slack,
            waiting: Heap::new(),
            ready: Heap::new(),
        }
    }

    /// Another rate from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate, wire_len: u32, now: Nanos) {
        self.slack = rate.duration(wire_len.saturating_mul(SLACK_INTERVALS));
        self.shaper.set_rate(rate, self.slack, now, wire_len);
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
        if self.shaper.ready(now) {
            self.ready.first()
        } else {
            None
        }
    }

    /// A token leaves.
    pub(crate) fn charge(&mut self, now: Nanos, wire_len: u32) {
        self.shaper.charge(now, wire_len);
    }

    /// When there is something to do.
    pub(crate) fn next(&self) -> Option<Nanos> {
        if self.ready.len() != 0 {
            return Some(self.shaper.next());
        }
        let (at, _) = self.waiting.first()?;
        Some(at.max(self.shaper.next()))
    }
}
