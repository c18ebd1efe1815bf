// SPDX-License-Identifier: GPL-2.0
//! How many tokens may be under way to this host of those who ask for more than its link carries.
//!
//! Each receiver paces its tokens by itself, and knows the fate of its own only. Of many that ask
//! one sender each has a token or less in a round trip, which says too little: what they ask for
//! beside what the link carries is dropped by ports, of each packet's tokens four where 32 ask. The
//! sender sees them all: those that come, and by their numbers those that were lost. And receivers
//! hear from it with each packet, which says how much is written behind it
//! ([`Data::more`](super::wire::Data::more)): no more tokens than for that are under way.
//!
//! So a sender whose link is full, and whose receivers lose tokens, says of a long message that
//! less is written than is: its part of a *window* of all tokens that may be under way. A receiver
//! sends the next token when a packet comes, which none is too much for. Once in a round the window
//! becomes what came of it, and a little more, by which the port's queue stays filled. Where that
//! is less than one token for each, receivers wait between them
//! ([`Credit::update_shared`](super::feedback::Credit::update_shared)).
//!
//! While the link is not full nothing is held back for long: something else is what slows down its
//! messages then, or the window is too small, and grows. So is it on paths that are much longer
//! than `base-rtt`, on which a round would be too long.
//!
//! Who goes first is for receivers to say, by their tokens' priorities, and for ports to act on.
//! Each priority has what those above it left of the window in the last round, and a few tokens
//! more, so that it is known at once when those end: then the window becomes its own within a few
//! round trips, as more and more of its tokens come. What is lost because others go first says
//! nothing of the window.

use core::num::NonZeroU64;

use super::config::{Resolved, Speed};
use super::jitter::{Rng, NANO};
use super::links::SHARED;
use crate::units::Nanos;

const WHOLE: u64 = 1_000_000_000;
/// A round takes so many round trips, and so many tokens of the link at least.
const TRIPS: u64 = 4;
const TOKENS: u64 = 128;
/// Paths are no longer than so many times `base-rtt`.
const LONGEST: u64 = 4;
/// Nothing is held back unless so many of so many tokens that come are of messages that can be.
const HELD: u32 = 3;
const HELD_OF: u32 = 4;
/// The link is full if so many eighths of what it carries came, and to the brim with so many 32nds.
const FULL: u64 = 7;
const BRIM: u64 = 31;
/// The loss of tokens that the window aims at is such a part of `target-loss`. With an eighth of it
/// two messages left 0.2 % of the link unused, as the port's queue was empty now and then.
const TARGET_PART: u32 = 4;
/// In a round in which nothing was lost the window grows by such a part of that: a message that is
/// alone would make it as large as it can be, and too large for the next ones.
const SPARED_PART: u64 = 4;
/// The least that is left of it after a round, in quarters: messages that end, and others that take
/// their place, lose tokens for once.
const KEPT: u64 = 3;
/// Rounds that a message may have had no token in, and what it lost since still counts.
const NEWS: u32 = 4;
/// If so many tokens were lost, and fewer came, a round ends early.
const FLOOD: u32 = 64;
/// Windows are in such parts of a packet.
const PARTS: u32 = 256;
/// One in so many packets has a part at random.
const SHUFFLED: u32 = 16;
/// So many tokens of a priority may be under way in any case, and so many more for each that came
/// in this round: what went before it may have ended.
const FEW: u32 = 4;
const RISE: u32 = 2;
/// More than receivers have under way.
const MOST: u64 = (PARTS as u64) << 20;
/// Priorities of tokens.
const CLASSES: usize = 8;

/// The tokens of one priority.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Those that came in this round, and those that were lost.
    came: u32,
    lost: u32,
    /// The long messages that had any.
    messages: u32,
    /// The sum of their round trips without what they wait here, ns.
    trips: u64,
    /// How many all of these may have under way, in parts of one, after what the last round showed,
    /// and how many messages there were, with which sum.
    window: u32,
    sharers: u32,
    shared: u64,
    /// What was left of the last one's, less than one.
    left: u32,
}

impl Class {
    const NEW: Self = Self {
        came: 0,
        lost: 0,
        messages: 0,
        trips: 0,
        window: 0,
        sharers: 0,
        shared: 0,
        left: 0,
    };
}

/// A token that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    /// For how many it stands, and how many of its message's were lost before it.
    pub(crate) tokens: u32,
    pub(crate) lost: u32,
    pub(crate) wire_len: u32,
    pub(crate) priority: u8,
    /// Of its message: that it can be told how much it may have under way, as so much is left that
    /// DATA does not tell how much, and its path is [near](Fan::is_near); and the round-trip time,
    /// as far as it is known.
    pub(crate) held: bool,
    pub(crate) rtt: Nanos,
}

/// When a message that goes out had its last tokens: of the two links that any came by last, the
/// last one first, the rounds of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drew([(u32, u32); 2]);

