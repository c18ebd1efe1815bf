// SPDX-License-Identifier: GPL-2.0
//! The qdisc kind `turnstile`: classify, split, queue, release.

mod counting;
mod serving;
mod together;

use crate::{
    classes::Classes,
    filters::{self, FilterEvents, Filtered},
    group::Membership,
    options::{self, refuse},
    packet::{OnChange, OnEnqueue, OnReset, PortPacket, PortQueue},
    pauses::{Counts, Ear, Link},
    report,
};
use kernel::prelude::*;
use knet::{
    attr::Nest, Arriving, Child, Configuring, Context, Dequeued, Dequeuing, DropReason, Enqueued,
    Enqueuing, Extack, HeaderBuffer, Leaving, Locked, Medium, Message, Qdisc, Resetting, Skb,
    Stats,
};
use turnstile_core::{
    options::limits,
    port::band::Band,
    port::classify::{beyond, bridges_keep, classify, classify_fast, data_slot},
    port::config::{Config, Resolved},
    port::cut::Cut,
    port::uapi,
    port::{leave, Enqueue, Exit, Port, Slot},
    queue::Meta,
    units::Nanos,
};

/// Events that belong to no class.
#[derive(Default)]
pub(crate) struct PortEvents {
    pub(crate) filters: FilterEvents,
    pub(crate) gso_splits: u64,
    pub(crate) gso_pieces: u64,
    pub(crate) gso_drops: u64,
}

/// The place of the data class's child, the only one.
pub(crate) const CHILD: usize = 0;

/// Where data goes that arrives, if not simply into the port's own queue.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Apart {
    No,
    /// To the data class's child qdisc.
    Child,
    /// Into the queue, and on the books of whom it came from: `counting`.
    Counted,
}

/// A port: one instance of the qdisc.
pub(crate) struct TurnstilePort {
    pub(crate) port: Port<PortQueue>,
    /// Data has a way of its own. One byte, since each packet of data asks for it.
    apart: Apart,
    /// Whether the child may hold super-packets, which are one each to it.
    pub(crate) child_holds_whole: bool,
    pub(crate) events: PortEvents,
    /// Of a port that pauses others: bytes of data that wait and are charged to nobody.
    own: u64,
    /// The packet that a parent has looked at. The port counts it as sent, until it is too old.
    pub(crate) peeked: Option<(Band, Meta)>,
    /// What the device last said of its speed, in bytes/s. A link that is down says nothing.
    speed: Option<u64>,
    /// Of one of several: the others.
    pub(crate) membership: Option<Membership>,
}

/// A token that names its class touches so many cache lines of ours, those of `struct Qdisc`
/// included, from its arrival until it has left: 6; by its header one more, in which is whether
/// there are filters. That is no more than 7, also if the token is queued behind others: then its
/// wait is counted, but nobody has to know what the driver does. With lockdep the locks in
/// `struct Qdisc` are larger, and there are more.
#[cfg(not(CONFIG_DEBUG_LOCK_ALLOC))]
const _: () = {
    use core::mem::offset_of;
    use turnstile_core::port::layout::{lines_of, CACHE_LINE};
    let [_, queued @ ..] = knet::FAST_PATH_FIELDS;
    let filters = 1;
    assert!(Port::<PortQueue>::TOKEN_LINES + lines_of(&knet::FAST_PATH_FIELDS) + filters <= 7);
    assert!(Port::<PortQueue>::LATE_TOKEN_LINES + lines_of(&queued) + filters <= 7);
    assert!(offset_of!(TurnstilePort, port) % CACHE_LINE == 0);
};

pub(crate) fn now() -> Nanos {
    Nanos(knet::now())
}

fn check(config: &Config, speed: Option<u64>, extack: &mut Extack) -> Result<Resolved> {
    config
        .validate(speed)
        .map_err(|refusal| refuse::<Config>(extack, refusal))
}

