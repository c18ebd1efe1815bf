// SPDX-License-Identifier: GPL-2.0
//! Ends of messages that their receivers are still to be told that they are known here.
//!
//! A receiver remembers a message that it has delivered until its sender has confirmed that it
//! knows of it. Nobody waits for that, and a packet of its own for each would be a third of what a
//! short message takes. So a confirmation waits for [`WAIT`] for more of the same owner for the
//! same receiver, which share a packet.
//!
//! They do not ride on data: where data is lost and signals are not, receivers would remember more
//! and more that nobody confirms. And what is one owner's goes out as that one's, where a firewall
//! tells owners apart.

use super::host::Address;
use super::wire::{Cookie, Cookies};
use crate::units::Nanos;

/// A confirmation waits for so long. That is short beside the time for which the receiver remembers
/// the message from then on ([`CONFIRMED`](super::remembered::CONFIRMED)), and beside `timeout`,
/// for which it would remember it otherwise.
pub(crate) const WAIT: Nanos = Nanos::MILLISECOND;
/// For so many owners and receivers some may wait at once: a power of two. Two that have the same
/// place take it from each other.
const PLACES: usize = 8;

/// Whose messages, and to which receiver.
type Of = (u64, Address);

/// What waits of one owner for one receiver.
#[derive(Clone, Copy)]
struct Batch {
    of: Of,
    cookies: Option<Cookies>,
    /// [`Nanos::MAX`]: nothing.
    due: Nanos,
}

impl Batch {
    const NONE: Self = Self {
        of: (
            0,
            Address {
                ip: [0; 16],
                local: [0; 16],
                scope: 0,
            },
        ),
        cookies: None,
        due: Nanos::MAX,
    };

    fn take(&mut self) -> Option<(Of, Cookies)> {
        self.due = Nanos::MAX;
        Some((self.of, self.cookies.take()?))
    }
}

pub(crate) struct Confirms {
    batches: [Batch; PLACES],
    /// When the first one is due.
    next: Nanos,
}

impl Confirms {
    pub(crate) const NEW: Self = Self {
        batches: [Batch::NONE; PLACES],
        next: Nanos::MAX,
    };

    /// Adds one of this owner for this receiver, which has the index `peer` among all. Returns what
    /// has to be sent now, as there is no room for it any more.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        peer: u32,
        of: &Of,
        cookie: Cookie,
    ) -> Option<(Of, Cookies)> {
        let batch = self.batches.get_mut(place(of.0, peer))?;
        if let Some(cookies) = batch.cookies.as_mut().filter(|_| batch.of == *of) {
            if cookies.push(cookie) {
                return None;
            }
        }
        let full = batch.take();
        *batch = Batch {
            of: *of,
            cookies: Some(Cookies::new(cookie)),
            due: now + WAIT,
        };
        self.find_next();
        full
    }

    /// Takes what is due.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(Of, Cookies)> {
        if self.next > now {
            return None;
        }
        let batch = self.batches.iter_mut().find(|batch| batch.due <= now);
        let due = batch.and_then(Batch::take);
        self.find_next();
        due
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

/// Where those of an owner for a receiver are.
#[inline]
fn place(owner: u64, peer: u32) -> usize {
    (owner as usize ^ peer as usize) & (PLACES - 1)
}

#[cfg(test)]
mod tests;
