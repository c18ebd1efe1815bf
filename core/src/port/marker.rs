// SPDX-License-Identifier: GPL-2.0
//! Markers: what a port tells senders through the ECN field of the data that it sends.
//!
//! | marker | what it says | which packets |
//! |---|---|---|
//! | [`phantom`] | HULL: the link is busier than it should be: CE, before a queue forms | ECT(0) and ECT(1) of RFC 3168 |
//! | [`ren`] | REN: the link is under, fully or over utilized | of REN flows, by the Turnstile header |
//!
//! They work in series with the port, when a packet leaves, and never hold one up or drop one. Both
//! may be on; each leaves the other's packets alone: a mark of REN read as RFC 3168 has it would be
//! nonsense, and the other way round. [`field`] finds the ECN field and says whose it is.

pub mod field;
pub mod phantom;
pub mod ren;

use core::num::NonZeroU64;

use crate::port::config::{Config, Resolved};
use crate::queue::{Meta, Packet};
use crate::stats::add;
use crate::units::Nanos;

use self::field::{ecn, Label};
use self::phantom::Phantom;
use self::ren::Ren;

/// What the markers of a port did. Packets are wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// The phantom queue's.
    pub phantom: phantom::Counters,
    /// REN's.
    pub ren: ren::Counters,
    /// Packets whose header could not be written to, for lack of memory: they went as they were.
    pub unwritable: u64,
}

/// The markers of a port, those that are on.
#[derive(Debug)]
pub struct Markers {
    phantom: Option<Phantom>,
    ren: Option<Ren>,
    /// Packets begin with an Ethernet header.
    ethernet: bool,
    stats: MarkStats,
}

impl MarkStats {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        phantom: phantom::Counters::EMPTY,
        ren: ren::Counters::EMPTY,
        unwritable: 0,
    };
}

impl Markers {
    /// None.
    pub const EMPTY: Self = Self {
        phantom: None,
        ren: None,
        ethernet: true,
        stats: MarkStats::EMPTY,
    };

    /// These markers from now on. Those that stay keep what they know.
    ///
    /// What needs the link's speed is off while that is not known: REN's marker, and a phantom
    /// queue that drains at a share.
    pub fn set(&mut self, config: &Config, resolved: &Resolved, now: Nanos) {
        let link = resolved.link_rate;
        self.phantom = match (config.phantom, resolved.drain) {
            (Some(wanted), Some(drain)) => {
                let mut phantom = match self.phantom.take() {
                    Some(phantom) => phantom,
                    None => Phantom::new(drain, now),
                };
                phantom.set(drain, link, wanted.mark, now);
                Some(phantom)
            }
            _ => None,
        };
        let period = config.ren.filter(|_| !resolved.is_unresolved());
        self.ren = match (
            period.and_then(|period| NonZeroU64::new(period.0)),
            self.ren.take(),
        ) {
            (Some(period), Some(mut ren)) => {
                ren.set(period, link);
                Some(ren)
            }
            (Some(period), None) => Some(Ren::new(period, link, now)),
            (None, _) => None,
        };
    }

    /// Whether packets begin with an Ethernet header: what [`Packet::label`] has to know.
    pub(super) fn ethernet(&self) -> bool {
        self.ethernet
    }

    /// Packets begin with an Ethernet header, or they do not.
    pub fn set_ethernet(&mut self, ethernet: bool) {
        self.ethernet = ethernet;
    }

    /// Whether any is on.
    #[inline]
    pub fn any(&self) -> bool {
        self.phantom.is_some() || self.ren.is_some()
    }

    /// A packet leaves, of any band. For one of the data band, [`Markers::data_leaves`] says so
    /// itself.
    pub fn other_leaves(&mut self, now: Nanos, meta: &Meta) {
        if let Some(ren) = &mut self.ren {
            let begins = ren.passes(now, meta.wire_len);
            add(&mut self.stats.ren.periods, begins.into());
        }
    }

    /// A packet of the data band leaves, while `queue` packets of it wait: counts it, and marks it
    /// if need be.
    pub fn data_leaves<P: Packet>(&mut self, now: Nanos, packet: &mut P, meta: &Meta, queue: u64) {
        self.other_leaves(now, meta);
        let label = packet.label(self.ethernet);
        let above = self.pass_phantom(now, meta);
        let Some(label) = label else {
            return;
        };
        if label.ren {
            // Its marks are not RFC 3168's.
            self.mark_ren(now, packet, label, meta, queue);
        } else if self.phantom.is_some() && ecn::is_capable(label.ecn) {
            add(&mut self.stats.phantom.markable, meta.segs);
            if above {
                let counter = match packet.set_ecn(self.ethernet, label.place, ecn::CE) {
                    true => &mut self.stats.phantom.marked,
                    false => &mut self.stats.unwritable,
                };
                add(counter, meta.segs);
            }
        }
    }

    /// Did it find the phantom queue above the threshold?
    fn pass_phantom(&mut self, now: Nanos, meta: &Meta) -> bool {
        let Some(phantom) = &mut self.phantom else {
            return false;
        };
        add(&mut self.stats.phantom.seen, meta.segs);
        phantom.leaves(now, meta)
    }

    fn mark_ren<P: Packet>(
        &mut self,
        now: Nanos,
        packet: &mut P,
        label: Label,
        meta: &Meta,
        queue: u64,
    ) {
        let Some(ren) = &mut self.ren else {
            return;
        };
        let counters = &mut self.stats.ren;
        add(&mut counters.seen, meta.segs);
        let mark = ren.judge(now, queue);
        let counter = match mark {
            // What is there is as high, or higher. Over-utilized, it will trigger no packet all the
            // same.
            _ if mark < label.ecn || mark == label.ecn && mark != ren::UNDER => {
                if mark == ren::OVER {
                    ren.gave(mark, meta.segs);
                }
                &mut counters.kept
            }
            ren::UNDER => {
                ren.gave(mark, meta.segs);
                &mut counters.under
            }
            _ if !packet.set_ecn(self.ethernet, label.place, mark) => &mut self.stats.unwritable,
            ren::FULL => &mut counters.full,
            _ => {
                ren.gave(mark, meta.segs);
                &mut counters.over
            }
        };
        add(counter, meta.segs);
    }

    /// All that is queued was dropped, and what was sent when is forgotten. Counters stay.
    pub fn reset(&mut self) {
        if let Some(phantom) = &mut self.phantom {
            phantom.reset();
        }
        if let Some(ren) = &mut self.ren {
            ren.reset();
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

    /// REN's marker, if it is on.
    pub fn ren(&self) -> Option<&Ren> {
        self.ren.as_ref()
    }
}