/// Changes `config` as the request says, and `resolved` to what it comes to. A function of its own,
/// which gives nothing back, for the sake of its caller's stack.
#[inline(never)]
fn apply(
    (config, resolved): (&mut Config, &mut Resolved),
    nest: Option<Nest<'_>>,
    speed: Option<u64>,
    extack: &mut Extack,
) -> Result {
    if let Some(nest) = nest {
        take(config, nest, extack)?;
    }
    *resolved = check(config, speed, extack)?;
    Ok(())
}

/// Changes `config` as the request says.
#[inline(never)]
fn take(config: &mut Config, nest: Nest<'_>, extack: &mut Extack) -> Result {
    let before = config.groups();
    let given = options::apply(config, nest, extack)?;
    config
        .settle(before, given)
        .map_err(|refusal| refuse::<Config>(extack, refusal))
}

/// What a port is made of, in memory of its own: it would be much for a stack.
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) resolved: Resolved,
}

impl Plan {
    #[inline(never)]
    pub(crate) fn new() -> Result<KBox<Self>> {
        let plan = Self {
            config: Config::DEFAULT,
            resolved: Resolved::EMPTY,
        };
        Ok(KBox::new(plan, GFP_KERNEL)?)
    }
}

impl TurnstilePort {
    /// What the device last said of its speed, in bytes/s.
    pub(crate) fn speed(&self) -> Option<u64> {
        self.speed
    }

    /// Where the packet goes if that is easily said. In this order: `skb->priority` that names one
    /// of our classes (as prio and htb take it), filters, headers.
    #[inline]
    fn fast_slot(&self, skb: &Skb, sch: Context<'_, Self>) -> Option<Slot> {
        let priority = skb.priority();
        if priority > NO_CLASS {
            return match sch.handle() {
                0 => None,
                // The minor number, if the major number is ours; above all minor numbers otherwise.
                handle => self.port.class_slot(priority ^ handle),
            };
        }
        if sch.has_filters() || sch.medium() != Medium::Ethernet {
            return None;
        }
        let minor = classify_fast(skb.linear(), self.port.reading(), &self.port.config().dscp)?;
        Some(self.port.class_slot(minor.into()).unwrap_or(Slot::DATA))
    }

    /// How many bytes the packet takes on the wire.
    #[inline]
    fn wire_len(&self, skb: &Skb) -> u32 {
        self.port
            .framing()
            .wire_len(skb.packet_len(), skb.segments())
    }

    /// Leaves the filters' verdict and the long way through the headers behind. What headers say
    /// is a token may stand for so many beyond one. `None`: the packet is gone.
    #[inline(never)]
    fn classify_slow(skb: Skb, on: &mut Enqueuing<'_, Self>) -> Option<(Skb, Slot, u8)> {
        if let Some(slot) = on.qdisc().0.named_by_group(&skb) {
            return Some((skb, slot, 0));
        }
        let (skb, named) = filters::ask(skb, on)?;
        let medium = on.context().medium();
        let (this, _) = on.qdisc();
        if let Some(minor) = named {
            match this.port.class_slot(minor) {
                Some(slot) => return Some((skb, slot, 0)),
                None => this.events.filters.miss(),
            }
        }
        let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
        let headers = skb.headers(medium, &mut buffer);
        let band = classify(
            headers.protocol,
            headers.bytes,
            headers.destination,
            this.port.config(),
        );
        let (slot, beyond) = match this.port.slot(band) {
            Slot::DATA => (data_slot(headers.protocol, headers.bytes), 0),
            slot if slot.is_token() => (slot, beyond(headers.protocol, headers.bytes)),
            slot => (slot, 0),
        };
        Some((skb, slot, beyond))
    }

    /// [`TurnstilePort::place_here`] for who is there in other ways, too.
    #[inline(never)]
    fn place(skb: Skb, slot: Slot, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        Self::place_here(skb, slot, came, on);
    }

