// SPDX-License-Identifier: GPL-2.0
//! In which order senders that do not answer are asked again: one after another, since what
//! thousands would be asked at once is more than a host can send, and answers that come too late
//! cause more questions.
//!
//! Who answers, or ends, gives its turn back: whoever is silent after that waits only for those
//! that are silent as well. And nobody whose address is proved waits for anybody who has only
//! claimed one.

use super::maybe::Maybe;
use crate::units::Nanos;

/// The turns of all silent senders of a host.
#[derive(Debug)]
pub(crate) struct Turns {
    proven: Line,
    strangers: Line,
}

/// A message's turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    at: Maybe,
    stranger: bool,
}

impl Turn {
    /// It has none.
    pub(crate) const NONE: Self = Self {
        at: Maybe::NONE,
        stranger: false,
    };
}

/// Turns that follow one another.
#[derive(Debug)]
struct Line {
    /// The next one, as long as none is given back.
    next: Nanos,
    /// How many messages have one.
    held: u32,
    /// The time between two, as of the last that was taken.
    apart: Nanos,
}

impl Line {
    const NEW: Self = Self {
        next: Nanos::ZERO,
        held: 0,
        apart: Nanos::ZERO,
    };

    /// When the next turn is, if it is `apart` from those before it.
    fn next(&self, now: Nanos, apart: Nanos) -> Nanos {
        let all = apart.0.saturating_mul(self.held.into());
        self.next.min(now + Nanos(all)).max(now)
    }
}

impl Turns {
    /// Nobody has a turn.
    pub(crate) const NEW: Self = Self {
        proven: Line::NEW,
        strangers: Line::NEW,
    };

    /// A message's turn, the one that it has already if that is still to come: now, if few are
    /// silent.
    pub(crate) fn take(
        &mut self,
        turn: &mut Turn,
        now: Nanos,
        apart: Nanos,
        stranger: bool,
    ) -> Nanos {
        if let Some(at) = turn.at.get().filter(|at| *at > now) {
            return at;
        }
        self.give_back(turn);
        let line = self.line(stranger);
        let at = line.next(now, apart);
        line.next = at + apart;
        line.held = line.held.saturating_add(1);
        line.apart = apart;
        *turn = Turn {
            at: Maybe::some(at),
            stranger,
        };
        at
    }

    /// A message needs its turn no more, or has had it.
    pub(crate) fn give_back(&mut self, turn: &mut Turn) {
        if turn.at.get().is_some() {
            let line = self.line(turn.stranger);
            line.held = line.held.saturating_sub(1);
            *turn = Turn::NONE;
        }
    }

    /// The message's turn is over.
    pub(crate) fn pass(&mut self, turn: &mut Turn, now: Nanos) {
        if turn.at.get().is_some_and(|at| at <= now) {
            self.give_back(turn);
        }
    }

    /// Whether so many senders are silent that the next turn is more than a retransmission timeout
    /// away. Then unanswered tokens mean that this sender is silent, too, and a probe from it does
    /// not change that. A single silent sender is probed without waiting for its turn.
    pub(crate) fn are_many(&self, now: Nanos, rto: Nanos) -> bool {
        self.proven.next(now, self.proven.apart) > now + rto
    }

    fn line(&mut self, stranger: bool) -> &mut Line {
        match stranger {
            true => &mut self.strangers,
            false => &mut self.proven,
        }
    }
}

#[cfg(test)]
mod tests;
