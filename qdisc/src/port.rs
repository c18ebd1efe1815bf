// SPDX-License-Identifier: GPL-2.0
//! The packet path: classify, split, queue, release.

use crate::{
    classes::Classes,
    options::{self, refuse},
    packet::{DataLeaf, Framing, OnChange, OnDequeue, OnEnqueue, OnReset, PortPacket, PortQueue},
    report,
};
use kernel::prelude::*;
use knet::{
    attr::Nest, Arriving, Child, Classified, Configuring, Context, Dequeuing, DropReason, Enqueued,
    Enqueuing, Extack, HeaderBuffer, Message, Qdisc, Skb, Stats,
};
use turnstile_core::{
    classify::{classify, classify_usual},
    config::{limits, Config, Resolved},
    port::{Dequeue, Enqueue, Port, Slot},
    queue::{NoLeaf, Packet},
    uapi,
    units::Nanos,
};

/// Major number of a class id or a handle (`TC_H_MAJ`).
const MAJOR: u32 = 0xffff_0000;

/// Events that belong to no class.
#[derive(Default)]
pub(crate) struct PortEvents {
    pub(crate) filter_drops: u64,
    pub(crate) filter_misses: u64,
    pub(crate) gso_splits: u64,
    pub(crate) gso_drops: u64,
}

/// A port: one instance of the qdisc.
pub(crate) struct TurnstilePort {
    pub(crate) port: Port<PortQueue>,
    /// The data class's child qdisc.
    pub(crate) child: Option<Child>,
    /// Whether the child may hold super-packets, which are one each to it.
    pub(crate) child_holds_whole: bool,
    pub(crate) events: PortEvents,
    /// What the device last said of its speed, in bytes/s. A link that is down says nothing.
    speed: Option<u64>,
}

/// Where a packet goes, or what became of it.
enum Place {
    Slot(Slot),
    Stolen,
    Shot,
}

fn now() -> Nanos {
    Nanos(knet::now())
}

fn check(config: &Config, speed: Option<u64>, extack: &mut Extack) -> Result<Resolved> {
    config
        .validate(speed)
        .map_err(|invalid| refuse(extack, invalid))
}

impl TurnstilePort {
    fn framing(&self) -> Framing {
        let config = self.port.config();
        Framing {
            overhead: config.overhead,
            mpu: config.mpu,
        }
    }

    /// Where the packet goes if that is easily said. In this order: `skb->priority` that names one of our classes (as prio
    /// and htb take it), filters, headers.
    #[inline]
    fn usual_slot(&self, skb: &Skb, sch: Context<'_, Self>) -> Option<Slot> {
        let handle = sch.handle();
        if handle != 0 {
            // The minor number, if the major number is ours; above all minor numbers otherwise.
            let class = skb.priority() ^ handle;
            if let Some(slot) = self.port.class_slot(class) {
                return Some(slot);
            }
        }
        if sch.has_filters() || !skb.is_on_ethernet() {
            return None;
        }
        let minor = classify_usual(skb.linear(), self.port.config())?;
        Some(self.port.class_slot(minor.into()).unwrap_or(Slot::DATA))
    }

    /// Where any other packet goes.
    #[inline(never)]
    fn classify_unusual(&mut self, skb: &mut Skb, sch: Context<'_, Self>) -> Place {
        match sch.classify(skb) {
            Classified::Unmatched => {}
            Classified::Stolen => return Place::Stolen,
            Classified::Shot => return Place::Shot,
            Classified::Class(class) => {
                // Filters may leave out the major number.
                let ours = class & MAJOR == 0;
                let minor = if ours { class } else { class ^ sch.handle() };
                match self.port.class_slot(minor) {
                    Some(slot) => return Place::Slot(slot),
                    None => self.events.filter_misses = self.events.filter_misses.wrapping_add(1),
                }
            }
        }
        let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
        let headers = skb.headers(&mut buffer);
        let band = classify(
            headers.protocol,
            headers.bytes,
            headers.destination,
            self.port.config(),
        );
        Place::Slot(self.port.slot(band))
    }

