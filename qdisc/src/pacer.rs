// SPDX-License-Identifier: GPL-2.0
//! The qdisc kind `turnstile_pacer`: HULL's host pacer.
//!
//! It is a second kind in the port's module, because it is made of the same things: `knet`'s qdiscs
//! and the port's packets and queues. A module of its own would be another copy of both.
//!
//! # How the host learns of ECN-Echo
//!
//! HULL's pacer sits at the network card and sees the acknowledgements come in (section 4.2: "for
//! each ACK with the ECN-Echo bit set"). A Linux qdisc sees only what goes out. Of three ways to
//! know, this is the one that does what the paper says:
//!
//! - *Listening to what the device receives* ([`Listener`], a packet handler as packet sockets have
//!   it): each ACK is seen, one draw for each, and no state is kept for flows that are not
//!   associated. It works for local sockets, containers, guests and forwarded flows alike, and TCP
//!   is left as it is. It takes a look at the headers of each packet that comes in. It must be the
//!   same device: with ACKs that come by another one nothing is paced.
//! - *CWR in what goes out* would need no listening, but Linux sets it in one segment per window,
//!   and only when the window is cut (`tcp_ecn_queue_cwr`): with DCTCP, which has many ACKs with
//!   ECN-Echo in a window, p_a would mean something else.
//! - *The socket's own count* (`tcp_sock.delivered_ce`, by way of `skb->sk`) is exact, but in
//!   acknowledged segments instead of ACKs; to see that it has grown, something must be remembered
//!   of each flow that is not associated, without bound; and there is no socket for what is
//!   forwarded.
//!
//! # Above TSO
//!
//! The paper's pacer is below segmentation offload, and captures "the packets of the large flows
//! after segmentation" (section 2.3). So super-packets of paced flows are split here, and their
//! segments are paced one by one; one that was kept whole would leave the card as the burst that
//! the pacer is there to prevent. What passes by stays whole, so that only flows which meet
//! congestion cost the CPU anything. With `no-split-gso` super-packets are kept whole: each waits
//! until the bucket is full, and takes as many tokens as it has bytes on the wire.
//!
//! # Beside a port
//!
//! As a port's child it hangs below the data class (`parent 1:2`), and paces the port's data; as a
//! port's parent it has the port below what passes by (class `:1`), and paced packets go beside the
//! port. Filters may say which packets to pace (class `:2`) and which not (`:1`), whatever the
//! table says.

use crate::filters::{self, FilterEvents, Filtered};
use crate::options::{self, refuse};
use crate::packet::{PortPacket, PortQueue};
use kernel::{alloc::KVVec, prelude::*};
use knet::{
    attr::Nest, Arriving, Child, Configuring, Context, Dequeued, Dequeuing, DropReason, Enqueued,
    Enqueuing, Extack, HeaderBuffer, Heard, Leaving, Listener, Locked, Medium, Message, Qdisc,
    Resetting, Skb, Stats,
};
use turnstile_core::{
    options::limits,
    pacer::uapi::{class, KIND},
    pacer::{
        config::Config,
        flows::{Flows, Slot, Slots},
        key::{self, FlowKey},
        HostPacer, Lane, Next,
    },
    queue::{Framing, Packet},
    units::Nanos,
};

mod report;

fn now() -> Nanos {
    Nanos(knet::now())
}

/// Changes `config` as the request says.
fn apply(config: &mut Config, nest: Option<Nest<'_>>, extack: &mut Extack) -> Result {
    if let Some(nest) = nest {
        options::apply(config, nest, extack)?;
    }
    let checked = config.validate();
    checked.map_err(|refusal| refuse::<Config>(extack, refusal))
}

/// Memory for the flow association table.
pub(crate) struct Memory(KVVec<Slot>);

impl Memory {
    fn new(flows: u32) -> Result<Self> {
        let mut slots = KVVec::with_capacity(flows as usize, GFP_KERNEL)?;
        for _ in 0..flows {
            slots
                .push_within_capacity(Slot::EMPTY)
                .map_err(|_| ENOMEM)?;
        }
        Ok(Memory(slots))
    }
}

