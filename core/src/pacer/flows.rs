// SPDX-License-Identifier: GPL-2.0
//! HULL's flow association table (section 4.2): the flows that are paced.
//!
//! Each acknowledgement with ECN-Echo associates its flow with probability p_a, so that a flow of
//! few packets is unlikely to be paced. The table is bounded; a flow for which there is no room is
//! not associated.
//!
//! An association "times out after some time, T_i, so that idle flows will eventually be
//! reclassified as latency sensitive": we measure T_i from the flow's last packet, or the last
//! acknowledgement that was drawn for it. A flow whose packets wait for tokens is not aged, or its
//! next packet would overtake them. Packets leave the bucket in order of arrival, so a flow has
//! none there if its last packet came before the one that leaves next ([`Flows::lookup`]'s
//! `waiting_since`).

use crate::pacer::config::Config;
use crate::pacer::key::FlowKey;
use crate::transport::jitter::Rng;
use crate::units::Nanos;

/// No slot.
const NONE: u16 = u16::MAX;

/// A slot of the table. The table takes as many as it should have entries, with any contents.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The head of the hash chain with this slot's number; unrelated to the entry in this slot.
    chain: u16,
    /// The next entry in the chain, or in the list of free slots.
    next: u16,
    /// Links of the LRU list: the entries that were used just before and after this one.
    older: u16,
    newer: u16,
    hash: u32,
    key: FlowKey,
    touched: Nanos,
}

impl Slot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        chain: NONE,
        next: NONE,
        older: NONE,
        newer: NONE,
        hash: 0,
        key: FlowKey {
            source: [0; 16],
            destination: [0; 16],
            ports: [0; 4],
        },
        touched: Nanos::ZERO,
    };
}

/// Memory for the table, of which at most 4096 slots are used.
pub trait Slots {
    /// All slots.
    fn slots(&self) -> &[Slot];
    /// All slots, mutably.
    fn slots_mut(&mut self) -> &mut [Slot];
}

/// The table's statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Flows in the table now.
    pub flows: u64,
    /// The most flows that were in it at once.
    pub max_flows: u64,
    /// Acknowledgements with ECN-Echo.
    pub echoes: u64,
    /// Flows that one of them associated.
    pub associated: u64,
    /// Flows for which there was no room.
    pub table_full: u64,
    /// Flows that were idle for too long.
    pub aged: u64,
}

/// The table.
pub struct Flows<S> {
    slots: S,
    free: u16,
    oldest: u16,
    newest: u16,
    seed: u64,
    rng: Rng,
    associate: u32,
    idle: Nanos,
    /// The latest `waiting_since`: the time of arrival of the packet that leaves the bucket next.
    waiting_since: Nanos,
    stats: FlowStats,
}

