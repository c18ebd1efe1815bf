// SPDX-License-Identifier: GPL-2.0
//! Giving memory back when few messages are left.
//!
//! A table is too large when it has room for some hundreds of entries, and for twice as many as
//! it has. Then one leaf of each table is given back in a call of the timer, [`PAUSE`] apart: no
//! call takes long, and a busy host whose load goes up and down does not free what it needs again
//! at once. New entries take the least free places, so that the end becomes free.
//!
//! What [`Endpoint::prepare`] has made room for ahead stays.

use super::{Endpoint, Memory};
use crate::units::Nanos;

/// Between two steps.
const PAUSE: Nanos = Nanos(Nanos::MILLISECOND.0 / 4);
/// Until the next try, when the last entry of a table was in the way, and some entry has gone.
const LATER: Nanos = Nanos(5 * Nanos::SECOND.0);
/// The last entry of a table is in the way, and no entry has gone since.
const NEVER: Nanos = Nanos::MAX;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// When the next step is due, if there is one.
    #[inline]
    pub(super) fn next_shrink(&self) -> Option<Nanos> {
        (self.large && self.shrunk != NEVER).then_some(self.shrunk)
    }

    /// Whether a table is too large.
    fn is_large(&self) -> bool {
        let coming = self.ahead.is_none()
            && (self.ins.is_large(0)
                || self.remembered.is_large(self.to_remember())
                || self.peers.is_large());
        coming || self.outs.is_large(0)
    }

    /// A message has ended, or is forgotten: perhaps it was in the way.
    #[inline]
    pub(super) fn made_room(&mut self, now: Nanos) {
        // Asked here, since the timer's time is wanted far more often.
        self.large = self.is_large();
        if self.shrunk == NEVER {
            self.shrunk = now + LATER;
        }
    }

    /// How many finished messages there is to be room for.
    fn to_remember(&self) -> u32 {
        self.remembered.len().saturating_add(self.ins.len())
    }

    /// Does a step, if it is due.
    #[inline]
    pub(super) fn shrink(&mut self, now: Nanos) {
        if self.next_shrink().is_some_and(|at| at <= now) {
            let more = self.shrink_tables();
            self.large = self.is_large();
            self.shrunk = if more { now + PAUSE } else { NEVER };
        }
    }

    #[cold]
    fn shrink_tables(&mut self) -> bool {
        let mut more = self.outs.shrink(0);
        let room = self.outs.room();
        self.out_index.shrink(room);
        self.out_timers.shrink(room);
        self.shares.shrink();
        self.orphans.shrink(room, self.shares.room());
        while self.out_sealed.shrink(room) {}
        while self.flows.shrink(room) {}
        self.links.shrink_outs(room);
        if self.ahead.is_some() {
            return more;
        }
        more |= self.ins.shrink(0);
        let room = self.ins.room();
        self.in_index.shrink(room);
        self.in_timers.shrink(room);
        self.in_nets.shrink(self.ins.len());
        while self.in_sealed.shrink(room) {}
        self.links.shrink(room);
        self.coflows.shrink(0);
        let count = self.to_remember();
        more |= self.remembered.shrink(count);
        more |= self.peers.shrink();
        let room = self.peers.all.room();
        while self.lately.shrink(room) {}
        self.links.shrink_peers(room);
        more
    }
}