impl Slots for Memory {
    #[inline]
    fn slots(&self) -> &[Slot] {
        &self.0
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.0
    }
}

/// The table, and how flows come into it.
pub(crate) struct Associations(pub(crate) Flows<Memory>);

impl Listener for Associations {
    type News = FlowKey;

    #[inline]
    fn sift(packet: &Heard<'_>) -> Option<FlowKey> {
        let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
        let (protocol, network) = packet.network(&mut buffer);
        let segment = key::segment(protocol, network)?;
        segment.echo.then(|| segment.flow.reversed())
    }

    fn heard(&mut self, flow: FlowKey) -> bool {
        self.0.echo(now(), &flow);
        false
    }
}

/// Events that belong to no lane.
#[derive(Default)]
pub(crate) struct Events {
    filters: FilterEvents,
    gso_splits: u64,
}

/// The place of the child that takes what passes by, the only one.
const CHILD: usize = 0;

/// A pacer: one instance of the qdisc.
pub(crate) struct TurnstilePacer {
    pacer: HostPacer<PortQueue>,
    /// There is a child, which takes what passes by.
    grafted: bool,
    /// Whether the child may hold super-packets, which are one each to it.
    child_holds_whole: bool,
    events: Events,
}

/// What is known of a packet that is not just queued.
pub(crate) enum Hint {
    /// Nothing: filters have to be asked.
    Unknown,
    /// Its way.
    Goes(Lane),
    /// There is no room for it.
    NoRoom,
}

impl TurnstilePacer {
    fn framing(&self) -> Framing {
        let config = self.pacer.config();
        Framing::new(config.overhead, config.mpu)
    }

    /// Counts the packet as one that the host sends.
    #[inline]
    fn count(&mut self, now: Nanos, skb: &Skb) {
        let wire = self.framing().wire_len(skb.packet_len(), skb.segments());
        self.pacer.arrive(now, wire);
    }

    /// Leaves the filters' verdict behind. `None`: the packet is gone.
    fn classify(skb: Skb, on: &mut Enqueuing<'_, Self>) -> Option<(Skb, Lane)> {
        let (skb, named) = filters::ask(skb, on)?;
        let medium = on.context().medium();
        let (this, _) = on.qdisc();
        let now = now();
        this.count(now, &skb);
        let lane = match named {
            Some(1) => Lane::Pass,
            Some(2) => Lane::Paced,
            _ => {
                if named.is_some() {
                    this.events.filters.miss();
                }
                let since = this.pacer.waiting_since(now);
                lane(flow(&skb, medium), |flow| {
                    on.listener(|flows| flows.0.lookup(now, flow, since))
                })
            }
        };
        Some((skb, lane))
    }

    /// Puts the packet where it goes.
    fn place(skb: Skb, lane: Lane, on: &mut Enqueuing<'_, Self>) {
        let child = on.context().child(CHILD);
        let (this, report) = on.qdisc();
        if let (Lane::Pass, Some(child)) = (lane, child) {
            let (len, segs) = (skb.packet_len(), skb.segments());
            let whole = segs > 1;
            if whole || this.child_holds_whole {
                this.child_holds_whole = whole || child.queued() != 0;
            }
            this.pacer.child_offered(len, segs);
            // If it does not take the packet, that is seen from what it holds.
            on.give(skb, CHILD);
            return;
        }
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, this.framing());
        match this.pacer.enqueue(now(), lane, packet) {
            Ok(()) => report.queued(len),
            Err(packet) => report.refuse(packet.0, DropReason::OverLimit),
        }
    }

    /// Is it a super-packet that is to be paced as the packets that it stands for?
    #[inline]
    fn splits(&self, skb: &Skb, lane: Lane) -> bool {
        lane == Lane::Paced && skb.segments() > 1 && self.pacer.config().split_gso
    }
}

/// Has the child packets?
#[inline]
fn child_holds(sch: Context<'_, TurnstilePacer>) -> bool {
    sch.child(CHILD).is_some_and(|child| child.queued() != 0)
}

