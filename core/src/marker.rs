// SPDX-License-Identifier: GPL-2.0
//! Markers: what a port tells senders through the ECN field of the data that it sends.
//!
//! | marker | what it says | which packets |
//! |---|---|---|
//! | [`phantom`] | HULL: the link is busier than it should be: CE, before a queue forms | ECT(0) and ECT(1) of RFC 3168 |
//!
//! They work in series with the port, when a packet leaves, and never hold one up or drop one. Packets of REN flows are not for
//! RFC 3168's marks: there the field has another meaning, and what an earlier port wrote would be lost.
//! [`field`] finds the ECN field and says whose it is.

pub mod field;
pub mod phantom;

use crate::config::{Config, Resolved};
use crate::queue::{Meta, Packet};
use crate::stats::add;
use crate::units::Nanos;

use self::field::ecn;
use self::phantom::Phantom;

/// What the markers of a port did. Packets are wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// The phantom queue's.
    pub phantom: phantom::Counters,
    /// Packets whose header could not be written to, for lack of memory: they went as they were.
    pub unwritable: u64,
}

/// The markers of a port, those that are on.
#[derive(Debug, Default)]
pub struct Markers {
    phantom: Option<Phantom>,
    stats: MarkStats,
}

impl Markers {
    /// These markers from now on. Those that stay keep what they know.
    pub fn set(&mut self, config: &Config, resolved: &Resolved, now: Nanos) {
        self.phantom = match (config.phantom, resolved.drain) {
            (Some(wanted), Some(drain)) => {
                let mut phantom = match self.phantom.take() {
                    Some(phantom) => phantom,
                    None => Phantom::new(drain, now),
                };
                phantom.set(drain, resolved.link_rate, wanted.mark, now);
                Some(phantom)
            }
            _ => None,
        };
    }

    /// Whether any is on.
    #[inline]
    pub fn any(&self) -> bool {
        self.phantom.is_some()
    }

    /// A packet of the data band leaves: counts it, and marks it if need be.
    pub fn data_leaves<P: Packet>(&mut self, now: Nanos, packet: &mut P, meta: &Meta) {
        let label = packet.label();
        let mut wanted = None;
        if let Some(phantom) = &mut self.phantom {
            let above = phantom.leaves(now, meta);
            let counters = &mut self.stats.phantom;
            add(&mut counters.seen, meta.segs);
            // The marks of REN are not RFC 3168's.
            if let Some(label) = label.filter(|label| !label.ren && ecn::is_capable(label.ecn)) {
                add(&mut counters.markable, meta.segs);
                if above {
                    wanted = Some((label, ecn::CE));
                }
            }
        }
        if let Some((label, mark)) = wanted {
            if packet.set_ecn(label.place, mark) {
                add(&mut self.stats.phantom.marked, meta.segs);
            } else {
                add(&mut self.stats.unwritable, meta.segs);
            }
        }
    }

    /// All that is queued was dropped, and what was sent when is forgotten. Counters stay.
    pub fn reset(&mut self) {
        if let Some(phantom) = &mut self.phantom {
            phantom.reset();
        }
    }

    /// The counters. They stay when a marker is turned off.
    pub fn stats(&self) -> &MarkStats {
        &self.stats
    }

    /// The phantom queue, if it is on.
    pub fn phantom(&self) -> Option<&Phantom> {
        self.phantom.as_ref()
    }
}
