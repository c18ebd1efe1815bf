// SPDX-License-Identifier: GPL-2.0
//! Packets and queues as a port sees them: the traits that its user implements.
//!
//! The kernel module implements them over lists of socket buffers, the tests over a `VecDeque`.

use crate::options::limits;
use crate::port::band::Band;
use crate::port::flows::{Flow, LOOKS};
use crate::port::marker::field::{Label, Place};
use crate::units::Nanos;

/// The facts of a packet that a port uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Bytes, as tc counts them.
    pub len: u32,
    /// Bytes on the wire, all segments of a super-packet together. See [`wire_len`].
    pub wire_len: u32,
    /// Wire packets: the segments of a super-packet, otherwise 1.
    pub segs: u32,
    /// When it was put into the port's queue.
    pub enqueued: Nanos,
}

/// A packet, or a GSO super-packet that leaves as several.
pub trait Packet {
    /// The facts. They stay the same while the packet is queued.
    fn meta(&self) -> Meta;
    /// Sets the time of arrival, which [`Packet::meta`] returns.
    fn set_enqueued(&mut self, now: Nanos);
    /// The fields that a marker reads. `None`: the packet cannot be marked. `ethernet`: as given to
    /// [`Port::set_ethernet`].
    ///
    /// [`Port::set_ethernet`]: crate::port::Port::set_ethernet
    #[inline]
    fn label(&self, _ethernet: bool) -> Option<Label> {
        None
    }
    /// What a token's [flow](crate::port::flows) is, 0 if unknown. `ethernet`: as for
    /// [`Packet::label`].
    #[inline]
    fn flow(&self, _ethernet: bool) -> Flow {
        0
    }
    /// Writes the two bits of the ECN field that [`Packet::label`] found at `place`, and nothing
    /// else. `false`: that failed, and nothing has changed.
    #[inline]
    fn set_ecn(&mut self, _ethernet: bool, _place: Place, _ecn: u8) -> bool {
        false
    }
}

/// An unbounded FIFO; the port enforces the bounds.
///
/// Nothing takes time that grows with the number of packets.
pub trait Queue: Sized {
    /// An empty queue.
    const EMPTY: Self;
    /// What is queued.
    type Packet: Packet;
    /// Adds a packet at the tail.
    fn push(&mut self, packet: Self::Packet);
    /// Takes the packet at the head.
    fn pop(&mut self) -> Option<Self::Packet>;
    /// The facts of the packet at the head.
    fn front(&self) -> Option<Meta>;
    /// [`Packet::set_enqueued`] for the packet at the head.
    fn set_front_enqueued(&mut self, now: Nanos);
    /// The [flows](crate::port::flows) of the first packets, from the head on, and how many they
    /// are. None where packets tell no flow: then what arrives last is dropped.
    #[inline]
    fn flows(&mut self, _ethernet: bool, _flows: &mut [Flow; LOOKS]) -> usize {
        0
    }
    /// Takes a packet out of those, by its place.
    #[inline]
    fn remove(&mut self, _place: usize) -> Option<Self::Packet> {
        None
    }
    /// Whether nothing is queued.
    fn is_empty(&self) -> bool;
}

/// A child qdisc, grafted on the data band.
///
/// The port only takes packets out. Whoever puts them in tells the port with
/// [`Port::child_offered`](crate::port::Port::child_offered).
pub trait Child<P> {
    /// How many packets are queued, as the child counts them.
    fn queued(&self) -> u64;
    /// Whether nothing is queued.
    #[inline]
    fn is_empty(&self) -> bool {
        self.queued() == 0
    }
    /// The next packet that may leave now. A child that shapes may have packets and give none.
    fn dequeue(&mut self) -> Option<P>;
}

/// No child: the data band has only the port's own queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoChild;

impl<P> Child<P> for NoChild {
    #[inline]
    fn queued(&self) -> u64 {
        0
    }
    #[inline]
    fn dequeue(&mut self) -> Option<P> {
        None
    }
}

/// The receiver of packets that the port drops.
pub trait Sink<P> {
    /// `packet`, which belonged to `band`, is dropped. The port has counted it.
    fn dropped(&mut self, packet: P, band: Band, cause: DropCause);
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropCause {
    /// It arrived when its queue was at the cap.
    OverLimit,
    /// A token that was queued, and gave way to one of a flow that has fewer in the queue, which
    /// was at the cap. It counts as one that was over the limit.
    Displaced,
    /// A token that waited longer than the expiry.
    Expired,
    /// A `change` lowered the cap or removed the band.
    Trimmed,
    /// The port was reset.
    Purged,
    /// The next switch has paused data for longer than the watchdog lets it.
    Stormed,
}

/// Framing: how much longer packets are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    overhead: u16,
    mpu: u16,
}

impl Framing {
    /// No framing.
    pub const EMPTY: Self = Self {
        overhead: 0,
        mpu: 0,
    };

    /// `overhead` more bytes for each packet, and at least `mpu`. Both are below 2^16 in a valid
    /// configuration.
    #[inline]
    pub const fn new(overhead: u32, mpu: u32) -> Self {
        const { assert!(limits::OVERHEAD.max < 1 << 16 && limits::MPU.max < 1 << 16) };
        Self {
            overhead: overhead as u16,
            mpu: mpu as u16,
        }
    }

    /// [`wire_len`] with this framing.
    #[inline]
    pub fn wire_len(self, len: u32, segs: u32) -> u32 {
        wire_len(len, segs, self.overhead.into(), self.mpu.into())
    }
}

/// Bytes on the wire of `len` bytes that go out as `segs` packets.
///
/// Each takes `overhead` bytes more, and together at least `mpu` times their number: a
/// super-packet's segments are equally long but for the last, so the sum is exact unless only the
/// last is below `mpu`, and then too low by less than `mpu`. Saturates.
#[inline]
pub fn wire_len(len: u32, segs: u32, overhead: u32, mpu: u32) -> u32 {
    if segs == 1 {
        return len.saturating_add(overhead).max(mpu);
    }
    len.saturating_add(overhead.saturating_mul(segs))
        .max(mpu.saturating_mul(segs))
}

#[cfg(test)]
mod tests;
