// SPDX-License-Identifier: GPL-2.0
//! HULL's host pacer (section 4.2): spaces out the packets of large flows that meet congestion, and
//! lets all others pass.
//!
//! Network cards and TCP send bursts, which a phantom queue takes for congestion. The pacer sits
//! between the host and its link:
//!
//! ```text
//!                       is the flow in the table?
//!            packet ──┬── yes ── queue ── token bucket ──┬── link
//!                     └── no ────────────────────────────┘
//! ```
//!
//! | module | what is there |
//! |---|---|
//! | [`HostPacer`] | the two queues, and which packet goes next, when |
//! | `law` | equation 4: the bucket's rate follows what the host sends |
//! | `bucket` | tokens, exactly |
//! | [`flows`] | the flow association table: filled by ECN-Echo with probability p_a, aged by T_i |
//! | [`key`] | which flow a packet belongs to, and whether it brings an ECN-Echo |
//! | [`config`] | the options |
//!
//! The transport's pacer, `transport::pacer`, is something else: it spaces the tokens that a
//! receiver gives.
//!
//! What the paper leaves open, and what we do:
//! - M_r is all that the host sends, also what passes by: section 4.2 counts "the number of bytes
//!   it receives from the host", so that the rate matches the "aggregate transmission rate".
//! - Bytes are bytes on the wire, as the bucket's tokens are.
//! - Where the link is busy, packets that pass by wait, too. What came before a packet that is due,
//!   or at the same time, leaves before it: it may be of the same flow, which was associated in
//!   between. With what came after it, it takes turns: what passes by waits for no more than one
//!   packet, and a host that sends nothing but such packets cannot shut out the paced ones. What a
//!   child qdisc holds has no order that we know of, and takes turns.
//! - A packet that is longer than the bucket is deep leaves when the bucket is full, and the debt
//!   is paid before the next one leaves.

pub(crate) mod bucket;
pub mod config;
pub mod flows;
pub mod key;
pub(crate) mod law;
pub mod uapi;

use crate::queue::{DropCause, Packet, Queue};
use crate::stats::BandStats;
use crate::units::Nanos;
use bucket::Bucket;
use config::Config;

/// One of the two ways through the pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Past the bucket.
    Pass,
    /// Through the bucket.
    Paced,
}

/// What may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The first packet of this lane.
    Now(Lane),
    /// Nothing before this time, unless a packet arrives.
    Wait(Nanos),
    /// Nothing is queued.
    Nothing,
}

/// A pacer, without the table: whoever owns both asks the one ([`flows::Flows::lookup`]) where a
/// packet goes in the other.
///
/// For each packet that the host sends call [`HostPacer::arrive`] and then [`HostPacer::enqueue`];
/// for what may leave, [`HostPacer::next`] and then [`HostPacer::dequeue`].
pub struct HostPacer<Q: Queue> {
    config: Config,
    bucket: Bucket,
    pass: Q,
    paced: Q,
    pass_stats: BandStats,
    paced_stats: BandStats,
    /// Q_tb: bytes on the wire of what waits for tokens.
    backlog: u64,
    /// The last packet that left went through the bucket.
    paced_last: bool,
    waits: u64,
}

impl<Q: Queue> HostPacer<Q> {
    /// An empty pacer with a full bucket. `speed`: what the device reports, bytes/s.
    pub fn new(config: &Config, speed: Option<u64>, now: Nanos) -> Self {
        Self {
            config: *config,
            bucket: Bucket::new(config, initial(config, speed), now),
            pass: Q::EMPTY,
            paced: Q::EMPTY,
            pass_stats: BandStats::default(),
            paced_stats: BandStats::default(),
            backlog: 0,
            paced_last: false,
            waits: 0,
        }
    }

    /// The options in force.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What one lane did.
    pub fn stats(&self, lane: Lane) -> &BandStats {
        match lane {
            Lane::Pass => &self.pass_stats,
            Lane::Paced => &self.paced_stats,
        }
    }

    /// Q_tb: bytes on the wire of what waits for tokens.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Times that a dequeue found packets, but not the tokens for them.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// R_tb at `now` in bytes/s, rounded down, and how often it was worked out.
    pub fn rate(&mut self, now: Nanos) -> (u64, u64) {
        self.bucket.advance(now, self.backlog);
        (self.bucket.bytes_per_sec(), self.bucket.updates())
    }

    /// When the packet came that is next to leave the bucket; `now`, if there is none. For
    /// [`flows::Flows::lookup`].
    #[inline]
    pub fn waiting_since(&self, now: Nanos) -> Nanos {
        self.paced.front().map_or(now, |first| first.enqueued)
    }

    /// The host hands over `wire_len` bytes: they count for the rate, wherever they go.
    #[inline]
    pub fn arrive(&mut self, now: Nanos, wire_len: u32) {
        self.bucket.advance(now, self.backlog);
        self.bucket.arrive(wire_len);
    }

