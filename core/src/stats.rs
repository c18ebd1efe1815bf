// SPDX-License-Identifier: GPL-2.0
//! A port's statistics.

use crate::queue::{DropCause, Meta};
use crate::units::Nanos;

/// The statistics of one band. Packets are wire packets: a super-packet counts as the segments it
/// stands for.
///
/// At any time `offered = sent + queued + over_limit + expired + trimmed + purged + stormed`; for
/// the data band with a child, plus `refused`, what is queued in the child and what the child
/// dropped of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandStats {
    /// Packets that arrived.
    pub offered_packets: u64,
    /// Bytes that arrived.
    pub offered_bytes: u64,
    /// Packets that left, from a child too.
    pub sent_packets: u64,
    /// Bytes that left.
    pub sent_bytes: u64,
    /// Packets dropped because one arrived when the queue was at its cap: that one, or of tokens
    /// one of the flow that had most lately.
    pub over_limit: u64,
    /// Tokens dropped because they had waited longer than the expiry.
    pub expired: u64,
    /// Packets dropped because a change lowered the cap or removed the band.
    pub trimmed: u64,
    /// Packets dropped by a reset.
    pub purged: u64,
    /// Packets dropped by the watchdog of priority flow control.
    pub stormed: u64,
    /// Bytes of the packets dropped for these five reasons.
    pub dropped_bytes: u64,
    /// Packets that a child refused on arrival.
    pub refused: u64,
    /// Packets in the port's own queue.
    pub queued_packets: u64,
    /// Bytes in the port's own queue.
    pub queued_bytes: u64,
    /// The most packets ever queued at once.
    pub max_packets: u64,
    /// The most bytes ever queued at once.
    pub max_bytes: u64,
    /// ns: the sum of the sojourn times of packets that left the port's own queue; 0 for a fresh
    /// packet, which came into an empty port and left at once. See [`BandStats::sojourn_mean`].
    pub sojourn_total: u64,
    /// The number of packets in that sum; a super-packet is one here.
    pub sojourn_count: u64,
    /// ns: the longest of these times.
    pub sojourn_max: u64,
}

impl BandStats {
    /// The mean sojourn time of packets that left the port's own queue; zero if none did.
    ///
    /// Should the sum exceed 64 bits, sum and count are halved, so that older packets weigh less.
    pub fn sojourn_mean(&self) -> Nanos {
        Nanos(
            self.sojourn_total
                .checked_div(self.sojourn_count)
                .unwrap_or(0),
        )
    }

