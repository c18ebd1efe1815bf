// SPDX-License-Identifier: GPL-2.0
//! Sockets that wait for a place for a message (`max-outgoing`), first come, first served.
//!
//! Which of them a place that came free is for, the endpoint decides: it may be none of the first
//! ones, if these wait for a peer that has taken its share. So they are asked in turn, a few at
//! once, and the rest a little later: no call takes longer when more of them wait. Who could begin
//! a message is woken, and leaves the queue; whoever then finds the place taken joins it again.

use crate::sockets::Sockets;
use turnstile_core::transport::host::Address;

/// How many are asked in one call.
const ASKED: u32 = 8;
/// When the next ones are, ns later.
const PAUSE: u64 = 100_000;

/// A socket's place in the queue.
pub(crate) struct Waiter {
    user: u32,
    /// Whom the message is for; `None`: any peer.
    to: Option<Address>,
    before: Option<u64>,
    after: Option<u64>,
}

/// The queue: its ends, and who is to be asked.
#[derive(Default)]
pub(crate) struct Waiting {
    first: Option<u64>,
    last: Option<u64>,
    len: u32,
    /// So many have not been asked since a place came free.
    unasked: u32,
    next: Option<u64>,
}

impl Waiting {
    /// There may be places for some that wait.
    pub(crate) fn place_came_free(&mut self, now: u64) {
        self.unasked = self.len;
        if self.len != 0 && self.next.is_none() {
            self.next = Some(now);
        }
    }

    /// When the next ones are to be asked, ns.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }
}

impl Sockets {
    /// A socket wants to be woken when its user can begin a message; `to`: to this peer. One that
    /// waits for several is woken when any would do.
    pub(crate) fn wait_for_place(&mut self, handle: u64, user: u32, to: Option<Address>) {
        let before = self.waiting.last;
        let Some(socket) = self.get_mut(handle) else {
            return;
        };
        if let Some(waiter) = &mut socket.waiter {
            if waiter.to != to {
                waiter.to = None;
            }
            return;
        }
        socket.waiter = Some(Waiter {
            user,
            to,
            before,
            after: None,
        });
        match before {
            Some(before) => self.link(before, |waiter| waiter.after = Some(handle)),
            None => self.waiting.first = Some(handle),
        }
        self.waiting.last = Some(handle);
        self.waiting.len = self.waiting.len.saturating_add(1);
    }

    /// A socket does not wait any more.
    pub(crate) fn no_longer_waits(&mut self, handle: u64) -> Option<Waiter> {
        let waiter = self.get_mut(handle)?.waiter.take()?;
        match waiter.before {
            Some(before) => self.link(before, |it| it.after = waiter.after),
            None => self.waiting.first = waiter.after,
        }
        match waiter.after {
            Some(after) => self.link(after, |it| it.before = waiter.before),
            None => self.waiting.last = waiter.before,
        }
        self.waiting.len = self.waiting.len.saturating_sub(1);
        Some(waiter)
    }

    fn link(&mut self, handle: u64, change: impl FnOnce(&mut Waiter)) {
        if let Some(waiter) = self.get_mut(handle).and_then(|it| it.waiter.as_mut()) {
            change(waiter);
        }
    }

    /// Wakes some of those for whom there is a place: `may` says for whom.
    pub(crate) fn offer_places(&mut self, now: u64, may: impl Fn(u32, Option<&Address>) -> bool) {
        if self.waiting.next.is_none_or(|next| next > now) {
            return;
        }
        let mut asked = 0;
        while asked < ASKED && self.waiting.unasked != 0 {
            let Some(handle) = self.waiting.first else {
                self.waiting.unasked = 0;
                break;
            };
            asked = asked.saturating_add(1);
            self.waiting.unasked = self.waiting.unasked.saturating_sub(1);
            let Some(waiter) = self.no_longer_waits(handle) else {
                break;
            };
            if may(waiter.user, waiter.to.as_ref()) {
                if let Some(socket) = self.get_mut(handle) {
                    socket.short = false;
                    socket.sock.writable();
                }
            } else {
                self.wait_for_place(handle, waiter.user, waiter.to);
            }
        }
        self.waiting.next = (self.waiting.unasked != 0).then(|| now.saturating_add(PAUSE));
    }
}
