// SPDX-License-Identifier: GPL-2.0
//! TCD's three states (*Congestion Detection in Lossless Networks*, SIGCOMM 2021): why a queue of a
//! port grows that others may pause.
//!
//! Such a queue has two reasons: more comes than the link carries, or the next switch has paused
//! the link for a while. ECN and delay cannot tell them apart, and slow down flows which another
//! link's congestion holds up. A port knows when it was paused:
//!
//! ```text
//!               queue reaches the threshold
//!   ┌───────────────┐ ────────────────────────► ┌───────────┐
//!   │ not congested │                           │ congested │
//!   └───────────────┘ ◄──────────────────────── └───────────┘
//!     │           ▲     queue falls below it      ▲       │
//!     │ pause     │                               │       │ pause
//!     ▼           │                               │       ▼
//!   ┌─────────────────────────────────────────────────────────┐
//!   │ undetermined: until data has been sent for longer than  │
//!   │ max-on without a pause                                  │
//!   │ ─► not congested: the queue is below the threshold      │
//!   │ ─► congested:     it is not, and has not fallen in that │
//!   │                   time (if it has: another max-on)      │
//!   └─────────────────────────────────────────────────────────┘
//! ```
//!
//! | state | a packet that leaves is marked |
//! |---|---|
//! | not congested | not at all |
//! | congested | CE (11) |
//! | undetermined | UE (01), unless it has CE |
//!
//! Packets whose transport knows no ECN (00) are never touched, and CE is never taken back. UE is
//! RFC 3168's ECT(1), and RFC 9331's (L4S): a network has one or the other.
//!
//! # What is ours
//!
//! The states, the marks and `max-on` are the paper's (the text at hand has sections 5.2.3 to 8).
//! That the queue is looked at as a packet leaves it, without that packet, is our choice: so does
//! [`ren`](super::ren). So is how a fall is seen: by two looks, `max-on` apart. A queue that a
//! pause has built stays above the threshold while it drains, and its flows are not to blame;
//! one that does not drain is congestion.
//!
//! # How long max-on is
//!
//! With `max-on off` no notice is taken of pauses, and CE is what ECN is at that threshold: to
//! compare, as the paper does.
//!
//! [`max_on`] has the derivation: the longest ON period of a port that the next switch pauses, if
//! no less than a twentieth of what it sends there is too much. If the truth is far shorter, the
//! port leaves *undetermined* late, by `max-on` at most; if it is far longer, the port may go to
//! and fro, once a period (section 6).

use super::field::ecn;
use crate::stats::add;
use crate::units::{Nanos, Rate};

/// What packets of an undetermined port have in their ECN field.
pub const UE: u8 = ecn::ECT_1;

/// The least part of what a port sends that is too much for the next switch, when that pauses it:
/// one in so many (the congestion degree of 5 % of the paper).
const DEGREE: u32 = 20;

/// The longest that a port sends between two pauses of the next switch, whose thresholds are `gap`
/// bytes apart (xoff less xon), and which a change at takes `delay` to be seen here, both ways
/// together.
///
/// The next switch passes on R of the C that this port sends, with C - R = C / 20 at least: with
/// less it is hardly congested, and fills up slowly. When it ends a pause its queue is at xon, and
/// falls by R delay until the first byte comes. It then grows by C - R until it is at xoff, and
/// this port sends until it hears so:
///
/// ```text
///          gap + R delay             20 gap
/// max-on = ───────────── + delay  =  ────── + 20 delay
///              C - R                   C
/// ```
pub fn max_on(link: Rate, gap: u32, delay: Nanos) -> Nanos {
    let fill = link.duration(gap.min(Rate::MAX_LEN / DEGREE).saturating_mul(DEGREE));
    fill + Nanos(delay.0.saturating_mul(DEGREE.into()))
}

/// What a port knows of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing holds data up, and little waits.
    NotCongested,
    /// More comes than the link carries.
    Congested,
    /// The next switch has paused the link lately.
    Undetermined,
}

/// What the marker counts. Packets are wire packets.
///
/// `seen = unmarked + ce + ue + kept`, plus those whose header could not be written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that may be marked, and passed.
    pub seen: u64,
    /// Of these, packets that a port let pass which was not congested.
    pub unmarked: u64,
    /// Packets that were marked CE.
    pub ce: u64,
    /// Packets that were marked UE.
    pub ue: u64,
    /// Packets that came with the mark that they would have got, or with CE.
    pub kept: u64,
    /// How often the port became congested.
    pub congestions: u64,
    /// How often it became undetermined.
    pub pauses: u64,
    /// ns: how long it was not congested.
    pub not_congested: u64,
    /// ns: how long it was congested.
    pub congested: u64,
    /// ns: how long it was undetermined.
    pub undetermined: u64,
}

