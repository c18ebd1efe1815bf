// SPDX-License-Identifier: GPL-2.0
//! The port: bands in order of precedence, the token group under one shaper, and optionally a
//! shaped link.
//!
//! # What leaves when
//!
//! [`Port::dequeue`] takes the first of these that has something to give:
//!
//! 1. *signal*;
//! 2. *tokens*, if the group's shaper is ready: the head of the non-empty queue of the highest
//!    priority. A head that has waited longer than the expiry is dropped on the way, and costs no
//!    shaper time;
//! 3. *data*: the port's own queue, then a child qdisc;
//! 4. *unscheduled*.
//!
//! *Signals* have a share of the link (option `signal-share`): [`signals`] says how it is kept.
//! Those beyond it are data from their arrival on.
//!
//! With a link rate, each packet that leaves occupies the link for its wire length, and nothing
//! leaves before the link is free again. This is TOP's switch (section 3.1) with the two work modes
//! of its fig. 3.
//!
//! # Data first
//!
//! Strict precedence of data over tokens would starve the tokens when data fills the link, so TOP
//! limits both: tokens to their share and data to the rest (R1). A limit on data would leave the
//! tokens' share of the link unused whenever there are no tokens. Here data has no limit of its
//! own. It goes first, but tokens that are due let only one data packet pass; then all that are due
//! by the shaper's schedule go. Since the shaper holds the tokens to their share, this leaves data
//! the rest, and all of the link when there are no tokens.
//! - When data fills the link, a token is late by at most one data packet. The shaper's schedule
//!   does not move with it, so that tokens get exactly their share.
//! - Data that does not fill the link waits for no more than the token that is being sent when it
//!   arrives.
//!
//! The obvious other way is a meter: data goes first while it is within *link - token rate*. With
//! timers that are late now and then, data seems to be within its share just when it is making up
//! for the lateness; and on a device that is slower than it reports by more than the tokens' share,
//! it always is, and tokens starve. Counting packets needs no clock.
//!
//! # Markers
//!
//! They see what leaves, in [`Port::dequeue`] and its parts, and write to the data band's packets
//! ([`Packet::set_ecn`]). A port that has one [searches](leave) for what goes first, so that those
//! who have none do not pay for them.
//!
//! # Lateness and idle time
//!
//! Timers are late and softirqs wait. The group's shaper makes up for at most
//! [`TOKEN_SLACK_INTERVALS`]: the jitter that the papers' buffer bound already budgets, a queue of
//! 8 tokens (TOP section 4.3). It is never less than two frames and a token on the link: the frame
//! in service and the one that passes are waited for in the normal course of things. That counts
//! for shares above a fifth. The option `jitter` comes on top; it raises the limit of the token
//! queues and the expiry, too (`Lateness` in `config.rs` says to what, and why). What is later is
//! forfeited, and counted. The link's makes up for a millisecond, or eight full frames on a slow
//! link, or the jitter: the burst that a tbf user would configure on a kernel with 1000 ticks a
//! second.
//!
//! An idle group earns no burst beyond one token, and an idle link none beyond one packet. The
//! group is idle while its queues are empty. The link is idle while there is nothing that may go;
//! since the port does not see packets that go into a child, it counts as idle until the dequeue
//! that finds one.
//!
//! # Unresolved
//!
//! A port at its device's speed may not know that ([`Resolved::is_unresolved`]): a bond has none
//! before its first slave. What follows from the speed then holds nothing back. Tokens with a share
//! of the link have a rate without limit ([`Rate::UNLIMITED`](crate::units::Rate::UNLIMITED)), so
//! that they are always due and go in the order of the bands; with `token-expiry auto` they do not
//! expire; markers that need the speed are off. A token rate or an expiry that was given as such is
//! in force. No packet's way through the port is another for it. [`Port::note_link_speed`] puts an
//! end to it, and what is queued then leaves by the new rates.

pub mod arrivals;
pub mod band;
mod bursts;
pub mod classify;
mod common;
pub mod config;
pub mod cut;
mod early;
pub mod flows;
pub mod hold;
pub mod layout;
mod leaving;
mod line;
pub mod marker;
mod marking;
mod member;
pub mod signals;
#[cfg(test)]
mod tests;
pub mod uapi;

