// SPDX-License-Identifier: GPL-2.0
//! Credit feedback (ExpressPass section 2.2): a message's token rate follows the part of its tokens
//! that was answered.
//!
//! A port drops tokens that would call for more data than its link carries. The rate follows that
//! loss once per round trip. A lost token costs next to nothing, so the rate may change in large
//! steps.
//!
//! Rates are parts per billion of a link's token rate, and never more than all of it.
//!
//! This differs from the papers' formulas in three respects. A packet-level model of a shared port
//! (`core/tests/transport_feedback.rs`) showed the need for each:
//! - Tokens that were answered or lost in a period were sent in the period before, at its rate. So
//!   the loss is subtracted from that rate. The present rate has already fallen for the same loss;
//!   with it two messages would leave a seventh of the link unused.
//! - A period with fewer tokens than [`ENOUGH`] moves rate and weight by proportionally less. Among
//!   hundreds of messages each has one token or less per round trip, whose fate says little. (Not
//!   so with feedback ranked, if none was lost.)
//! - The higher a message's rate, the less loss it aims at ([`Resolved::fairness`]; 0: one target
//!   for all, as ExpressPass has it). A full queue has room for one token each time one has left. A
//!   message with most of the rate sends evenly and mostly gets that place; one with a low rate
//!   comes at any time and mostly finds the queue full. With one target for both, one of two
//!   messages has 95 % of the link after a few hundred round trips, and keeps it.
use core::num::NonZeroU64;

use super::config::{Feedback, Resolved, Speed};

const WHOLE: u32 = 1_000_000_000;

/// With at least as many tokens in a period the rate moves all the way to what the formula gives;
/// with half as many, half of the way.
pub const ENOUGH: u32 = 16;

/// So many tokens that were lost in a period, and none that was answered, say that others' go
/// before them: a queue that is shared by equals has room for one now and then.
const OUTRANKED: u64 = 4;
/// The rate at which such a message asks whether the link is free: a twentieth of all tokens.
const PROBING: u32 = 50_000_000;
/// Who shares its sender's link with many aims at such a part of the target loss.
const SHARED_PART: u32 = 4;
/// And a thousandth at least.
const LEAST_TARGET: u32 = 1_000_000;
/// It waits for so many round trips between two tokens at most, or as long as `min-rate` says.
const SHARED_TRIPS: u32 = 16;
/// It aims at more the less it has, by a part of one token in so many round trips: so that all
/// become even, also where ports drop whatever comes last, and many find out soon that there is
/// more for them. With less 128 left 2 % of the link unused.
const SHARED_EVENLY: u32 = 4;
/// So many of its tokens that were lost in a row say nothing of how many share the link: its path
/// was gone, or others went before it. Then it has the rate again that it had before.
const SHARED_SILENT: u8 = 16;

/// The fate of a message's tokens in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Tokens that were answered with data.
    pub answered: u32,
    /// Tokens taken for lost: a later one was answered, or none was for too long. A token whose
    /// sender has nothing to send counts as lost, so that the rate follows what the sender has.
    pub lost: u32,
}

/// The token rate of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    rate: u32,
    /// The rate of the period before, at which the tokens that are answered now were sent.
    before: u32,
    weight: u32,
    rising: bool,
    /// Of one that shares its sender's link: how many of its tokens were lost since one came.
    silent: u8,
    /// What the rate was before all tokens were lost; 0: not all are.
    outranked: u32,
    /// What it was before its sender said that it shares its link with many; 0: it does not.
    unshared: u32,
}

impl Credit {
    /// The configuration's initial rate and weight.
    pub fn new(config: &Resolved) -> Self {
        Self {
            rate: config.initial_rate,
            before: config.initial_rate,
            weight: config.weight_initial,
            rising: false,
            silent: 0,
            outranked: 0,
            unshared: 0,
        }
    }

    /// Parts per billion of the token rate; at least [`Resolved::min_rate`].
    #[inline]
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    /// Clamps rate and weight to the ranges of a changed configuration.
    pub fn configure(&mut self, config: &Resolved) {
        if self.unshared == 0 {
            self.rate = limit(self.rate.into(), config);
            self.before = limit(self.before.into(), config);
        }
        self.weight = self
            .weight
            .clamp(config.weight_min.min(config.weight_max), config.weight_max);
    }