impl Counters {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        seen: 0,
        unmarked: 0,
        ce: 0,
        ue: 0,
        kept: 0,
        congestions: 0,
        pauses: 0,
        not_congested: 0,
        congested: 0,
        undetermined: 0,
    };
}

/// The state machine. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Tcd {
    /// Bytes: with as many or more the queue is long.
    threshold: u64,
    /// `None`: no notice is taken of pauses.
    max_on: Option<Nanos>,
    state: State,
    paused: bool,
    /// Not paused, and undetermined: since when the queue is watched, and what it held then.
    since: Nanos,
    held: u64,
    /// Until when the time in a state is counted.
    counted: Nanos,
    /// The last packet has left an empty queue, then.
    emptied: Option<Nanos>,
}

impl Tcd {
    /// A port that nothing was known of until now: of one that `paused` data, or not.
    pub fn new(threshold: u64, max_on: Option<Nanos>, paused: bool, now: Nanos) -> Self {
        Self {
            threshold,
            max_on,
            state: match paused && max_on.is_some() {
                true => State::Undetermined,
                false => State::NotCongested,
            },
            paused,
            since: now,
            held: 0,
            counted: now,
            emptied: None,
        }
    }

    /// Another threshold in bytes, another `max_on`. The state stays until the next packet, but for
    /// one that is paused, and took no notice of it.
    pub fn set(
        &mut self,
        threshold: u64,
        max_on: Option<Nanos>,
        now: Nanos,
        counters: &mut Counters,
    ) {
        self.threshold = threshold;
        self.max_on = max_on;
        if self.paused && max_on.is_some() {
            self.enter(now, State::Undetermined, counters);
        }
    }

    /// The state as it was found last.
    pub fn state(&self) -> State {
        self.state
    }

    /// The next switch holds up data from now on.
    pub fn pause(&mut self, now: Nanos, counters: &mut Counters) {
        if !self.paused {
            self.rest(now, counters);
            self.paused = true;
            if self.max_on.is_some() {
                self.enter(now, State::Undetermined, counters);
            }
        }
    }

    /// Data may go again, of which `queue` bytes wait.
    pub fn resume(&mut self, now: Nanos, queue: u64) {
        if self.paused {
            self.paused = false;
            self.watch(now, queue);
        }
    }

    /// The state now, as a packet leaves `queue` bytes behind, or as somebody asks.
    pub fn judge(&mut self, now: Nanos, queue: u64, counters: &mut Counters) -> State {
        let long = queue >= self.threshold;
        self.rest(now, counters);
        let over = self.is_over(now);
        if over && !long {
            self.enter(now, State::NotCongested, counters);
        } else if over && queue < self.held && self.max_on.is_some() {
            self.watch(now, queue);
        } else if over {
            self.enter(now, State::Congested, counters);
        }
        match self.state {
            State::NotCongested if long => self.enter(now, State::Congested, counters),
            State::Congested if !long => self.enter(now, State::NotCongested, counters),
            _ => {}
        }
        self.count(now, counters);
        self.emptied = match queue {
            0 => Some(self.emptied.unwrap_or(now)),
            _ => None,
        };
        self.state
    }

    /// Has data been sent for longer than `max_on` since a pause?
    fn is_over(&self, now: Nanos) -> bool {
        let over = self
            .max_on
            .is_none_or(|max_on| !self.paused && now > self.since + max_on);
        self.state == State::Undetermined && over
    }

    /// An empty port has become not congested in time, though nobody looked.
    fn rest(&mut self, now: Nanos, counters: &mut Counters) {
        if let Some(at) = self.emptied.filter(|_| self.is_over(now)) {
            let then = at.max(self.since + self.max_on.unwrap_or(Nanos::ZERO));
            self.enter(then, State::NotCongested, counters);
        }
    }

    fn watch(&mut self, now: Nanos, queue: u64) {
        self.since = now;
        self.held = queue;
        self.emptied = match queue {
            0 => Some(now),
            _ => None,
        };
    }

    fn enter(&mut self, now: Nanos, state: State, counters: &mut Counters) {
        self.count(now, counters);
        if state == self.state {
            return;
        }
        self.state = state;
        match state {
            State::Congested => add(&mut counters.congestions, 1),
            State::Undetermined => add(&mut counters.pauses, 1),
            State::NotCongested => {}
        }
    }

    /// Adds the time since the last call to that of the state.
    fn count(&mut self, now: Nanos, counters: &mut Counters) {
        let time = match self.state {
            State::NotCongested => &mut counters.not_congested,
            State::Congested => &mut counters.congested,
            State::Undetermined => &mut counters.undetermined,
        };
        *time = time.wrapping_add((now - self.counted).0);
        self.counted = self.counted.max(now);
    }
}

#[cfg(test)]
mod tests;
