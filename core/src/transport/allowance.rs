// SPDX-License-Identifier: GPL-2.0
//! How much a host may send to another one unasked: the first bytes of its messages, which need not
//! wait for tokens.
//!
//! A receiver tells each of its senders an *allowance*, in every ACK: how many bytes on the wire,
//! sent without tokens, that sender may have under way to it. All of them together are to fit into
//! the buffer of a port on the way (`unscheduled-buffer`), since all senders may begin at once. So
//! each has an equal part, and no more than what the link carries in a round trip, beyond which
//! tokens are in time. An allowance holds for [`HOLDS`]: whoever sends rarely is not counted in
//! between, and begins small.
//!
//! What one has is not taken back before it is told the next one, and who sends nothing more keeps
//! it for as long as it holds. So whoever is told one for the first time has an eighth of what is
//! left, until it is told again: or the first few would have all, and short messages of the others
//! would wait for a round trip. One that is alone has a quarter of all, and nobody has more than
//! that in the first [`YOUNG`] of its own: hosts that begin to talk within some ms of each other
//! find room, also when the first one is told a second time before the next one comes.

use core::num::{NonZeroU32, NonZeroU64};

use super::heap::Heap;
use super::host::Memory;
use super::paged::{unlimited, Paged};
use crate::units::Nanos;

/// An allowance counts for so long after it was told.
pub(crate) const HOLDS: Nanos = Nanos::SECOND;
/// So much longer its receiver keeps to it: an ACK may be under way for a while.
const MORE: Nanos = Nanos(Nanos::SECOND.0 / 8);
/// Bytes: the unit of an allowance on the wire.
pub(crate) const UNIT: u32 = 64;
/// Bytes on the wire that may always be under way. With this little, five hundred hosts that begin
/// at once fit into 128 KB.
pub(crate) const LEAST: u32 = 256;
/// Whoever is new has this part of what is left.
const NEW_LEFT: u32 = 8;
/// The first one has this part of all.
const FIRST_PART: u32 = 4;
/// For so long since it was new nobody has more than that, in units of 2^`TICK` ns.
pub(crate) const YOUNG: u32 = 120;
/// Bits of a time that are left out where it is kept in 32: about a millisecond.
const TICK: u32 = 20;

/// Of one peer.
#[derive(Clone, Copy, Default)]
struct Both {
    /// What we may send to it.
    ours: Allowance,
    /// Bytes: what it was told that it may send to us, while that holds.
    promised: u32,
    /// Since when it has had any, in units of 2^`TICK` ns; it may come round.
    since: u32,
}

/// Both directions' allowances, by the peer's index.
pub(crate) struct Allowances<M: Memory> {
    all: Paged<M, Both>,
    /// Until when what peers were told holds, of those that were told anything.
    until: Heap<M, Nanos>,
    /// Bytes: all of it.
    sum: u64,
}

