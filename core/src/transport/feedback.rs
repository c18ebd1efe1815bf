// SPDX-License-Identifier: GPL-2.0
//! Credit feedback: how fast a message is given tokens, from how many of them were answered.
//!
//! Ports drop tokens where there are more than the data they would call for has room. The rate
//! follows that loss, once a round trip: a token that is lost costs next to nothing, so the rate
//! may change in large steps.
//!
//! Rates are parts per billion of the host's token rate, and never more than all of it.
//!
//! The papers' formulas are taken further in three respects, all for what a packet-level model of a
//! shared port showed:
//! - Tokens that were answered or lost in a period were sent in the one before, at the rate of that
//!   one. It is that rate that the loss is taken from. From the present one, which has fallen for
//!   the same loss already, the rate would fall twice: two messages would leave a seventh of the
//!   link unused.
//! - A period with fewer tokens than [`ENOUGH`] moves the rate, and the weight, that much less.
//!   Among hundreds of messages each has a token or less in a round trip; answered or lost, it says
//!   little.
//! - The more of the rate a message has, the less loss it aims at ([`Resolved::fairness`]; 0: as
//!   ExpressPass has it). A full queue has room for a token each time one has left. A message with
//!   most of the rate sends the next one evenly, and mostly gets the place; one with little of it
//!   comes at any time, and mostly finds the queue full. With one target for both, of two messages
//!   one has 95 % of the link after a few hundred round trips, and keeps it.
use core::num::NonZeroU64;

use super::config::{Feedback, Resolved};
use super::jitter::NANO;

const WHOLE: u32 = 1_000_000_000;

/// With as many tokens in a period, or more, the rate moves all the way to what the formula gives;
/// with half as many, half of it.
pub const ENOUGH: u32 = 16;

/// What became of a message's tokens in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Tokens that data came for.
    pub answered: u32,
    /// Tokens taken for lost: a later one was answered, or none was for too long. One that met a
    /// sender with nothing to send counts as lost, so that the rate follows what the sender has.
    pub lost: u32,
}

/// The rate at which one message is given tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    rate: u32,
    /// In the period before: the tokens that are heard of now were sent at that rate.
    before: u32,
    weight: u32,
    rising: bool,
}

impl Credit {
    /// As the configuration has it at first.
    pub fn new(config: &Resolved) -> Self {
        Self {
            rate: config.initial_rate,
            before: config.initial_rate,
            weight: config.weight_initial,
            rising: false,
        }
    }

    /// Parts per billion of the token rate; at least [`Resolved::min_rate`].
    #[inline]
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    /// Brings it into the ranges of a configuration that was changed.
    pub fn configure(&mut self, config: &Resolved) {
        self.rate = limit(self.rate.into(), config);
        self.before = limit(self.before.into(), config);
        self.weight = self
            .weight
            .clamp(config.weight_min.min(config.weight_max), config.weight_max);
    }

    /// The rate for the next period. To be called once a period, which is a round-trip time or
    /// [`Resolved::update_period`]. A period in which nothing became of any token changes nothing.
    pub fn update(&mut self, config: &Resolved, period: &Period) {
        let answered = u64::from(period.answered);
        let lost = u64::from(period.lost);
        // Below 2^33.
        let Some(tokens) = NonZeroU64::new(answered.wrapping_add(lost)) else {
            return;
        };
        let certainty = tokens.get().min(ENOUGH.into());
        let came = u64::from(self.before).wrapping_mul(answered) / tokens;
        let target = target(config, self.before);
        let goal = match config.feedback {
            // To what came (ExpressPass, algorithm 1).
            Feedback::Midpoint if lost != 0 => came,
            Feedback::Midpoint => u64::from(midpoint(self.rate, WHOLE)),
            // lost / tokens <= target, both sides below 2^63.
            Feedback::Weighted
                if lost.wrapping_mul(WHOLE.into()) <= tokens.get().wrapping_mul(target.into()) =>
            {
                if self.rising {
                    let goal = midpoint(self.weight, config.weight_max);
                    self.weight = toward(self.weight, goal.into(), certainty);
                }
                self.rising = true;
                let rest = u64::from(WHOLE.saturating_sub(self.weight));
                // Rates and weights are at most 10^9.
                let kept = rest.wrapping_mul(self.rate.into()) / u64::from(WHOLE);
                kept.wrapping_add(above(self.weight.into(), config.target_loss))
            }
            Feedback::Weighted => {
                self.rising = false;
                let half = toward(self.weight, u64::from(self.weight) / 2, certainty);
                self.weight = half.max(config.weight_min);
                above(came, target)
            }
        };
        let rate = toward(self.rate, goal, certainty);
        self.before = self.rate;
        self.rate = limit(rate.into(), config);
    }

    /// The mean time between the message's tokens, of `wire_len` bytes each, in units of 1/[`NANO`]
    /// ns. At least 1.
    pub fn interval(&self, config: &Resolved, wire_len: u32) -> u64 {
        let whole = config
            .token_rate
            .duration(wire_len.saturating_mul(NANO as u32))
            .0;
        let Some(rate) = NonZeroU64::new(self.rate.into()) else {
            return u64::MAX;
        };
        // whole x 10^9 / rate. The rest is less than the rate, which is at most 10^9.
        let time = (whole / rate).saturating_mul(WHOLE.into());
        let rest = (whole % rate).wrapping_mul(WHOLE.into()) / rate;
        time.saturating_add(rest).max(1)
    }
}

/// The loss that a message aims at whose tokens were sent at a rate, which is at most 10^9:
/// `target loss / (1 + fairness x rate)`.
#[inline]
fn target(config: &Resolved, rate: u32) -> u32 {
    let spread = u64::from(rate).saturating_mul(config.fairness.into());
    let Some(whole) = NonZeroU64::new(spread.saturating_add(WHOLE.into())) else {
        return config.target_loss;
    };
    let part = u64::from(config.target_loss).wrapping_mul(WHOLE.into()) / whole;
    u32::try_from(part).unwrap_or(config.target_loss)
}

/// `rate x (1 + loss)`: so many tokens must be sent for `rate` to come through. Both are at most
/// 10^9.
#[inline]
fn above(rate: u64, loss: u32) -> u64 {
    let factor = u64::from(WHOLE).wrapping_add(loss.into());
    rate.wrapping_mul(factor) / u64::from(WHOLE)
}

/// From `from` to `goal`, both at most 2 x 10^9: all the way if `certainty` is [`ENOUGH`], else so
/// many parts of it.
#[inline]
fn toward(from: u32, goal: u64, certainty: u64) -> u32 {
    let from = u64::from(from);
    let stay = u64::from(ENOUGH).saturating_sub(certainty);
    let sum = from
        .wrapping_mul(stay)
        .wrapping_add(goal.wrapping_mul(certainty));
    u32::try_from(sum / u64::from(ENOUGH)).unwrap_or(u32::MAX)
}

#[inline]
fn limit(rate: u64, config: &Resolved) -> u32 {
    let rate = rate.max(config.min_rate.into()).min(WHOLE.into());
    u32::try_from(rate).unwrap_or(WHOLE)
}

#[inline]
fn midpoint(a: u32, b: u32) -> u32 {
    // At most 10^9 each.
    a.wrapping_add(b) / 2
}

#[cfg(test)]
mod tests;
