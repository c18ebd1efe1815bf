// SPDX-License-Identifier: GPL-2.0
//! Sockets of which a message may perhaps be given room, first come, first served. A few are looked
//! at after each call of the endpoint, and the rest after the next, which the timer makes if
//! nothing else does. One that is closed leaves.

use crate::sockets::Sockets;

/// A socket's place in the queue.
#[derive(Default)]
pub(crate) struct Marked {
    before: Option<u64>,
    after: Option<u64>,
}

/// The queue's ends.
#[derive(Default)]
pub(crate) struct Promotable {
    first: Option<u64>,
    last: Option<u64>,
}

impl Sockets {
    /// A message of this socket may perhaps be given room.
    pub(crate) fn mark_promotable(&mut self, handle: u64) {
        let before = self.promotable.last;
        match self.get_mut(handle) {
            Some(socket) if socket.promotable.is_none() => {
                socket.promotable = Some(Marked {
                    before,
                    after: None,
                });
            }
            _ => return,
        }
        match before {
            Some(before) => self.relink(before, |it| it.after = Some(handle)),
            None => self.promotable.first = Some(handle),
        }
        self.promotable.last = Some(handle);
    }

    /// Whether any is marked.
    pub(crate) fn has_promotable(&self) -> bool {
        self.promotable.first.is_some()
    }

    /// The first of those that were marked.
    pub(crate) fn take_promotable(&mut self) -> Option<u64> {
        let handle = self.promotable.first?;
        self.unmark_promotable(handle);
        Some(handle)
    }

    /// A socket leaves the queue, if it is in it.
    pub(crate) fn unmark_promotable(&mut self, handle: u64) {
        let Some(marked) = self
            .get_mut(handle)
            .and_then(|socket| socket.promotable.take())
        else {
            return;
        };
        match marked.before {
            Some(before) => self.relink(before, |it| it.after = marked.after),
            None => self.promotable.first = marked.after,
        }
        match marked.after {
            Some(after) => self.relink(after, |it| it.before = marked.before),
            None => self.promotable.last = marked.before,
        }
    }

    fn relink(&mut self, handle: u64, change: impl FnOnce(&mut Marked)) {
        if let Some(marked) = self
            .get_mut(handle)
            .and_then(|socket| socket.promotable.as_mut())
        {
            change(marked);
        }
    }
}
