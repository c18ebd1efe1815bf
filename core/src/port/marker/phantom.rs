// SPDX-License-Identifier: GPL-2.0
//! HULL's phantom queue (*Less is More*, NSDI 2012, sections 2 and 5.1): a counter that grows by
//! each packet that leaves and drains at less than the link's rate, and so says how long the queue
//! would be on a link that is a little slower. Packets that find it above a threshold are marked:
//! senders that heed the mark (DCTCP) leave the rest of the link free, and the real queue empty.
//!
//! It stands *in series* with the port and not beside its queue: it sees what leaves, never faster
//! than the link, whatever happened before (section 2, remark 1).
//!
//! # Exactness
//!
//! The backlog is kept in units in which a byte and what drains in a nanosecond are whole numbers
//! ([`Rate`]'s volumes), so nothing is rounded: not the drain rate, which may be any share of any
//! link, and not the time of a packet, however many there are.
//!
//! # Which packets are marked
//!
//! A packet is judged by the backlog that it *finds*, before its own bytes are added. The paper
//! leaves that open (section 5.1: incremented upon receiving a packet; if the counter exceeds the
//! threshold, the packet is marked). With its own bytes, a packet of 1500 bytes would always exceed
//! the threshold of 1 KB of the paper's experiments, on an idle link too.
//!
//! A super-packet that leaves whole is judged as the wire packets that it stands for, as they
//! follow each other on the link. It has one header, so it is marked if the first or the last of
//! them would be; none between them finds more.
//!
//! The counter has no upper limit, as a queue with unlimited room: after traffic that does not heed
//! marks, it takes as long to drain as such a queue would.

use crate::queue::Meta;
use crate::units::{Nanos, Rate, Volume};

/// What a phantom queue counts. Packets are wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that passed.
    pub seen: u64,
    /// Of these, what may be marked: ECT(0) or ECT(1), not of a REN flow.
    pub markable: u64,
    /// Of these, what was marked.
    pub marked: u64,
}

impl Counters {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        seen: 0,
        markable: 0,
        marked: 0,
    };
}

/// A phantom queue. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Phantom {
    drain: Rate,
    link: Rate,
    /// In the drain rate's volumes, as what follows.
    threshold: Volume,
    /// At the time `at`.
    backlog: Volume,
    at: Nanos,
    max: Volume,
}

impl Phantom {
    /// An empty queue that drains at `drain`. [`Phantom::set`] says the rest.
    pub fn new(drain: Rate, now: Nanos) -> Self {
        Self {
            drain,
            link: drain,
            threshold: Volume::default(),
            backlog: Volume::default(),
            at: now,
            max: Volume::default(),
        }
    }

    /// Other parameters from `now` on: the rate at which it drains, the link's, and above how many
    /// bytes it marks. What is in the queue stays, in whole bytes if the rate is another.
    pub fn set(&mut self, drain: Rate, link: Rate, mark: u32, now: Nanos) {
        self.advance(now);
        if drain != self.drain {
            let convert = |volume| drain.volume(self.drain.bytes_of(volume));
            (self.backlog, self.max) = (convert(self.backlog), convert(self.max));
            self.drain = drain;
        }
        self.link = link;
        self.threshold = drain.volume(mark.into());
    }

    /// Lets drain what drains until `now`.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.backlog = self.backlog.minus(self.drain.volume_in(now - self.at));
        self.at = self.at.max(now);
    }

    /// A packet leaves at `now`. Did it, or one of the segments that it stands for, find the queue
    /// above the threshold?
    #[inline]
    pub fn leaves(&mut self, now: Nanos, meta: &Meta) -> bool {
        self.advance(now);
        let mut above = self.backlog > self.threshold;
        let mut last = meta.wire_len;
        if meta.segs > 1 {
            // Segments are equally long but for the last, which is no longer. The queue does not
            // drain faster than the link brings them, so it is longest after the last one.
            last = meta.wire_len.checked_div(meta.segs).unwrap_or(last);
            let before = meta.wire_len.wrapping_sub(last);
            self.backlog = self.backlog.plus(self.drain.volume(before.into()));
            // Rounded down, so that no more drains than comes.
            self.advance(self.at + self.link.advance(before, 0).0);
            above |= self.backlog > self.threshold;
        }
        self.backlog = self.backlog.plus(self.drain.volume(last.into()));
        if self.backlog > self.max {
            self.max = self.backlog;
        }
        above
    }

    /// Empties the queue.
    pub fn reset(&mut self) {
        self.backlog = Volume::default();
    }

    /// Bytes in the queue at `now`, rounded down.
    pub fn backlog(&self, now: Nanos) -> u64 {
        let drained = self.drain.volume_in(now - self.at);
        self.drain.bytes_of(self.backlog.minus(drained))
    }

    /// The most bytes ever in the queue, rounded down, since it was turned on.
    pub fn max_backlog(&self) -> u64 {
        self.drain.bytes_of(self.max)
    }
}

#[cfg(test)]
mod tests;
