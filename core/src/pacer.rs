// SPDX-License-Identifier: GPL-2.0
//! HULL's host pacer (section 4.2): paces the packets of large flows that met congestion, and lets
//! all others pass by.
//!
//! Network cards and TCP send bursts, which a phantom queue mistakes for congestion. The pacer sits
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
//! | [`HostPacer`] | the two queues: which packet leaves next, and when |
//! | `law` | equation 4: the bucket's rate follows the rate at which the host sends |
//! | `bucket` | the token bucket, in exact arithmetic |
//! | [`flows`] | the flow association table: filled by ECN-Echo with probability p_a, aged by T_i |
//! | [`key`] | which flow a packet belongs to, and whether it brings an ECN-Echo |
//! | [`config`] | the options |
//!
//! Not to be confused with `transport::pacer`, which spaces the tokens that a receiver gives.
//!
//! What the paper leaves open, and how we decided:
//! - M_r counts all that the host sends, also packets that pass by: section 4.2 counts "the number
//!   of bytes it receives from the host", so that the rate matches the "aggregate transmission
//!   rate".
//! - Bytes are bytes on the wire, for M_r as for the bucket.
//! - Where the link is busy, packets that pass by are queued, too. One that came before a paced
//!   packet that is due, or at the same time, leaves before it: both may be of one flow, which was
//!   associated in between. Those that came after it alternate with paced ones: a packet that
//!   passes by waits for at most one paced packet, and a host that sends only such packets cannot
//!   starve the paced ones. The order in a child qdisc is unknown to us, so it alternates as well.
//! - A packet that is longer than the bucket's depth leaves when the bucket is full, and the debt
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

/// One of the two lanes through the pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Passes by the bucket.
    Pass,
    /// Through the bucket.
    Paced,
}

/// What may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The first packet of this lane.
    Now(Lane),
    /// Nothing before this time, unless a packet arrives.
    Wait(Nanos),
    /// Nothing is queued.
    Nothing,
}

/// A pacer without the flow table. The owner of both asks the table ([`flows::Flows::lookup`]) for
/// a packet's lane.
///
/// For each packet that the host sends call [`HostPacer::arrive`] and then [`HostPacer::enqueue`];
/// to send, [`HostPacer::next`] and then [`HostPacer::dequeue`].
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

    /// The statistics of a lane.
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

    /// R_tb at `now` in bytes/s, rounded down, and how often it was updated.
    pub fn rate(&mut self, now: Nanos) -> (u64, u64) {
        self.bucket.advance(now, self.backlog);
        (self.bucket.bytes_per_sec(), self.bucket.updates())
    }

    /// The time of arrival of the packet that leaves the bucket next; `now`, if there is none. For
    /// [`flows::Flows::lookup`].
    #[inline]
    pub fn waiting_since(&self, now: Nanos) -> Nanos {
        self.paced.front().map_or(now, |first| first.enqueued)
    }

    /// The host sends `wire_len` bytes, which count towards the rate in either lane.
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
            // Time first: until now the backlog was the one before this packet.
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

    /// A packet of `segs` wire packets and `len` bytes that passes by went to the child qdisc.
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

    /// Changes the options from now on. `dropped` gets the packets beyond the new limits, those
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

    /// Trims a lane to the first packets that have room.
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

    /// Drops all packets. The rate stays.
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

/// The initial rate, bytes/s.
fn initial(config: &Config, speed: Option<u64>) -> u64 {
    config
        .initial_rate
        .or(speed)
        .unwrap_or(config::FALLBACK_RATE)
}
