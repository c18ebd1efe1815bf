// SPDX-License-Identifier: GPL-2.0
//! Who obeys: whether data is paused, and until when.
//!
//! Each priority has its own timer (IEEE 802.1Q clause 36.2.2), and so has a link without. A frame
//! sets the timers of those that it speaks of to its quanta, whatever they were before, more or
//! less; 0 quanta end a pause. A quantum is the time of 512 bits at the link's rate, and the end of
//! a pause is that time after the frame was heard, exactly, rounded up to a nanosecond: nothing
//! leaves early.
//!
//! All data is in one queue, whatever priority a packet may have had. So it is paused while any of
//! its [`Scope`] is: until the latest end.
//!
//! A pause that is refreshed before it ends is one pause: it began with the first frame of it. A
//! frame that is heard in the very nanosecond in which a pause ends continues it, since nothing
//! could leave between the two.
//!
//! # The watchdog
//!
//! Data that is paused for longer than the watchdog's time is *stormed*: the other end is broken,
//! or ports wait for each other in a circle. From then until that pause ends its state is
//! [`State::Watchdog`], and the port's owner drops what is queued and what comes, so that the
//! buffers behind it empty and the circle opens. It still sends nothing: what is dropped harms only
//! this port's traffic, what is sent would be lost at the other end without anybody knowing.
//!
//! A break between two pauses gives the watchdog its time again only if data could use it: if a
//! packet has left, or none has waited since before it. Otherwise what both took counts together,
//! and who pauses a port again and again for a little less is found all the same. That is what
//! switches look for: a queue that is paused and not empty, and of which nothing leaves.
//!
//! # Time
//!
//! Nothing has to be called when a pause ends. All that is asked is worked out from the time that
//! is given, so that times in the counters are exact also while a pause is in progress. Time should
//! not go backwards; if it does, no more is wrong than the counted times.

use super::frame::Frame;
use super::scope::Scope;
use super::{time_of, PRIORITIES};
use crate::units::{Nanos, Rate};

/// For how long data may be paused without a packet of it leaving, unless the user says otherwise:
/// 200 ms, six times the longest pause that a frame can ask for at 1 Gbit/s. The standard has no
/// watchdog; switches that have one take times between 100 and 400 ms.
pub const WATCHDOG: Nanos = Nanos(200_000_000);

/// What data may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It may send.
    Open,
    /// It has to be silent.
    Paused {
        /// The first nanosecond in which it may send, if no other frame comes.
        until: Nanos,
    },
    /// It has to be silent, and has been for longer than the watchdog allows: what is queued is to
    /// be dropped.
    Watchdog,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that paused some of it, or refreshed a pause.
    pub paused: u64,
    /// Frames that said nothing but that some of it may send, whether it was paused or not.
    pub resumed: u64,
    /// Pauses: several frames that refresh one another are one.
    pub pauses: u64,
    /// How long it was paused in all, up to now.
    pub time: Nanos,
    /// How long the longest pause took, up to now.
    pub longest: Nanos,
    /// Pauses that were longer than the watchdog allows, some together with those before.
    pub storms: u64,
}

impl Counters {
    /// Nothing yet.
    const EMPTY: Self = Self {
        paused: 0,
        resumed: 0,
        pauses: 0,
        time: Nanos::ZERO,
        longest: Nanos::ZERO,
        storms: 0,
    };
}

/// What is counted of one priority, or of a link that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounters {
    /// Frames that paused it, or refreshed its pause.
    pub paused: u64,
    /// How long it was paused in all, up to now.
    pub time: Nanos,
    /// How long the longest pause took, up to now.
    pub longest: Nanos,
}

/// The timer of one priority, or of a link that has none.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Its last pause is from `began` up to `end`, which is excluded.
    began: Nanos,
    end: Nanos,
    /// Without that pause's time.
    counters: PartCounters,
}

impl Part {
    const NEW: Self = Self {
        began: Nanos::ZERO,
        end: Nanos::ZERO,
        counters: PartCounters {
            paused: 0,
            time: Nanos::ZERO,
            longest: Nanos::ZERO,
        },
    };

    /// It is to be silent for so long from now on; for no time: it may send.
    fn heard(&mut self, now: Nanos, time: Nanos) {
        if time == Nanos::ZERO {
            return self.stop(now);
        }
        if self.end < now {
            self.counters = self.counters(now);
            self.began = now;
        }
        self.end = now + time;
        self.counters.paused = self.counters.paused.wrapping_add(1);
    }