use self::arrivals::Arrivals;
use self::bursts::Beside;
pub use self::common::{Claimed, Common, Grant, Head, Kick, Member, Offer, Token};
pub use self::hold::Hold;
pub use self::leaving::{leave, Exit, Question, Step};
pub use self::line::Slot;
use self::line::{Amount, Backlogged, Line};
use crate::port::band::Band;
use crate::port::classify::Reading;
pub use crate::port::config::TOKEN_SLACK_INTERVALS;
use crate::port::config::{Config, Order, Resolved, TokenDrop, FRAME_WIRE_LEN, TOKEN_WIRE_LEN};
use crate::port::marker::Markers;
use crate::port::signals::Policer;
use crate::queue::{DropCause, Framing, Meta, Packet, Queue, Sink};
use crate::shaper::Shaper;
use crate::stats::{add, BandStats, PortStats, Queued};
use crate::units::{Nanos, Rate};

/// How many full frames, at least, a shaped link may make up for when it was served late.
pub const LINK_SLACK_FRAMES: u32 = 8;
/// How much time, at least, a shaped link may make up for when it was served late.
pub const LINK_SLACK: Nanos = Nanos::MILLISECOND;

/// How much time a shaped link makes up for when it was served late.
fn link_slack(link_rate: Rate, jitter: Nanos) -> Nanos {
    link_rate
        .duration(FRAME_WIRE_LEN * LINK_SLACK_FRAMES)
        .max(LINK_SLACK)
        .max(jitter)
}

/// What became of a packet that was handed to [`Port::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// It is queued.
    Queued,
    /// It went to the sink.
    Dropped,
}

/// What [`Port::dequeue`] has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dequeue<P> {
    /// This packet goes out now.
    Packet(P, Band),
    /// Nothing may leave before this time, which is later than `now`. Come back then, or when
    /// another packet arrives.
    Wait(Nanos),
    /// Nothing to send. A child that has packets but gave none comes back by itself.
    Empty,
}

/// A switch or host port. See the module's documentation.
///
/// Times must not run backwards from call to call; if they do, waits are longer, and nothing else
/// breaks.
///
/// What each packet needs comes first, in the order in which it shares cache lines: two, and one of
/// the band's. [`layout`] counts them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port<Q: Queue> {
    backlogged: Backlogged,
    /// Of a shaped link: nothing could have been sent since the last dequeue, once the link was
    /// free.
    idle: bool,
    /// Something is grafted on the data band.
    grafted: bool,
    order: Order,
    /// The last packet that was no signal was data, and went before a token that was due.
    passed: bool,
    /// [`Nanos::MAX`]: never.
    expiry: Nanos,
    /// By a class's minor number: the number of its [`Slot`], or [`NO_SLOT`].
    classes: [u8; MINORS],
    framing: Framing,
    /// What reads headers needs to know.
    reading: Reading,
    group: Shaper,
    /// By [`Slot`].
    lines: [Line<Q>; Slot::COUNT],
    link: Option<Shaper>,
    signals: Policer,
    markers: Markers,
    hold: Hold,
    /// Pauses are obeyed, or what is queued [gives back](Port::obeys) when it leaves.
    obeys: bool,
    /// When the last pause began that the port knows of.
    paused_at: Option<Nanos>,
    /// The child holds packets, which are held up.
    child_held: bool,
    /// Data has left since somebody [asked](Port::progress), in a port that obeys pauses.
    moved: bool,
    /// It is one of several that have a link in [common](Common).
    member: bool,
    /// Of those, one that the others know something of.
    known: bool,
    stats: PortStats,
    config: Config,
    resolved: Resolved,
    /// What tokens have given way to.
    arrivals: Arrivals,
    /// How much went or may go before other data, and how much of that had gone then: [`early`].
    ahead: u64,
    gone: u64,
    /// By a part of a flow's hash: how much of other data will have gone when none of the flow's is
    /// left that found no place before.
    turned: [u64; early::FLOWS],
    /// By priority.
    beside: [Beside; Band::MAX_PRIORITIES as usize],
}