    /// Deals with one packet, which may be a super-packet that is not split, or one of several
    /// that came at this time.
    #[inline(always)]
    fn place_here(skb: Skb, slot: Slot, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        if slot == Slot::DATA {
            match on.qdisc().0.apart {
                Apart::No => {}
                Apart::Child => return Self::give(skb, on),
                Apart::Counted => return Self::put_counted(skb, slot, came, on),
            }
        } else if slot == Slot::UNPAID {
            return Self::place_signal(skb, came, on);
        } else if matches!(slot, Slot::UNASKED | Slot::UNASKED_LONG | Slot::SHORT) {
            return Self::place_early(skb, slot, came, on);
        } else if slot.is_token() && on.context().is_told() {
            Self::give_way(slot, came, on);
        }
        Self::put(skb, slot, came, on);
    }

    /// [`TurnstilePort::place`] for data that may go before other data. Of what no token asked for
    /// others are told.
    #[inline(never)]
    fn place_early(skb: Skb, slot: Slot, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        if slot != Slot::SHORT {
            let wire_len = on.qdisc().0.wire_len(&skb);
            on.context().tell(&skb, wire_len);
        }
        match on.qdisc().0.apart {
            Apart::Child => Self::give(skb, on),
            Apart::No => Self::put(skb, slot, came, on),
            Apart::Counted => Self::put_counted(skb, slot, came, on),
        }
    }

    /// A token comes: what came in that nobody asked for has its time first.
    #[inline(never)]
    fn give_way(slot: Slot, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        let at = came.unwrap_or_else(now);
        on.told(|this, owed| this.put_off(at, owed, slot));
    }

    /// [`TurnstilePort::place`] for a signal, which may be beyond the signals' share.
    #[inline(never)]
    fn place_signal(skb: Skb, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        let medium = on.context().medium();
        let (this, _) = on.qdisc();
        let meta = Meta {
            len: skb.packet_len(),
            wire_len: this.wire_len(&skb),
            segs: skb.segments(),
            ..Meta::default()
        };
        on.context().tell(&skb, meta.wire_len);
        let (this, _) = on.qdisc();
        let at = came.unwrap_or_else(now);
        let slot = this.pay(at, &meta, || is_kept(&skb, medium));
        match this.apart {
            Apart::Child if slot != Slot::SIGNAL => Self::give(skb, on),
            Apart::Counted if slot != Slot::SIGNAL => Self::put_counted(skb, slot, came, on),
            _ => Self::put(skb, slot, came, on),
        }
    }