    #[inline(never)]
    fn enqueue_unusual(
        &mut self,
        mut skb: Skb,
        arriving: Arriving<'_>,
        sch: Context<'_, Self>,
    ) -> Enqueued {
        match self.classify_unusual(&mut skb, sch) {
            Place::Slot(slot) => self.enqueue_at(skb, slot, arriving),
            Place::Stolen => arriving.otherwise(skb, |skb, on| on.stolen(skb)),
            Place::Shot => {
                self.events.filter_drops =
                    self.events.filter_drops.wrapping_add(skb.segments().into());
                arriving.otherwise(skb, |skb, on| on.shot(skb))
            }
        }
    }

    #[inline(always)]
    fn enqueue_at(&mut self, skb: Skb, slot: Slot, arriving: Arriving<'_>) -> Enqueued {
        if slot == Slot::DATA && self.child.is_some() {
            return arriving.otherwise(skb, move |skb, on| self.place(skb, slot, on));
        }
        // The clock before all that is read of the packet, so that it is read once.
        let now = now();
        if skb.segments() > 1 {
            return arriving.otherwise(skb, move |skb, on| self.split_or_place(skb, slot, on));
        }
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, self.framing());
        match self.port.try_enqueue(now, slot, packet) {
            Ok(()) => arriving.queued(len),
            Err(packet) => arriving.otherwise(packet.0, move |skb, on| self.place(skb, slot, on)),
        }
    }

    /// Deals with one packet, which may be a super-packet if they are not split, where more can happen to it than that it is queued.
    #[inline(never)]
    fn place(&mut self, skb: Skb, slot: Slot, on: &mut Enqueuing<'_>) {
        let len = skb.packet_len();
        let packet = PortPacket::new(skb, self.framing());
        match &mut self.child {
            Some(child) if slot == Slot::DATA => {
                let meta = packet.meta();
                let whole = meta.segs > 1;
                if whole || self.child_holds_whole {
                    self.child_holds_whole = whole || child.queued() != 0;
                }
                self.port.leaf_offered(meta);
                if !child.enqueue(packet.0, on) {
                    self.port.leaf_refused(meta);
                }
            }
            _ => {
                if self
                    .port
                    .enqueue_at(now(), slot, packet, &mut OnEnqueue(on))
                    == Enqueue::Queued
                {
                    on.queued(len);
                }
            }
        }
    }

    #[inline(never)]
    fn dequeue_with_child(&mut self, on: &mut Dequeuing<'_>) -> Dequeue<PortPacket> {
        let framing = self.framing();
        let mut leaf = DataLeaf {
            child: self.child.as_mut(),
            framing,
        };
        self.port.dequeue(now(), &mut leaf, &mut OnDequeue(on))
    }

    /// Deals with a super-packet, or with each of its segments.
    #[inline(never)]
    fn split_or_place(&mut self, skb: Skb, slot: Slot, on: &mut Enqueuing<'_>) {
        if !self.port.config().split_gso {
            return self.place(skb, slot, on);
        }
        let segments = skb.segments();
        match skb.split() {
            Ok(mut list) => {
                self.events.gso_splits = self.events.gso_splits.wrapping_add(1);
                while let Some(segment) = list.pop() {
                    self.place(segment, slot, on);
                }
            }
            Err(skb) => {
                self.events.gso_drops = self.events.gso_drops.wrapping_add(segments.into());
                on.refuse(skb, DropReason::Generic);
            }
        }
    }
}

#[vtable]
impl Qdisc for TurnstilePort {
    const KIND: &'static str = uapi::KIND;
    const WATCH_LINK: bool = true;
    const CLASSES_ARE_FIXED: &'static str =
        "the port makes its classes; see priorities and unscheduled";

    type Shared = Classes;

