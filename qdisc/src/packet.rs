// SPDX-License-Identifier: GPL-2.0
//! The kernel's packets as `turnstile_core` sees them.

use crate::{
    pauses::Ear,
    port::{now, TurnstilePort},
};
use core::sync::atomic::{AtomicU64, Ordering};
use knet::{
    DequeueReport, DropReason, EnqueueReport, HeaderBuffer, Locked, Medium, Resetting, Skb,
    SkbQueue,
};
use turnstile_core::{
    port::band::Band,
    port::flows::{self, Flow, LOOKS},
    port::marker::field::{self, Label, Place, Version},
    queue::{DropCause, Framing, Meta, Packet, Queue, Sink},
    units::Nanos,
};

/// What the port keeps with a packet, and where in the 20 bytes of `skb->cb` that are a qdisc's
/// own: the time of arrival, the length on the wire, and a token's flow, once somebody asks for it.
/// In the place of the flow, of data the epoch of the ledger that the packet is charged to.
const ENQUEUED: usize = 0;
const WIRE_LEN: usize = ENQUEUED + size_of::<u64>();
const FLOW: usize = WIRE_LEN + size_of::<u32>();
const EPOCH: usize = FLOW;
/// Of a flow: nobody has asked for it. No packet's is that. Of an epoch: it is charged to none.
const UNASKED: Flow = Flow::MAX;
/// The next epoch. There are enough: one each ns for 584 years.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(0);

/// A number that no ledger has had.
pub(crate) fn new_epoch() -> u64 {
    NEXT_EPOCH.fetch_add(1, Ordering::Relaxed)
}

/// A packet in the port. The facts that the port works with are in its control block.
pub(crate) struct PortPacket(pub(crate) Skb);

impl PortPacket {
    #[inline]
    pub(crate) fn new(mut skb: Skb, framing: Framing) -> Self {
        let wire = framing.wire_len(skb.packet_len(), skb.segments());
        skb.set_private::<WIRE_LEN, u32>(wire);
        skb.set_private::<FLOW, Flow>(UNASKED);
        PortPacket(skb)
    }

    /// A token that stands for `worth`: to the port it is so many.
    pub(crate) fn train(mut skb: Skb, framing: Framing, worth: u8) -> Self {
        let one = framing.wire_len(skb.packet_len(), 1);
        skb.set_segments(worth.into());
        let mut packet = Self::new(skb, framing);
        let wire = one.saturating_mul(worth.into());
        packet.0.set_private::<WIRE_LEN, u32>(wire);
        packet
    }

    /// A token that leaves: to all others it is one packet, whatever it stands for.
    pub(crate) fn alone(mut self) -> Skb {
        self.0.is_one();
        self.0
    }
}

/// What a packet of data is charged to: [`turnstile_core::pfc::ledger`].
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    epoch: u64,
    bytes: u32,
}

impl PortPacket {
    /// It is charged to a ledger, in this epoch.
    pub(crate) fn set_charged(&mut self, epoch: u64) {
        self.0.set_private::<EPOCH, u64>(epoch);
    }

    /// What a packet of this band, which leaves, gives back, if anything.
    #[inline]
    pub(crate) fn charged(&self, band: Band) -> Option<Charged> {
        let epoch = self.0.private::<EPOCH, u64>();
        (band == Band::Data && epoch != UNASKED).then(|| Charged {
            epoch,
            bytes: self.0.private::<WIRE_LEN, u32>(),
        })
    }
}

impl Charged {
    /// Gives it back to the ledger, if that is this one's.
    pub(crate) fn give_back(self, now: Nanos, ear: &mut Ear) -> Option<((), bool)> {
        let owes = ear.ledger().give_back(now, self.epoch, self.bytes)?;
        Some(((), owes))
    }
}

#[inline]
fn meta(skb: &Skb) -> Meta {
    Meta {
        len: skb.packet_len(),
        wire_len: skb.private::<WIRE_LEN, u32>(),
        segs: skb.segments(),
        enqueued: Nanos(skb.private::<ENQUEUED, u64>()),
    }
}

/// The key of the [hash](flows::of) of flows; 0: there is none yet.
static FLOW_KEY: AtomicU64 = AtomicU64::new(0);

/// Draws the key of flows, once.
pub(crate) fn draw_flow_key() {
    if FLOW_KEY.load(Ordering::Relaxed) == 0 {
        FLOW_KEY.store(knet::random() | 1, Ordering::Relaxed);
    }
}

/// The packet's flow.
fn flow(skb: &Skb, ethernet: bool) -> Flow {
    let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
    let headers = skb.headers(medium(ethernet), &mut buffer);
    flows::of(
        FLOW_KEY.load(Ordering::Relaxed),
        headers.protocol,
        headers.bytes,
    )
}

