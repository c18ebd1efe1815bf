// SPDX-License-Identifier: GPL-2.0
//! Messages whose socket was closed while they were under way.
//!
//! Nobody can end them, and nobody is told how they end, so a receiver that takes nothing would
//! hold their memory. They are bounded by number and by bytes that are not acknowledged
//! (`max-orphans`, `orphan-buffer`), for all users together. Beyond that, the user who has most of
//! what is too much loses the one of his of which a receiver has not taken anything for longest. So
//! what goes on is delivered, however many of the same user's stand still; and nobody loses one to
//! a user who has more, whether the other's move or not.

use core::cmp::Reverse;

use super::heap::Heap;
use super::host::Memory;
use super::paged::Paged;
use super::slab::NONE;
use crate::units::Nanos;

/// Counted for each message beside its bytes.
const OVERHEAD: u64 = 1024;

/// A message among those of its user.
#[derive(Clone, Copy)]
struct Link {
    /// `NONE`: no message is here.
    user: u32,
    /// Those with progress before and after it, or `NONE`.
    before: u32,
    after: u32,
    /// Bytes that are not acknowledged.
    left: u32,
    /// Its last progress.
    since: Nanos,
}

impl Link {
    const NONE: Self = Self {
        user: NONE,
        before: NONE,
        after: NONE,
        left: 0,
        since: Nanos::ZERO,
    };
}

/// What a user has.
#[derive(Clone, Copy)]
struct Holder {
    /// His messages with the oldest and the latest progress, or `NONE`.
    first: u32,
    last: u32,
    count: u32,
    bytes: u64,
}

impl Holder {
    const NONE: Self = Self {
        first: NONE,
        last: NONE,
        count: 0,
        bytes: 0,
    };
}

/// Who has most comes first; of those who have alike, the one with a message that stood still for
/// longest.
type Most<M, N> = Heap<M, (Reverse<N>, Nanos)>;

/// The messages by index, those of each user in the order of their last progress.
pub(crate) struct Orphans<M: Memory> {
    links: Paged<M, Link>,
    users: Paged<M, Holder>,
    by_count: Most<M, u32>,
    by_bytes: Most<M, u64>,
    count: u32,
    bytes: u64,
}

impl<M: Memory> Orphans<M> {
    pub(crate) const fn new() -> Self {
        Self {
            links: Paged::new(),
            users: Paged::new(),
            by_count: Heap::new(),
            by_bytes: Heap::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Makes room for messages and users up to these indices. `false`: no memory.
    pub(crate) fn reserve(&mut self, index: u32, user: u32) -> bool {
        self.links.reserve(index, || Link::NONE)
            && self.users.reserve(user, || Holder::NONE)
            && self.by_count.reserve(user)
            && self.by_bytes.reserve(user)
    }

    /// Gives back some of the room beyond so many messages and users.
    pub(crate) fn shrink(&mut self, messages: u32, users: u32) {
        self.links.shrink(messages);
        self.users.shrink(users);
        self.by_count.shrink(users);
        self.by_bytes.shrink(users);
    }

    /// A message's socket is closed. `user`: a number that its user has as long as he has messages.
    /// `left`: bytes that are not acknowledged.
    pub(crate) fn join(&mut self, index: u32, user: u32, now: Nanos, left: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if link.user != NONE || user >= self.users.len() {
            return;
        }
        *link = Link {
            user,
            left,
            since: now,
            ..Link::NONE
        };
        self.append(index);
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size(left));
        if let Some(holder) = self.users.get_mut(user) {
            holder.count = holder.count.saturating_add(1);
            holder.bytes = holder.bytes.saturating_add(size(left));
        }
        self.rank(user);
    }

    /// A receiver has taken so many bytes more of one.
    pub(crate) fn progress(&mut self, index: u32, now: Nanos, taken: u32) {
        if self.link(index).is_none() {
            return;
        }
        self.unlink(index);
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let taken = taken.min(link.left);
        link.left = link.left.saturating_sub(taken);
        link.since = now;
        let user = link.user;
        self.append(index);
        self.bytes = self.bytes.saturating_sub(taken.into());
        if let Some(holder) = self.users.get_mut(user) {
            holder.bytes = holder.bytes.saturating_sub(taken.into());
        }
        self.rank(user);
    }

    /// One has ended.
    pub(crate) fn leave(&mut self, index: u32) {
        let Some(Link { user, left, .. }) = self.link(index) else {
            return;
        };
        self.unlink(index);
        if let Some(link) = self.links.get_mut(index) {
            *link = Link::NONE;
        }
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size(left));
        if let Some(holder) = self.users.get_mut(user) {
            holder.count = holder.count.saturating_sub(1);
            holder.bytes = holder.bytes.saturating_sub(size(left));
        }
        self.rank(user);
    }

    /// How many there are, and their bytes.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.count, self.bytes)
    }

    /// The one to be given up, if there are more than `most` or they have more than `bytes`.
    pub(crate) fn excess(&self, most: u32, bytes: u32) -> Option<u32> {
        let user = if self.count > most {
            self.by_count.first()?.1
        } else if self.bytes > bytes.into() {
            self.by_bytes.first()?.1
        } else {
            return None;
        };
        let first = self.users.get(user)?.first;
        (first != NONE).then_some(first)
    }

    fn link(&self, index: u32) -> Option<Link> {
        let link = self.links.get(index).filter(|link| link.user != NONE);
        link.copied()
    }

    /// Puts a message behind all others of its user.
    fn append(&mut self, index: u32) {
        let Some(holder) = self.link(index).and_then(|it| self.users.get_mut(it.user)) else {
            return;
        };
        let last = core::mem::replace(&mut holder.last, index);
        if last == NONE {
            holder.first = index;
        }
        if let Some(link) = self.links.get_mut(last) {
            link.after = index;
        }
        if let Some(link) = self.links.get_mut(index) {
            (link.before, link.after) = (last, NONE);
        }
    }

    /// Takes a message from among those of its user.
    fn unlink(&mut self, index: u32) {
        let Some(link) = self.link(index) else {
            return;
        };
        let Some(holder) = self.users.get_mut(link.user) else {
            return;
        };
        if link.before == NONE {
            holder.first = link.after;
        }
        if link.after == NONE {
            holder.last = link.before;
        }
        if let Some(before) = self.links.get_mut(link.before) {
            before.after = link.after;
        }
        if let Some(after) = self.links.get_mut(link.after) {
            after.before = link.before;
        }
    }

    /// Notes what a user has now.
    fn rank(&mut self, user: u32) {
        let Some(&Holder {
            first,
            count,
            bytes,
            ..
        }) = self.users.get(user)
        else {
            return;
        };
        match self.link(first) {
            Some(Link { since, .. }) => {
                self.by_count.set(user, (Reverse(count), since));
                self.by_bytes.set(user, (Reverse(bytes), since));
            }
            None => {
                self.by_count.remove(user);
                self.by_bytes.remove(user);
            }
        }
    }
}

fn size(left: u32) -> u64 {
    OVERHEAD.saturating_add(left.into())
}

#[cfg(test)]
mod tests;