    /// Takes a packet.
    ///
    /// # Errors
    ///
    /// The packet, if the queue is at its cap. It is counted as dropped.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Nanos,
        lane: Lane,
        mut packet: Q::Packet,
    ) -> Result<(), Q::Packet> {
        packet.set_enqueued(now);
        let meta = packet.meta();
        let (queue, stats, limit) = match lane {
            Lane::Pass => (&mut self.pass, &mut self.pass_stats, self.config.pass_limit),
            Lane::Paced => (&mut self.paced, &mut self.paced_stats, self.config.limit),
        };
        stats.offered(&meta);
        if stats.queued_bytes.saturating_add(meta.len.into()) > limit.into() {
            stats.lost(&meta, DropCause::OverLimit);
            return Err(packet);
        }
        stats.queued(&meta);
        queue.push(packet);
        if lane == Lane::Paced {
            // Time first: what has passed until now passed with the backlog of before.
            self.bucket.advance(now, self.backlog);
            self.backlog = self.backlog.saturating_add(meta.wire_len.into());
        }
        Ok(())
    }

    /// Is nothing queued here?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pass.is_empty() && self.paced.is_empty()
    }

    /// What may leave at `now`. `passing`: does a child qdisc hold packets that pass by?
    #[inline]
    pub fn next(&mut self, now: Nanos, passing: bool) -> Next {
        let passes = self.pass.front();
        let passing = passing || passes.is_some();
        let Some(first) = self.paced.front() else {
            return if passing {
                Next::Now(Lane::Pass)
            } else {
                Next::Nothing
            };
        };
        let came_before = passes.is_some_and(|packet| packet.enqueued <= first.enqueued);
        if came_before || passing && self.paced_last {
            return Next::Now(Lane::Pass);
        }
        self.bucket.advance(now, self.backlog);
        if self.bucket.is_due(first.wire_len) {
            return Next::Now(Lane::Paced);
        }
        if passing {
            return Next::Now(Lane::Pass);
        }
        self.waits = self.waits.wrapping_add(1);
        Next::Wait(self.bucket.due(first.wire_len))
    }

    /// Takes the first packet of a lane, as [`HostPacer::next`] says.
    #[inline]
    pub fn dequeue(&mut self, now: Nanos, lane: Lane) -> Option<Q::Packet> {
        let (queue, stats) = match lane {
            Lane::Pass => (&mut self.pass, &mut self.pass_stats),
            Lane::Paced => (&mut self.paced, &mut self.paced_stats),
        };
        self.paced_last = lane == Lane::Paced;
        let packet = queue.pop()?;
        let meta = packet.meta();
        stats.unqueued(&meta);
        stats.sent(&meta);
        stats.waited(now - meta.enqueued);
        if lane == Lane::Paced {
            self.bucket.advance(now, self.backlog);
            self.bucket.take(meta.wire_len);
            self.backlog = self.backlog.saturating_sub(meta.wire_len.into());
        }
        Some(packet)
    }

    /// A child qdisc got a packet of `segs` wire packets and `len` bytes that passes by.
    pub fn child_offered(&mut self, len: u32, segs: u32) {
        crate::stats::add(&mut self.pass_stats.offered_packets, segs);
        crate::stats::add(&mut self.pass_stats.offered_bytes, len);
    }

    /// A packet that passed by left the child qdisc.
    pub fn child_sent(&mut self, len: u32, segs: u32) {
        self.paced_last = false;
        crate::stats::add(&mut self.pass_stats.sent_packets, segs);
        crate::stats::add(&mut self.pass_stats.sent_bytes, len);
    }

    /// Other options from now on. `dropped` gets what the new limits have no room for, the packets
    /// that came last.
    pub fn change(
        &mut self,
        config: &Config,
        speed: Option<u64>,
        now: Nanos,
        mut dropped: impl FnMut(Q::Packet),
    ) {
        self.bucket.advance(now, self.backlog);
        let anew = config.initial_rate != self.config.initial_rate;
        let rate = anew.then(|| initial(config, speed));
        self.bucket.change(config, rate, now);
        self.config = *config;
        self.trim(Lane::Pass, config.pass_limit, &mut dropped);
        self.trim(Lane::Paced, config.limit, &mut dropped);
    }

    /// Keeps the first packets of a lane, as many as have room.
    fn trim(&mut self, lane: Lane, limit: u32, dropped: &mut impl FnMut(Q::Packet)) {
        let (queue, stats) = match lane {
            Lane::Pass => (&mut self.pass, &mut self.pass_stats),
            Lane::Paced => (&mut self.paced, &mut self.paced_stats),
        };
        if stats.queued_bytes <= limit.into() {
            return;
        }
        let mut kept = Q::EMPTY;
        let mut bytes = 0_u64;
        let mut waiting = 0_u64;
        while let Some(packet) = queue.pop() {
            let meta = packet.meta();
            bytes = bytes.saturating_add(meta.len.into());
            if bytes <= limit.into() {
                waiting = waiting.saturating_add(meta.wire_len.into());
                kept.push(packet);
            } else {
                stats.unqueued(&meta);
                stats.lost(&meta, DropCause::Trimmed);
                dropped(packet);
            }
        }
        *queue = kept;
        if lane == Lane::Paced {
            self.backlog = waiting;
        }
    }

    /// Drops everything. The rate stays.
    pub fn reset(&mut self, mut dropped: impl FnMut(Q::Packet)) {
        for lane in [Lane::Pass, Lane::Paced] {
            let (queue, stats) = match lane {
                Lane::Pass => (&mut self.pass, &mut self.pass_stats),
                Lane::Paced => (&mut self.paced, &mut self.paced_stats),
            };
            while let Some(packet) = queue.pop() {
                let meta = packet.meta();
                stats.unqueued(&meta);
                stats.lost(&meta, DropCause::Purged);
                dropped(packet);
            }
        }
        self.backlog = 0;
    }
}

/// bytes/s: the rate to begin with.
fn initial(config: &Config, speed: Option<u64>) -> u64 {
    config
        .initial_rate
        .or(speed)
        .unwrap_or(config::FALLBACK_RATE)
}
