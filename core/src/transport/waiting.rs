// SPDX-License-Identifier: GPL-2.0
//! Ends of messages that the other end is still to be told.
//!
//! Nobody waits for them, and a packet of its own for each would be a third of what a short message
//! takes. So each waits for more of the same owner for the same peer, which share a packet:
//!
//! - *Confirmations* of the sender that it knows of the end ([`Cookies`]), for [`CONFIRM_WAIT`].
//!   Until then the receiver remembers the message. They do not ride on data: where data is lost
//!   and signals are not, receivers would remember more and more that nobody confirms.
//! - *Acknowledgements* of the receiver that it has a message that came in one packet ([`Riders`]),
//!   for a part of `rto` ([`ack_wait`]). They ride on a message of one packet that goes the other
//!   way, as an answer does. If that is lost the sender asks again after `rto`, as if they were.
//!   One whose sender's application waits for the end does not wait, nor do those of more than half
//!   of what the sender may have under way without tokens: its next message would wait for them.
//!
//! What is one owner's goes out as that one's, where a firewall tells owners apart.

use super::allowance::{LEAST, UNIT};
use super::host::Address;
use super::wire::{Cookie, Cookies, Delivered, MAX_COOKIES, MAX_DELIVERED};
use crate::units::Nanos;

/// A confirmation waits for so long. That is short beside the time for which the receiver remembers
/// the message from then on ([`CONFIRMED`](super::remembered::CONFIRMED)), and beside `timeout`,
/// for which it would remember it otherwise.
pub(crate) const CONFIRM_WAIT: Nanos = Nanos::MILLISECOND;
/// An acknowledgement waits for this part of `rto`: its sender does not ask before `rto` is over.
const ACK_PARTS: u64 = 16;
/// And no longer than this, which is less than the shortest `rto` that there is: the sender's may
/// be another one.
const ACK_MOST: Nanos = Nanos(125_000);
/// Acknowledgements of so many bytes do not wait: their sender may send no others meanwhile.
const MOST_BYTES: u32 = 1500;
/// For how long an acknowledgement waits at most.
pub(crate) fn ack_wait(rto: Nanos) -> Nanos {
    Nanos(rto.0 / ACK_PARTS).min(ACK_MOST)
}

/// For so many owners and peers some may wait at once: a power of two. Two that have the same place
/// take it from each other.
const PLACES: usize = 8;

/// Whose messages, and to or from which peer.
pub(crate) type Of = (u64, Address);

/// Several that share a packet.
pub(crate) trait List: Copy {
    /// Adds another one, which is alone, and for which there is room.
    fn join(&mut self, one: &Self);
    /// There is no room for another one.
    fn is_full(&self) -> bool;
}

impl List for Cookies {
    fn join(&mut self, one: &Self) {
        self.push(one.first());
    }

    fn is_full(&self) -> bool {
        self.len() >= MAX_COOKIES
    }
}

/// Acknowledgements that wait.
#[derive(Clone, Copy)]
pub(crate) struct Riders {
    pub(crate) delivered: Delivered,
    /// Bytes of these messages.
    bytes: u32,
    /// The same on the wire.
    wire: u32,
}

impl Riders {
    /// That of a message of so many bytes, and so many more on the wire.
    pub(crate) fn one(cookie: Cookie, bytes: u32, more: u32, allowance: u16) -> Self {
        let mut delivered = Delivered::NONE;
        delivered.push(cookie);
        delivered.allowance = allowance;
        let wire = bytes.saturating_add(more);
        Self {
            delivered,
            bytes,
            wire,
        }
    }
}

impl List for Riders {
    fn join(&mut self, one: &Self) {
        self.delivered.push(one.delivered.first());
        self.delivered.allowance = one.delivered.allowance;
        self.bytes = self.bytes.saturating_add(one.bytes);
        self.wire = self.wire.saturating_add(one.wire);
    }

    fn is_full(&self) -> bool {
        let allowed = u32::from(self.delivered.allowance).saturating_mul(UNIT);
        self.delivered.len() >= MAX_DELIVERED
            || self.bytes >= MOST_BYTES
            || self.wire > allowed.max(LEAST) / 2
    }
}

/// What waits of one owner for one peer.
#[derive(Clone, Copy)]
struct Batch<L> {
    of: Of,
    list: Option<L>,
    /// [`Nanos::MAX`]: nothing.
    due: Nanos,
}

impl<L: List> Batch<L> {
    const NONE: Self = Self {
        of: (0, Address::NONE),
        list: None,
        due: Nanos::MAX,
    };

    fn take(&mut self) -> Option<(Of, L)> {
        self.due = Nanos::MAX;
        Some((self.of, self.list.take()?))
    }
}

pub(crate) struct Waiting<L> {
    batches: [Batch<L>; PLACES],
    /// When the first one is due.
    next: Nanos,
}

impl<L: List> Waiting<L> {
    pub(crate) const NEW: Self = Self {
        batches: [Batch::NONE; PLACES],
        next: Nanos::MAX,
    };

    /// Adds one of this owner for this peer, which has the index `peer` among all; if it is the
    /// first it waits until `due`. Returns what has to be sent now, as there is no room for more:
    /// maybe this one, which is too much by itself.
    pub(crate) fn add(&mut self, due: Nanos, peer: u32, of: &Of, one: &L) -> Option<(Of, L)> {
        let batch = self.batches.get_mut(place(of.0, peer))?;
        if let Some(list) = batch.list.as_mut().filter(|_| batch.of == *of) {
            list.join(one);
            if !list.is_full() {
                return None;
            }
            let full = batch.take();
            self.find_next();
            return full;
        }
        if one.is_full() {
            return Some((*of, *one));
        }
        let others = batch.take();
        *batch = Batch {
            of: *of,
            list: Some(*one),
            due,
        };
        self.find_next();
        others
    }

    /// What waits of this owner for this peer.
    #[inline]
    pub(crate) fn get(&self, peer: u32, of: &Of) -> Option<&L> {
        if self.next == Nanos::MAX {
            return None;
        }
        let batch = self.batches.get(place(of.0, peer))?;
        batch.list.as_ref().filter(|_| batch.of == *of)
    }

    /// Takes that.
    pub(crate) fn take(&mut self, peer: u32, of: &Of) -> Option<(Of, L)> {
        let batch = self.batches.get_mut(place(of.0, peer))?;
        if batch.of != *of {
            return None;
        }
        let taken = batch.take();
        self.find_next();
        taken
    }

    /// Takes what is due.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(Of, L)> {
        if self.next > now {
            return None;
        }
        let batch = self.batches.iter_mut().find(|batch| batch.due <= now);
        let due = batch.and_then(Batch::take);
        self.find_next();
        due
    }

    /// Takes something that waits of this owner.
    pub(crate) fn take_of(&mut self, owner: u64) -> Option<(Of, L)> {
        if self.next == Nanos::MAX {
            return None;
        }
        let mut batches = self.batches.iter_mut();
        let batch = batches.find(|batch| batch.of.0 == owner && batch.list.is_some());
        let taken = batch.and_then(Batch::take);
        self.find_next();
        taken
    }

    /// When something is due, or never.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    fn find_next(&mut self) {
        self.next = Nanos::MAX;
        for batch in &self.batches {
            step!();
            self.next = self.next.min(batch.due);
        }
    }
}

/// Where those of an owner for a peer are.
#[inline]
fn place(owner: u64, peer: u32) -> usize {
    (owner as usize ^ peer as usize) & (PLACES - 1)
}

#[cfg(test)]
mod tests;
