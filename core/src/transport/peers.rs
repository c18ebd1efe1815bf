// SPDX-License-Identifier: GPL-2.0
//! Sums over messages: of each peer, and of each coflow.

use super::host::{Address, Memory};
use super::index::Index;
use super::slab::Slab;
use crate::units::Nanos;

/// A peer.
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) incoming: u32,
    pub(crate) outgoing: u32,
    pub(crate) missing: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) rtt: Nanos,
    /// Packets to it carry no more bytes than this until then: see `endpoint/paths.rs`.
    pub(crate) most: u32,
    pub(crate) most_until: Nanos,
}

/// A coflow: messages that belong together.
pub(crate) struct Coflow {
    number: u32,
    members: u32,
    /// Bytes: see [`Facts::coflow`](super::policy::Facts::coflow).
    pub(crate) remaining: u64,
}

/// The peers of messages under way.
pub(crate) struct Peers<M: Memory> {
    pub(crate) all: Slab<M, Peer>,
    index: Index<M>,
}

impl<M: Memory> Peers<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
        }
    }

    /// The index of a peer.
    pub(crate) fn find(&self, hash: u32, address: &Address) -> Option<u32> {
        self.index.find(hash, |index| {
            let peer = self.all.get(index);
            peer.is_some_and(|peer| peer.address == *address)
        })
    }

    /// The index of a peer, which is added if it is new. `None`: no memory. A peer without messages
    /// has to be [dropped](Peers::tidy).
    pub(crate) fn get(&mut self, hash: u32, address: &Address) -> Option<u32> {
        if let Some(index) = self.find(hash, address) {
            return Some(index);
        }
        let (index, _) = self.all.vacant()?;
        if !self.index.reserve(index) {
            return None;
        }
        let index = self.all.insert(Peer {
            address: *address,
            incoming: 0,
            outgoing: 0,
            missing: 0,
            unacknowledged: 0,
            rtt: Nanos::MAX,
            most: u32::MAX,
            most_until: Nanos::ZERO,
        })?;
        self.index.insert(hash, index);
        Some(index)
    }

    /// Makes room for so many more peers. `false`: no memory.
    pub(crate) fn reserve(&mut self, more: u32) -> bool {
        let last = self.all.len().saturating_add(more);
        self.all.reserve(last) && self.index.reserve(last)
    }

    /// Drops a peer that has no messages.
    pub(crate) fn tidy(&mut self, index: u32) {
        let idle = |peer: &Peer| peer.incoming == 0 && peer.outgoing == 0;
        if self.all.get(index).is_some_and(idle) {
            self.index.remove(index);
            self.all.remove(index);
        }
    }
}

/// The coflows of messages that come in.
pub(crate) struct Coflows<M: Memory> {
    all: Slab<M, Coflow>,
    index: Index<M>,
}

impl<M: Memory> Coflows<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
        }
    }

    /// Makes room for coflows up to this index. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32) -> bool {
        self.all.reserve(index) && self.index.reserve(index)
    }

    /// A message joins a coflow: the coflow's index. `None`: no memory.
    pub(crate) fn join(&mut self, hash: u32, number: u32) -> Option<u32> {
        let all = &self.all;
        let found = self.index.find(hash, |index| {
            all.get(index).is_some_and(|coflow| coflow.number == number)
        });
        if let Some(index) = found {
            let coflow = self.all.get_mut(index)?;
            coflow.members = coflow.members.saturating_add(1);
            return Some(index);
        }
        let (index, _) = self.all.vacant()?;
        if !self.index.reserve(index) {
            return None;
        }
        let index = self.all.insert(Coflow {
            number,
            members: 1,
            remaining: 0,
        })?;
        self.index.insert(hash, index);
        Some(index)
    }

    /// A message leaves.
    pub(crate) fn leave(&mut self, index: u32) {
        let Some(coflow) = self.all.get_mut(index) else {
            return;
        };
        coflow.members = coflow.members.saturating_sub(1);
        if coflow.members == 0 {
            self.index.remove(index);
            self.all.remove(index);
        }
    }

    /// The remaining bytes of a coflow.
    pub(crate) fn remaining(&self, index: u32) -> Option<u64> {
        self.all.get(index).map(|coflow| coflow.remaining)
    }

    /// Changes a message's part in the remaining bytes from `before` to `after`.
    pub(crate) fn change(&mut self, index: u32, before: u64, after: u64) {
        if let Some(coflow) = self.all.get_mut(index) {
            coflow.remaining = coflow
                .remaining
                .saturating_sub(before)
                .saturating_add(after);
        }
    }
}