impl<Q: Queue> Port<Q> {
    /// A port that holds nothing and takes nothing, until [`Port::begin`].
    pub const EMPTY: Self = Self {
        backlogged: Backlogged::NONE,
        idle: true,
        grafted: false,
        order: Order::TokensFirst,
        passed: false,
        expiry: Nanos::MAX,
        classes: [NO_SLOT; MINORS],
        framing: Framing::EMPTY,
        reading: Reading::EMPTY,
        group: Shaper::EMPTY,
        lines: [Line::EMPTY; Slot::COUNT],
        link: None,
        signals: Policer::OFF,
        markers: Markers::EMPTY,
        hold: Hold::Open,
        obeys: false,
        paused_at: None,
        child_held: false,
        moved: false,
        member: false,
        known: false,
        stats: PortStats::EMPTY,
        config: Config::DEFAULT,
        resolved: Resolved::EMPTY,
        arrivals: Arrivals::NONE,
        ahead: 0,
        gone: 0,
        turned: [0; early::FLOWS],
        beside: [const { Beside::NONE }; Band::MAX_PRIORITIES as usize],
    };

    /// An empty port. `resolved` is what [`Config::validate`] gave for `config`.
    pub fn new(config: &Config, resolved: &Resolved, now: Nanos) -> Self {
        let mut port = Self::EMPTY;
        port.begin(config, resolved, now);
        port
    }

    /// Sets up a port that is [`Port::EMPTY`], where it is: a port is too large to be handed about.
    /// `resolved` is as for [`Port::new`].
    pub fn begin(&mut self, config: &Config, resolved: &Resolved, now: Nanos) {
        self.config = *config;
        self.obeys = config.pfc.is_some();
        self.resolved = *resolved;
        self.order = config.order;
        self.group.begin(resolved.token_rate, Nanos::ZERO, now);
        self.set_caps();
        self.set_rates(now);
    }

    /// Another configuration, from now on. `resolved` is what [`Config::validate`] gave for
    /// `config`.
    ///
    /// What is queued stays where the new caps allow; beyond them, the oldest packets of a queue
    /// are dropped, and all packets of bands that are no more. Rates change without losing the
    /// schedule.
    pub fn change(
        &mut self,
        config: &Config,
        resolved: &Resolved,
        now: Nanos,
        sink: &mut impl Sink<Q::Packet>,
    ) {
        if config.pfc.is_none() {
            self.hold((now, now), Hold::Open);
        }
        let counted = self.obeys && self.data_bytes() != 0;
        self.obeys = config.pfc.is_some() || counted;
        self.config = *config;
        self.resolved = *resolved;
        self.order = config.order;
        self.set_caps();
        self.set_rates(now);
        self.drop_from_all(DropCause::Trimmed, sink, Line::is_over);
    }

    /// What the device's frames begin with: an Ethernet header, as long as nobody says otherwise,
    /// or not. For the markers.
    pub fn set_ethernet(&mut self, ethernet: bool) {
        self.markers.set_ethernet(ethernet);
    }

    /// The device reports another speed, in bytes/s; `None` if it reports none, and the last known
    /// speed stays.
    ///
    /// What is queued stays, even where the new speed gives token queues a lower cap.
    pub fn note_link_speed(&mut self, now: Nanos, device_speed: Option<u64>) {
        if let Some(resolved) = device_speed.and_then(|speed| self.config.resolve_for_speed(speed))
        {
            self.resolved = resolved;
            self.set_caps();
            self.set_rates(now);
        }
    }

    /// Drops all that is queued, and forgets what was sent when. Counters stay. A child is not
    /// touched.
    pub fn reset(&mut self, sink: &mut impl Sink<Q::Packet>) {
        self.settle(Self::NO_TIME);
        self.drop_from_all(DropCause::Purged, sink, |_| true);
        self.markers.reset();
        self.signals.reset();
        self.idle = true;
        self.group.reset();
        self.passed = false;
        self.note_detour();
        if let Some(link) = &mut self.link {
            link.reset();
        }
    }