impl<M: Memory> Allowances<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Paged::new(),
            until: Heap::new(),
            sum: 0,
        }
    }

    /// Makes room for peers up to this index. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.reserve_some(index, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`.
    pub(crate) fn reserve_some(&mut self, index: u32, chunks: &mut u32) -> bool {
        self.all.reserve_some(index, chunks, Both::default)
            && self.until.reserve_some(index, chunks)
    }

    /// Gives back some of the room beyond `keep` peers.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.all.shrink(keep);
        self.until.shrink(keep);
    }

    /// A peer, for which there is room, is new.
    pub(crate) fn begin(&mut self, index: u32) {
        if let Some(both) = self.all.get_mut(index) {
            *both = Both::default();
        }
    }

    /// Until when any allowance of the peer holds, either way.
    pub(crate) fn until(&self, index: u32) -> Nanos {
        let theirs = self.until.key(index).unwrap_or(Nanos::ZERO);
        let ours = self.all.get(index).map(|both| both.ours.until);
        theirs.max(ours.unwrap_or(Nanos::ZERO))
    }

    /// What we may send to a peer.
    pub(crate) fn ours(&mut self, index: u32) -> Option<&mut Allowance> {
        self.all.get_mut(index).map(|both| &mut both.ours)
    }

    /// What a peer may send to us from now on, of a `budget` for all, and at most `most`. Bytes: a
    /// multiple of [`UNIT`].
    pub(crate) fn promise(&mut self, now: Nanos, index: u32, budget: u32, most: u32) -> u32 {
        // Of what it was told long ago it has nothing left, and it is new again.
        let mut holds = self.until.key(index);
        if holds.is_some_and(|until| until <= now) {
            self.end(index);
            holds = None;
        }
        // More than are added in a call, and as many as hosts often have.
        for _ in 0..4 {
            match self.until.first() {
                Some((until, old)) if until <= now => self.end(old),
                _ => break,
            }
        }
        let Some(both) = self.all.get_mut(index) else {
            return 0;
        };
        let until = now + HOLDS + MORE;
        if holds != Some(until) {
            self.until.set(index, until);
        }
        let others = self.sum.saturating_sub(both.promised.into());
        // There is at least this one.
        let part = NonZeroU32::new(self.until.len()).map_or(budget, |peers| budget / peers);
        let left = u64::from(budget).saturating_sub(others);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let tick = (now.0 >> TICK) as u32;
        if both.promised == 0 {
            both.since = tick;
        }
        let part = match tick.wrapping_sub(both.since) < YOUNG {
            true => part.min(budget / FIRST_PART),
            false => part,
        };
        let part = match (both.promised, self.until.len()) {
            (0, 2..) => part.min(left / NEW_LEFT),
            _ => part.min(left),
        };
        let units = part.min(most) / UNIT;
        both.promised = units.min(u16::MAX.into()).saturating_mul(UNIT);
        self.sum = others.saturating_add(both.promised.into());
        both.promised
    }

    /// What the peer was told does not count any more.
    pub(crate) fn end(&mut self, index: u32) {
        self.until.remove(index);
        if let Some(both) = self.all.get_mut(index) {
            let before = core::mem::take(&mut both.promised);
            self.sum = self.sum.saturating_sub(before.into());
        }
    }
}

/// What a sender may have under way to a peer without tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Bytes on the wire.
    bytes: u32,
    until: Nanos,
    /// How many of these are under way.
    used: u32,
}

impl Allowance {
    /// The peer has told it.
    pub(crate) fn told(&mut self, now: Nanos, units: u16) {
        self.bytes = u32::from(units).saturating_mul(UNIT);
        self.until = match units {
            0 => Nanos::ZERO,
            _ => now + HOLDS,
        };
    }

    /// How much of a message goes without tokens, of which so many bytes are written; in packets of
    /// `mss` bytes, each `overhead` longer on the wire. Its first packets, or all of it: of one
    /// that is longer than `short`, as much less than that as it is longer, but one packet at
    /// least. To wait for a round trip makes it hardly later, and where many such begin, ports
    /// fill.
    ///
    /// Returns its bytes, and those on the wire, which are to be [given back](Self::give_back).
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        (length, written): (u32, u32),
        mss: NonZeroU32,
        overhead: u32,
        short: u32,
    ) -> (u32, u32) {
        let most = match now < self.until {
            true => self.bytes.max(LEAST),
            false => LEAST,
        };
        let left = most.saturating_sub(self.used);
        let wire = |bytes: u32| {
            let packets = (bytes / mss).saturating_add(u32::from(bytes % mss != 0));
            bytes.saturating_add(packets.saturating_mul(overhead))
        };
        let full = mss.saturating_add(overhead);
        let first = match NonZeroU64::new(length.into()) {
            Some(length) => u64::from(short).saturating_mul(short.into()) / length,
            None => 0,
        };
        let first = u32::try_from(first).unwrap_or(u32::MAX).max(full.get());
        let packets = (left.min(first) / full).min(written / mss);
        let (bytes, taken) = if written == length && wire(length) <= left {
            (length, wire(length))
        } else {
            (
                packets.saturating_mul(mss.get()),
                packets.saturating_mul(full.get()),
            )
        };
        self.used = self.used.saturating_add(taken);
        (bytes, taken)
    }

    /// They have come, or are not under way for another reason.
    pub(crate) fn give_back(&mut self, wire: u32) {
        self.used = self.used.saturating_sub(wire);
    }
}

#[cfg(test)]
mod tests;
