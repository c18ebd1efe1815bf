// SPDX-License-Identifier: GPL-2.0
//! Growing the tables of what comes in before it comes.
//!
//! A packet may come at a time when memory counts to nobody. Where that must not be, the tables
//! grow only when [`Endpoint::prepare`] is called, on behalf of somebody. A message for which there
//! is no room then has to wait: its sender repeats the SYNC.

use super::{Endpoint, Memory, Sealed, Sealing};

/// There is room for so many messages more than are under way, at least.
const MESSAGES: u32 = 128;
/// Of these, so many are not for strangers.
const KEPT: u32 = MESSAGES / 2;
/// And to remember so many more.
const REMEMBERED: u32 = 512;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// From now on the tables of what comes in grow in [`Endpoint::prepare`] alone.
    pub fn grow_ahead(&mut self) {
        self.ahead = Some((0, 0));
    }

    /// What packets that are not sealed may do from now on. Unless it is all, sealed messages are
    /// expected, and their table grows ahead as others do.
    pub fn set_sealing(&mut self, sealing: Sealing) {
        match (self.sealing != Sealing::Off, sealing != Sealing::Off) {
            (false, true) => {
                // Room without that of sealed ones is none.
                self.ahead = self.ahead.map(|_| (0, 0));
                self.guards = self.guards.saturating_add(1);
            }
            (true, false) => self.guards = self.guards.saturating_sub(1),
            _ => {}
        }
        self.sealing = sealing;
    }

    /// Makes room for what may come until the next call, if the tables grow only ahead: for twice
    /// as many messages as there are, and no more than the limits allow. Without memory there is
    /// less.
    #[inline]
    pub fn prepare(&mut self) {
        if let Some(room) = self.ahead {
            let (ins, remembered) = self.taken();
            if room.0 < ins.saturating_add(MESSAGES)
                || self.peers.room() < MESSAGES
                || room.1 < remembered.saturating_add(REMEMBERED)
            {
                self.ahead = Some(self.extend(room));
            }
        }
    }

    /// How many messages come in, and how many have to be remembered then.
    fn taken(&self) -> (u32, u32) {
        let ins = self.ins.len();
        (ins, self.remembered.len().saturating_add(ins))
    }

    #[cold]
    fn extend(&mut self, mut room: (u32, u32)) -> (u32, u32) {
        let (ins, remembered) = self.taken();
        let wanted = |taken: u32, more: u32, most: u32| {
            taken
                .saturating_add(taken.max(more.saturating_mul(2)))
                .min(most)
        };
        let more = wanted(ins, MESSAGES, self.config.max_incoming);
        let last = more.saturating_sub(1);
        if more > room.0
            && self.ins.reserve(last)
            && self.in_index.reserve(last)
            && self.in_timers.reserve(last)
            && self.in_nets.reserve(last)
            && self.links.prepare(last)
            && self.coflows.reserve(last)
            && (self.sealing == Sealing::Off || self.in_sealed.reserve(last, || Sealed::NONE))
        {
            room.0 = more;
        }
        // Peers that have given us tickets stay for a while after their last message.
        self.peers.reserve(room.0.saturating_sub(ins));
        let more = wanted(remembered, REMEMBERED, self.config.max_remembered);
        if more > room.1 && self.remembered.reserve(more) {
            room.1 = more;
        }
        room
    }

    /// Whether what room there is is kept for senders that have proved their address.
    pub(super) fn is_room_scarce(&self) -> bool {
        let under_way = self.ins.len();
        self.ahead
            .is_some_and(|room| room.0 != 0 && under_way.saturating_add(KEPT) >= room.0)
    }

    /// Whether there is room for one more message.
    pub(super) fn is_prepared(&self) -> bool {
        let (ins, remembered) = self.taken();
        self.ahead
            .is_none_or(|room| ins < room.0 && remembered < room.1 && self.peers.room() != 0)
    }
}