    /// Its pause ends now, if it has not ended before.
    fn stop(&mut self, now: Nanos) {
        self.end = self.end.min(now.max(self.began));
    }

    /// What was counted up to `now`.
    fn counters(&self, now: Nanos) -> PartCounters {
        let last = self.end.min(now) - self.began;
        PartCounters {
            paused: self.counters.paused,
            time: self.counters.time + last,
            longest: self.counters.longest.max(last),
        }
    }
}

/// Whether data could use the time since a pause began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// A packet has left since somebody asked last.
    pub moved: bool,
    /// Since when the packet waits that goes next. `None`: there is none.
    pub waits_since: Option<Nanos>,
}

/// The pauses of a port's data. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Pauses {
    rate: Rate,
    watchdog: Nanos,
    scope: Scope,
    /// Each part of the scope.
    parts: [Part; PRIORITIES as usize],
    /// There was a pause at all. The last one is from `began` up to `until`, which is excluded.
    any: bool,
    /// The last pause is longer than the watchdog allows, and counted as such.
    stormed: bool,
    began: Nanos,
    until: Nanos,
    /// When the pause before the last one ended.
    before: Option<Nanos>,
    /// How long the pauses before the last one took that count together with it.
    spent: Nanos,
    /// The last pause counts together with the next one.
    stuck: bool,
    /// Without the last pause's time; it counts as one of `pauses`.
    counters: Counters,
}

impl Pauses {
    /// Nothing is paused. The link's rate, and for how long data may be paused: [`WATCHDOG`], or
    /// [`Nanos::MAX`] for as long as it takes.
    pub const fn new(scope: Scope, rate: Rate, watchdog: Nanos) -> Self {
        Self {
            rate,
            watchdog,
            scope,
            parts: [Part::NEW; PRIORITIES as usize],
            any: false,
            stormed: false,
            began: Nanos::ZERO,
            until: Nanos::ZERO,
            before: None,
            spent: Nanos::ZERO,
            stuck: false,
            counters: Counters::EMPTY,
        }
    }

    /// Another rate of the link and another time of the watchdog from `now` on. Pauses in progress
    /// end when they were to end, which is what the other end counts on; the watchdog's time holds
    /// for them too, but what it has found stormed remains so until the pause ends.
    pub fn set(&mut self, now: Nanos, rate: Rate, watchdog: Nanos) {
        self.look(now);
        (self.rate, self.watchdog) = (rate, watchdog);
    }

    /// Data is something else from now on. No pause of that was heard; the counters go on, but for
    /// those of priorities where there are none any more.
    pub fn speak_of(&mut self, now: Nanos, scope: Scope) {
        self.reset(now);
        if (self.scope == Scope::Link) != (scope == Scope::Link) {
            self.parts = [Part::NEW; PRIORITIES as usize];
        }
        self.scope = scope;
    }

    /// What the pauses are of.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Ends all pauses, since the link went down, say. The counters stay.
    pub fn reset(&mut self, now: Nanos) {
        for part in &mut self.parts {
            part.stop(now);
        }
        self.shorten(now, now);
        self.stuck = false;
    }

    /// A frame was heard. What it does not speak of is as before.
    pub fn heard(&mut self, now: Nanos, frame: &Frame) {
        let (mut pauses, mut ends) = (false, false);
        for (part, said) in self.parts.iter_mut().zip(self.scope.said_by(frame)) {
            if let Some(quanta) = said {
                part.heard(now, time_of(&self.rate, quanta));
                pauses |= quanta != 0;
                ends |= quanta == 0;
            }
        }
        if !pauses && !ends {
            return;
        }
        let ends = self.parts.iter().map(|part| part.end);
        let until = ends.max().unwrap_or(now);
        if pauses {
            self.pause(now, until);
        } else {
            self.shorten(now, until);
            self.counters.resumed = self.counters.resumed.wrapping_add(1);
        }
    }

    /// What became of data, by `now`. To be called when a packet is about to be sent, before
    /// anybody asks for the [state](Self::state).
    #[inline]
    pub fn note(&mut self, now: Nanos, progress: &Progress) {
        if self.stuck {
            self.note_of_stuck(now, progress);
        }
    }