/// The packet's flow, if it is of one that may be paced.
#[inline]
fn flow(skb: &Skb, medium: Medium) -> Option<FlowKey> {
    let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
    let headers = skb.headers(medium, &mut buffer);
    key::segment(headers.protocol, headers.bytes).map(|segment| segment.flow)
}

/// Which way a packet of this flow goes. `paced`: is the flow in the table?
#[inline]
fn lane(flow: Option<FlowKey>, paced: impl FnOnce(&FlowKey) -> Option<bool>) -> Lane {
    match flow {
        Some(flow) if paced(&flow) == Some(true) => Lane::Paced,
        _ => Lane::Pass,
    }
}

impl Filtered for TurnstilePacer {
    fn filter_events(&mut self) -> &mut FilterEvents {
        &mut self.events.filters
    }
}

#[vtable]
impl Qdisc for TurnstilePacer {
    const KIND: &'static str = KIND;
    const CLASSES_ARE_FIXED: &'static str =
        "the classes are :1, what passes by, and :2, what is paced";

    const CHILDREN: usize = 1;

    type Shared = ();
    type Listener = Associations;

    fn new<'a>(
        on: &'a mut Configuring<'_, Self>,
        nest: Option<Nest<'a>>,
        extack: &'a mut Extack,
    ) -> Result<impl Init<Self, Error>> {
        let device = on.device();
        let speed = device.speed();
        let mut config = Config::DEFAULT;
        let limit = u64::from(device.queue_bytes());
        config.pass_limit = limit.clamp(limits::QUEUE.min, limits::QUEUE.max) as u32;
        apply(&mut config, nest, extack)?;
        let flows = Flows::new(&config, Memory::new(config.flows)?, knet::random());
        on.listen(Associations(flows))?;
        Ok(try_init!(Self {
            pacer: HostPacer::new(&config, speed, now()),
            grafted: false,
            child_holds_whole: false,
            events: Events::default(),
        }? Error))
    }

    fn change(
        on: &mut Configuring<'_, Self>,
        nest: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result {
        let Some(nest) = nest else {
            return Ok(());
        };
        let speed = on.device().speed();
        // RTNL is held: nobody else changes the configuration between here and the second lock.
        let Some(old) = on.lock(|this, _| *this.pacer.config()) else {
            return Err(EINVAL);
        };
        let mut config = old;
        apply(&mut config, Some(nest), extack)?;
        let memory = match config.flows == old.flows {
            true => None,
            false => Some(Memory::new(config.flows)?),
        };
        // What is freed is freed here, where it may take its time.
        let _unused = on.lock(|this, on| {
            this.pacer.change(&config, speed, now(), |packet| {
                on.drop_queued(packet.0);
            });
            // What waited for the old rate's time may be due by the new one.
            on.context().wake_at(now().0);
            on.listener(|flows| {
                flows.0.change(&config);
                memory.map(|memory| flows.0.resize(memory))
            })
        });
        Ok(())
    }

    type EnqueueHint = Hint;
    /// When there will be enough tokens for the first packet, if that is all that is wanting.
    type DequeueHint = Option<Nanos>;

    #[inline(always)]
    fn enqueue(skb: Skb, mut arriving: Arriving<'_, Self>) -> Enqueued {
        let (this, sch) = arriving.qdisc();
        if sch.has_filters() {
            return arriving.slow(skb, Hint::Unknown);
        }
        let now = now();
        this.count(now, &skb);
        let since = this.pacer.waiting_since(now);
        let lane = lane(flow(&skb, sch.medium()), |flow| {
            arriving.listener(|flows| flows.0.lookup(now, flow, since))
        });
        let (this, _) = arriving.qdisc();
        if this.splits(&skb, lane) || lane == Lane::Pass && this.grafted {
            return arriving.slow(skb, Hint::Goes(lane));
        }
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, this.framing());
        match this.pacer.enqueue(now, lane, packet) {
            Ok(()) => arriving.queued(len),
            Err(packet) => arriving.slow(packet.0, Hint::NoRoom),
        }
    }

    fn enqueue_slow(skb: Skb, known: Hint, on: &mut Enqueuing<'_, Self>) {
        let (skb, lane) = match known {
            Hint::NoRoom => return on.report().refuse(skb, DropReason::OverLimit),
            Hint::Goes(lane) => (skb, lane),
            Hint::Unknown => match Self::classify(skb, on) {
                Some(place) => place,
                None => return,
            },
        };
        if !on.qdisc().0.splits(&skb, lane) {
            return Self::place(skb, lane, on);
        }
        match on.split(skb) {
            Ok(mut list) => {
                let (this, _) = on.qdisc();
                this.events.gso_splits = this.events.gso_splits.wrapping_add(1);
                while let Some(segment) = list.pop() {
                    Self::place(segment, lane, on);
                }
            }
            // It cannot be split: it goes as it is.
            Err(skb) => Self::place(skb, lane, on),
        }
    }

    #[inline(always)]
    fn dequeue(mut leaving: Leaving<'_, Self>) -> Dequeued {
        let this = leaving.qdisc();
        if this.grafted {
            return leaving.slow(None);
        }
        if this.pacer.is_empty() {
            return leaving.empty();
        }
        let now = now();
        match this.pacer.next(now, false) {
            Next::Now(lane) => match this.pacer.dequeue(now, lane) {
                Some(packet) => {
                    let len = packet.meta().len;
                    leaving.with(packet.0, len)
                }
                None => leaving.empty(),
            },
            Next::Wait(time) => leaving.slow(Some(time)),
            Next::Nothing => leaving.empty(),
        }
    }

    fn dequeue_slow(known: Option<Nanos>, on: &mut Dequeuing<'_, Self>) -> Option<Skb> {
        let wait = match known {
            Some(time) => time,
            None => {
                let now = now();
                let holds = child_holds(on.context());
                let (this, _) = on.qdisc();
                let mut next = this.pacer.next(now, holds);
                if next == Next::Now(Lane::Pass) {
                    // What came before there was a child goes first.
                    if let Some(packet) = this.pacer.dequeue(now, Lane::Pass) {
                        return Some(packet.0);
                    }
                    if let Some(skb) = on.take(CHILD) {
                        let (len, segs) = (skb.packet_len(), skb.segments());
                        on.qdisc().0.pacer.child_sent(len, segs);
                        return Some(skb);
                    }
                    // It has packets and gives none: it will say when.
                    next = on.qdisc().0.pacer.next(now, false);
                }
                match next {
                    Next::Now(lane) => {
                        let packet = on.qdisc().0.pacer.dequeue(now, lane);
                        return packet.map(|packet| packet.0);
                    }
                    Next::Wait(time) => time,
                    Next::Nothing => return None,
                }
            }
        };
        let sch = on.context();
        sch.count_overlimit();
        sch.wake_at(wait.0);
        None
    }

    fn reset(&mut self, on: &mut Resetting<'_, Self>) {
        self.pacer
            .reset(|packet| knet::drop_queued(packet.0, on.rtnl()));
    }

    fn dump(&mut self, message: &mut Message) -> Result {
        options::dump(self.pacer.config(), message)
    }

    fn dump_stats(&mut self, on: &mut Locked<'_, Self>, stats: &mut Stats) -> Result {
        report::pacer(self, on, stats)
    }

    fn find_class((): &(), minor: u16) -> bool {
        matches!(minor, class::PASS | class::PACED)
    }

    fn next_class((): &(), after: u16) -> Option<u16> {
        (after < class::PACED).then(|| after.wrapping_add(1))
    }

    fn child_place(minor: u16, extack: &mut Extack) -> Result<usize> {
        if minor == class::PASS {
            return Ok(CHILD);
        }
        Err(extack.refuse(
            knet::eopnotsupp(),
            format_args!("{KIND}: class :{minor:x} takes no child qdisc, only :1 does"),
        ))
    }

    fn grafted(&mut self, _place: usize, child: Option<Child<'_>>) {
        self.grafted = child.is_some();
    }

    fn dump_class_stats(
        &mut self,
        minor: u16,
        on: &mut Locked<'_, Self>,
        stats: &mut Stats,
    ) -> Result {
        report::class(self, on.context().child(CHILD), minor, stats)
    }
}
