// SPDX-License-Identifier: GPL-2.0
//! Markers: what a port tells senders through the ECN field of the data that it sends.
//!
//! | marker | what it says | which packets |
//! |---|---|---|
//! | [`phantom`] | HULL: the link is busier than it should be: CE, before a queue forms | ECT(0) and ECT(1) of RFC 3168 |
//! | [`ren`] | REN: the link is under, fully or over utilized | of REN flows, by the Turnstile header |
//! | [`tcd`] | TCD: the port is congested (CE), or it was paused lately and cannot say (UE) | ECT(0), ECT(1) and CE of RFC 3168 |
//!
//! They work in series with the port, when a packet leaves, and never hold one up or drop one. All
//! may be on; REN and the others leave each other's packets alone: a mark of REN read as RFC 3168
//! has it would be nonsense, and the other way round. CE of the phantom queue stays. [`field`]
//! finds the ECN field and says whose it is.

pub mod field;
pub mod phantom;
pub mod ren;
pub mod tcd;

use core::num::NonZeroU64;

use crate::port::config::{Config, MaxOn, Resolved};
use crate::queue::{Meta, Packet};
use crate::stats::add;
use crate::units::Nanos;

use self::field::{ecn, Label};
use self::phantom::Phantom;
use self::ren::Ren;
use self::tcd::{State, Tcd};

/// What the markers of a port did. Packets are wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// The phantom queue's.
    pub phantom: phantom::Counters,
    /// REN's.
    pub ren: ren::Counters,
    /// TCD's.
    pub tcd: tcd::Counters,
    /// Packets whose header could not be written to, for lack of memory: they went as they were.
    pub unwritable: u64,
}

/// The markers of a port, those that are on.
#[derive(Debug)]
pub struct Markers {
    phantom: Option<Phantom>,
    ren: Option<Ren>,
    tcd: Option<Tcd>,
    /// The next switch has paused data.
    held: bool,
    /// Packets begin with an Ethernet header.
    ethernet: bool,
    stats: MarkStats,
}

impl MarkStats {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        phantom: phantom::Counters::EMPTY,
        ren: ren::Counters::EMPTY,
        tcd: tcd::Counters::EMPTY,
        unwritable: 0,
    };
}

impl Markers {
    /// None.
    pub const EMPTY: Self = Self {
        phantom: None,
        ren: None,
        tcd: None,
        held: false,
        ethernet: true,
        stats: MarkStats::EMPTY,
    };

    /// These markers from now on. Those that stay keep what they know.
    ///
    /// What needs the link's speed is off while that is not known: REN's marker, and a phantom
    /// queue that drains at a share; and TCD's with `max-on auto`.
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
        let wanted = config.tcd.filter(|tcd| {
            // Known, or not wanted.
            resolved.max_on.is_some() || tcd.max_on == MaxOn::Off
        });
        self.tcd = wanted.map(|wanted| {
            let law = tcd::Law {
                threshold: wanted.threshold.into(),
                max_on: resolved.max_on,
                rise: tcd::rise(link, resolved.max_on.unwrap_or(Nanos::ZERO)),
            };
            match self.tcd.take() {
                Some(mut tcd) => {
                    tcd.set(law, now, &mut self.stats.tcd);
                    tcd
                }
                None => Tcd::new(law, self.held, now),
            }
        });
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
        self.phantom.is_some() || self.ren.is_some() || self.tcd.is_some()
    }

    /// A packet leaves, of any band. For one of the data band, [`Markers::data_leaves`] says so
    /// itself.
    pub fn other_leaves(&mut self, now: Nanos, meta: &Meta) {
        if let Some(ren) = &mut self.ren {
            let begins = ren.passes(now, meta.wire_len);
            add(&mut self.stats.ren.periods, begins.into());
        }
    }

    /// The next switch holds up data from now on.
    pub fn paused(&mut self, now: Nanos) {
        self.held = true;
        if let Some(tcd) = &mut self.tcd {
            tcd.pause(now, &mut self.stats.tcd);
        }
    }

    /// It does no longer, and `queue` bytes of it wait.
    pub fn resumed(&mut self, now: Nanos, queue: u64) {
        self.held = false;
        if let Some(tcd) = &mut self.tcd {
            tcd.resume(now, queue);
        }
    }

    /// More data came than the switch can hold: see [`Tcd::asks`].
    #[cold]
    pub fn asks(&mut self) {
        if let Some(tcd) = &mut self.tcd {
            tcd.asks();
        }
    }

    /// A packet of the data band leaves, while so many packets and bytes of it wait: counts it, and
    /// marks it if need be.
    pub fn data_leaves<P: Packet>(
        &mut self,
        now: Nanos,
        packet: &mut P,
        meta: &Meta,
        (queue, bytes): (u64, u64),
    ) {
        self.other_leaves(now, meta);
        let label = packet.label(self.ethernet);
        let above = self.pass_phantom(now, meta);
        let state = match &mut self.tcd {
            Some(tcd) => Some(tcd.judge(now, bytes, &mut self.stats.tcd)),
            None => None,
        };
        let Some(mut label) = label else {
            return;
        };
        if label.ren {
            // Its marks are not RFC 3168's.
            self.mark_ren(now, packet, label, meta, queue);
            return;
        }
        if self.phantom.is_some() && ecn::is_capable(label.ecn) {
            add(&mut self.stats.phantom.markable, meta.segs);
            if above {
                let counter = match packet.set_ecn(self.ethernet, label.place, ecn::CE) {
                    true => {
                        label.ecn = ecn::CE;
                        &mut self.stats.phantom.marked
                    }
                    false => &mut self.stats.unwritable,
                };
                add(counter, meta.segs);
            }
        }
        if let Some(state) = state {
            self.mark_tcd(packet, state, label, meta);
        }
    }

    fn mark_tcd<P: Packet>(&mut self, packet: &mut P, state: State, label: Label, meta: &Meta) {
        if label.ecn == ecn::NOT_ECT {
            return;
        }
        let counters = &mut self.stats.tcd;
        add(&mut counters.seen, meta.segs);
        let mark = match state {
            State::NotCongested => {
                add(&mut counters.unmarked, meta.segs);
                return;
            }
            State::Congested => ecn::CE,
            State::Undetermined => tcd::UE,
        };
        let counter = match label.ecn {
            ecn if ecn == mark || ecn == ecn::CE => &mut counters.kept,
            _ if !packet.set_ecn(self.ethernet, label.place, mark) => &mut self.stats.unwritable,
            _ if mark == ecn::CE => &mut counters.ce,
            _ => &mut counters.ue,
        };
        add(counter, meta.segs);
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

    /// All that is queued was dropped, and what was sent when is forgotten. Counters stay, and so
    /// does a pause.
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

    /// TCD's marker, if it is on.
    pub fn tcd(&self) -> Option<&Tcd> {
        self.tcd.as_ref()
    }

    /// TCD's state and counters now, as somebody asks, while `queue` bytes of data wait.
    pub fn tcd_now(&self, now: Nanos, queue: u64) -> Option<(State, tcd::Counters)> {
        let mut counters = self.stats.tcd;
        let state = self.tcd.clone()?.judge(now, queue, &mut counters);
        Some((state, counters))
    }

    /// REN's marker, if it is on.
    pub fn ren(&self) -> Option<&Ren> {
        self.ren.as_ref()
    }
}