    /// Puts a packet into one of the port's own queues.
    #[inline(always)]
    fn put(skb: Skb, slot: Slot, came: Option<Nanos>, on: &mut Enqueuing<'_, Self>) {
        let sch = on.context();
        let (this, report) = on.qdisc();
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, this.port.framing());
        let now = came.unwrap_or_else(now);
        let left = if came.is_none() && sch.asked_at_once() {
            this.port.try_enqueue_fresh(now, slot, packet)
        } else {
            Err(packet)
        };
        let queued = match left {
            Ok(()) => Enqueue::Queued,
            Err(packet) => this
                .port
                .enqueue_at(now, slot, packet, &mut OnEnqueue(report)),
        };
        if queued == Enqueue::Queued {
            report.queued(len);
        }
    }

    /// Puts a token into its queue that stands for `beyond` tokens more than one.
    #[inline(never)]
    fn place_train(skb: Skb, slot: Slot, beyond: u8, on: &mut Enqueuing<'_, Self>) {
        if on.context().is_told() {
            Self::give_way(slot, None, on);
        }
        let (this, report) = on.qdisc();
        let len = skb.packet_len();
        let packet = PortPacket::train(skb, this.port.framing(), beyond.saturating_add(1));
        let queued = this
            .port
            .enqueue_train(now(), slot, packet, &mut OnEnqueue(report));
        if queued == Enqueue::Queued {
            report.queued(len);
        }
    }

    /// Hands a packet to the data class's child.
    #[inline(never)]
    fn give(skb: Skb, on: &mut Enqueuing<'_, Self>) {
        // How long it is on the wire is worked out when it comes out: the child uses the packet's
        // private bytes.
        let meta = Meta {
            len: skb.packet_len(),
            segs: skb.segments(),
            ..Meta::default()
        };
        let child = on.context().child(CHILD);
        let (this, _) = on.qdisc();
        let whole = meta.segs > 1;
        if whole || this.child_holds_whole {
            let holds = child.is_some_and(|child| child.queued() != 0);
            this.child_holds_whole = whole || holds;
        }
        this.port.child_offered(meta);
        if !on.give(skb, CHILD) {
            on.qdisc().0.port.child_refused(meta);
        }
    }

    /// [`Qdisc::enqueue_slow`] for all but what a child takes as it is.
    #[inline(never)]
    fn arrange(skb: Skb, known: Option<Slot>, on: &mut Enqueuing<'_, Self>) {
        let (skb, slot, beyond) = match known {
            Some(slot) => (skb, slot, 0),
            None => match Self::classify_slow(skb, on) {
                Some(place) => place,
                None => return,
            },
        };
        if skb.segments() > 1 {
            Self::place_super(skb, slot, on);
        } else if beyond != 0 {
            Self::place_train(skb, slot, beyond, on);
        } else {
            Self::place_here(skb, slot, None, on);
        }
    }

    /// Deals with a super-packet: whole, in pieces, or packet by packet.
    #[inline(never)]
    fn place_super(skb: Skb, slot: Slot, on: &mut Enqueuing<'_, Self>) {
        let (this, _) = on.qdisc();
        let meta = Meta {
            len: skb.packet_len(),
            wire_len: this.wire_len(&skb),
            segs: skb.segments(),
            ..Meta::default()
        };
        match this.port.cut(slot, &meta, || skb.segment_len()) {
            Cut::Whole => Self::place(skb, slot, None, on),
            Cut::Pieces(segments) => Self::place_pieces(skb, segments, slot, on),
            Cut::Single => Self::split(skb, slot, on),
        }
    }

    /// Deals with each of a super-packet's pieces, of so many segments.
    #[inline(never)]
    fn place_pieces(skb: Skb, segments: u32, slot: Slot, on: &mut Enqueuing<'_, Self>) {
        match on.cut(skb, segments) {
            Ok(mut list) => {
                let now = now();
                let mut pieces = 0;
                while let Some(piece) = list.pop() {
                    pieces = u64::wrapping_add(pieces, 1);
                    Self::place(piece, slot, Some(now), on);
                }
                let (this, _) = on.qdisc();
                this.events.gso_splits = this.events.gso_splits.wrapping_add(1);
                this.events.gso_pieces = this.events.gso_pieces.wrapping_add(pieces);
            }
            // Its headers are not what they claim, or there is no memory.
            Err(skb) => Self::split(skb, slot, on),
        }
    }

    /// Deals with each of a super-packet's segments.
    #[inline(never)]
    fn split(skb: Skb, slot: Slot, on: &mut Enqueuing<'_, Self>) {
        let segments = skb.segments();
        match on.split(skb) {
            Ok(mut list) => {
                let (this, _) = on.qdisc();
                this.events.gso_splits = this.events.gso_splits.wrapping_add(1);
                // They came at one time, as one.
                let now = now();
                while let Some(segment) = list.pop() {
                    Self::place(segment, slot, Some(now), on);
                }
            }
            Err(skb) => {
                let (this, report) = on.qdisc();
                this.events.gso_drops = this.events.gso_drops.wrapping_add(segments.into());
                report.refuse(skb, DropReason::Generic);
            }
        }
    }
}

/// `skb->priority` above this names a class of some qdisc; below, it is the packet's importance.
const NO_CLASS: u32 = 0xffff;

/// Whether bridges keep the packet to themselves.
#[inline(never)]
fn is_kept(skb: &Skb, medium: Medium) -> bool {
    let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
    let headers = skb.headers(medium, &mut buffer);
    headers.destination.is_some_and(bridges_keep)
}