    fn set_caps(&mut self) {
        let config = self.config;
        self.framing = Framing::new(config.overhead, config.mpu);
        self.reading = Reading::of(&config);
        self.set_bursts();
        let generates = config.generates();
        match generates {
            true => self.backlogged.set(Backlogged::ASKED),
            false => self.backlogged.clear(Backlogged::ASKED),
        }
        self.classes = [NO_SLOT; MINORS];
        for band in (0..Band::COUNT).filter_map(Band::from_index) {
            let (packets, bytes) = match band {
                Band::Signal => (config.signal_limit.into(), u64::MAX),
                // Its bound is what is counted elsewhere: `Port::has_room_for_own`.
                Band::Data if generates => (u64::MAX, u64::MAX),
                Band::Data => (u64::MAX, config.data_limit.into()),
                Band::Unscheduled => (config.unscheduled.into(), u64::MAX),
                Band::Token(_) if band.exists(&config) => (config.token_limit.into(), u64::MAX),
                Band::Token(_) => (0, u64::MAX),
            };
            let line = self.line_mut(Slot::new(band));
            line.aside.cap = Amount { packets, bytes };
            line.set_room();
            if band == Band::Data {
                let early = self.line_mut(Slot::EARLY);
                early.aside.cap = Amount { packets, bytes };
                early.set_room();
            }
            if let Some(class) = self.classes.get_mut(usize::from(band.minor())) {
                if band.exists(&config) {
                    *class = Slot::arriving(band).index() as u8;
                }
            }
        }
    }

    fn set_rates(&mut self, now: Nanos) {
        self.settle(now);
        let Resolved {
            token_rate,
            token_beyond,
            link_rate,
            shaped,
            expiry,
            slack,
            ..
        } = self.resolved;
        self.expiry = expiry.unwrap_or(Nanos::MAX);
        self.group.set_beyond(&token_beyond);
        self.group.set_rate(token_rate, slack, now, TOKEN_WIRE_LEN);
        let link_slack = link_slack(link_rate, self.config.jitter);
        self.link = match self.link.take() {
            _ if !shaped || self.member => None,
            None => {
                self.idle = true;
                Some(Shaper::new(link_rate, link_slack, now))
            }
            Some(mut link) => {
                link.set_rate(link_rate, link_slack, now, FRAME_WIRE_LEN);
                Some(link)
            }
        };
        let Resolved { signal_rate, .. } = self.resolved;
        self.signals.set(signal_rate, self.config.jitter, now);
        self.markers.set(&self.config, &self.resolved, now);
        self.note_detour();
    }

    /// Notes what there is to what goes first beside what is queued and the group's shaper.
    #[inline]
    fn note_detour(&mut self) {
        // In the order in which it is most often found out.
        let detour = self.grafted
            || self.order == Order::DataFirst
            || self.passed
            || self.markers.any()
            || self.obeys()
            || self.member;
        self.backlogged.note(self.link.is_some(), detour);
    }

    /// A packet was sent: whether it was data that passed is news for [`Port::note_detour`] only
    /// where it makes a difference.
    #[inline]
    fn note_passed(&mut self) {
        if self.order == Order::TokensFirst {
            self.note_detour();
        }
    }

    /// A child is grafted on the data band, or no longer.
    pub fn set_grafted(&mut self, grafted: bool) {
        self.grafted = grafted;
        // There is none, since it would have left by now. It has waited for no time if there is.
        self.settle(Self::NO_TIME);
        self.note_detour();
    }

    fn drop_from_all(
        &mut self,
        cause: DropCause,
        sink: &mut impl Sink<Q::Packet>,
        surplus: impl Fn(&Line<Q>) -> bool,
    ) {
        self.look_beside();
        for band in (0..Band::COUNT).filter_map(Band::from_index) {
            self.drop_while(Slot::new(band), cause, sink, &surplus);
        }
        self.look_beside();
        self.drop_while(Slot::EARLY, cause, sink, &surplus);
        self.look_beside();
    }

    fn drop_expired(&mut self, now: Nanos, slot: Slot, sink: &mut impl Sink<Q::Packet>) {
        self.settle(now);
        let expiry = self.expiry;
        self.drop_while(slot, DropCause::Expired, sink, |line| {
            line.queue
                .front()
                .is_some_and(|head| now - head.enqueued > expiry)
        });
    }

    /// Drops from the head of a queue while `surplus` says so.
    fn drop_while(
        &mut self,
        slot: Slot,
        cause: DropCause,
        sink: &mut impl Sink<Q::Packet>,
        surplus: impl Fn(&Line<Q>) -> bool,
    ) {
        let line = self.line_mut(slot);
        line.drop_while(slot.band(), cause, sink, surplus);
        if line.queue.is_empty() {
            self.backlogged.clear(slot.bit());
        }
    }