impl Drew {
    pub(crate) const NEVER: Self = Self([(SHARED, u32::MAX); 2]);

    /// The round in which its last one came by this link.
    #[inline]
    pub(crate) fn by(&mut self, link: u32) -> &mut u32 {
        let Self([last, other]) = self;
        if last.0 != link {
            core::mem::swap(last, other);
        }
        if last.0 != link {
            *last = (link, u32::MAX);
        }
        &mut last.1
    }
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan {
    /// The round's number, when it began, and how long it lasts.
    round: u32,
    since: Nanos,
    lasts: Nanos,
    /// How long its tokens take at the link's token rate, in 1/[`NANO`] ns.
    time: u64,
    came: u32,
    /// Those of messages that can be told how much they may have under way.
    held: u32,
    lost: u32,
    /// The shortest round trip of its messages.
    trip: Nanos,
    /// How long data waits at this end, as of the last round.
    queue: Nanos,
    classes: [Class; CLASSES],
    /// In parts of a token; 0: none was needed yet.
    window: u64,
    /// It is in force, and has been since before this round.
    holds: bool,
    settled: bool,
}

impl Fan {
    pub(crate) const NEW: Self = Self {
        round: 0,
        since: Nanos::ZERO,
        lasts: Nanos::ZERO,
        time: 0,
        came: 0,
        held: 0,
        lost: 0,
        trip: Nanos::MAX,
        queue: Nanos::ZERO,
        classes: [Class::NEW; CLASSES],
        window: 0,
        holds: false,
        settled: false,
    };

    /// A token came. `drew_in`: the round in which its message had its last one by this link.
    pub(crate) fn came(
        &mut self,
        now: Nanos,
        config: &Resolved,
        speed: &Speed,
        it: &Came,
        drew_in: &mut u32,
    ) {
        let flood = !self.holds && self.lost >= FLOOD && self.lost > self.came;
        let lasts = if flood { self.trip } else { self.lasts };
        if now - self.since >= lasts {
            self.ends(now, config, speed);
        }
        self.came = self.came.saturating_add(it.tokens);
        if it.held {
            self.held = self.held.saturating_add(it.tokens);
        }
        let time = speed.time_of_token(it.wire_len);
        let time = time.saturating_mul(it.tokens.into());
        self.time = self.time.saturating_add(time);
        self.trip = self.trip.min(it.rtt);
        let Some(class) = self.classes.get_mut(usize::from(it.priority)) else {
            return;
        };
        class.came = class.came.saturating_add(it.tokens);
        let before = core::mem::replace(drew_in, self.round);
        // What may have been lost long ago is no news.
        if self.round.wrapping_sub(before) <= NEWS {
            class.lost = class.lost.saturating_add(it.lost);
            self.lost = self.lost.saturating_add(it.lost);
        }
        if before != self.round && it.held {
            class.messages = class.messages.saturating_add(1);
            class.trips = class.trips.saturating_add(it.rtt.0);
        }
    }

    /// A round is over.
    // Not inlined: rare.
    #[inline(never)]
    fn ends(&mut self, now: Nanos, config: &Resolved, speed: &Speed) {
        let took = (now - self.since).0.saturating_mul(NANO);
        let full = self.time >= (took / 8).saturating_mul(FULL);
        let brim = self.time >= (took / 32).saturating_mul(BRIM);
        let trip = match self.trip {
            Nanos::MAX => config.base_rtt,
            trip => trip,
        };
        // What is not held back would take the place of what is.
        let held = self.held >= (self.came / HELD_OF).saturating_mul(HELD);
        let near = held && Self::is_near(trip, config);
        let lost = self.loss();
        let target = u64::from(config.target_loss / TARGET_PART);
        // Each may have one under way. If that is too much, receivers see to it.
        let least = self.classes.iter().fold(0_u64, |sum, class| {
            sum.saturating_add(u64::from(class.messages).saturating_mul(PARTS.into()))
        });
        let tokens = Nanos(speed.token_time.saturating_mul(TOKENS) / NANO);
        self.lasts = Nanos(trip.0.saturating_mul(TRIPS)).max(tokens);
        let most = carried_in(self.lasts, speed).max(least).min(MOST);
        if !self.holds {
            self.holds = full && near && lost > target;
            if self.holds && self.window == 0 {
                // And as much for the queues.
                self.window = carried_in(trip + trip, speed).max(least);
            }
        } else if !self.settled {
            // What was lost in this round was sent before.
            self.settled = true;
        } else if !full {
            self.holds = near && self.window < most;
            self.window = self.window.saturating_mul(2);
        } else if self.window > least || !brim {
            let more = match lost == 0 && brim {
                true => target / SPARED_PART,
                false => target,
            };
            let factor = WHOLE.saturating_add(more).saturating_sub(lost);
            let factor = factor.max(WHOLE / 4 * KEPT);
            self.window = (self.window.saturating_mul(factor) / WHOLE).max(least);
        }
        self.holds &= near;
        self.settled &= self.holds;
        // For each: parts are alike, and of its own one that has a slow link, or a slow reader,
        // leaves what nobody else may have.
        let all = (least / u64::from(PARTS)).max(1);
        self.window = self.window.min(most.saturating_mul(all).min(MOST));
        // Of the tokens that came, those that none of a higher priority took the place of.
        self.queue = self.waits(speed);
        let mut left = self.came;
        for class in &mut self.classes {
            let rest = self.window.saturating_mul(left.into());
            let rest = NonZeroU64::new(self.came.into()).map_or(self.window, |all| rest / all);
            left = left.saturating_sub(class.came);
            *class = Class {
                window: u32::try_from(rest).unwrap_or(u32::MAX),
                sharers: class.messages,
                shared: class.trips,
                left: class.left,
                ..Class::NEW
            };
        }
        (self.round, self.since) = (self.round.wrapping_add(1), now);
        (self.time, self.trip) = (0, Nanos::MAX);
        (self.came, self.held, self.lost) = (0, 0, 0);
    }