impl Packet for PortPacket {
    #[inline]
    fn meta(&self) -> Meta {
        meta(&self.0)
    }

    #[inline]
    fn set_enqueued(&mut self, now: Nanos) {
        self.0.set_private::<ENQUEUED, u64>(now.0);
    }

    fn label(&self, ethernet: bool) -> Option<Label> {
        let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
        let headers = self.0.headers(medium(ethernet), &mut buffer);
        field::find(headers.protocol, headers.bytes)
    }

    fn flow(&self, ethernet: bool) -> Flow {
        flow(&self.0, ethernet)
    }

    fn set_ecn(&mut self, ethernet: bool, place: Place, ecn: u8) -> bool {
        let ipv6 = place.version == Version::V6;
        self.0.set_ecn(medium(ethernet), place.at.into(), ipv6, ecn)
    }
}

fn medium(ethernet: bool) -> Medium {
    if ethernet {
        Medium::Ethernet
    } else {
        Medium::Other
    }
}

/// A FIFO of such packets.
pub(crate) struct PortQueue(SkbQueue);

impl Queue for PortQueue {
    const EMPTY: Self = PortQueue(SkbQueue::new());

    type Packet = PortPacket;

    #[inline]
    fn push(&mut self, packet: PortPacket) {
        self.0.push(packet.0);
    }

    #[inline]
    fn pop(&mut self) -> Option<PortPacket> {
        self.0.pop().map(PortPacket)
    }

    #[inline]
    fn front(&self) -> Option<Meta> {
        self.0.front().map(meta)
    }

    #[inline]
    fn set_front_enqueued(&mut self, now: Nanos) {
        self.0.set_front_private::<ENQUEUED, u64>(now.0);
    }

    fn flows(&mut self, ethernet: bool, flows: &mut [Flow; LOOKS]) -> usize {
        let mut count: usize = 0;
        self.0.note_first::<FLOW, Flow>(LOOKS, |skb| {
            let known = match skb.private::<FLOW, Flow>() {
                UNASKED => flow(skb, ethernet),
                known => known,
            };
            if let Some(place) = flows.get_mut(count) {
                *place = known;
                count = count.wrapping_add(1);
            }
            known
        });
        count
    }

    fn remove(&mut self, place: usize) -> Option<PortPacket> {
        self.0.remove(place).map(PortPacket)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn reason(cause: DropCause) -> DropReason {
    match cause {
        DropCause::OverLimit | DropCause::Displaced => DropReason::OverLimit,
        DropCause::Expired | DropCause::Stormed => DropReason::Congested,
        DropCause::Trimmed | DropCause::Purged => DropReason::Generic,
    }
}

/// Where packets go that the port drops while one comes in.
pub(crate) struct OnEnqueue<'a, 'b>(pub(crate) &'a mut EnqueueReport<'b>);

impl Sink<PortPacket> for OnEnqueue<'_, '_> {
    fn dropped(&mut self, packet: PortPacket, _band: Band, cause: DropCause) {
        match cause {
            DropCause::OverLimit => self.0.refuse(packet.0, reason(cause)),
            _ => self.0.drop_queued(packet.0, reason(cause)),
        }
    }
}

/// Where packets go that the port drops while one goes out.
pub(crate) struct OnDequeue<'a, 'b>(pub(crate) &'a mut DequeueReport<'b, TurnstilePort>);

impl Sink<PortPacket> for OnDequeue<'_, '_> {
    fn dropped(&mut self, packet: PortPacket, band: Band, cause: DropCause) {
        if let Some(charged) = packet.charged(band) {
            let now = now();
            self.0
                .listener_of(&packet.0, |ear| charged.give_back(now, ear));
        }
        self.0.drop_queued(packet.0, reason(cause));
    }
}

/// Where packets go that a change has no room for.
pub(crate) struct OnChange<'a, 'b>(pub(crate) &'a mut Locked<'b, TurnstilePort>);

impl Sink<PortPacket> for OnChange<'_, '_> {
    fn dropped(&mut self, packet: PortPacket, band: Band, _cause: DropCause) {
        if let Some(charged) = packet.charged(band) {
            let now = now();
            self.0
                .listener_of(&packet.0, |ear| charged.give_back(now, ear));
        }
        self.0.drop_queued(packet.0);
    }
}

/// Where packets go when the whole port is emptied.
pub(crate) struct OnReset<'a, 'b>(pub(crate) &'a mut Resetting<'b, TurnstilePort>);

impl Sink<PortPacket> for OnReset<'_, '_> {
    fn dropped(&mut self, packet: PortPacket, band: Band, _cause: DropCause) {
        if let Some(charged) = packet.charged(band) {
            let now = now();
            self.0
                .listener_of(&packet.0, |ear| charged.give_back(now, ear));
        }
        knet::drop_queued(packet.0, self.0.rtnl());
    }
}
