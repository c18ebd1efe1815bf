// SPDX-License-Identifier: GPL-2.0
//! What comes in by the port's link though no token asked for it: signals, and data that a receiver
//! allowed unasked.
//!
//! The group's rate leaves the link's other direction as much time as the tokens' packets take, and
//! no more. Whatever else comes there waits with them in the queue of the port that sends it, and
//! the queue would not get shorter as long as tokens ask for all of the link's time. So the group
//! gives way: its tokens leave later by as much time as was taken.
//!
//! Little by little, as the queue is no longer for that, while messages that have a few packets
//! left would wait: the more is owed, the more each token is put off, and where that is half of a
//! usual port's buffer, by all of its time, so that tokens have half of the link at least.
//!
//! Tokens of the first half of the priorities are those of short messages, which a burst of what
//! came unasked is often the beginning of. They do not give way as long as others will: up to
//! `SPARED` of them in a row, and not where more than `MOST_SPARED` bytes are owed.

use super::{Port, Slot};
use crate::port::band::Band;
use crate::port::config::{FRAME_WIRE_LEN, TOKEN_WIRE_LEN};
use crate::queue::{Framing, Queue};
use crate::units::{Nanos, Rate};

/// The most bytes on the wire that are owed: what the link carried before is in nobody's way.
pub const MOST_OWED: u32 = 1 << 17;
/// Where 2 to this bytes are owed, tokens have half of the link.
pub(super) const HALF: u32 = 16;
/// So many tokens of the first half of the priorities do not give way, until one of the others has.
pub(super) const SPARED: u32 = 64;
/// One that gives way makes up for so many of them.
const PAID: u32 = 8;
const MOST_SPARED: u32 = 48 << 10;
/// Tokens that have left ask for no more than the time of so many.
const AHEAD: u64 = 16;

/// What a group of tokens has given way to so far.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// Until when the tokens that have left ask for all of the link's time.
    asked: Nanos,
    /// How many they are, and their bytes.
    sent: [u64; 2],
    /// When the group's next token leaves, if that was put off.
    delayed: Nanos,
    /// How many tokens did not give way in a row.
    spared: u32,
}

/// A token that arrives, and the group that it is for.
pub(super) struct Coming {
    pub(super) now: Nanos,
    /// Bytes on the wire that came in, and nothing asked for.
    pub(super) owed: u32,
    /// How many tokens the group has sent ever, and how many bytes.
    pub(super) sent: [u64; 2],
    /// What bytes of these tokens they are on the wire.
    pub(super) framing: Framing,
    /// Of the link.
    pub(super) rate: Rate,
    /// When the group's next token may leave.
    pub(super) next: Nanos,
    /// Is that one of the first half of the priorities?
    pub(super) high: bool,
}

impl Arrivals {
    pub(super) const NONE: Self = Self {
        asked: Nanos::ZERO,
        sent: [0; 2],
        delayed: Nanos::ZERO,
        spared: 0,
    };

    /// By how much the group's next token is put off, and how much of what is owed is settled.
    pub(super) fn put_off(&mut self, coming: &Coming) -> (Nanos, u32) {
        let &Coming {
            now,
            owed,
            sent,
            framing,
            rate,
            next,
            high,
        } = coming;
        let due = owed.min(MOST_OWED);
        let beyond = owed.saturating_sub(due);
        let time = rate.duration(due);
        let interval = rate.duration(FRAME_WIRE_LEN + TOKEN_WIRE_LEN);
        let tokens = sent[0].wrapping_sub(self.sent[0]);
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let bytes = sent[1].wrapping_sub(self.sent[1]);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Tokens of any length, each with the full frame that it asks for.
        let wire_len = framing.wire_len(bytes, tokens);
        let asked = rate.duration(
            tokens
                .saturating_mul(FRAME_WIRE_LEN)
                .saturating_add(wire_len),
        );
        let asked = self.asked + asked;
        self.sent = sent;
        let left = time - (now - asked);
        // Once for each that leaves, though more may come.
        let delay = match next == self.delayed {
            true => Nanos::ZERO,
            false if self.spares(high) && owed <= MOST_SPARED => {
                self.delayed = next;
                Nanos::ZERO
            }
            false => {
                let part = Nanos(interval.0.saturating_mul(due.into()) >> HALF);
                left.min(part.max(Nanos(1))).min(interval)
            }
        };
        // Tokens that expired have asked for nothing.
        let most = now + Nanos(interval.0.saturating_mul(AHEAD));
        self.asked = asked.max(now).min(most) + delay;
        let rest = left - delay;
        if rest == Nanos::ZERO {
            return (delay, owed);
        }
        // `rest` is less than `time`, so that it is less than what is due.
        let kept = u64::from(due).saturating_mul(rest.0) / time.0.max(1);
        let settled = u64::from(due).saturating_sub(kept);
        let settled = beyond.saturating_add(u32::try_from(settled).unwrap_or(due));
        (delay, settled)
    }

    /// The group's next token was put off until then.
    pub(super) fn delayed(&mut self, next: Nanos) {
        self.delayed = next;
    }

    /// Is the next token one that does not give way?
    fn spares(&mut self, high: bool) -> bool {
        if !high {
            self.spared = self.spared.saturating_sub(PAID);
            return false;
        }
        let spares = self.spared < SPARED;
        self.spared = self.spared.saturating_add(1).min(SPARED);
        spares
    }
}

impl<Q: Queue> Port<Q> {
    /// A token arrives for `slot`, and the link has carried `owed` bytes that nothing asked for.
    /// The group's next token leaves later by as much as may be made up for now. Returns how much
    /// of what is owed is settled by that.
    ///
    /// It is settled without, as far as there was time between tokens: what they ask for comes as
    /// much later, so the link has that time for other things.
    #[inline(never)]
    pub fn give_way(&mut self, now: Nanos, owed: u32, slot: Slot) -> u32 {
        let coming = Coming {
            now,
            owed,
            sent: self.sent_tokens(),
            framing: self.framing,
            rate: self.resolved.link_rate,
            next: self.group.next(),
            high: self.is_high(slot),
        };
        let (delay, settled) = self.arrivals.put_off(&coming);
        if delay != Nanos::ZERO {
            self.settle(now);
            if !self.backlogged.tokens() {
                self.group.arrive(now);
            }
            self.group.delay(delay);
            self.arrivals.delayed(self.group.next());
        }
        settled
    }

    /// Where a token arrives for `slot`, is the next one of the first half of the priorities?
    pub(super) fn is_high(&self, slot: Slot) -> bool {
        let first = self.backlogged.first_token(slot);
        first < u32::from(self.config.priorities / 2)
    }

    /// How many tokens have left, or have been dropped from their queues, and their bytes.
    fn sent_tokens(&self) -> [u64; 2] {
        let bands = (0..Band::MAX_PRIORITIES).map(Band::Token);
        let lines = bands.map(|band| &self.lines[Slot::new(band).index()]);
        let went = lines.map(|line| [line.went(), line.went_bytes()]);
        went.fold([0; 2], |a, b| {
            [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
        })
    }
}