/// How many packets the child holds.
#[inline]
fn child_holds(sch: Context<'_, TurnstilePort>) -> u64 {
    sch.child(CHILD).map_or(0, |child| child.queued().into())
}

impl Exit<PortQueue> for Leaving<'_, TurnstilePort> {
    type Answer = Dequeued;

    #[inline(always)]
    fn port(&mut self) -> &mut Port<PortQueue> {
        &mut self.qdisc().port
    }

    #[inline(always)]
    fn child_holds(&mut self) -> bool {
        child_holds(self.context()) != 0
    }

    #[inline(always)]
    fn now(&mut self) -> Nanos {
        now()
    }

    #[inline(always)]
    fn empty(self) -> Dequeued {
        Leaving::empty(self)
    }

    #[inline(always)]
    fn packet(self, packet: PortPacket, _slot: Slot, meta: &Meta) -> Dequeued {
        self.with(packet.0, meta.len)
    }

    #[inline(always)]
    fn train(self, packet: PortPacket, _slot: Slot, meta: &Meta) -> Dequeued {
        self.with(packet.alone(), meta.len)
    }

    #[inline(always)]
    fn slow(self, now: Option<Nanos>) -> Dequeued {
        Leaving::slow(self, now)
    }
}

impl Filtered for TurnstilePort {
    fn filter_events(&mut self) -> &mut FilterEvents {
        &mut self.events.filters
    }
}

#[vtable]
impl Qdisc for TurnstilePort {
    const KIND: &'static str = uapi::KIND;
    const WATCH_LINK: bool = true;
    const IS_TOLD: bool = true;
    const CLASSES_ARE_FIXED: &'static str =
        "the port makes its classes; see priorities and unscheduled";

    const CHILDREN: usize = 1;

    type Shared = Classes;
    type Listener = Ear;

