// SPDX-License-Identifier: GPL-2.0
//! Finished incoming messages: delayed packets of theirs must not deliver them again.

use super::heap::Heap;
use super::host::{Address, Memory};
use super::index::Index;
use super::net::Net;
use super::paged::unlimited;
use super::siphash::Key;
use super::slab::Slab;
use super::tally::Tally;
use super::wire::Cookie;
use crate::units::Nanos;

/// How long a message is remembered after its sender has confirmed its end: packets that the
/// network delays for longer begin it again.
pub(crate) const CONFIRMED: Nanos = Nanos(200 * Nanos::MILLISECOND.0);

struct Entry {
    cookie: Cookie,
    from: Address,
    length: u32,
    /// Its packets were sealed.
    sealed: bool,
    /// It is remembered as long when its sender has confirmed the end.
    keeps: bool,
    /// Its sender has not confirmed the end.
    open: bool,
    /// Until then, the indices of the sender and its network.
    sender: Option<u32>,
    net: Option<u32>,
}

/// A message's sender: its address alone, as a link of many hosts is one /64.
fn sender(from: &Address) -> Net {
    Net::of(from, 32, 128)
}

fn net(from: &Address) -> Net {
    Net::of(from, 24, 48)
}

/// The messages by cookie and address, each with the time at which it may be forgotten.
pub(crate) struct Remembered<M: Memory> {
    entries: Slab<M, Entry>,
    index: Index<M>,
    until: Heap<M, Nanos>,
    /// How many there are of which the end is not confirmed: in all, of each sender, and of each
    /// network.
    open: u32,
    senders: Tally<M>,
    nets: Tally<M>,
}

impl<M: Memory> Remembered<M> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Slab::new(),
            index: Index::new(),
            until: Heap::new(),
            open: 0,
            senders: Tally::new(),
            nets: Tally::new(),
        }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Makes room for `count` messages. `false`: no memory.
    pub(crate) fn reserve(&mut self, count: u32) -> bool {
        self.reserve_some(count, &mut unlimited())
    }

    /// The same, with no more than so many `chunks`. `false` with none left: it needs more.
    pub(crate) fn reserve_some(&mut self, count: u32, chunks: &mut u32) -> bool {
        let last = count.saturating_sub(1);
        self.entries.reserve_some(last, chunks)
            && self.index.reserve_some(last, chunks)
            && self.until.reserve_some(last, chunks)
            && self.senders.reserve_some(last, chunks)
            && self.nets.reserve_some(last, chunks)
    }

    /// Whether it has much more room than for `count` messages.
    #[inline]
    pub(crate) fn is_large(&self, count: u32) -> bool {
        self.entries.is_large(count)
    }

    /// Gives back some of the room for more than `count` messages. `false`: it cannot.
    pub(crate) fn shrink(&mut self, count: u32) -> bool {
        let shrunk = self.entries.shrink(count);
        let room = self.entries.room();
        self.index.shrink(room);
        self.until.shrink(room);
        self.senders.shrink(count);
        self.nets.shrink(count);
        shrunk
    }

    fn find(&self, hash: u32, cookie: Cookie, from: &Address) -> Option<u32> {
        self.index.find(hash, |index| {
            let entry = self.entries.get(index);
            entry.is_some_and(|entry| entry.cookie == cookie && entry.from == *from)
        })
    }

    /// The length of a message that is remembered.
    pub(crate) fn length(&self, hash: u32, cookie: Cookie, from: &Address) -> Option<u32> {
        let index = self.find(hash, cookie, from)?;
        Some(self.entries.get(index)?.length)
    }

    /// Whether a message was sealed that is remembered.
    pub(crate) fn sealed(&self, hash: u32, cookie: Cookie, from: &Address) -> Option<bool> {
        let index = self.find(hash, cookie, from)?;
        Some(self.entries.get(index)?.sealed)
    }

    /// A message that is remembered was sealed. `keeps`: it is remembered as long when its sender
    /// has confirmed the end.
    pub(crate) fn was_sealed(&mut self, hash: u32, cookie: Cookie, from: &Address, keeps: bool) {
        let index = self.find(hash, cookie, from);
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            (entry.sealed, entry.keeps) = (true, keeps);
        }
    }

    /// Whether another message from there may be remembered. Those whose end is not confirmed have
    /// half of `most`: one sender an eighth of `most`, its messages `under_way` with them, and one
    /// network as many as are left of that half. So there are always some left for another one. A
    /// message that is confirmed is soon forgotten.
    pub(crate) fn has_share(&self, key: &Key, from: &Address, under_way: u32, most: u32) -> bool {
        let of_sender = self
            .senders
            .count(key, sender(from))
            .saturating_add(under_way);
        let left = (most / 2).max(1).saturating_sub(self.open);
        of_sender < (most / 8).max(1) && self.nets.count(key, net(from)) < left
    }

    /// Remembers a message. There must be room.
    pub(crate) fn insert(
        &mut self,
        key: &Key,
        hash: u32,
        cookie: Cookie,
        from: &Address,
        length: u32,
        until: Nanos,
    ) {
        let entry = Entry {
            cookie,
            from: *from,
            length,
            sealed: false,
            keeps: false,
            open: true,
            sender: self.senders.join(key, sender(from)),
            net: self.nets.join(key, net(from)),
        };
        if let Some(index) = self.entries.insert(entry) {
            self.open = self.open.saturating_add(1);
            self.index.insert(hash, index);
            self.until.set(index, until);
        }
    }

    /// The sender has confirmed the end. `false` if the message is not remembered.
    pub(crate) fn confirm(
        &mut self,
        hash: u32,
        cookie: Cookie,
        from: &Address,
        now: Nanos,
    ) -> bool {
        let Some(index) = self.find(hash, cookie, from) else {
            return false;
        };
        self.close(index);
        if self.entries.get(index).is_some_and(|entry| entry.keeps) {
            return true;
        }
        let until = now + CONFIRMED;
        if self.until.key(index).is_some_and(|at| at > until) {
            self.until.set(index, until);
        }
        true
    }

    /// One no longer counts as one whose end is not confirmed.
    fn close(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let open = core::mem::take(&mut entry.open);
        let (sender, net) = (entry.sender.take(), entry.net.take());
        self.open = self.open.saturating_sub(open.into());
        if let Some(sender) = sender {
            self.senders.leave(sender);
        }
        if let Some(net) = net {
            self.nets.leave(net);
        }
    }

    /// When the next one may be forgotten.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.until.first().map(|(at, _)| at)
    }

    /// Forgets a message whose time is over. `false` if there is none.
    pub(crate) fn forget(&mut self, now: Nanos) -> bool {
        match self.until.first() {
            Some((at, index)) if at <= now => {
                self.until.remove(index);
                self.index.remove(index);
                self.close(index);
                self.entries.remove(index);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
