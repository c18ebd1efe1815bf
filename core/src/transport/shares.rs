// SPDX-License-Identifier: GPL-2.0
//! How users and peers share the places for outgoing messages (`max-outgoing`).
//!
//! A user may begin a message to a peer while
//!
//! > the user's messages + twice those of them to that peer < free places.
//!
//! Nobody has a fixed quota: what each may have grows with what the others leave, as buffers are
//! shared in switches with dynamic thresholds. Alone, a user may have half of all places, and a
//! quarter to one peer; n users who all want as much as they can get have 1/(n + 1) each, n peers
//! of one user alike. So there are always places left for a user or a peer that has none, and a
//! peer that is dead takes only from what its own user may have.

use super::hint::Hint;
use super::host::Memory;
use super::index::Index;
use super::siphash::Key;
use super::slab::{Slab, NONE};

/// What the keyed hash is used for, see `endpoint::purpose`.
const PURPOSE: u8 = 17;

/// How many messages a user, or a user and a peer, have.
struct Share {
    user: u32,
    /// Its index in the table of peers; `NONE`: all of the user's.
    peer: u32,
    messages: u32,
}

/// The shares of those who have messages under way.
pub(crate) struct Shares<M: Memory> {
    all: Slab<M, Share>,
    index: Index<M>,
    /// A user's, and a user's at a peer.
    last: [Hint; 2],
    /// The latest of each kind that has no message: it may soon have one again.
    empty: [u32; 2],
}

/// A message's shares: its user's, and its user's at its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    user: u32,
    pair: u32,
}

impl Shared {
    /// A number that its user has as long as he has messages.
    pub(crate) fn user(self) -> u32 {
        self.user
    }

    /// Of a message that counts nowhere.
    pub(crate) const NOWHERE: Self = Self {
        user: NONE,
        pair: NONE,
    };
}

impl<M: Memory> Shares<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
            last: [const { Hint::new() }; 2],
            empty: [NONE; 2],
        }
    }

    /// Beyond so many, no user's number is in use.
    pub(crate) fn room(&self) -> u32 {
        self.all.room()
    }

    /// Gives back some of the room that is not needed.
    pub(crate) fn shrink(&mut self) {
        self.all.shrink(0);
        self.index.shrink(self.all.room());
    }

    fn find(&self, key: &Key, user: u32, peer: u32) -> Option<u32> {
        if self.all.len() == 0 {
            return None;
        }
        let is = |index| {
            let share = self.all.get(index);
            share.is_some_and(|share| share.user == user && share.peer == peer)
        };
        let [all, pair] = &self.last;
        let last = if peer == NONE { all } else { pair };
        last.or_find(is, || self.index.find(hash(key, user, peer), is))
    }

    fn messages(&self, key: &Key, user: u32, peer: u32) -> u32 {
        let found = self.find(key, user, peer);
        let share = found.and_then(|index| self.all.get(index));
        share.map_or(0, |share| share.messages)
    }

    /// Whether the user may begin a message to the peer while `free` places are.
    pub(crate) fn may_begin(&self, key: &Key, user: u32, peer: Option<u32>, free: u32) -> bool {
        let of_user = self.messages(key, user, NONE);
        let of_pair = peer.map_or(0, |peer| self.messages(key, user, peer));
        of_user.saturating_add(of_pair.saturating_mul(2)) < free
    }

    /// A message begins. `None`: no memory.
    pub(crate) fn join(&mut self, key: &Key, user: u32, peer: u32) -> Option<Shared> {
        let of_user = self.add(key, user, NONE)?;
        let Some(pair) = self.add(key, user, peer) else {
            self.drop_one(of_user);
            return None;
        };
        Some(Shared {
            user: of_user,
            pair,
        })
    }

    /// A message ends.
    pub(crate) fn leave(&mut self, shared: Shared) {
        self.drop_one(shared.user);
        self.drop_one(shared.pair);
    }

    fn add(&mut self, key: &Key, user: u32, peer: u32) -> Option<u32> {
        let index = match self.find(key, user, peer) {
            Some(index) => index,
            None => {
                let (index, _) = self.all.vacant()?;
                if !self.index.reserve(index) {
                    return None;
                }
                let index = self.all.insert(Share {
                    user,
                    peer,
                    messages: 0,
                })?;
                self.index.insert(hash(key, user, peer), index);
                index
            }
        };
        let share = self.all.get_mut(index)?;
        share.messages = share.messages.saturating_add(1);
        Some(index)
    }

    fn drop_one(&mut self, index: u32) {
        let Some(share) = self.all.get_mut(index) else {
            return;
        };
        share.messages = share.messages.saturating_sub(1);
        if share.messages != 0 {
            return;
        }
        let [all, pair] = &mut self.empty;
        let empty = if share.peer == NONE { all } else { pair };
        let before = core::mem::replace(empty, index);
        if before != index {
            self.forget(before);
        }
        // At the end it would keep the table from shrinking.
        if index > self.all.len() {
            self.forget(index);
        }
    }

    /// Removes a share without messages.
    fn forget(&mut self, index: u32) {
        if self.all.get(index).is_some_and(|it| it.messages == 0) {
            self.index.remove(index);
            self.all.remove(index);
        }
    }

    /// How many shares there are.
    #[cfg(test)]
    fn len(&self) -> u32 {
        self.all.len()
    }
}

fn hash(key: &Key, user: u32, peer: u32) -> u32 {
    let both = (u64::from(user) << 32) | u64::from(peer);
    (key.hash([both], PURPOSE, 0) >> 32) as u32
}

#[cfg(test)]
mod tests;