fn bump(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

impl<S: Slots> Flows<S> {
    /// An empty table in `slots`. `seed` should be unpredictable.
    pub fn new(config: &Config, slots: S, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut flows = Self {
            slots,
            free: NONE,
            oldest: NONE,
            newest: NONE,
            seed: rng.next_u64(),
            rng,
            associate: config.associate,
            idle: config.idle,
            waiting_since: Nanos::ZERO,
            stats: FlowStats::default(),
        };
        flows.clear();
        flows
    }

    /// Changes the options from now on; flows stay associated.
    pub fn change(&mut self, config: &Config) {
        self.associate = config.associate;
        self.idle = config.idle;
    }

    /// Moves the table to other slots. The flows that were used last stay, as many as there is room
    /// for. Returns the old slots, whose contents do not matter any more.
    pub fn resize(&mut self, slots: S) -> S {
        let (oldest, max_flows) = (self.oldest, self.stats.max_flows);
        let old = core::mem::replace(&mut self.slots, slots);
        self.clear();
        let room = self.capacity();
        let mut number = old.slots().len().min(usize::from(NONE));
        // From the least to the most recently used, without the first ones if there are too many.
        let mut count = 0_usize;
        let mut at = oldest;
        while let (Some(slot), Some(rest)) =
            (old.slots().get(usize::from(at)), number.checked_sub(1))
        {
            (at, number) = (slot.newer, rest);
            count = count.saturating_add(1);
        }
        let mut skip = count.saturating_sub(room);
        at = oldest;
        while let (Some(slot), Some(rest)) =
            (old.slots().get(usize::from(at)), count.checked_sub(1))
        {
            (at, count) = (slot.newer, rest);
            match skip.checked_sub(1) {
                Some(rest) => skip = rest,
                None => self.insert(slot.hash, slot.key, slot.touched),
            }
        }
        self.stats.max_flows = max_flows.max(self.stats.flows);
        old
    }

    /// How many flows there is room for.
    fn capacity(&self) -> usize {
        self.slots.slots().len().min(4096)
    }

    /// Forgets all flows.
    fn clear(&mut self) {
        let capacity = self.capacity();
        (self.free, self.oldest, self.newest) = (NONE, NONE, NONE);
        let mut number = 0_u16;
        for slot in self.slots.slots_mut() {
            if usize::from(number) >= capacity {
                break;
            }
            *slot = Slot::EMPTY;
            slot.next = core::mem::replace(&mut self.free, number);
            number = number.wrapping_add(1);
        }
        self.stats.flows = 0;
    }

    /// What was counted.
    pub fn stats(&self) -> FlowStats {
        self.stats
    }

    #[inline]
    fn slot(&self, number: u16) -> Option<&Slot> {
        self.slots.slots().get(usize::from(number))
    }

    #[inline]
    fn slot_mut(&mut self, number: u16) -> Option<&mut Slot> {
        self.slots.slots_mut().get_mut(usize::from(number))
    }

    /// The slot that has the head of the chain for `hash`.
    #[inline]
    fn bucket(&self, hash: u32) -> u16 {
        let capacity = self.capacity() as u64;
        (u64::from(hash).wrapping_mul(capacity) >> 32) as u16
    }

    fn find(&self, hash: u32, key: &FlowKey) -> Option<u16> {
        let mut at = self.slot(self.bucket(hash))?.chain;
        while let Some(slot) = self.slot(at) {
            if slot.hash == hash && slot.key == *key {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Adds a flow that is not in the table, if there is room.
    fn insert(&mut self, hash: u32, key: FlowKey, touched: Nanos) {
        let (number, bucket) = (self.free, self.bucket(hash));
        let Some(free) = self.slot(number).map(|slot| slot.next) else {
            return;
        };
        self.free = free;
        let Some(chain) = self.slot_mut(bucket) else {
            return;
        };
        let next = core::mem::replace(&mut chain.chain, number);
        if let Some(slot) = self.slot_mut(number) {
            (slot.next, slot.hash, slot.key, slot.touched) = (next, hash, key, touched);
        }
        self.append(number);
        self.stats.flows = self.stats.flows.saturating_add(1);
        self.stats.max_flows = self.stats.max_flows.max(self.stats.flows);
    }

    /// Makes it the most recently used entry.
    fn append(&mut self, number: u16) {
        let newest = self.newest;
        if let Some(slot) = self.slot_mut(number) {
            (slot.older, slot.newer) = (newest, NONE);
        }
        match self.slot_mut(newest) {
            Some(slot) => slot.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
    }

    /// Removes it from the LRU list.
    fn unlink(&mut self, number: u16) {
        let Some(&Slot { older, newer, .. }) = self.slot(number) else {
            return;
        };
        match self.slot_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slot_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    fn remove(&mut self, number: u16) {
        self.unlink(number);
        let Some(&Slot { hash, next, .. }) = self.slot(number) else {
            return;
        };
        let bucket = self.bucket(hash);
        let mut at = NONE;
        if let Some(head) = self.slot_mut(bucket) {
            if head.chain == number {
                head.chain = next;
            } else {
                at = head.chain;
            }
        }
        while let Some(slot) = self.slot_mut(at) {
            if slot.next == number {
                slot.next = next;
                break;
            }
            at = slot.next;
        }
        let free = core::mem::replace(&mut self.free, number);
        if let Some(slot) = self.slot_mut(number) {
            slot.next = free;
        }
        self.stats.flows = self.stats.flows.saturating_sub(1);
    }

    /// Ages out the flows that have been idle for too long at `now`, least recently used first, up
    /// to one that may have packets in the bucket.
    pub fn age(&mut self, now: Nanos) {
        while let Some(&Slot { touched, .. }) = self.slot(self.oldest) {
            if now - touched < self.idle || touched >= self.waiting_since {
                break;
            }
            self.remove(self.oldest);
            bump(&mut self.stats.aged);
        }
    }

    /// An acknowledgement with ECN-Echo came for `flow`, which is the outgoing direction.
    pub fn echo(&mut self, now: Nanos, flow: &FlowKey) {
        bump(&mut self.stats.echoes);
        if self.rng.below(1_000_000_000) >= self.associate {
            return;
        }
        self.age(now);
        let hash = flow.hash(self.seed);
        if let Some(number) = self.find(hash, flow) {
            self.touch(number, now);
        } else if self.free == NONE {
            bump(&mut self.stats.table_full);
        } else {
            self.insert(hash, *flow, now);
            bump(&mut self.stats.associated);
        }
    }

    /// Whether the flow of a packet that the host sends at `now` is to be paced. `waiting_since` is
    /// the time of arrival of the packet that leaves the bucket next; `now`, if there is none.
    #[inline]
    pub fn lookup(&mut self, now: Nanos, flow: &FlowKey, waiting_since: Nanos) -> bool {
        self.note_waiting(waiting_since);
        if self.oldest == NONE {
            return false;
        }
        self.age(now);
        match self.find(flow.hash(self.seed), flow) {
            Some(number) => {
                self.touch(number, now);
                true
            }
            None => false,
        }
    }

    /// The time of arrival of the packet that leaves the bucket next.
    #[inline]
    pub fn note_waiting(&mut self, since: Nanos) {
        self.waiting_since = since;
    }

    fn touch(&mut self, number: u16, now: Nanos) {
        self.unlink(number);
        self.append(number);
        if let Some(slot) = self.slot_mut(number) {
            slot.touched = slot.touched.max(now);
        }
    }
}

#[cfg(test)]
mod tests;