    /// The band that packets of `band` really go to: one that the port has.
    #[inline]
    pub fn map_band(&self, band: Band) -> Band {
        match band {
            Band::Unscheduled if self.config.unscheduled == 0 => Band::Data,
            Band::Token(priority) => {
                Band::Token(priority.min(self.config.priorities.saturating_sub(1)))
            }
            band => band,
        }
    }

    /// Where packets of `band` go; of signals, [`Slot::UNPAID`].
    #[inline]
    pub fn slot(&self, band: Band) -> Slot {
        Slot::arriving(self.map_band(band))
    }

    /// Where packets of the class with this minor number go, if the port has it; of signals,
    /// [`Slot::UNPAID`].
    #[inline]
    pub fn class_slot(&self, minor: u32) -> Option<Slot> {
        match *self.classes.get(minor as usize)? {
            NO_SLOT => None,
            slot => Some(Slot::from_index(slot)),
        }
    }

    /// Charges a signal of `wire_len` bytes to the share of signals, if that needs no look at the
    /// clock: then it goes to [`Slot::SIGNAL`]. If not, nothing has changed: ask [`Port::pay`].
    #[inline(always)]
    pub fn try_pay(&mut self, wire_len: u32) -> bool {
        self.signals.try_pay(wire_len)
    }

    /// Where a signal goes that arrives [unpaid](Slot::UNPAID), and which `meta` tells of: to
    /// [`Slot::SIGNAL`] if it is within the share of signals, and else, as excess, to
    /// [`Slot::UNASKED`], or a child of the data band. `kept` says whether [bridges keep it to
    /// themselves](classify::bridges_keep); it is asked where that matters.
    pub fn pay(&mut self, now: Nanos, meta: &Meta, kept: impl FnOnce() -> bool) -> Slot {
        if self.signals.pay(now, meta.wire_len, kept) {
            return Slot::SIGNAL;
        }
        add(&mut self.stats.signal_excess, meta.segs);
        Slot::UNASKED
    }

    /// A packet for `band` arrives. If its queue is at the cap, it goes to the sink; of a full
    /// token queue, tokens that have expired go first, and then, unless configured otherwise, one
    /// of the [flow](flows) that has most.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Nanos,
        band: Band,
        packet: Q::Packet,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Enqueue {
        self.enqueue_at(now, self.slot(band), packet, sink)
    }

