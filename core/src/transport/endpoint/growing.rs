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
/// A call allocates no more chunks than these, which are enough for `MESSAGES` more even if each
/// array begins another chunk; the first one, which makes all of the tables, no more than those.
const CHUNKS: u32 = 64;
const FIRST: u32 = 192;
/// In a round, there is room for so many messages and peers more, and to remember so many.
const ROUND: u32 = 32;
const ROUND_REMEMBERED: u32 = 128;
/// Rounds of a call: what has memory already is passed in few.
const ROUNDS: u32 = 64;

/// What there is room for, if the tables grow only ahead.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Incoming messages.
    pub(super) ins: u32,
    /// Messages that are remembered, or will have to be.
    pub(super) remembered: u32,
    /// The last call has left something to the next one.
    pub(super) more: bool,
}

impl Room {
    const NONE: Self = Self {
        ins: 0,
        remembered: 0,
        more: false,
    };
}

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// From now on the tables of what comes in grow in [`Endpoint::prepare`] alone.
    pub fn grow_ahead(&mut self) {
        self.ahead = Some(Room::NONE);
    }

    /// What packets that are not sealed may do from now on. Unless it is all, sealed messages are
    /// expected, and their table grows ahead as others do.
    pub fn set_sealing(&mut self, sealing: Sealing) {
        match (self.sealing != Sealing::Off, sealing != Sealing::Off) {
            (false, true) => {
                // Room without that of sealed ones is none.
                self.ahead = self.ahead.map(|_| Room::NONE);
                self.guards = self.guards.saturating_add(1);
            }
            (true, false) => self.guards = self.guards.saturating_sub(1),
            _ => {}
        }
        self.sealing = sealing;
    }

    /// Makes room for what may come until the next call, if the tables grow only ahead: for twice
    /// as many messages as there are, and no more than the limits allow. It begins when there is
    /// room for half as many more. One call makes a part of it, which is larger than what it was
    /// called for; the calls after it go on. Without memory there is less.
    #[inline]
    pub fn prepare(&mut self) {
        if let Some(room) = self.ahead {
            if room.more || self.is_short(room) {
                self.ahead = Some(self.extend(room));
            }
        }
    }

    /// How many messages come in, and how many have to be remembered then.
    fn taken(&self) -> (u32, u32) {
        let ins = self.ins.len();
        (ins, self.remembered.len().saturating_add(ins))
    }

    /// Whether more room is to be made.
    #[inline]
    fn is_short(&self, room: Room) -> bool {
        let (ins, remembered) = self.taken();
        let (most, most_remembered) = (self.config.max_incoming, self.config.max_remembered);
        room.ins < with(ins, (ins / 2).max(MESSAGES), most)
            || room.remembered
                < with(
                    remembered,
                    (remembered / 2).max(REMEMBERED),
                    most_remembered,
                )
            || self.peers.room() < MESSAGES.min(room.ins.saturating_sub(ins))
    }

    #[cold]
    fn extend(&mut self, mut room: Room) -> Room {
        let (ins, remembered) = self.taken();
        let (most, most_remembered) = (self.config.max_incoming, self.config.max_remembered);
        let goal = with(ins, ins.max(2 * MESSAGES), most);
        let goal_remembered = with(remembered, remembered.max(2 * REMEMBERED), most_remembered);
        let mut chunks = if room.ins == 0 { FIRST } else { CHUNKS };
        // A part of each in turn, since what one of them lacks no message has.
        for _ in 0..ROUNDS {
            let mut fits = true;
            room.more = false;
            let next = with(room.ins, ROUND, goal);
            if next > room.ins {
                fits = self.reserve_ins(next.saturating_sub(1), &mut chunks);
                if fits {
                    (room.ins, room.more) = (next, true);
                }
            }
            // Peers that have given us tickets stay for a while after their last message.
            let peers = room.ins.saturating_sub(ins);
            if !self.peers.has_room(peers) {
                let done = self.peers.reserve(peers, ROUND, &mut chunks);
                fits &= done;
                room.more |= done;
            }
            let next = with(room.remembered, ROUND_REMEMBERED, goal_remembered);
            if next > room.remembered {
                let done = self.remembered.reserve_some(next, &mut chunks);
                fits &= done;
                if done {
                    (room.remembered, room.more) = (next, true);
                }
            }
            if !fits {
                // Without memory the next call tries no sooner than it has to.
                room.more = chunks == 0;
            }
            if !(fits && room.more) {
                break;
            }
        }
        room
    }

    /// Makes room for incoming messages up to this index, with no more than so many chunks.
    fn reserve_ins(&mut self, last: u32, chunks: &mut u32) -> bool {
        self.ins.reserve_some(last, chunks)
            && self.in_index.reserve_some(last, chunks)
            && self.in_timers.reserve_some(last, chunks)
            && self.in_nets.reserve_some(last, chunks)
            && self.links.prepare(last, chunks)
            && self.coflows.reserve(last, chunks)
            && (self.sealing == Sealing::Off
                || self.in_sealed.reserve_some(last, chunks, || Sealed::NONE))
    }

    /// Whether what room there is is kept for senders that have proved their address.
    pub(super) fn is_room_scarce(&self) -> bool {
        let under_way = self.ins.len();
        self.ahead
            .is_some_and(|room| room.ins != 0 && under_way.saturating_add(KEPT) >= room.ins)
    }

    /// Whether there is room for one more message.
    pub(super) fn is_prepared(&self) -> bool {
        let (ins, remembered) = self.taken();
        self.ahead.is_none_or(|room| {
            ins < room.ins && remembered < room.remembered && self.peers.room() != 0
        })
    }
}

/// So many and some more, but not more than the most.
fn with(some: u32, more: u32, most: u32) -> u32 {
    some.saturating_add(more).min(most)
}
