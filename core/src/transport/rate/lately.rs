// SPDX-License-Identifier: GPL-2.0
//! How many messages have sent anything lately: in the present span of time, or in the one before;
//! and to how many peers.
//!
//! A message that stands still, because its receiver does not read or its application does not
//! write, takes nothing of the link, and one that begins need not leave it a part.

use crate::units::Nanos;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Lately {
    /// The present span's number.
    span: u64,
    /// How many sent in it, in the one before, and in both.
    now: u32,
    before: u32,
    both: u32,
}

/// The messages to one peer, and when any of them sent something.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) messages: Lately,
    pub(crate) sent: Sent,
}

impl Peer {
    /// None has.
    pub(crate) const NONE: Self = Self {
        messages: Lately::NONE,
        sent: Sent::NEVER,
    };
}

/// When one message did, or a peer's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// The last span in which it did, and whether it did in the one before that, too.
    span: u64,
    before: bool,
}

impl Sent {
    /// Never. The next number is none of a span either.
    pub(crate) const NEVER: Self = Self {
        span: u64::MAX.wrapping_sub(1),
        before: false,
    };
}

impl Lately {
    /// None has.
    pub(crate) const NONE: Self = Self {
        span: 0,
        now: 0,
        before: 0,
        both: 0,
    };

    /// Time has passed. `width`: that of a span.
    #[inline]
    fn go_on(&mut self, now: Nanos, width: Nanos) {
        let span = now.0.checked_div(width.0).unwrap_or(0);
        if span == self.span {
            return;
        }
        let next = span == self.span.wrapping_add(1);
        self.before = if next { self.now } else { 0 };
        (self.span, self.now, self.both) = (span, 0, 0);
    }

    /// A message has sent something.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanos, width: Nanos, sent: &mut Sent) {
        self.go_on(now, width);
        if sent.span == self.span {
            return;
        }
        let before = sent.span.wrapping_add(1) == self.span;
        (sent.span, sent.before) = (self.span, before);
        self.now = self.now.saturating_add(1);
        self.both = self.both.saturating_add(before.into());
    }

    /// Have none, as far as was known at the last call?
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.now == 0 && self.before == 0
    }

    /// A message has ended, or a peer's last one.
    pub(crate) fn forget(&mut self, sent: Sent) {
        if sent.span == self.span {
            let before = u32::from(sent.before);
            self.now = self.now.saturating_sub(1);
            self.before = self.before.saturating_sub(before);
            self.both = self.both.saturating_sub(before);
        } else if sent.span.wrapping_add(1) == self.span {
            self.before = self.before.saturating_sub(1);
        }
    }

    /// How many have.
    pub(crate) fn count(&mut self, now: Nanos, width: Nanos) -> u32 {
        self.go_on(now, width);
        let sum = self.now.saturating_add(self.before);
        sum.saturating_sub(self.both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: Nanos = Nanos(100);

    #[test]
    fn each_counts_once_and_for_two_spans_at_most() {
        let mut lately = Lately::NONE;
        let mut all = [Sent::NEVER; 3];
        for at in [110, 120, 130] {
            lately.note(Nanos(at), WIDTH, &mut all[0]);
            lately.note(Nanos(at), WIDTH, &mut all[1]);
        }
        assert_eq!(lately.count(Nanos(199), WIDTH), 2);
        lately.note(Nanos(200), WIDTH, &mut all[0]);
        lately.note(Nanos(210), WIDTH, &mut all[2]);
        assert_eq!(lately.count(Nanos(299), WIDTH), 3);
        assert_eq!(lately.count(Nanos(300), WIDTH), 2);
        assert_eq!(lately.count(Nanos(400), WIDTH), 0);
        lately.note(Nanos(1000), WIDTH, &mut all[1]);
        assert_eq!(lately.count(Nanos(1000), WIDTH), 1);
        assert_eq!(lately.count(Nanos(5000), WIDTH), 0);
    }

    #[test]
    fn who_ends_counts_no_more() {
        let mut lately = Lately::NONE;
        let mut all = [Sent::NEVER; 3];
        lately.note(Nanos(110), WIDTH, &mut all[0]);
        lately.note(Nanos(110), WIDTH, &mut all[1]);
        lately.note(Nanos(210), WIDTH, &mut all[1]);
        lately.note(Nanos(210), WIDTH, &mut all[2]);
        for (sent, left) in all.into_iter().zip([2, 1, 0]) {
            lately.forget(sent);
            assert_eq!(lately.count(Nanos(220), WIDTH), left);
            assert_eq!(lately.is_none(), left == 0);
        }
        lately.forget(Sent::NEVER);
        assert_eq!(lately.count(Nanos(320), WIDTH), 0);
    }
}
