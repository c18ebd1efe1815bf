// SPDX-License-Identifier: GPL-2.0
//! Data that came before its SYNC, and was thrown away: how much of which messages, so that it can
//! be asked for as soon as the SYNC is there.
//!
//! What nobody knows may be anything, so nothing of it is kept but its place, for as long as there
//! is room: of the last few messages, and only of peers that have messages here or had some lately.
//! Whoever fills this with what is no message costs others what they would have waited anyway. It
//! draws no packet: that does a SYNC which shows its sender's address.

use super::wire::Cookie;

/// Of so many messages: as many as may have been overtaken at the same time.
const MESSAGES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    cookie: Cookie,
    peer: u32,
    /// Where the last of it ends, and how much it was together. 0: nothing.
    end: u32,
    bytes: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Early {
    all: [Entry; MESSAGES],
    /// The oldest, which is the next to be forgotten.
    oldest: u8,
}

impl Early {
    pub(crate) const NEW: Self = Self {
        all: [Entry {
            cookie: Cookie(0),
            peer: 0,
            end: 0,
            bytes: 0,
        }; MESSAGES],
        oldest: 0,
    };

    fn find(&mut self, peer: u32, cookie: Cookie) -> Option<&mut Entry> {
        let is = |it: &&mut Entry| it.bytes != 0 && it.peer == peer && it.cookie == cookie;
        self.all.iter_mut().find(is)
    }

    /// These bytes of an unknown message of a peer's came, and were not kept.
    pub(crate) fn note(&mut self, peer: u32, cookie: Cookie, (start, len): (u32, u32)) {
        let end = start.saturating_add(len);
        if let Some(known) = self.find(peer, cookie) {
            (known.end, known.bytes) = (known.end.max(end), known.bytes.saturating_add(len));
            return;
        }
        if let Some(oldest) = self.all.get_mut(usize::from(self.oldest)) {
            *oldest = Entry {
                cookie,
                peer,
                end,
                bytes: len,
            };
        }
        self.oldest = self.oldest.wrapping_add(1) % MESSAGES as u8;
    }

    /// The message is known from now on: where the last of what came before ends, and how much it
    /// was.
    pub(crate) fn take(&mut self, peer: u32, cookie: Cookie) -> Option<(u32, u32)> {
        let known = self.find(peer, cookie)?;
        let bytes = core::mem::take(&mut known.bytes);
        Some((known.end, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_message_is_told_once() {
        let mut early = Early::NEW;
        assert_eq!(early.take(0, Cookie(0)), None);
        early.note(1, Cookie(7), (1450, 1450));
        early.note(1, Cookie(8), (0, 100));
        early.note(1, Cookie(7), (0, 1450));
        assert_eq!(early.take(2, Cookie(7)), None, "a cookie of another's");
        assert_eq!(early.take(1, Cookie(7)), Some((2900, 2900)));
        assert_eq!(early.take(1, Cookie(7)), None);
        assert_eq!(early.take(1, Cookie(8)), Some((100, 100)));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut early = Early::NEW;
        for cookie in 0..100 {
            early.note(1, Cookie(cookie), (0, 10));
        }
        let known = (0..100).filter(|it| early.take(1, Cookie(*it)).is_some());
        assert!(known.eq(84..100));
    }
}
