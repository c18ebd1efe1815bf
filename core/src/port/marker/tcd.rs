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
//!   │ ─► congested:     it is not, and more comes than leaves │
//!   │                   (if no more does: another max-on)     │
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
//! Of how a port that was paused becomes congested the text says when, in its example: once the
//! port behind it is congested no longer, and five flows want more than the link carries (section
//! 5.2.4). By what the port knows that, is ours, and so is that the queue is looked at as a packet
//! leaves it, without that packet, as [`ren`](super::ren) does.
//!
//! A queue that a pause has built stays above the threshold while it drains, and its flows are not
//! to blame. It need not even fall: what the pause held up at the switch before comes as fast as
//! that can send, which is as fast as this port sends, and so the queue stays as long as it is
//! until all of that has come. So a queue that does not fall is no congestion yet. (By two links
//! what was held up comes faster than this port sends, and is congestion to it while it does,
//! whatever its flows want in the long run.) More comes than leaves if one of these is true:
//!
//! 1. The queue has risen within `max-on`, from the shortest that it was, by a twentieth of what
//!    the link carries in that time: the degree of congestion that `max-on` is made for.
//! 2. The switch could not hold what came. It has asked links that packets of this port came by for
//!    [two pauses](Tcd::asks) or more since the port's own pause, or has dropped as many packets.
//!    A lossless fabric keeps the queue of an overloaded port from rising by just that. The first
//!    one is none: a link whose packets fill all that they may pauses for the next one, which may
//!    come a little too early.
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

/// By how many bytes a queue rises in `max_on`, if that part of what the link carries is too much.
/// At least by 1; while nobody knows what the link carries, by that.
pub fn rise(link: Rate, max_on: Nanos) -> u64 {
    match link == Rate::UNLIMITED {
        true => 1,
        false => (link.bytes_of(link.volume_in(max_on)) / u64::from(DEGREE)).max(1),
    }
}

/// So many times [asked](Tcd::asks), more comes than leaves.
const OFTEN: u8 = 2;

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

/// When a queue is long, and how a port that was paused is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Bytes: with as many or more the queue is long.
    pub threshold: u64,
    /// `None`: no notice is taken of pauses.
    pub max_on: Option<Nanos>,
    /// Bytes: what rises by as many in that time is congestion. See [`rise`].
    pub rise: u64,
}

/// The state machine. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Tcd {
    law: Law,
    state: State,
    paused: bool,
    /// How often more came than the switch could hold, since the last pause.
    asked: u8,
    /// Not paused, and undetermined: since when the queue is watched, and the least that it held.
    since: Nanos,
    least: u64,
    /// Until when the time in a state is counted.
    counted: Nanos,
    /// The last packet has left an empty queue, then.
    emptied: Option<Nanos>,
}

impl Tcd {
    /// A port that nothing was known of until now: of one that `paused` data, or not.
    pub fn new(law: Law, paused: bool, now: Nanos) -> Self {
        Self {
            law,
            state: match paused && law.max_on.is_some() {
                true => State::Undetermined,
                false => State::NotCongested,
            },
            paused,
            asked: 0,
            since: now,
            least: 0,
            counted: now,
            emptied: None,
        }
    }

    /// Another law. The state stays until the next packet, but for one that is paused, and took no
    /// notice of it.
    pub fn set(&mut self, law: Law, now: Nanos, counters: &mut Counters) {
        self.law = law;
        if self.paused && law.max_on.is_some() {
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
            if self.law.max_on.is_some() {
                self.enter(now, State::Undetermined, counters);
            }
        }
    }

    /// Data may go again, of which `queue` bytes wait.
    pub fn resume(&mut self, now: Nanos, queue: u64) {
        if self.paused {
            self.paused = false;
            self.asked = 0;
            self.watch(now, queue);
        }
    }

    /// More came for this port than the switch can hold: it asks a link for a pause because of a
    /// packet that will wait here, or drops it.
    #[cold]
    pub fn asks(&mut self) {
        if !self.paused {
            self.asked = self.asked.saturating_add(1);
        }
    }

    /// The state now, as a packet leaves `queue` bytes behind, or as somebody asks.
    pub fn judge(&mut self, now: Nanos, queue: u64, counters: &mut Counters) -> State {
        let long = queue >= self.law.threshold;
        self.rest(now, counters);
        self.least = self.least.min(queue);
        let over = self.is_over(now);
        if over && !long {
            self.enter(now, State::NotCongested, counters);
        } else if over && self.grows(queue) {
            self.enter(now, State::Congested, counters);
        } else if over {
            self.watch(now, queue);
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
            .law
            .max_on
            .is_none_or(|max_on| !self.paused && now > self.since + max_on);
        self.state == State::Undetermined && over
    }

    /// Has more come than left? Without `max_on` that does not matter.
    fn grows(&self, queue: u64) -> bool {
        let risen = queue >= self.least.saturating_add(self.law.rise);
        risen || self.asked >= OFTEN || self.law.max_on.is_none()
    }

    /// An empty port has become not congested in time, though nobody looked.
    fn rest(&mut self, now: Nanos, counters: &mut Counters) {
        if let Some(at) = self.emptied.filter(|_| self.is_over(now)) {
            let then = at.max(self.since + self.law.max_on.unwrap_or(Nanos::ZERO));
            self.enter(then, State::NotCongested, counters);
        }
    }

    fn watch(&mut self, now: Nanos, queue: u64) {
        self.since = now;
        self.least = queue;
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