    /// Of a band that has two queues, or of several bands: `self`'s, and the other's.
    pub fn and(mut self, other: &Self) -> Self {
        let sums: [(&mut u64, u64); 15] = [
            (&mut self.offered_packets, other.offered_packets),
            (&mut self.offered_bytes, other.offered_bytes),
            (&mut self.sent_packets, other.sent_packets),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.over_limit, other.over_limit),
            (&mut self.expired, other.expired),
            (&mut self.trimmed, other.trimmed),
            (&mut self.purged, other.purged),
            (&mut self.stormed, other.stormed),
            (&mut self.dropped_bytes, other.dropped_bytes),
            (&mut self.refused, other.refused),
            (&mut self.queued_packets, other.queued_packets),
            (&mut self.queued_bytes, other.queued_bytes),
            (&mut self.sojourn_total, other.sojourn_total),
            (&mut self.sojourn_count, other.sojourn_count),
        ];
        for (sum, more) in sums {
            *sum = sum.wrapping_add(more);
        }
        // Each has the most of both together.
        self.max_packets = self.max_packets.max(other.max_packets);
        self.max_bytes = self.max_bytes.max(other.max_bytes);
        self.sojourn_max = self.sojourn_max.max(other.sojourn_max);
        self
    }

    /// Packets dropped by the port itself, whatever the cause.
    pub fn dropped(&self) -> u64 {
        self.over_limit
            .wrapping_add(self.expired)
            .wrapping_add(self.trimmed)
            .wrapping_add(self.purged)
            .wrapping_add(self.stormed)
    }

    #[inline]
    pub(crate) fn offered(&mut self, meta: &Meta) {
        add(&mut self.offered_packets, meta.segs);
        add(&mut self.offered_bytes, meta.len);
    }

    #[inline]
    pub(crate) fn queued(&mut self, meta: &Meta) {
        add(&mut self.queued_packets, meta.segs);
        add(&mut self.queued_bytes, meta.len);
        // Branches, because a new maximum is rare, and a store each time is not free.
        if self.queued_packets > self.max_packets {
            self.max_packets = self.queued_packets;
        }
        if self.queued_bytes > self.max_bytes {
            self.max_bytes = self.queued_bytes;
        }
    }

    #[inline]
    pub(crate) fn unqueued(&mut self, meta: &Meta) {
        // The same values as were added: a packet's facts do not change while it is queued.
        self.queued_packets = self.queued_packets.wrapping_sub(u64::from(meta.segs));
        self.queued_bytes = self.queued_bytes.wrapping_sub(u64::from(meta.len));
    }

    #[inline]
    pub(crate) fn sent(&mut self, meta: &Meta) {
        add(&mut self.sent_packets, meta.segs);
        add(&mut self.sent_bytes, meta.len);
    }

    #[inline]
    pub(crate) fn waited(&mut self, time: Nanos) {
        let over = self.sojourn_total.checked_add(time.0).is_none();
        self.waited_one(time);
        if over {
            self.halve_sojourn(time);
        }
    }

    #[inline]
    fn waited_one(&mut self, time: Nanos) {
        self.sojourn_total = self.sojourn_total.wrapping_add(time.0);
        add(&mut self.sojourn_count, 1);
        if time.0 > self.sojourn_max {
            self.sojourn_max = time.0;
        }
    }

    /// Repairs a sum that wrapped when `time` was added: the part before counts half.
    #[cold]
    fn halve_sojourn(&mut self, time: Nanos) {
        let before = self.sojourn_total.wrapping_sub(time.0);
        self.sojourn_total = (before >> 1).saturating_add(time.0);
        self.sojourn_count = (self.sojourn_count.wrapping_sub(1) >> 1).wrapping_add(1);
    }

    #[inline]
    pub(crate) fn lost(&mut self, meta: &Meta, cause: DropCause) {
        let counter = match cause {
            DropCause::OverLimit | DropCause::Displaced => &mut self.over_limit,
            DropCause::Expired => &mut self.expired,
            DropCause::Trimmed => &mut self.trimmed,
            DropCause::Purged => &mut self.purged,
            DropCause::Stormed => &mut self.stormed,
        };
        add(counter, meta.segs);
        add(&mut self.dropped_bytes, meta.len);
    }
}

/// Counters wrap, as the kernel's do.
#[inline]
pub(crate) fn add(counter: &mut u64, n: u32) {
    *counter = counter.wrapping_add(u64::from(n));
}

/// The length of a band's own queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Packets on the wire.
    pub packets: u64,
    /// Bytes, as tc counts them.
    pub bytes: u64,
}

/// The statistics of the port as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Times a dequeue found packets but the link still busy with the one before.
    pub link_waits: u64,
    /// Times a dequeue found tokens, and nothing else to send, before the group's next release.
    pub token_waits: u64,
    /// Times the token group was served later than its slack, and did not make up for all of it.
    pub slack_forfeits: u64,
    /// ns: the lateness beyond the slack, in all.
    pub slack_forfeited: u64,
    /// Packets: signals beyond their share, which went to the data band and count there.
    pub signal_excess: u64,
}

impl PortStats {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        link_waits: 0,
        token_waits: 0,
        slack_forfeits: 0,
        slack_forfeited: 0,
        signal_excess: 0,
    };
}

#[cfg(test)]
mod tests;
