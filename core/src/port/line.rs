// SPDX-License-Identifier: GPL-2.0
//! A band's queue with its caps and counters, what each packet changes first; and the bit mask of
//! the bands that are backlogged.

use crate::port::band::Band;
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
    pub(super) const NONE: Self = Self {
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
    pub(super) fn plus(self, other: Self) -> Self {
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

    /// [`Amount::minus`] for what may be more.
    #[inline]
    fn less(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
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

/// A band's queue, its caps and its counters. What each packet that passes changes comes first: a
/// cache line, where a queue takes 16 bytes.
///
/// What is queued, sent and offered follows from what came and went: [`Line::stats`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line<Q> {
    pub(super) queue: Q,
    /// What was put into the queue, ever.
    came: Amount,
    /// Of that, what is no longer there.
    went: Amount,
    /// What may be queued without a further look: the least of the caps and of the most that ever
    /// was ([`Aside::most`]).
    room: Amount,
    pub(super) waits: Waits,
    pub(super) aside: Aside,
}

/// What else there is to a band, that most packets do not change.
#[derive(Debug)]
pub(super) struct Aside {
    /// The caps.
    pub(super) cap: Amount,
    /// Of tokens, how many may be queued now: no less than the cap, [`bursts`](super::bursts).
    pub(super) lent: u64,
    /// Each packet that comes is looked at.
    pub(super) watched: bool,
    /// The most that was ever queued at once: of packets, and of bytes.
    most: Amount,
    /// What is queued beside it, in another line of the same band: no less than that.
    pub(super) beside: Amount,
    over_limit: Amount,
    expired: u64,
    trimmed: u64,
    purged: u64,
    stormed: u64,
    /// Bytes of what was dropped for the last three reasons, all of which had been queued.
    dropped_bytes: u64,
    /// What was meant for a child, and of that what came out again, and how many packets it did not
    /// take.
    child_offered: Amount,
    child_sent: Amount,
    refused: u64,
    /// How many more wire packets were sent than there are [`Waits`] in the sum.
    no_waits: u64,
}

/// The times that what was sent from a band's queue had spent there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    sum: Nanos,
    longest: Nanos,
}

impl Waits {
    pub(super) const NONE: Self = Self {
        sum: Nanos::ZERO,
        longest: Nanos::ZERO,
    };

    /// Is there certainly room for `time` in the sum? There is while both are below 292 years.
    #[inline]
    pub(super) fn has_room(&self, time: Nanos) -> bool {
        (self.sum.0 | time.0) >> 63 == 0
    }

    /// A packet was sent after it has waited, when [`Waits::has_room`].
    #[inline]
    pub(super) fn add(&mut self, time: Nanos) {
        self.sum = Nanos(self.sum.0.wrapping_add(time.0));
        if time > self.longest {
            self.longest = time;
        }
    }
}

impl Aside {
    pub(super) const EMPTY: Self = Self {
        cap: Amount::NONE,
        lent: 0,
        watched: false,
        most: Amount::NONE,
        beside: Amount::NONE,
        over_limit: Amount::NONE,
        expired: 0,
        trimmed: 0,
        purged: 0,
        stormed: 0,
        dropped_bytes: 0,
        child_offered: Amount::NONE,
        child_sent: Amount::NONE,
        refused: 0,
        no_waits: 0,
    };

    /// The caps, and what is lent.
    fn bounds(&self) -> Amount {
        let packets = self.cap.packets.max(self.lent);
        Amount {
            packets,
            ..self.cap
        }
    }

    /// Packets that had been queued and were dropped.
    fn dropped(&self) -> u64 {
        self.expired
            .wrapping_add(self.trimmed)
            .wrapping_add(self.purged)
            .wrapping_add(self.stormed)
    }

    /// How many waits there are in the sum, after `went` packets have left the queue.
    fn wait_count(&self, went: u64) -> u64 {
        went.wrapping_sub(self.dropped())
            .wrapping_sub(self.no_waits)
    }

    /// A packet arrives that is not queued, because the queue is at its cap.
    pub(super) fn refused_full(&mut self, meta: &Meta) {
        self.over_limit.count(meta);
    }

    #[inline]
    pub(super) fn child_offered(&mut self, meta: &Meta) {
        self.child_offered.count(meta);
    }

    #[inline]
    pub(super) fn child_refused(&mut self, meta: &Meta) {
        add(&mut self.refused, meta.segs);
    }

    /// A packet that the child took is the port's own again, as one that came anew.
    pub(super) fn child_returned(&mut self, meta: &Meta) {
        self.child_offered = self.child_offered.minus(Amount::NONE.with(meta));
    }

    #[inline]
    pub(super) fn child_sent(&mut self, meta: &Meta) {
        self.child_sent.count(meta);
    }

    /// A packet that was taken from the queue to be sent is dropped instead. Its wait in the queue
    /// stays in the sum.
    pub(super) fn recalled(&mut self, meta: &Meta, cause: DropCause) {
        self.lost(meta, cause);
        self.no_waits = self.no_waits.wrapping_sub(meta.segs.into());
    }

    /// A packet that was queued is dropped.
    fn lost(&mut self, meta: &Meta, cause: DropCause) {
        let counter = match cause {
            DropCause::OverLimit | DropCause::Displaced => return self.refused_full(meta),
            DropCause::Expired => &mut self.expired,
            DropCause::Trimmed => &mut self.trimmed,
            DropCause::Purged => &mut self.purged,
            DropCause::Stormed => &mut self.stormed,
        };
        add(counter, meta.segs);
        add(&mut self.dropped_bytes, meta.len);
    }
}

/// For so many a token may stand that does not fit as a whole: as many as queue by default where
/// ports are served in time.
const MOST_BEYOND: u32 = 8;

impl<Q: Queue> Line<Q> {
    pub(super) const EMPTY: Self = Self {
        queue: Q::EMPTY,
        came: Amount::NONE,
        went: Amount::NONE,
        room: Amount::NONE,
        waits: Waits::NONE,
        aside: Aside::EMPTY,
    };

    /// Does it fit, without a further look?
    #[inline]
    pub(super) fn has_room(&self, meta: &Meta) -> bool {
        // What is queued was counted in 32-bit steps from packets that exist: far from 64 bits.
        self.queued().with(meta).within(self.room)
    }

    /// Does it fit, if nothing is queued?
    #[inline]
    pub(super) fn has_room_for_first(&self, meta: &Meta) -> bool {
        Amount::NONE.with(meta).within(self.room)
    }

    /// Makes room for the packet if the caps allow it, or what is [lent](Aside::lent). Then it is
    /// queued for certain. Of a token that stands for up to eight the first has to fit, of one for
    /// more all: else one would keep others from a queue for longer than that is ever long.
    pub(super) fn make_room(&mut self, meta: &Meta, train: bool) {
        let before = self.queued().plus(self.aside.beside);
        let queued = before.with(meta);
        let needed = match train && meta.segs <= MOST_BEYOND {
            true => before.with(&Meta { segs: 1, ..*meta }),
            false => queued,
        };
        if needed.within(self.aside.bounds()) {
            self.aside.most = self.aside.most.max(queued);
            self.set_room();
            // It may be beyond the cap, and it was looked at.
            if self.aside.lent != 0 || train {
                self.room.packets = self.room.packets.max(queued.packets);
            }
        }
    }

    /// After the caps, or the most that ever was queued, have changed.
    pub(super) fn set_room(&mut self) {
        let Aside {
            cap, most, beside, ..
        } = self.aside;
        self.room = cap.min(most).less(beside);
        if self.aside.watched {
            self.room.packets = 0;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let queued = self.queued().plus(self.aside.beside);
        !queued.within(self.aside.bounds())
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

    /// The packet that `meta` tells of, which was taken from the queue, is sent after it has
    /// waited.
    #[inline]
    pub(super) fn waited(&mut self, time: Nanos, meta: &Meta) {
        if meta.segs != 1 {
            // A super-packet has one wait.
            let more = u64::from(meta.segs).wrapping_sub(1);
            self.aside.no_waits = self.aside.no_waits.wrapping_add(more);
        }
        let over = self.waits.sum.0.checked_add(time.0).is_none();
        self.waits.add(time);
        if over {
            self.halve_waits(time);
        }
    }

    /// After `time` was added, and the sum has wrapped: as if what was there before had been half
    /// of it.
    #[cold]
    fn halve_waits(&mut self, time: Nanos) {
        let before = self.waits.sum.0.wrapping_sub(time.0);
        self.waits.sum = Nanos((before >> 1).saturating_add(time.0));
        let count = self.aside.wait_count(self.went.packets);
        let half = (count.wrapping_sub(1) >> 1).wrapping_add(1);
        self.aside.no_waits = self.aside.no_waits.wrapping_add(count.wrapping_sub(half));
    }

    /// Takes out the packet in this place, as if it had been refused when it arrived.
    pub(super) fn displace(&mut self, place: usize) -> Option<Q::Packet> {
        let packet = self.queue.remove(place)?;
        let meta = packet.meta();
        let one = Amount::NONE.with(&meta);
        self.came = self.came.minus(one);
        self.aside.lost(&meta, DropCause::Displaced);
        Some(packet)
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
            let Some(packet) = self.queue.pop() else {
                return;
            };
            let meta = packet.meta();
            self.went.count(&meta);
            self.aside.lost(&meta, cause);
            sink.dropped(packet, band, cause);
        }
    }
}

impl<Q> Line<Q> {
    /// All of the band's counters.
    pub(super) fn stats(&self) -> BandStats {
        let Self {
            came,
            went,
            waits,
            aside,
            ..
        } = self;
        let queued = self.queued();
        let dropped = Amount {
            packets: aside.dropped(),
            bytes: aside.dropped_bytes,
        };
        let sent = went.minus(dropped).plus(aside.child_sent);
        let offered = came.plus(aside.over_limit).plus(aside.child_offered);
        BandStats {
            offered_packets: offered.packets,
            offered_bytes: offered.bytes,
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            over_limit: aside.over_limit.packets,
            expired: aside.expired,
            trimmed: aside.trimmed,
            purged: aside.purged,
            stormed: aside.stormed,
            dropped_bytes: aside.dropped_bytes.wrapping_add(aside.over_limit.bytes),
            refused: aside.refused,
            queued_packets: queued.packets,
            queued_bytes: queued.bytes,
            max_packets: aside.most.packets,
            max_bytes: aside.most.bytes,
            sojourn_total: waits.sum.0,
            sojourn_count: aside.wait_count(went.packets),
            sojourn_max: waits.longest.0,
        }
    }

    /// How many packets are no longer in the queue.
    pub(super) fn went(&self) -> u64 {
        self.went.packets
    }

    /// How many bytes are no longer in the queue.
    pub(super) fn went_bytes(&self) -> u64 {
        self.went.bytes
    }

    /// How many packets came, and how many are no longer in the queue.
    pub(super) fn passed(&self) -> [u64; 2] {
        [self.came.packets, self.went.packets]
    }

    /// What is queued.
    #[inline]
    pub(super) fn queued(&self) -> Amount {
        self.came.minus(self.went)
    }
}

/// A band as a place in the order of precedence, tokens first: signal 0, tokens 1 to 8, data 9 and
/// 10, unscheduled 11. And [`Slot::UNPAID`] and those behind it, which are none.
///
/// What the packet path works with instead of [`Band`]: an index, a bit, and a comparison where
/// `Band` takes branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// The place of signals that [`Port::pay`](super::Port::pay) let pass.
    pub const SIGNAL: Self = Self(0);
    /// The place of data that goes before other data: see [`early`](super::early).
    pub(super) const EARLY: Self = Self(9);
    /// The place of data, which is where a child qdisc may take over.
    pub const DATA: Self = Self(10);
    pub(super) const UNSCHEDULED: Self = Self(11);
    /// Of a packet that was classified as a signal, and has not been charged to the signals' share
    /// yet: [`Port::pay`](super::Port::pay) says whether it goes to [`Slot::SIGNAL`] or to
    /// [`Slot::DATA`]. Nothing is ever queued here: the line has no room.
    pub const UNPAID: Self = Self(12);
    /// Of data of a short message that no token asked for. It may go before other data; nothing is
    /// ever queued here either.
    pub const UNASKED: Self = Self(13);
    /// Of data of a short message, that a token asked for. Likewise.
    pub const SHORT: Self = Self(14);
    /// Of data of a long message that no token asked for. It goes to [`Slot::DATA`].
    pub const UNASKED_LONG: Self = Self(15);
    /// The length of a table of lines. More than there are bands, so that a mask makes any number
    /// an index of it.
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

    /// Where packets that are classified as `band` go, signals once they are paid for.
    #[inline]
    pub(super) const fn arriving(band: Band) -> Self {
        match band {
            Band::Signal => Self::UNPAID,
            band => Self::new(band),
        }
    }

    /// The band of this place.
    #[inline]
    pub const fn band(self) -> Band {
        match self {
            Self::SIGNAL | Self::UNPAID => Band::Signal,
            Self::EARLY | Self::DATA => Band::Data,
            Self::UNASKED | Self::SHORT | Self::UNASKED_LONG => Band::Data,
            Self::UNSCHEDULED => Band::Unscheduled,
            Self(place) => Band::Token(place.wrapping_sub(1) as u8 & (Band::MAX_PRIORITIES - 1)),
        }
    }

    /// Is it one of tokens?
    #[inline]
    pub const fn is_token(self) -> bool {
        self.0.wrapping_sub(1) < Band::MAX_PRIORITIES as u32
    }

    /// Of a token's, the priority.
    #[inline]
    pub(super) const fn priority(self) -> usize {
        self.0.wrapping_sub(1) as usize
    }

    /// Is it one of the data band's?
    #[inline]
    pub(super) const fn is_data(self) -> bool {
        self.0 == Self::EARLY.0 || self.0 == Self::DATA.0
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

/// Which form of the exit a dequeue begins with: see [`leave`](super::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is queued, and there is neither a child nor a link rate: there is nothing to do.
    Rest,
    /// Something is queued, and what goes first depends on nothing but that and the group's shaper.
    Plain,
    /// As [`State::Plain`], and what is queued is [fresh](super::Port::try_enqueue_fresh).
    Fresh,
    /// As [`State::Rest`], but there is a link rate: [`Port::rests`](super::Port::rests).
    ShapedRest,
    /// As [`State::Plain`], but there is a link rate.
    Shaped,
    /// As [`State::Fresh`], but there is a link rate.
    ShapedFresh,
    /// Anything else.
    Other,
}

/// Which bands are backlogged: a bit each, by [`Slot`]. And whether a dequeue can use the [head
/// form](super::leave) of the fast path, since each dequeue asks for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backlogged(u32);

impl Backlogged {
    /// Nothing is queued, and there is no more to it.
    pub(super) const NONE: Self = Self(0);

    pub(super) const DATA: u32 = Slot::DATA.bit();
    const SIGNAL: u32 = Slot::SIGNAL.bit();
    /// What a [hold](super::hold) holds up.
    pub(super) const HELD: u32 = Self::EARLY | Self::DATA | Slot::UNSCHEDULED.bit();
    const EARLY: u32 = Slot::EARLY.bit();
    /// Both lines of data.
    pub(super) const ALL_DATA: u32 = Self::EARLY | Self::DATA;
    const TOKENS: u32 = Self::EARLY - Slot::new(Band::Token(0)).bit();

    /// One packet is queued, a single one, and when it came is what time it is. See
    /// [`super::Port::try_enqueue_fresh`].
    ///
    /// The sign of the word, which is known for nothing where it is asked whether that is 0.
    const FRESH: u32 = 1 << 31;
    const DETOUR: u32 = 1 << 30;
    const SHAPED: u32 = 1 << 29;
    /// The port never rests, and nothing is fresh in it: there may be something to send that is in
    /// no queue. As if something were queued, but what [is known](Backlogged::known) has it not.
    pub(super) const ASKED: u32 = 1 << 28;

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
            bits if bits >= Self::FRESH => match bits & (Self::DETOUR | Self::SHAPED) {
                0 => State::Fresh,
                Self::SHAPED => State::ShapedFresh,
                _ => State::Other,
            },
            bits if bits < Self::SHAPED => State::Plain,
            Self::SHAPED => State::ShapedRest,
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

    /// The first priority that has tokens, where one for `slot` arrives.
    #[inline]
    pub(super) fn first_token(self, slot: Slot) -> u32 {
        let tokens = (self.0 | slot.bit()) & Self::TOKENS;
        tokens.trailing_zeros().saturating_sub(1)
    }

    /// The place of the first token.
    #[inline]
    pub(super) fn token(self) -> Option<Slot> {
        match self.0 & Self::TOKENS {
            0 => None,
            bits => Some(Slot(bits.trailing_zeros())),
        }
    }

    /// All but the tokens.
    #[inline]
    pub(super) fn rest(self) -> Self {
        Self(self.0 & !Self::TOKENS)
    }

    /// All but what a hold holds up.
    #[inline]
    pub(super) fn unheld(self) -> Self {
        Self(self.0 & !Self::HELD)
    }

    /// What is queued indeed.
    #[inline]
    pub(super) fn known(self) -> Self {
        Self(self.0 & !Self::ASKED)
    }

    /// The first, tokens first.
    #[inline]
    pub(super) fn first(self) -> Option<Slot> {
        match self.0 {
            0 => None,
            bits => Some(Slot(bits.trailing_zeros())),
        }
    }

    /// [`Backlogged::first`]; if there is none, a place whose queue is empty.
    #[inline]
    pub(super) fn first_or_none(self) -> Slot {
        // No band has the last place.
        Slot((self.0 | (1 << (Slot::COUNT - 1))).trailing_zeros())
    }

    /// All but the [`Backlogged::first`].
    #[inline]
    pub(super) fn but_first(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }

    /// The same port with nothing queued.
    #[inline]
    pub(super) fn emptied(self) -> Self {
        Self(self.0 & (Self::SHAPED | Self::DETOUR))
    }

    /// A packet in the queue of `bit`, the only one.
    #[inline]
    pub(super) fn arrived_fresh(&mut self, bit: u32) {
        self.0 |= bit | Self::FRESH;
    }

    #[inline]
    pub(super) fn is_fresh(self) -> bool {
        self.has(Self::FRESH)
    }

    /// Time has passed, or may have.
    #[inline]
    pub(super) fn stale(&mut self) {
        self.clear(Self::FRESH);
    }

    /// The first, where data goes before tokens.
    #[inline]
    pub(super) fn first_but_data(self) -> Option<Slot> {
        match self.0 & (Self::SIGNAL | Self::EARLY | Self::DATA) {
            Self::DATA => Some(Slot::DATA),
            0 => self.first(),
            bits if bits & Self::SIGNAL == 0 => Some(Slot::EARLY),
            _ => self.first(),
        }
    }
}