    fn new(
        on: &Configuring<'_, Self>,
        nest: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result<Self> {
        let device = on.device();
        let speed = device.speed();
        let mut config = Config::DEFAULT;
        let limit = u64::from(device.queue_bytes());
        config.data_limit = limit.clamp(limits::DATA_LIMIT.min, limits::DATA_LIMIT.max) as u32;
        if let Some(nest) = nest {
            options::apply(&mut config, nest, extack)?;
        }
        let resolved = check(&config, speed, extack)?;
        on.shared().set(&config);
        Ok(TurnstilePort {
            port: Port::new(&config, &resolved, now()),
            child: None,
            child_holds_whole: false,
            events: PortEvents::default(),
            speed,
        })
    }

    fn change(on: &Configuring<'_, Self>, nest: Option<Nest<'_>>, extack: &mut Extack) -> Result {
        let Some(nest) = nest else {
            return Ok(());
        };
        let speed = on.device().speed();
        // RTNL is held: nobody else changes the configuration between here and the second lock.
        let Some((mut config, speed)) =
            on.lock(|this, _, _| (*this.port.config(), speed.or(this.speed)))
        else {
            return Err(EINVAL);
        };
        options::apply(&mut config, nest, extack)?;
        let resolved = check(&config, speed, extack)?;
        if let Some(minor) = on.shared().bound_but_gone(&config) {
            return Err(refuse(
                extack,
                format_args!("class :{minor:x} would go, but filters name it"),
            ));
        }
        on.lock(|this, changing, sch| {
            this.port
                .change(&config, &resolved, now(), &mut OnChange(changing));
            this.speed = speed;
            on.shared().set(&config);
            // What waited for the old rate's time may be due by the new one.
            sch.wake_at(now().0);
        });
        Ok(())
    }

    fn link_changed(on: &Configuring<'_, Self>) {
        let speed = on.device().speed();
        on.lock(|this, _, sch| {
            this.speed = speed.or(this.speed);
            this.port.note_link_speed(now(), speed);
            sch.wake_at(now().0);
        });
    }

    #[inline]
    fn enqueue(&mut self, skb: Skb, arriving: Arriving<'_>, sch: Context<'_, Self>) -> Enqueued {
        match self.usual_slot(&skb, sch) {
            Some(slot) => self.enqueue_at(skb, slot, arriving),
            None => self.enqueue_unusual(skb, arriving, sch),
        }
    }

    #[inline]
    fn is_empty(&mut self) -> bool {
        let leaf = DataLeaf {
            child: self.child.as_mut(),
            framing: Framing::default(),
        };
        self.port.rests(&leaf)
    }

    #[inline]
    fn dequeue(&mut self, on: &mut Dequeuing<'_>, sch: Context<'_, Self>) -> Option<Skb> {
        let dequeued = if self.child.is_none() {
            self.port.dequeue(now(), &mut NoLeaf, &mut OnDequeue(on))
        } else {
            self.dequeue_with_child(on)
        };
        match dequeued {
            Dequeue::Packet(packet, _) => Some(packet.0),
            Dequeue::Wait(time) => {
                sch.count_overlimit();
                sch.wake_at(time.0);
                None
            }
            Dequeue::Empty => None,
        }
    }

    fn reset(&mut self) {
        self.port.reset(&mut OnReset);
        if let Some(child) = &mut self.child {
            child.reset();
        }
    }

    fn dump(&mut self, message: &mut Message) -> Result {
        options::dump(self.port.config(), message)
    }

    fn dump_stats(&mut self, stats: &mut Stats) -> Result {
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

    fn child(&mut self, minor: u16, extack: &mut Extack) -> Result<&mut Option<Child>> {
        if minor == u16::from(uapi::class::DATA) {
            return Ok(&mut self.child);
        }
        Err(extack.refuse(
            knet::eopnotsupp(),
            format_args!(
                "{}: class :{minor:x} takes no child qdisc, only the data class :2 does",
                uapi::KIND
            ),
        ))
    }

    fn dump_class(&mut self, minor: u16, message: &mut Message) -> Result {
        message.u32(uapi::CLASS_BAND, minor.into())
    }

    fn dump_class_stats(&mut self, minor: u16, stats: &mut Stats) -> Result {
        report::class(self, minor, stats)
    }
}