    /// Whether a path is so short that its messages are told how much they may have under way.
    #[inline]
    pub(crate) fn is_near(trip: Nanos, config: &Resolved) -> bool {
        trip.0 <= config.base_rtt.0.saturating_mul(LONGEST)
    }

    /// How long data waits at this end: what all have under way takes of the link, less the round
    /// trips that they have without that.
    fn waits(&self, speed: &Speed) -> Nanos {
        let (mut trips, mut messages) = (0_u64, 0_u64);
        for class in &self.classes {
            trips = trips.saturating_add(class.trips);
            messages = messages.saturating_add(class.messages.into());
        }
        let Some(messages) = NonZeroU64::new(messages) else {
            return Nanos::ZERO;
        };
        let under_way = speed.token_time.saturating_mul(self.window) / u64::from(PARTS) / NANO;
        Nanos(under_way) - Nanos(trips / messages)
    }

    /// The part of the tokens that was lost, in billionths: of those that went first, of which half
    /// of all were that came. Of others it says that they were outranked.
    fn loss(&self) -> u64 {
        let (mut came, mut lost) = (0_u32, 0_u32);
        for class in &self.classes {
            if came < self.came.saturating_sub(came) {
                came = came.saturating_add(class.came);
                lost = lost.saturating_add(class.lost);
            }
        }
        let all = u64::from(came).saturating_add(lost.into());
        let lost = u64::from(lost).saturating_mul(WHOLE);
        NonZeroU64::new(all).map_or(0, |all| lost / all)
    }

    /// What DATA of a long message says is written behind it ([`Data::more`]); 0: as much as is.
    /// The longer its round trip, the more it needs under way to be as fast as others.
    ///
    /// [`Data::more`]: super::wire::Data::more
    pub(crate) fn more(&mut self, rng: &mut Rng, priority: u8, rtt: Nanos) -> u8 {
        let class = self.classes.get_mut(usize::from(priority));
        let Some(class) = class.filter(|_| self.holds) else {
            return 0;
        };
        // What is left of a packet is for the next message, so that all windows together are as
        // long as they should be. But whose turn that is must not be the same for ever.
        if rng.below(SHUFFLED) == 0 {
            class.left = rng.below(PARTS);
        }
        let few = class.came.saturating_mul(RISE).saturating_add(FEW);
        let whole = u32::try_from(self.window).unwrap_or(u32::MAX);
        let window = few.saturating_mul(PARTS).max(class.window).min(whole);
        // Each has a token, and of the rest a part by its round trip: all are as fast then. Others
        // may have waited until now, and come one after the other.
        let (all, trips) = match class.messages > class.sharers {
            true => (class.messages, class.trips),
            false => (class.sharers, class.shared),
        };
        let all = all.max(1);
        let rest = u64::from(window.saturating_sub(all.saturating_mul(PARTS)));
        let trips = trips.saturating_add(self.queue.0.saturating_mul(all.into()));
        let trip = (rtt + self.queue).0.max(1);
        let part = NonZeroU64::new(trips).map_or(rest, |all| rest.saturating_mul(trip) / all);
        let share = PARTS.saturating_add(u32::try_from(part.min(rest)).unwrap_or(u32::MAX));
        let parts = share.saturating_add(class.left);
        class.left = parts % PARTS;
        u8::try_from((parts / PARTS).saturating_add(1)).unwrap_or(0)
    }
}

/// Tokens that a link carries in a time, in parts of one.
fn carried_in(time: Nanos, speed: &Speed) -> u64 {
    let time = time.0.saturating_mul(NANO).saturating_mul(PARTS.into());
    NonZeroU64::new(speed.token_time).map_or(0, |one| time / one)
}

#[cfg(test)]
mod tests;