    #[inline(never)]
    fn note_of_stuck(&mut self, now: Nanos, progress: &Progress) {
        self.look(now);
        // A pause is no time for a packet to leave, so it has left before this one.
        let used = |end: Option<Nanos>| {
            let came_after = |since| end.is_none_or(|end| end <= since);
            progress.moved || progress.waits_since.is_none_or(came_after)
        };
        if !self.is_paused(now) && used(Some(self.until)) {
            self.stuck = false;
        } else if self.spent != Nanos::ZERO && used(self.before) {
            self.spent = Nanos::ZERO;
            self.stormed &= self.watchdog <= self.last(now);
        }
    }

    /// May data be sent?
    #[inline]
    pub fn state(&self, now: Nanos) -> State {
        if !self.is_paused(now) {
            State::Open
        } else if self.is_stormed(now) {
            State::Watchdog
        } else {
            State::Paused { until: self.until }
        }
    }

    /// When the [state](Pauses::state) changes next, later than `now`, if no frame comes: a pause
    /// ends, or the watchdog's time does. `None` if none will.
    pub fn next_change(&self, now: Nanos) -> Option<Nanos> {
        let end = self.any.then_some(self.until);
        let changes = [end, self.storms_at()].into_iter().flatten();
        changes.filter(|&at| now < at).min()
    }

    /// What was counted up to `now`.
    pub fn counters(&self, now: Nanos) -> Counters {
        let mut counters = self.counters;
        let last = self.last(now);
        counters.time += last;
        counters.longest = counters.longest.max(last);
        let found = !self.stormed && self.is_stormed(now);
        counters.storms = counters.storms.wrapping_add(found.into());
        counters
    }

    /// What was counted of each priority up to `now`. `None`: data's pauses are the link's.
    pub fn of_priorities(&self, now: Nanos) -> Option<[PartCounters; PRIORITIES as usize]> {
        match self.scope {
            Scope::Link => None,
            Scope::Priorities(_) => Some(self.parts.map(|part| part.counters(now))),
        }
    }

    /// When the last pause began, the one in progress if there is one. `None` if there was none.
    pub fn last_pause_began(&self) -> Option<Nanos> {
        self.any.then_some(self.began)
    }

    /// When the last pause ended that is over by `now`: while one is in progress, the one before
    /// it. `None` if none has ended.
    pub fn last_pause_ended(&self, now: Nanos) -> Option<Nanos> {
        if self.any && !self.is_paused(now) {
            return Some(self.until);
        }
        self.before
    }

    /// When the watchdog ends its patience with the last pause. `None` if that ends earlier, or is
    /// stormed already.
    #[inline]
    fn storms_at(&self) -> Option<Nanos> {
        let at = self.began + (self.watchdog - self.spent);
        (!self.stormed && at < self.until).then_some(at)
    }

    /// Is the last pause in progress?
    #[inline]
    fn is_paused(&self, now: Nanos) -> bool {
        now < self.until
    }

    fn is_stormed(&self, now: Nanos) -> bool {
        self.stormed || self.storms_at().is_some_and(|at| at <= now)
    }

    /// Notes what the watchdog has seen by now.
    fn look(&mut self, now: Nanos) {
        if self.storms_at().is_some_and(|at| at <= now) {
            self.stormed = true;
            self.counters.storms = self.counters.storms.wrapping_add(1);
        }
    }

    /// How much of the last pause is over.
    fn last(&self, now: Nanos) -> Nanos {
        self.until.min(now) - self.began
    }

    /// A frame says that data is to be silent until then.
    fn pause(&mut self, now: Nanos, until: Nanos) {
        self.look(now);
        if !self.any || self.until < now {
            let last = self.last(now);
            self.counters = self.counters(now);
            self.before = self.any.then_some(self.until);
            self.spent = match self.stuck {
                true => self.spent + last,
                false => Nanos::ZERO,
            };
            self.stormed &= self.stuck;
            self.began = now;
            self.any = true;
            self.counters.pauses = self.counters.pauses.wrapping_add(1);
        }
        self.stuck = true;
        self.until = self.began.max(until);
        self.counters.paused = self.counters.paused.wrapping_add(1);
    }

    /// Its pause ends then, if it does not end earlier.
    fn shorten(&mut self, now: Nanos, until: Nanos) {
        self.look(now);
        self.until = self.until.min(until.max(now).max(self.began));
    }
}

#[cfg(test)]
mod tests;
