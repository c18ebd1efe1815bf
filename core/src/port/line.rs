// SPDX-License-Identifier: GPL-2.0
//! What a port is made of: one queue with its caps and counters, and the word that says which of them have packets.

use crate::band::Band;
use crate::queue::{DropCause, Meta, Packet, Queue, Sink};
use crate::stats::BandStats;
use crate::units::Nanos;

/// A band's queue, its caps and its counters.
#[derive(Debug, Default)]
pub(super) struct Line<Q> {
    pub(super) queue: Q,
    pub(super) max_packets: u64,
    pub(super) max_bytes: u64,
    pub(super) stats: BandStats,
}

impl<Q: Queue> Line<Q> {
    #[inline]
    pub(super) fn fits(&self, meta: &Meta) -> bool {
        // What is queued is below the caps, and these are far from 2^64.
        self.stats.queued_packets.wrapping_add(meta.segs.into()) <= self.max_packets
            && self.stats.queued_bytes.wrapping_add(meta.len.into()) <= self.max_bytes
    }

    pub(super) fn is_over(&self) -> bool {
        self.stats.queued_packets > self.max_packets || self.stats.queued_bytes > self.max_bytes
    }

    #[inline]
    pub(super) fn push(&mut self, now: Nanos, mut packet: Q::Packet, meta: &Meta) {
        packet.set_enqueued(now);
        self.stats.queued(meta);
        self.queue.push(packet);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Q::Packet, Meta)> {
        let packet = self.queue.pop()?;
        let meta = packet.meta();
        self.stats.unqueued(&meta);
        Some((packet, meta))
    }

    /// Takes the head to send it; says how long it is on the wire.
    #[inline]
    pub(super) fn release(&mut self, now: Nanos) -> Option<(Q::Packet, u32)> {
        let (packet, meta) = self.pop()?;
        self.stats.sent(&meta);
        self.stats.waited(now - meta.enqueued);
        Some((packet, meta.wire_len))
    }

    /// Drops from the head while `surplus` says so.
    pub(super) fn drop_while(
        &mut self,
        band: Band,
        cause: DropCause,
        sink: &mut impl Sink<Q::Packet>,
        surplus: impl Fn(&Self) -> bool,
    ) {
        while surplus(self) {
            let Some((packet, meta)) = self.pop() else {
                return;
            };
            self.stats.lost(&meta, cause);
            sink.dropped(packet, band, cause);
        }
    }
}

/// Which bands have packets in the port's own queues: a bit each, by [`Band::index`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy(u16);

impl Busy {
    pub(super) const SIGNAL: u16 = 1 << Band::Signal.index();
    pub(super) const DATA: u16 = 1 << Band::Data.index();
    pub(super) const UNSCHEDULED: u16 = 1 << Band::Unscheduled.index();
    const TOKENS_SHIFT: u32 = Band::Token(0).index() as u32;
    const FIRST_TOKEN: u16 = 1 << Self::TOKENS_SHIFT;

    #[inline]
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    #[inline]
    pub(super) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    #[inline]
    pub(super) fn bit(band: Band) -> u16 {
        match band {
            Band::Signal => Self::SIGNAL,
            Band::Data => Self::DATA,
            Band::Unscheduled => Self::UNSCHEDULED,
            Band::Token(priority) => Self::token(priority),
        }
    }

    /// `priority` is below 8.
    #[inline]
    pub(super) fn token(priority: u8) -> u16 {
        Self::FIRST_TOKEN.wrapping_shl(priority.into())
    }

    #[inline]
    pub(super) fn set(&mut self, bit: u16) {
        self.0 |= bit;
    }

    /// `bit` stays only while the queue it stands for is not empty.
    #[inline]
    pub(super) fn update(&mut self, bit: u16, empty: bool) {
        if empty {
            self.0 &= !bit;
        }
    }

    #[inline]
    pub(super) fn tokens(self) -> u16 {
        self.0 >> Self::TOKENS_SHIFT
    }

    /// The highest token priority that has tokens.
    #[inline]
    pub(super) fn first_token(self) -> Option<u8> {
        match self.tokens() {
            0 => None,
            tokens => Some(tokens.trailing_zeros() as u8),
        }
    }

    #[inline]
    pub(super) fn only_tokens(self) -> bool {
        self.0 & (Self::SIGNAL | Self::DATA | Self::UNSCHEDULED) == 0
    }
}
