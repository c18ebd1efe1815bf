// SPDX-License-Identifier: GPL-2.0
//! How many packets of a message that is paced may be *below*: handed over, and still in the
//! host's own queues.
//!
//! A queue below is first in, first out. If a message went on at its rate while the link is paused,
//! or is taken by others, what is sent afterwards, be it a single packet of another message, would
//! wait behind all of that. So a message waits above, as a queue pair does in an adapter for RDMA,
//! and TCP's flows do in Linux (TCP small queues). It takes two packets to keep a link busy: one
//! that is sent, and the next.
//!
//! That is enough if word that a packet has left comes before the next one has, too. Where a device
//! tells of many at once, or the processor is late, all may be gone by then, and the link is idle.
//! Then twice as many may be below on that link from now on, and half as many again after a second.
//! A pause is never taken for that: when it ends, packets leave one by one.

use crate::units::Nanos;

/// How many may be at least.
const LEAST: u32 = 2;
/// And at most: at 100 Gbit/s what the link carries in 120 us.
const MOST: u32 = 1024;

/// What is known of a link. See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    most: u32,
    /// When it last became more, or less.
    since: Nanos,
}

impl Below {
    pub(crate) const NEW: Self = Self {
        most: LEAST,
        since: Nanos::ZERO,
    };

    /// How many packets of each message may be below now.
    #[inline]
    pub(crate) fn most(&mut self, now: Nanos) -> u32 {
        if self.most > LEAST {
            self.relax(now);
        }
        self.most
    }

    #[cold]
    fn relax(&mut self, now: Nanos) {
        let seconds = (now - self.since).0 / Nanos::SECOND.0;
        if seconds != 0 {
            let halved = self
                .most
                .checked_shr(u32::try_from(seconds).unwrap_or(u32::MAX));
            self.most = halved.unwrap_or(LEAST).max(LEAST);
            self.since = now;
        }
    }

    /// A message that waited, with so many below, has heard only when all of them were gone.
    pub(crate) fn idled(&mut self, now: Nanos, had: u32) {
        let most = had.saturating_add(had).min(MOST);
        if most >= self.most {
            (self.most, self.since) = (most, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_many_may_be_below_where_word_comes_late() {
        let (mut below, now) = (Below::NEW, Nanos::SECOND);
        assert_eq!(below.most(now), 2);
        below.idled(now, 2);
        assert_eq!(below.most(now), 4);
        // Another message had waited as well, before that.
        below.idled(now, 2);
        assert_eq!(below.most(now), 4);
        for _ in 0..20 {
            let had = below.most(now);
            below.idled(now, had);
        }
        assert_eq!(below.most(now), MOST);
    }

    #[test]
    fn half_as_many_after_each_second() {
        let mut below = Below::NEW;
        below.idled(Nanos::SECOND, 16);
        assert_eq!(below.most(Nanos(1_999_999_999)), 32);
        assert_eq!(below.most(Nanos(2_000_000_000)), 16);
        // As many are needed: it stays for another second.
        below.idled(Nanos(2_900_000_000), 8);
        assert_eq!(below.most(Nanos(3_899_999_999)), 16);
        assert_eq!(below.most(Nanos(1_000_000_000_000)), 2);
    }
}
