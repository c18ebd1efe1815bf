// SPDX-License-Identifier: GPL-2.0
//! Data that goes before other data: short messages, within bounds.
//!
//! The first bytes of a message need no token, and most of a short one's are such. In one queue
//! with long messages' packets they wait for these, and a short message takes twice its time or
//! more: what comes unasked makes a queue, which stays until fewer tokens have followed. So they
//! have a line of their own in the data band, before the other one, those that tokens asked for as
//! well. The first bytes of long messages are not in it: they are what short ones would wait for.
//!
//! Anybody can send packets that say so. Therefore no more goes before than has left the other line
//! meanwhile, and [`MOST_AHEAD`], or one super-packet, which may be longer, as tc counts the
//! headers of each segment: what is beyond that is data as any other, from its arrival on. So the
//! other line has half of the band's bytes, at least, as tc counts them (of its time less, if these
//! packets are short: 40 % against 60 bytes each), and who sends twice as much has twice as much of
//! that, as ever. As long as such a packet is in the other line, those of its flow go there: a
//! message's later packets must not overtake its first ones, or these are taken for lost. Flows are
//! told apart by a part of their hash, so that one in [`FLOWS`] others goes there, too. Both lines
//! together have the data band's limit, and its counters. With a child all go to that, in the order
//! in which they come.

use super::flows::Flow;
use super::{Port, Slot};
use crate::queue::{Meta, Queue};

/// So many flows are told apart.
pub(super) const FLOWS: usize = 64;
/// Bytes that may go before other data that waits: as much as a burst of signals.
const MOST_AHEAD: u64 = 64 << 10;

impl<Q: Queue> Port<Q> {
    /// Data of a short message arrives: where it goes.
    pub(super) fn early_or_data(&mut self, meta: &Meta, flow: Flow) -> Slot {
        let data = &self.lines[Slot::DATA.index()];
        let gone = data.went_bytes();
        let since = gone.wrapping_sub(self.gone);
        let waits = !data.queue.is_empty();
        let len = u64::from(meta.len);
        let all = gone.wrapping_add(data.queued().bytes).wrapping_add(len);
        let mut none = 0;
        let turned = self.turned.get_mut(flow as usize % FLOWS);
        let turned = turned.unwrap_or(&mut none);
        let behind = waits && turned.wrapping_sub(gone) as i64 > 0;
        let early = &mut self.lines[Slot::EARLY.index()];
        self.gone = gone;
        self.ahead = match waits {
            true => self.ahead.saturating_sub(since),
            // Nobody was overtaken that is still here.
            false => early.queued().bytes,
        };
        let ahead = self.ahead.saturating_add(len);
        let alone = self.ahead == 0;
        if ahead > MOST_AHEAD && !alone || behind {
            *turned = all;
            return Slot::DATA;
        }
        self.ahead = ahead;
        Slot::EARLY
    }

    /// Each of the data band's lines knows what the other one holds.
    pub(super) fn look_beside(&mut self) {
        for (slot, other) in [(Slot::DATA, Slot::EARLY), (Slot::EARLY, Slot::DATA)] {
            let beside = self.lines[other.index()].queued();
            let line = self.line_mut(slot);
            if line.aside.beside != beside {
                line.aside.beside = beside;
                line.set_room();
            }
        }
    }
}
