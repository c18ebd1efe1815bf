// SPDX-License-Identifier: GPL-2.0
//! In which order senders that do not answer are asked again: one after another, since what
//! thousands would be asked at once is more than a host can send, and answers that come too late
//! cause more questions.
//!
//! Peers have turns, whose further messages have theirs among those of the peers that have several
//! as well: whoever leaves a thousand messages open keeps another peer's waiting twice as long as
//! with one, and a thousand peers with one each keep a peer's second message waiting no longer than
//! its first. Who answers, or ends,
//! gives its turn back: whoever is silent after that waits only for those that are silent as well.
//! And nobody whose address is proved waits for anybody who has only claimed one.

use super::maybe::Maybe;
use crate::units::Nanos;

/// The turns of all silent peers of a host.
#[derive(Debug)]
pub(crate) struct Turns {
    proven: Line,
    /// Of messages whose sender has proved nothing: each is one's own.
    strangers: Line,
    /// How many peers have several turns.
    several: u32,
    /// The time between two, as of the last that was taken.
    apart: Nanos,
    /// Where in a line the last turn was that filled a gap, in 2^-32 of it.
    gap: u32,
}

/// Those of a peer's silent messages, one after another.
#[derive(Debug)]
pub(crate) struct Own(Line);

/// Both, for one of these messages.
pub(crate) struct Order<'a> {
    pub(crate) all: &'a mut Turns,
    pub(crate) own: &'a mut Own,
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

    /// It has one, which may be over.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.at != Maybe::NONE
    }
}

/// Turns that follow one another.
#[derive(Debug)]
struct Line {
    /// The next one, as long as none is given back.
    next: Nanos,
    /// How many have one, and how many gave theirs back which nobody has taken since.
    held: u32,
    gaps: u32,
}

/// The gaps of turns that were given back are filled in steps of the golden section: however many
/// are, none is close to another.
const STEP: u32 = 0x9e37_79b9;

impl Line {
    const NEW: Self = Self {
        next: Nanos::ZERO,
        held: 0,
        gaps: 0,
    };

    /// When the last turn would be, if all that are held followed one another from now on.
    fn end(&self, now: Nanos, apart: Nanos) -> Nanos {
        now + Nanos(apart.0.saturating_mul(self.held.into()))
    }

    /// No later than this the next turn is, if it is `apart` from those before it.
    fn next(&self, now: Nanos, apart: Nanos) -> Nanos {
        self.next.min(self.end(now, apart)).max(now)
    }

    /// Takes a turn.
    fn take(&mut self, now: Nanos, apart: Nanos, gap: &mut u32) -> Nanos {
        let end = self.end(now, apart);
        let at = if self.gaps != 0 && self.next > end {
            self.gaps = self.gaps.saturating_sub(1);
            *gap = gap.wrapping_add(STEP);
            let part = u128::from((end - now).0).saturating_mul((*gap).into()) >> 32;
            now + Nanos(part as u64)
        } else {
            self.gaps = 0;
            self.next.max(now)
        };
        self.next = self.next.max(at + apart);
        self.held = self.held.saturating_add(1);
        at
    }

    /// A turn is nobody's any more, and was over, or not.
    fn give_back(&mut self, over: bool) {
        self.held = self.held.saturating_sub(1);
        if self.held == 0 {
            *self = Self::NEW;
        } else if !over {
            self.gaps = self.gaps.saturating_add(1);
        }
    }
}

impl Turns {
    /// Nobody has a turn.
    pub(crate) const NEW: Self = Self {
        proven: Line::NEW,
        strangers: Line::NEW,
        several: 0,
        apart: Nanos::ZERO,
        gap: 0,
    };

    /// The time between two turns of a peer: all that have several have one in it. Those that have
    /// a single one have that beside them.
    fn each(&self) -> Nanos {
        Nanos(self.apart.0.saturating_mul(self.several.max(1).into()))
    }
}

impl Own {
    /// None of its messages has a turn.
    pub(crate) const NEW: Self = Self(Line::NEW);
}

impl Order<'_> {
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
        self.end(turn, true);
        let (all, own) = (&mut *self.all, &mut self.own.0);
        all.apart = apart;
        let at = if stranger {
            all.strangers.take(now, apart, &mut all.gap)
        } else if own.held == 0 {
            // The peer's first one is among those of all peers, the others follow that.
            own.next = all.proven.take(now, apart, &mut all.gap);
            own.take(own.next, all.each(), &mut all.gap)
        } else {
            if own.held == 1 {
                all.several = all.several.saturating_add(1);
            }
            own.take(now, all.each(), &mut all.gap)
        };
        *turn = Turn {
            at: Maybe::some(at),
            stranger,
        };
        at
    }

    /// A message needs its turn no more.
    pub(crate) fn give_back(&mut self, turn: &mut Turn) {
        self.end(turn, false);
    }

    fn end(&mut self, turn: &mut Turn, over: bool) {
        if !turn.is_taken() {
            return;
        }
        if turn.stranger {
            self.all.strangers.give_back(over);
        } else {
            self.own.0.give_back(over);
            match self.own.0.held {
                0 => self.all.proven.give_back(over),
                1 => self.all.several = self.all.several.saturating_sub(1),
                _ => {}
            }
        }
        *turn = Turn::NONE;
    }

    /// The message's turn is over.
    pub(crate) fn pass(&mut self, turn: &mut Turn, now: Nanos) {
        if turn.at.get().is_some_and(|at| at <= now) {
            self.end(turn, true);
        }
    }

    /// Whether so much is silent that the peer's next turn is more than a retransmission timeout
    /// away. Then unanswered tokens mean that this sender is silent, too, and a probe from it does
    /// not change that. A single silent sender is probed without waiting for its turn.
    pub(crate) fn are_many(&self, now: Nanos, rto: Nanos) -> bool {
        let (own, all) = (&self.own.0, &self.all);
        let next = match own.held {
            0 => all.proven.next(now, all.apart),
            _ => own.next(now, all.each()),
        };
        next > now + rto
    }
}

#[cfg(test)]
mod tests;
