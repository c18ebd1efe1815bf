// SPDX-License-Identifier: GPL-2.0
//! Ends of messages that their receivers are still to be told that they are known here.
//!
//! A receiver remembers a message that it has delivered until its sender has confirmed that it
//! knows of it. Nobody waits for that, and a packet of its own for each would be a third of what a
//! short message takes. So a confirmation waits for [`WAIT`] for the next message to the same
//! receiver that it can ride on, or for more of them, which share a packet.

use super::host::Address;
use super::wire::{Cookie, Cookies};
use crate::units::Nanos;

/// A confirmation waits for so long. That is short beside the time for which the receiver remembers
/// the message from then on ([`CONFIRMED`](super::remembered::CONFIRMED)), and beside `timeout`,
/// for which it would remember it otherwise.
pub(crate) const WAIT: Nanos = Nanos::MILLISECOND;
/// For so many receivers some may wait at once: a power of two. Two that have the same place take
/// it from each other.
const PLACES: usize = 8;

/// What waits for one receiver.
#[derive(Clone, Copy)]
struct Batch {
    to: Address,
    cookies: Option<Cookies>,
    /// [`Nanos::MAX`]: nothing.
    due: Nanos,
}

impl Batch {
    const NONE: Self = Self {
        to: Address {
            ip: [0; 16],
            local: [0; 16],
            scope: 0,
        },
        cookies: None,
        due: Nanos::MAX,
    };

    fn take(&mut self) -> Option<(Address, Cookies)> {
        self.due = Nanos::MAX;
        Some((self.to, self.cookies.take()?))
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

    /// Adds one for this receiver, which has the index `peer` among all. Returns what has to be
    /// sent now, as there is no room for it any more.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        peer: u32,
        to: &Address,
        cookie: Cookie,
    ) -> Option<(Address, Cookies)> {
        let batch = self.batches.get_mut(place(peer))?;
        if let Some(cookies) = batch.cookies.as_mut().filter(|_| batch.to == *to) {
            if cookies.push(cookie) {
                return None;
            }
        }
        let full = batch.take();
        *batch = Batch {
            to: *to,
            cookies: Some(Cookies::new(cookie)),
            due: now + WAIT,
        };
        self.find_next();
        full
    }

    /// Takes one for this receiver, which a message to it is to bring.
    pub(crate) fn take(&mut self, peer: u32, to: &Address) -> Option<Cookie> {
        let batch = self.batches.get_mut(place(peer))?;
        let cookies = batch.cookies.as_mut().filter(|_| batch.to == *to)?;
        let cookie = cookies.pop();
        if cookie.is_some() {
            return cookie;
        }
        let (_, cookies) = batch.take()?;
        self.find_next();
        Some(cookies.first())
    }

    /// Takes what is due.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(Address, Cookies)> {
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

/// Where those for a receiver are.
#[inline]
fn place(peer: u32) -> usize {
    peer as usize & (PLACES - 1)
}

#[cfg(test)]
mod tests;