    /// [`Port::enqueue`] for who knows the place already. An [unpaid](Slot::UNPAID) signal is
    /// charged as one that bridges pass on.
    #[inline]
    pub fn enqueue_at(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: Q::Packet,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Enqueue {
        match self.try_enqueue(now, slot, packet) {
            Ok(()) => Enqueue::Queued,
            Err(packet) => self.enqueue_full(now, slot, packet, false, sink),
        }
    }

    /// [`Port::enqueue_at`] for a token that stands for several, which are its [`Meta::segs`]. It
    /// takes the time of so many, counts as so many, and comes in if so many would, or, for up to
    /// eight, one would.
    pub fn enqueue_train(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: Q::Packet,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Enqueue {
        self.enqueue_full(now, slot, packet, true, sink)
    }

    /// Queues a packet if that takes no more than to queue it. If not, nothing has changed: ask
    /// [`Port::enqueue_at`].
    #[inline(always)]
    pub fn try_enqueue(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: Q::Packet,
    ) -> Result<(), Q::Packet> {
        let meta = packet.meta();
        if !self.line_mut(slot).has_room(&meta) {
            return Err(packet);
        }
        if self.is_fresh() {
            // In line: a call would cost those who make none.
            self.settle_here(now);
        }
        // Whatever arrives: while there are no tokens the group is idle, and its schedule starts no
        // earlier than now.
        if !self.backlogged.tokens() {
            self.group.arrive(now);
        }
        self.backlogged.set(slot.bit());
        self.line_mut(slot).push(now, packet, &meta);
        Ok(())
    }

    /// [`Port::try_enqueue`] for who will ask for a packet at once, so that its time is this one. A
    /// packet that is alone in the port is *fresh* until the next call, and a dequeue needs no
    /// clock:
    /// - it has waited for no time, so that it has not expired, and its wait is 0;
    /// - the group and the link were idle until now, and it is charged to them from now on.
    ///
    /// Nothing but the time of the next call depends on that promise. If it is not kept, one
    /// packet, the fresh one, is taken for younger than it is: a token may leave after its expiry,
    /// and the next packet on a shaped link may follow it sooner, by as much as the call was late.
    /// Whatever arrives, changes or is asked for in vain in between makes the packet one like any
    /// other.
    ///
    /// `now` is [`Port::NO_TIME`] if the caller did not look at the clock: where it [need
    /// not](Port::needs_no_clock).
    #[inline(always)]
    pub fn try_enqueue_fresh(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: Q::Packet,
    ) -> Result<(), Q::Packet> {
        let meta = packet.meta();
        let line = &mut self.lines[slot.index()];
        if self.backlogged.any() || meta.segs != 1 || !line.has_room_for_first(&meta) {
            return Err(packet);
        }
        self.backlogged.arrived_fresh(slot.bit());
        line.push(now, packet, &meta);
        Ok(())
    }

    /// Is the packet that is queued [fresh](Port::try_enqueue_fresh)?
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.backlogged.is_fresh()
    }

    /// What time it is, if a fresh packet says so.
    #[inline]
    pub fn fresh_time(&self) -> Option<Nanos> {
        if !self.is_fresh() {
            return None;
        }
        let slot = self.backlogged.first_or_none();
        let head = self.lines[slot.index()].queue.front()?;
        Some(head.enqueued).filter(|&time| time != Self::NO_TIME)
    }

    /// No time: later than any.
    pub const NO_TIME: Nanos = Nanos::MAX;

    /// Would a fresh packet for this place be one that no clock is needed for? It is if nothing is
    /// queued, and nothing is shaped that it might be charged to: then all that there is to know is
    /// that it waits for no time.
    #[inline]
    pub fn needs_no_clock(&self, slot: Slot) -> bool {
        !slot.is_token() && self.backlogged == Backlogged::NONE
    }

    /// A fresh packet becomes one like any other, `now` or before: its arrival counts as what it is
    /// for the group, and it has a time.
    #[inline(always)]
    fn settle_here(&mut self, now: Nanos) {
        match self.fresh_time() {
            Some(time) => self.group.arrive(time),
            None => {
                let slot = self.backlogged.first_or_none();
                self.line_mut(slot).queue.set_front_enqueued(now);
            }
        }
        self.backlogged.stale();
    }

    /// [`Port::settle_here`] if there is one.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, now: Nanos) {
        if self.is_fresh() {
            self.settle_here(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn enqueue_full(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: Q::Packet,
        train: bool,
        sink: &mut impl Sink<Q::Packet>,
    ) -> Enqueue {
        let meta = packet.meta();
        // What has to fit.
        let first = match train {
            true => Meta { segs: 1, ..meta },
            false => meta,
        };
        let slot = match slot {
            Slot::UNPAID => self.pay(now, &meta, || false),
            slot => slot,
        };
        let slot = match slot {
            Slot::UNASKED | Slot::SHORT => {
                let flow = packet.flow(self.markers.ethernet());
                self.early_or_data(&meta, flow)
            }
            Slot::UNASKED_LONG => Slot::DATA,
            slot => slot,
        };
        self.look_beside();
        // The flow, where it counts whose tokens are queued.
        let mut flow = None;
        if slot.is_token() {
            self.note_arrival(now, slot, &first);
            self.lend_room(now, slot, &first);
            if self.config.token_drop == TokenDrop::Fair && self.line_mut(slot).aside.watched {
                flow = Some(packet.flow(self.markers.ethernet()));
            }
        }
        // There may be room, but more has never been queued.
        let line = self.line_mut(slot);
        line.make_room(&meta, train);
        if slot.is_token() && !line.has_room(&meta) {
            self.drop_expired(now, slot, sink);
            self.lend_room(now, slot, &first);
            let line = self.line_mut(slot);
            line.make_room(&meta, train);
            let full = !line.has_room(&meta) && first.segs == 1;
            if let Some(flow) = flow.filter(|_| full) {
                self.displace(slot, flow, sink);
                self.line_mut(slot).make_room(&meta, train);
            }
        }
        if flow.is_some() {
            self.look_at_flows(slot);
        }
        let queued = self.try_enqueue(now, slot, packet);
        if slot == Slot::EARLY {
            self.look_beside();
        }
        if slot.is_token() {
            // What was lent was for this one.
            self.line_mut(slot).set_room();
        }
        match queued {
            Ok(()) => {
                if let Some(flow) = flow {
                    let came = self.line_mut(slot).passed()[0];
                    if let Some(Beside { recent, .. }) = self.beside.get_mut(slot.priority()) {
                        recent.queued(flow, if train { meta.segs } else { 1 }, came);
                    }
                }
                Enqueue::Queued
            }
            Err(packet) => {
                self.line_mut(slot).aside.refused_full(&meta);
                if slot.is_data() {
                    self.markers.asks();
                }
                sink.dropped(packet, slot.band(), DropCause::OverLimit);
                Enqueue::Dropped
            }
        }
    }

    /// Whose the tokens are that were queued since that was noted last.
    fn look_at_flows(&mut self, slot: Slot) {
        let ethernet = self.markers.ethernet();
        let line = &mut self.lines[slot.index()];
        let [came, went] = line.passed();
        let Some(Beside { recent, .. }) = self.beside.get_mut(slot.priority()) else {
            return;
        };
        if !recent.is_current(came) {
            let mut seen = [0; flows::LOOKS];
            let looked = line.queue.flows(ethernet, &mut seen);
            let queued = seen.get(..looked).unwrap_or(&[]);
            recent.look(queued, came.wrapping_sub(went), came);
        }
    }

    /// A token of a [flow](flows) arrives at a full queue: one of another may have to go for it.
    /// Nothing is [fresh](Port::try_enqueue_fresh).
    fn displace(&mut self, slot: Slot, flow: flows::Flow, sink: &mut impl Sink<Q::Packet>) {
        self.look_at_flows(slot);
        let ethernet = self.markers.ethernet();
        let line = &mut self.lines[slot.index()];
        let Some(Beside { recent, .. }) = self.beside.get_mut(slot.priority()) else {
            return;
        };
        let mut seen = [0; flows::LOOKS];
        let looked = line.queue.flows(ethernet, &mut seen);
        let queued = seen.get(..looked).unwrap_or(&[]);
        let Some(place) = recent.displaced(queued, flow) else {
            return;
        };
        let whose = queued.get(place).copied().unwrap_or(0);
        if let Some(packet) = line.displace(place) {
            recent.gone(whose, line.passed()[0]);
            if line.queue.is_empty() {
                self.backlogged.clear(slot.bit());
            }
            sink.dropped(packet, slot.band(), DropCause::Displaced);
        }
    }

    /// A packet goes into the data band's child instead of the port's own queue.
    #[inline]
    pub fn child_offered(&mut self, meta: Meta) {
        self.line_mut(Slot::DATA).aside.child_offered(&meta);
    }

    /// The child did not take it.
    #[inline]
    pub fn child_refused(&mut self, meta: Meta) {
        self.line_mut(Slot::DATA).aside.child_refused(&meta);
    }

    #[inline]
    fn line_mut(&mut self, slot: Slot) -> &mut Line<Q> {
        &mut self.lines[slot.index()]
    }

    /// The counters of a band; they stay when the port loses the band.
    pub fn stats(&self, band: Band) -> BandStats {
        let stats = self.lines[Slot::new(band).index()].stats();
        match band {
            Band::Data => stats.and(&self.lines[Slot::EARLY.index()].stats()),
            _ => stats,
        }
    }

    /// The counters of the port.
    pub fn port_stats(&self) -> &PortStats {
        &self.stats
    }

    /// The markers of the data band.
    pub fn markers(&self) -> &Markers {
        &self.markers
    }

    /// The configuration in force.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it comes to.
    #[inline]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Whether nothing is in the port's own queues; a child may have packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.backlogged.known().any()
    }

    /// What is in a band's own queue.
    pub fn queued(&self, band: Band) -> Queued {
        let mut queued = self.lines[Slot::new(band).index()].queued();
        if band == Band::Data {
            queued = queued.plus(self.lines[Slot::EARLY.index()].queued());
        }
        let Amount { packets, bytes } = queued;
        Queued { packets, bytes }
    }

    /// How packets are framed.
    #[inline]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// What [`classify_fast`](crate::port::classify::classify_fast) wants to know.
    #[inline]
    pub fn reading(&self) -> Reading {
        self.reading
    }
}

/// Above the highest minor number of a class.
const MINORS: usize = Band::LAST_MINOR as usize + 1;
const NO_SLOT: u8 = u8::MAX;
