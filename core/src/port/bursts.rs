// SPDX-License-Identifier: GPL-2.0
//! How long a token queue may be longer than its limit: for a burst, and not for good.
//!
//! Linux hands over tokens a poll of a device at a time, and serves them late, so that a queue has
//! to have room for many more than the papers' eight (`jitter`). A port that is asked for more than
//! its link carries would keep all of that full. Then each token waits there for a hundred
//! microseconds, in some ports and not in others, and what it asks for comes with what later tokens
//! of other paths ask for: more at once than a usual port has room for.
//!
//! So the room beyond `token-limit` is for bursts, whether the port is overloaded or not. There is
//! as much of it as
//!
//! - tokens have come in bursts, close together and many in a row, of which a quarter of what could
//!   have left since is forgotten: while a burst drains others may come, beside what comes evenly;
//! - tokens fall due in the longest time for which none came, of which half of the time since is
//!   forgotten, so that the port is not without one;
//! - tokens are due and have not left, as the machine is late.
//!
//! What comes evenly finds none, however much it is. Nothing is noted before a queue is full, as
//! long as speed counts. From then on each token that arrives is looked at, until one finds the
//! queue empty, or such that it would be if tokens left when they are due.

use super::{Port, Slot};
use crate::port::band::Band;
use crate::port::config::TOKEN_WIRE_LEN;
use crate::port::flows::Recent;
use crate::queue::{Meta, Queue};
use crate::units::{Nanos, Rate};

/// Tokens that come within this part of an interval of one another are of a burst.
const PART: u64 = 4;
/// If they are so many in a row: fewer come so by chance, of many flows.
const ROW: u32 = 12;
/// Bits: a burst is forgotten in this part of the time that passes.
const FADES: u32 = 2;

/// What is kept of a token queue beside its [`Line`](super::line::Line).
#[derive(Debug)]
pub(super) struct Beside {
    /// When the last token came that was looked at.
    came: Nanos,
    /// How many came close together, up to then.
    row: u32,
    /// The time that tokens of bursts take, less a quarter of the time since.
    bursts: Nanos,
    /// The longest time for which none came, less half of the time since.
    gap: Nanos,
    /// Whose tokens came last.
    pub(super) recent: Recent,
}

impl Beside {
    pub(super) const NONE: Self = Self {
        came: Nanos::ZERO,
        row: 0,
        bursts: Nanos::ZERO,
        gap: Nanos::ZERO,
        recent: Recent::NONE,
    };

    /// A token comes, and time passes.
    fn pass(&mut self, now: Nanos) -> Nanos {
        let elapsed = now - self.came;
        self.came = now;
        self.gap = self.gap - Nanos(elapsed.0 >> 1);
        self.bursts = self.bursts - Nanos(elapsed.0 >> FADES);
        elapsed
    }

    /// Nobody has looked at those that are queued, which take `queued`, since the first came
    /// `since` ago.
    fn first(&mut self, since: Nanos, queued: Nanos) {
        self.row = 0;
        if since.0.saturating_mul(PART) < queued.0 {
            self.row = ROW;
            self.bursts = Nanos(self.bursts.0.saturating_add(queued.0));
        }
    }

    /// A token comes `elapsed` after the one before, where each takes `interval`.
    fn next(&mut self, elapsed: Nanos, interval: Nanos) {
        self.gap = self.gap.max(elapsed);
        self.row = match elapsed.0.saturating_mul(PART) < interval.0 {
            true => self.row.saturating_add(1),
            false => 0,
        };
        if self.row >= ROW {
            let row = if self.row == ROW { ROW } else { 1 };
            let all = interval.0.saturating_mul(row.into());
            self.bursts = Nanos(self.bursts.0.saturating_add(all));
        }
    }
}

impl<Q: Queue> Port<Q> {
    /// Token queues hold so many packets at most; none is looked at.
    pub(super) fn set_bursts(&mut self) {
        let most = self.resolved.token_limit.into();
        for priority in (0..Band::MAX_PRIORITIES).map(Band::Token) {
            let lent = if priority.exists(&self.config) {
                most
            } else {
                0
            };
            let aside = &mut self.line_mut(Slot::new(priority)).aside;
            (aside.lent, aside.watched) = (lent, false);
        }
    }

    /// A token arrives for the queue of `slot`, and there may be no room: once for each.
    pub(super) fn note_arrival(&mut self, now: Nanos, slot: Slot, meta: &Meta) {
        self.settle(now);
        let late = self.late(now);
        let most = self.time_of(self.resolved.token_limit.into());
        let queued = self.line_mut(slot).queued().packets;
        let all = self.time_of(queued);
        let interval = self.resolved.interval;
        let line = &mut self.lines[slot.index()];
        let Some(beside) = self.beside.get_mut(slot.priority()) else {
            return;
        };
        let within = queued.saturating_add(meta.segs.into()) <= line.aside.cap.packets;
        if within && !line.aside.watched {
            return;
        }
        let elapsed = beside.pass(now);
        match line.queue.front() {
            _ if line.aside.watched => beside.next(elapsed, interval),
            Some(head) => beside.first(now - head.enqueued, all),
            None => {}
        }
        beside.gap = beside.gap.min(most);
        beside.bursts = beside.bursts.min(most);
        // It is empty, or would be if all had left when they were due.
        if within && all <= late {
            line.aside.watched = false;
        }
    }

    /// Says how much room there is for the token that has just arrived.
    pub(super) fn lend_room(&mut self, now: Nanos, slot: Slot, meta: &Meta) {
        let late = self.late(now);
        let most = u64::from(self.resolved.token_limit);
        let rate = self.resolved.token_rate;
        let row = self.beside.get(slot.priority()).map_or(0, |it| it.row);
        let row = self.time_of(if row < ROW { row.into() } else { 0 });
        let line = &mut self.lines[slot.index()];
        let (queued, limit) = (line.queued().packets, line.aside.cap.packets);
        if queued.saturating_add(meta.segs.into()) <= limit {
            return;
        }
        let Some(Beside { bursts, gap, .. }) = self.beside.get(slot.priority()) else {
            return;
        };
        let due = rate.bytes_of(rate.volume_in(*bursts + row + *gap + late));
        let room = limit.saturating_add(due / u64::from(TOKEN_WIRE_LEN));
        line.aside.lent = match rate == Rate::UNLIMITED {
            // All are due.
            true => most,
            false => room.min(most).max(queued),
        };
        line.aside.watched = true;
    }

    /// By how much the group is late.
    fn late(&self, now: Nanos) -> Nanos {
        match self.backlogged.tokens() {
            true => now - self.group.next(),
            false => Nanos::ZERO,
        }
    }

    /// How long so many tokens of 84 bytes take.
    fn time_of(&self, tokens: u64) -> Nanos {
        let bytes = tokens.saturating_mul(TOKEN_WIRE_LEN.into());
        let rate = self.resolved.token_rate;
        rate.duration(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}
