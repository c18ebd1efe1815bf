// SPDX-License-Identifier: GPL-2.0
//! How long a token queue may be longer than its limit: for a burst, and not for good.
//!
//! Linux hands over tokens a poll of a device at a time, and serves them late, so that a queue has
//! to have room for many more than the papers' eight (`jitter`). A port that is asked for more than
//! its link carries would keep all of that full. Then each token waits there for a hundred
//! microseconds, in some ports and not in others, and what it asks for comes with what later tokens
//! of other paths ask for: more at once than a usual port has room for. So a queue has that room
//! for bursts only, which last for half of the jitter at most. A queue that has been at its
//! `token-limit` for longer holds no more than that, and what leaves while none come: as many as
//! fall due in the longest time for which none came, and those that are due and have not left, as
//! the machine is late. That is so until it is empty, or would be if tokens left when they are due.
//!
//! Nothing is noted before a queue is full, as long as speed counts. From then on each token that
//! arrives is looked at, until one finds the queue empty.

use super::{Port, Slot};
use crate::port::band::Band;
use crate::port::config::TOKEN_WIRE_LEN;
use crate::port::flows::Recent;
use crate::queue::{Meta, Queue};
use crate::units::Nanos;

/// What is kept of a token queue beside its [`Line`](super::line::Line).
#[derive(Debug)]
pub(super) struct Beside {
    /// From when it was full until it is empty.
    full: Option<Full>,
    /// Whose tokens came last.
    pub(super) recent: Recent,
}

impl Beside {
    pub(super) const NONE: Self = Self {
        full: None,
        recent: Recent::NONE,
    };
}

#[derive(Clone, Copy, Debug)]
struct Full {
    since: Nanos,
    /// When the last token came.
    came: Nanos,
    /// The longest time for which none came, and what was longer and is forgotten little by little.
    gap: Nanos,
}

/// 2 to this tokens are remembered.
const MEMORY: u32 = 8;

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
        for beside in &mut self.beside {
            beside.full = None;
        }
    }

    /// A token arrives for the queue of `slot`, and there may be no room: says how much there is.
    pub(super) fn lend_room(&mut self, now: Nanos, slot: Slot, meta: &Meta) {
        let late = now - self.group.next();
        let rate = self.resolved.token_rate;
        let most = u64::from(self.resolved.token_limit);
        // The other half is for leaving late.
        let burst = Nanos(self.config.jitter.0 / 2);
        let line = &mut self.lines[slot.index()];
        let Some(Beside { full, .. }) = self.beside.get_mut(slot.priority()) else {
            return;
        };
        let [came, went] = line.passed();
        let queued = came.wrapping_sub(went);
        let bytes = u32::try_from(queued).map_or(u32::MAX, |n| n.saturating_mul(TOKEN_WIRE_LEN));
        // It is empty, or would be if all had left when they were due.
        if rate.duration(bytes) <= late {
            *full = None;
        }
        if let Some(full) = full {
            let kept = full.gap.0.saturating_sub(full.gap.0 >> MEMORY);
            full.gap = (now - full.came).max(Nanos(kept));
            full.came = now;
        }
        let limit = line.aside.cap.packets;
        if queued.saturating_add(meta.segs.into()) > limit {
            let full = full.get_or_insert(Full {
                since: now,
                came: now,
                gap: Nanos::ZERO,
            });
            line.aside.lent = if now - full.since <= burst {
                most
            } else {
                let due = rate.bytes_of(rate.volume_in(full.gap + late));
                let due = due / u64::from(TOKEN_WIRE_LEN);
                limit.saturating_add(due).min(most).max(queued)
            };
        }
        line.aside.watched = full.is_some();
    }
}