    fn new<'a>(
        on: &'a mut Configuring<'_, Self>,
        nest: Option<Nest<'a>>,
        extack: &'a mut Extack,
    ) -> Result<impl Init<Self, Error>> {
        let device = on.device();
        let ethernet = device.medium() == Medium::Ethernet;
        let speed = device.speed();
        let mut plan = Plan::new()?;
        let Plan { config, resolved } = &mut *plan;
        let limit = u64::from(device.queue_bytes());
        config.data_limit = limit.clamp(limits::QUEUE.min, limits::QUEUE.max) as u32;
        apply((config, resolved), nest, speed, extack)?;
        let apart = counting::apart(config, false);
        let link = Link::of(&device);
        counting::begin(on, config, resolved, (link, false), extack)?;
        on.shared().set(config);
        Ok(try_init!(Self {
            port: Port::EMPTY,
            apart,
            child_holds_whole: false,
            peeked: None,
            events: PortEvents::default(),
            own: 0,
            speed,
            membership: None,
        }? Error)
        .chain(move |this| {
            this.port.begin(&plan.config, &plan.resolved, now());
            this.port.set_ethernet(ethernet);
            Ok(())
        }))
    }

    fn change(
        on: &mut Configuring<'_, Self>,
        nest: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result {
        let Some(nest) = nest else {
            return Ok(());
        };
        let device = on.device();
        let (speed, link) = (device.speed(), Link::of(&device));
        // RTNL is held: nobody else changes the configuration between here and the second lock.
        let mut plan = Plan::new()?;
        let Plan { config, resolved } = &mut *plan;
        let Some((speed, grafted, together)) = on.lock(|this, _| {
            *config = *this.port.config();
            let together = this.membership.is_some();
            (speed.or(this.speed), this.apart == Apart::Child, together)
        }) else {
            return Err(EINVAL);
        };
        if together {
            let what = "is one of turnstile_mq's, at the root: change that";
            return Err(refuse::<Config>(extack, what));
        }
        apply((config, resolved), Some(nest), speed, extack)?;
        if let Some(minor) = on.shared().bound_but_gone(config) {
            return Err(refuse::<Config>(
                extack,
                format_args!("class :{minor:x} would go, but filters name it"),
            ));
        }
        counting::begin(on, config, resolved, (link, grafted), extack)?;
        let tally = counting::tally(on, config)?;
        on.lock(|this, on| {
            let owes = on.listener(|ear| ear.set(config, resolved, link, tally));
            if config.generates() && !this.port.generates() {
                this.own = this.port.data_bytes();
            }
            this.apart = counting::apart(config, grafted);
            this.port.change(config, resolved, now(), &mut OnChange(on));
            // The end of a pause.
            this.port.owes(owes == Some(true));
            this.speed = speed;
            let sch = on.context();
            sch.shared().set(config);
            // What waited for the old rate's time may be due by the new one.
            sch.wake_at(now().0);
        });
        if config.pfc.is_none() {
            on.listen_no_more();
        }
        Ok(())
    }

    fn link_changed(on: &mut Configuring<'_, Self>) {
        let device = on.device();
        let link = Link::of(&device);
        let ethernet = link.ethernet;
        let speed = device.speed();
        on.lock(|this, on| {
            this.speed = speed.or(this.speed);
            this.port.set_ethernet(ethernet);
            this.port.note_link_speed(now(), speed);
            this.share_speed();
            on.listener(|ear| ear.set(this.port.config(), this.port.resolved(), link, None));
            on.context().wake_at(now().0);
        });
    }

    /// Where the packet goes, if that is known.
    type EnqueueHint = Option<Slot>;
    /// When it was asked for, if the clock was read.
    type DequeueHint = Option<Nanos>;

    #[inline(always)]
    fn enqueue(skb: Skb, mut arriving: Arriving<'_, Self>) -> Enqueued {
        let (this, sch) = arriving.qdisc();
        let Some(mut slot) = this.fast_slot(&skb, sch) else {
            return arriving.slow(skb, None);
        };
        if !slot.is_token() {
            if slot == Slot::DATA {
                if this.apart != Apart::No {
                    return arriving.slow(skb, Some(slot));
                }
            } else if slot == Slot::UNPAID {
                let wire_len = this.port.framing().wire_len(skb.packet_len(), 1);
                // The segments of a super-packet are charged one by one. And of what is passed on
                // others are told.
                if skb.segments() != 1 || skb.came_in() || !this.port.try_pay(wire_len) {
                    return arriving.slow(skb, Some(slot));
                }
                slot = Slot::SIGNAL;
            }
            if this.port.needs_no_clock(slot) && sch.asked_at_once() && skb.segments() == 1 {
                let len = skb.packet_len();
                let packet = PortPacket::new(skb, this.port.framing());
                return match this
                    .port
                    .try_enqueue_fresh(Port::<PortQueue>::NO_TIME, slot, packet)
                {
                    Ok(()) => arriving.queued(len),
                    Err(packet) => arriving.slow(packet.0, Some(slot)),
                };
            }
        } else if sch.is_told() {
            // What came in that nobody asked for has its time first.
            return arriving.slow(skb, Some(slot));
        }
        // The clock before all that is read of the packet, so that it is read once.
        let now = now();
        if skb.segments() > 1 {
            return arriving.slow(skb, Some(slot));
        }
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, this.port.framing());
        let queued = if sch.asked_at_once() {
            this.port.try_enqueue_fresh(now, slot, packet)
        } else {
            this.port.try_enqueue(now, slot, packet)
        };
        match queued {
            Ok(()) => arriving.queued(len),
            Err(packet) => arriving.slow(packet.0, Some(slot)),
        }
    }

    #[inline(always)]
    fn enqueue_slow(skb: Skb, known: Option<Slot>, on: &mut Enqueuing<'_, Self>) {
        // What a child takes needs nothing of the rest.
        let child = |on: &mut Enqueuing<'_, Self>| on.qdisc().0.apart == Apart::Child;
        if known == Some(Slot::DATA) && skb.segments() == 1 && child(on) {
            return Self::give(skb, on);
        }
        Self::arrange(skb, known, on);
    }

    #[inline(always)]
    fn dequeue(leaving: Leaving<'_, Self>) -> Dequeued {
        leave(leaving)
    }

    fn dequeue_slow(now: Option<Nanos>, on: &mut Dequeuing<'_, Self>) -> Option<Skb> {
        let child = child_holds(on.context());
        let (this, _) = on.qdisc();
        let now = match now {
            Some(now) => now,
            None if this.port.rests(child != 0) => return None,
            None => crate::port::now(),
        };
        if this.port.obeys() {
            return Self::serve_unheld(now, child, on);
        }
        if this.port.is_member() {
            return Self::serve_together(now, on);
        }
        Self::serve::<false>(now, child, on)
    }

    fn peek(leaving: Leaving<'_, Self>) -> Dequeued {
        leaving.slow(None)
    }

    fn peeked_expired(&mut self) -> bool {
        let Some((band, meta)) = self.peeked else {
            return false;
        };
        let expired = self.port.recall(now(), band, &meta);
        if expired {
            self.peeked = None;
        }
        expired
    }

    fn peeked_left(&mut self) {
        self.peeked = None;
    }

    fn reset(&mut self, on: &mut Resetting<'_, Self>) {
        if let Some((band, meta)) = self.peeked.take() {
            self.port.purge_recalled(band, &meta);
        }
        self.port.reset(&mut OnReset(on));
        self.reset_shared();
    }

    fn dump(&mut self, message: &mut Message) -> Result {
        options::dump(self.port.config(), message)
    }

    fn dump_stats(&mut self, _on: &mut Locked<'_, Self>, stats: &mut Stats) -> Result {
        report::port(self, stats)
    }

    fn find_class(classes: &Classes, minor: u16) -> bool {
        classes.contains(minor)
    }

    fn next_class(classes: &Classes, after: u16) -> Option<u16> {
        classes.next(after)
    }

    fn class_bound(classes: &Classes, minor: u16, bound: bool) {
        classes.bind(minor, bound);
    }

    fn child_place(minor: u16, extack: &mut Extack) -> Result<usize> {
        if minor == u16::from(uapi::class::DATA) {
            return Ok(CHILD);
        }
        Err(extack.refuse(
            knet::eopnotsupp(),
            format_args!(
                "{}: class :{minor:x} takes no child qdisc, only the data class :2 does",
                uapi::KIND
            ),
        ))
    }

    fn may_graft(classes: &Classes, minor: u16, extack: &mut Extack) -> Result {
        if !classes.are_lossless() {
            return Ok(());
        }
        Err(refuse::<Config>(
            extack,
            format_args!("class :{minor:x} takes no child with pfc xoff: it may drop packets"),
        ))
    }

    fn grafted(&mut self, _place: usize, child: Option<Child<'_>>) {
        self.apart = counting::apart(self.port.config(), child.is_some());
        self.port.set_grafted(child.is_some());
    }

    fn dump_class(&mut self, minor: u16, message: &mut Message) -> Result {
        message.u32(uapi::CLASS_BAND, minor.into())
    }

    fn dump_class_stats(
        &mut self,
        minor: u16,
        on: &mut Locked<'_, Self>,
        stats: &mut Stats,
    ) -> Result {
        let now = now();
        // They are large, and not copied.
        let mut counts = Counts::default();
        let heard = on.listener(|ear| {
            ear.count(now, &mut counts);
            ear.heard_of_data(now)
        });
        if let Some(heard) = &heard {
            // Markers may not have heard yet: nothing has left since.
            self.port.obey(now, heard);
        }
        let child = on.context().child(CHILD);
        let pauses = heard.is_some().then_some(&counts);
        report::class(self, child, minor, pauses, stats)
    }
}
