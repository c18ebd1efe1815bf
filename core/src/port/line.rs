// SPDX-License-Identifier: GPL-2.0
//! What a port is made of: one queue with its caps and counters, by how often they are needed, and the word that says which of them have packets.

use crate::band::Band;
use crate::queue::{DropCause, Meta, Packet, Queue, Sink};
use crate::stats::{add, BandStats};
use crate::units::Nanos;

/// So many packets and bytes. Packets are wire packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Amount {
    const NONE: Self = Self {
        packets: 0,
        bytes: 0,
    };

    /// Counters wrap, as the kernel's do.
    #[inline]
    pub(super) fn count(&mut self, meta: &Meta) {
        add(&mut self.packets, meta.segs);
        add(&mut self.bytes, meta.len);
    }

    /// `self` and what `meta` tells of.
    #[inline]
    fn with(mut self, meta: &Meta) -> Self {
        self.count(meta);
        self
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    #[inline]
    fn minus(self, other: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(other.packets),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }

    #[inline]
    fn within(self, most: Self) -> bool {
        self.packets <= most.packets && self.bytes <= most.bytes
    }

    #[inline]
    fn min(self, other: Self) -> Self {
        Self {
            packets: self.packets.min(other.packets),
            bytes: self.bytes.min(other.bytes),
        }
    }

    #[inline]
    fn max(self, other: Self) -> Self {
        Self {
            packets: self.packets.max(other.packets),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// A band's queue, and what each packet that passes changes: a cache line, where a queue takes 16 bytes.
///
/// What is queued, sent and offered follows from what came and went: [`Aside::stats`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line<Q> {
    pub(super) queue: Q,
    /// What was put into the queue, ever.
    came: Amount,
    /// Of that, what is no longer there.
    went: Amount,
    /// What may be queued without a further look: the least of the caps and of the most that ever was ([`Aside::most`]).
    room: Amount,
}

/// What else there is to a band, that most packets do not change.
#[derive(Debug)]
pub(super) struct Aside {
    /// The caps.
    pub(super) cap: Amount,
    /// The most that was ever queued at once: of packets, and of bytes.
    most: Amount,
    over_limit: Amount,
    expired: u64,
    trimmed: u64,
    purged: u64,
    /// Bytes of what was dropped for the last three reasons, all of which had been queued.
    dropped_bytes: u64,
    /// What was meant for a child, and of that what came out again, and how many packets it did not take.
    leaf_offered: Amount,
    leaf_sent: Amount,
    refused: u64,
    /// The waits of what was sent: their sum, and the longest.
    waits: Nanos,
    longest_wait: Nanos,
    /// How many more wire packets were sent than there are waits in the sum.
    no_waits: u64,
}

impl Aside {
    pub(super) const EMPTY: Self = Self {
        cap: Amount::NONE,
        most: Amount::NONE,
        over_limit: Amount::NONE,
        expired: 0,
        trimmed: 0,
        purged: 0,
        dropped_bytes: 0,
        leaf_offered: Amount::NONE,
        leaf_sent: Amount::NONE,
        refused: 0,
        waits: Nanos::ZERO,
        longest_wait: Nanos::ZERO,
        no_waits: 0,
    };

    /// Packets that had been queued and were dropped.
    fn dropped(&self) -> u64 {
        self.expired
            .wrapping_add(self.trimmed)
            .wrapping_add(self.purged)
    }

    /// How many waits there are in the sum, after `went` packets have left the queue.
    fn wait_count(&self, went: u64) -> u64 {
        went.wrapping_sub(self.dropped())
            .wrapping_sub(self.no_waits)
    }

    /// All of the band's counters.
    pub(super) fn stats<Q>(&self, line: &Line<Q>) -> BandStats {
        let queued = line.queued();
        let dropped = Amount {
            packets: self.dropped(),
            bytes: self.dropped_bytes,
        };
        let sent = line.went.minus(dropped).plus(self.leaf_sent);
        let offered = line.came.plus(self.over_limit).plus(self.leaf_offered);
        BandStats {
            offered_packets: offered.packets,
            offered_bytes: offered.bytes,
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            over_limit: self.over_limit.packets,
            expired: self.expired,
            trimmed: self.trimmed,
            purged: self.purged,
            dropped_bytes: self.dropped_bytes.wrapping_add(self.over_limit.bytes),
            refused: self.refused,
            queued_packets: queued.packets,
            queued_bytes: queued.bytes,
            max_packets: self.most.packets,
            max_bytes: self.most.bytes,
            sojourn_total: self.waits.0,
            sojourn_count: self.wait_count(line.went.packets),
            sojourn_max: self.longest_wait.0,
        }
    }

    /// A packet arrives that is not queued, because the queue is at its cap.
    pub(super) fn over_limit(&mut self, meta: &Meta) {
        self.over_limit.count(meta);
    }

    #[inline]
    pub(super) fn leaf_offered(&mut self, meta: &Meta) {
        self.leaf_offered.count(meta);
    }

    #[inline]
    pub(super) fn leaf_refused(&mut self, meta: &Meta) {
        add(&mut self.refused, meta.segs);
    }

    #[inline]
    pub(super) fn leaf_sent(&mut self, meta: &Meta) {
        self.leaf_sent.count(meta);
    }

    /// Is there certainly room for `time` in the sum of the waits? There is while both are below 292 years.
    #[inline]
    pub(super) fn has_room(&self, time: Nanos) -> bool {
        (self.waits.0 | time.0) >> 63 == 0
    }

    /// A packet that stands for one was sent after it has waited, when [`Aside::has_room`].
    #[inline]
    pub(super) fn waited_one(&mut self, time: Nanos) {
        self.waits = Nanos(self.waits.0.wrapping_add(time.0));
        if time > self.longest_wait {
            self.longest_wait = time;
        }
    }

    /// The packet that `meta` tells of was sent after it has waited; with it, `went` have left the queue.
    #[inline]
    pub(super) fn waited(&mut self, time: Nanos, meta: &Meta, went: u64) {
        // A super-packet has one wait.
        self.no_waits = self
            .no_waits
            .wrapping_add(u64::from(meta.segs).wrapping_sub(1));
        let over = self.waits.0.checked_add(time.0).is_none();
        self.waited_one(time);
        if over {
            self.halve_waits(time, went);
        }
    }

    /// After `time` was added, and the sum has wrapped: as if what was there before had been half of it.
    #[cold]
    fn halve_waits(&mut self, time: Nanos, went: u64) {
        let before = self.waits.0.wrapping_sub(time.0);
        self.waits = Nanos((before >> 1).saturating_add(time.0));
        let count = self.wait_count(went);
        let half = (count.wrapping_sub(1) >> 1).wrapping_add(1);
        self.no_waits = self.no_waits.wrapping_add(count.wrapping_sub(half));
    }

    /// A packet that was queued is dropped.
    fn lost(&mut self, meta: &Meta, cause: DropCause) {
        let counter = match cause {
            DropCause::OverLimit => return self.over_limit(meta),
            DropCause::Expired => &mut self.expired,
            DropCause::Trimmed => &mut self.trimmed,
            DropCause::Purged => &mut self.purged,
        };
        add(counter, meta.segs);
        add(&mut self.dropped_bytes, meta.len);
    }
}

impl<Q: Queue> Line<Q> {
    pub(super) const EMPTY: Self = Self {
        queue: Q::EMPTY,
        came: Amount::NONE,
        went: Amount::NONE,
        room: Amount::NONE,
    };

    /// Does it fit, without a further look?
    #[inline]
    pub(super) fn has_room(&self, meta: &Meta) -> bool {
        // What is queued was counted in 32-bit steps from packets that exist: far from 64 bits.
        self.queued().with(meta).within(self.room)
    }

    /// Makes room for the packet if the caps allow it. Then it is queued for certain.
    pub(super) fn make_room(&mut self, aside: &mut Aside, meta: &Meta) {
        let queued = self.queued().with(meta);
        if queued.within(aside.cap) {
            aside.most = aside.most.max(queued);
            self.set_room(aside);
        }
    }

    /// After the caps, or the most that ever was queued, have changed.
    pub(super) fn set_room(&mut self, aside: &Aside) {
        self.room = aside.cap.min(aside.most);
    }

    pub(super) fn is_over(&self, aside: &Aside) -> bool {
        !self.queued().within(aside.cap)
    }

    #[inline]
    pub(super) fn push(&mut self, now: Nanos, mut packet: Q::Packet, meta: &Meta) {
        packet.set_enqueued(now);
        self.came.count(meta);
        self.queue.push(packet);
    }

    /// Takes the head, of which `meta` tells.
    #[inline(always)]
    pub(super) fn take_head(&mut self, meta: &Meta) -> Option<Q::Packet> {
        let packet = self.queue.pop()?;
        self.went.count(meta);
        Some(packet)
    }

    /// How many packets have left the queue, ever.
    #[inline]
    pub(super) fn went(&self) -> u64 {
        self.went.packets
    }

    /// Drops from the head while `surplus` says so.
    pub(super) fn drop_while(
        &mut self,
        aside: &mut Aside,
        band: Band,
        cause: DropCause,
        sink: &mut impl Sink<Q::Packet>,
        surplus: impl Fn(&Self, &Aside) -> bool,
    ) {
        while surplus(self, aside) {
            let Some(packet) = self.queue.pop() else {
                return;
            };
            let meta = packet.meta();
            self.went.count(&meta);
            aside.lost(&meta, cause);
            sink.dropped(packet, band, cause);
        }
    }
}

impl<Q> Line<Q> {
    /// What is queued.
    #[inline]
    pub(super) fn queued(&self) -> Amount {
        self.came.minus(self.went)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy(u32);

impl Busy {
    /// Nothing is queued, and there is no more to it.
    pub(super) const NONE: Self = Self(0);

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
