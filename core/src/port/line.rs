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
        // What is queued was counted in 32-bit steps from packets that exist: far from 64 bits.
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

    /// Takes the head, of which `meta` tells, to send it after it has `waited`; [`BandStats::has_room`] for that.
    #[inline(always)]
    pub(super) fn take_head(&mut self, meta: &Meta, waited: Nanos) -> Option<Q::Packet> {
        let packet = self.queue.pop()?;
        self.stats.unqueued(meta);
        self.stats.sent(meta);
        self.stats.waited_one(waited);
        Some(packet)
    }

    pub(super) fn pop(&mut self) -> Option<(Q::Packet, Meta)> {
        let packet = self.queue.pop()?;
        let meta = packet.meta();
        self.stats.unqueued(&meta);
        Some((packet, meta))
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

/// A band as a place in the order of precedence, tokens first: signal 0, tokens 1 to 8, data 9, unscheduled 10.
///
/// What the packet path works with instead of [`Band`]: an index, a bit, and a comparison where `Band` takes branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    pub(super) const SIGNAL: Self = Self(0);
    /// The place of data, which is where a child qdisc may take over.
    pub const DATA: Self = Self(9);
    pub(super) const UNSCHEDULED: Self = Self(10);
    /// The length of a table of lines. More than there are bands, so that a mask makes any number an index of it.
    pub(super) const COUNT: usize = 16;

    #[inline]
    pub(super) const fn new(band: Band) -> Self {
        match band {
            Band::Signal => Self::SIGNAL,
            Band::Token(priority) => Self(1 + (priority & (Band::MAX_PRIORITIES - 1)) as u32),
            Band::Data => Self::DATA,
            Band::Unscheduled => Self::UNSCHEDULED,
        }
    }

    /// The band of this place.
    #[inline]
    pub const fn band(self) -> Band {
        match self {
            Self::SIGNAL => Band::Signal,
            Self::DATA => Band::Data,
            Self::UNSCHEDULED => Band::Unscheduled,
            Self(place) => Band::Token(place.wrapping_sub(1) as u8 & (Band::MAX_PRIORITIES - 1)),
        }
    }

    #[inline]
    pub(super) const fn is_token(self) -> bool {
        self.0.wrapping_sub(1) < Band::MAX_PRIORITIES as u32
    }

    /// The slot with this [`Slot::index`].
    #[inline]
    pub(super) const fn from_index(index: u8) -> Self {
        Self(index as u32)
    }

    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize & (Self::COUNT - 1)
    }

    #[inline]
    pub(super) const fn bit(self) -> u32 {
        1_u32.wrapping_shl(self.0)
    }
}

const _: () = assert!(Band::MAX_PRIORITIES.is_power_of_two() && Slot::COUNT.is_power_of_two());

/// How a dequeue begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is queued, and there is neither a child nor a link rate: there is nothing to do.
    Rest,
    /// Something is queued, and what goes first depends on nothing but that and the group's shaper:
    /// [`Port::dequeue_first`](super::Port::dequeue_first) may be asked.
    Plain,
    /// As [`State::Plain`], but there is a link rate, and perhaps nothing is queued.
    Shaped,
    /// Anything else.
    Other,
}

/// Which bands have packets: a bit each, by [`Slot`]; and whether there is more than that to what goes first.
///
/// In one word, since each dequeue asks both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy(u32);

impl Busy {
    pub(super) const DATA: u32 = Slot::DATA.bit();
    const SIGNAL: u32 = Slot::SIGNAL.bit();
    const TOKENS: u32 = Self::DATA - Slot::new(Band::Token(0)).bit();

    const SHAPED: u32 = 1 << 30;
    const DETOUR: u32 = 1 << 31;

    /// There is a link rate; there is more than that to what goes first.
    #[inline]
    pub(super) fn note(&mut self, shaped: bool, detour: bool) {
        let shaped = if shaped { Self::SHAPED } else { 0 };
        let detour = if detour { Self::DETOUR } else { 0 };
        self.0 = self.queues().0 | shaped | detour;
    }

    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 {
            0 => State::Rest,
            bits if bits < Self::SHAPED => State::Plain,
            bits if bits < Self::DETOUR => State::Shaped,
            _ => State::Other,
        }
    }

    /// The bands' bits alone.
    #[inline]
    pub(super) fn queues(self) -> Self {
        Self(self.0 & (Self::SHAPED - 1))
    }

    #[inline]
    pub(super) fn any(self) -> bool {
        self.queues().0 != 0
    }

    #[inline]
    pub(super) fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    #[inline]
    pub(super) fn set(&mut self, bit: u32) {
        self.0 |= bit;
    }

    #[inline]
    pub(super) fn clear(&mut self, bit: u32) {
        self.0 &= !bit;
    }

    #[inline]
    pub(super) fn tokens(self) -> bool {
        self.has(Self::TOKENS)
    }

    /// All but the tokens.
    #[inline]
    pub(super) fn rest(self) -> Self {
        Self(self.0 & !Self::TOKENS)
    }

    /// The first, tokens first.
    #[inline]
    pub(super) fn first(self) -> Option<Slot> {
        match self.0 {
            0 => None,
            bits => Some(Slot(bits.trailing_zeros())),
        }
    }

    /// [`Busy::first`]; if there is none, a place whose queue is empty.
    #[inline]
    pub(super) fn first_or_none(self) -> Slot {
        // No band has the last place.
        Slot((self.0 | (1 << (Slot::COUNT - 1))).trailing_zeros())
    }

    /// All but the [`Busy::first`].
    #[inline]
    pub(super) fn but_first(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }

    /// The first, where data goes before tokens.
    #[inline]
    pub(super) fn first_but_data(self) -> Option<Slot> {
        if self.0 & (Self::SIGNAL | Self::DATA) == Self::DATA {
            Some(Slot::DATA)
        } else {
            self.first()
        }
    }
}