    /// Works out the rate for the next period. To be called once per period, which is a round-trip
    /// time or [`Resolved::update_period`]. A period in which no token was answered or lost changes
    /// nothing.
    pub fn update(&mut self, config: &Resolved, period: &Period) {
        let answered = u64::from(period.answered);
        let lost = u64::from(period.lost);
        // Below 2^33.
        let Some(tokens) = NonZeroU64::new(answered.wrapping_add(lost)) else {
            return;
        };
        if config.feedback == Feedback::Ranked && self.rank(config, answered, lost) {
            return;
        }
        let certainty = match config.feedback {
            // Whoever was outranked in part has few tokens, and is late if it takes the link that
            // has become free in steps of a sixteenth. Where ranks decide, equals need not.
            Feedback::Ranked if lost == 0 => ENOUGH.into(),
            _ => tokens.get().min(ENOUGH.into()),
        };
        let came = u64::from(self.before).wrapping_mul(answered) / tokens;
        let target = target(config, self.before);
        let goal = match config.feedback {
            // Down to the rate that came through (ExpressPass, algorithm 1).
            Feedback::Midpoint if lost != 0 => came,
            Feedback::Midpoint => u64::from(midpoint(self.rate, WHOLE)),
            // lost / tokens <= target, both sides below 2^63.
            Feedback::Weighted | Feedback::Ranked
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
            Feedback::Weighted | Feedback::Ranked => {
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

    /// The same for a message whose sender shares its link with so many that it may have one token
    /// under way. `one`: the rate of one in the shortest round trip, parts per billion.
    ///
    /// It is a closed circle: the longer tokens wait at the port the fewer come. So the rate has no
    /// steps but by what was lost and what came, and a loss that is a fraction of what the formulas
    /// above need: these go towards all of the link after each token that is answered.
    pub fn update_shared(&mut self, config: &Resolved, period: &Period, one: u32) {
        let answered = u64::from(period.answered);
        let Some(tokens) = NonZeroU64::new(answered.wrapping_add(period.lost.into())) else {
            return;
        };
        let one = one.clamp(1, WHOLE);
        if self.unshared == 0 {
            self.unshared = self.rate.max(self.outranked);
            (self.silent, self.outranked) = (0, 0);
            (self.rate, self.before) = (self.rate.min(one), self.before.min(one));
        }
        if answered == 0 {
            if self.silent == 0 {
                self.outranked = self.rate;
            }
            let lost = u8::try_from(period.lost).unwrap_or(u8::MAX);
            self.silent = self.silent.saturating_add(lost);
        } else {
            let kept = core::mem::take(&mut self.outranked).min(one);
            if core::mem::take(&mut self.silent) >= SHARED_SILENT && kept > self.rate {
                (self.rate, self.before) = (kept, kept);
                return;
            }
        }
        let came = u64::from(self.before).wrapping_mul(answered) / tokens;
        let part = u64::from(one / SHARED_EVENLY);
        // With a target of 0 it would never rise.
        let target = u64::from((config.target_loss / SHARED_PART).max(LEAST_TARGET));
        // All of these are at most 10^9.
        let more = came.wrapping_add(part).wrapping_mul(target) / u64::from(WHOLE);
        let certainty = tokens.get().min(ENOUGH.into());
        let rate = toward(self.rate, came.wrapping_add(more), certainty);
        self.before = self.rate;
        let least = config.min_rate.min(one / SHARED_TRIPS).max(1);
        self.rate = rate.min(one).max(least);
    }

    /// Its sender shares its link with many no more: it has the rate that it had before.
    pub fn is_unshared(&mut self) {
        let before = core::mem::take(&mut self.unshared);
        if before != 0 {
            (self.rate, self.before) = (before, before);
            (self.rising, self.silent, self.outranked) = (false, 0, 0);
        }
    }

    /// Whether the message is outranked, or was until now; then that decides about its rate.
    fn rank(&mut self, config: &Resolved, answered: u64, lost: u64) -> bool {
        let probing = limit(PROBING.into(), config);
        if answered != 0 {
            let kept = core::mem::take(&mut self.outranked);
            if kept != 0 {
                (self.rate, self.before) = (kept, kept);
                self.rising = false;
            }
            return kept != 0;
        }
        if self.outranked == 0 && lost >= OUTRANKED {
            self.outranked = self.rate.max(config.initial_rate);
        }
        if self.outranked != 0 {
            (self.rate, self.before) = (probing, probing);
        }
        self.outranked != 0
    }

    /// The mean time between the message's tokens, of `wire_len` bytes each, in 1024ths of
    /// a ns (`NANO` in `jitter`). At least 1.
    pub fn interval(&self, speed: &Speed, wire_len: u32) -> u64 {
        let whole = speed.time_of_token(wire_len);
        let Some(rate) = NonZeroU64::new(self.rate.into()) else {
            return u64::MAX;
        };
        // whole x 10^9 / rate. The remainder is less than the rate, which is at most 10^9.
        let time = (whole / rate).saturating_mul(WHOLE.into());
        let rest = (whole % rate).wrapping_mul(WHOLE.into()) / rate;
        time.saturating_add(rest).max(1)
    }
}

/// The target loss of a message with this token rate, which is at most 10^9:
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

/// `rate x (1 + loss)`: the rate to send at so that `rate` comes through. Both are at most 10^9.
#[inline]
fn above(rate: u64, loss: u32) -> u64 {
    let factor = u64::from(WHOLE).wrapping_add(loss.into());
    rate.wrapping_mul(factor) / u64::from(WHOLE)
}

/// Moves from `from` towards `goal`, both at most 2 x 10^9: by `certainty` / [`ENOUGH`] of the way.
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
