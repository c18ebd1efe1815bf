// SPDX-License-Identifier: GPL-2.0
//! The counters, as `tc -s` and `turnstile port show -s` get them.

use crate::{
    pauses::Counts,
    port::{now, TurnstilePort},
};
use core::num::NonZero;
use kernel::prelude::*;
use knet::{Child, ClassStats, Message, Stats};
use turnstile_core::{
    pfc::{pause::PartCounters, PRIORITIES},
    port::band::Band,
    port::marker::tcd::State,
    port::uapi::{self, band_stat, port_stat},
    stats::BandStats,
};

fn all(message: &mut Message, pad: u16, values: &[(u16, u64)]) -> Result {
    values
        .iter()
        .try_for_each(|&(number, value)| message.u64(number, value, pad))
}

/// Statistics of the port as a whole.
pub(crate) fn port(this: &TurnstilePort, stats: &mut Stats) -> Result {
    let mut sums = Sums::default();
    sums.add(this);
    sums.write(stats)
}

/// Statistics of one port or of several: what is in force, which is the same for all, and the sums
/// of what they counted.
#[derive(Default)]
pub(crate) struct Sums {
    in_force: [(u16, u64); 7],
    counted: [(u16, u64); 10],
}

impl Sums {
    /// One more port.
    #[inline(never)]
    pub(crate) fn add(&mut self, this: &TurnstilePort) {
        let resolved = this.port.resolved();
        let port = this.port.port_stats();
        let events = &this.events;
        let expiry = resolved.expiry.map_or(uapi::EXPIRY_OFF, |expiry| expiry.0);
        let max_on = resolved.max_on.map_or(0, |max_on| max_on.0);
        self.in_force = [
            (port_stat::LINK_RATE64, resolved.link),
            (port_stat::TOKEN_RATE64, resolved.token_rate.bytes_per_sec()),
            (port_stat::TOKEN_EXPIRY, expiry),
            (port_stat::TOKEN_LIMIT, resolved.token_limit.into()),
            (port_stat::TOKEN_SLACK, resolved.slack.0),
            (port_stat::TCD_MAX_ON, max_on),
            (port_stat::GSO_WHOLE, resolved.whole.into()),
        ];
        let counted = [
            (port_stat::LINK_WAITS, port.link_waits),
            (port_stat::TOKEN_WAITS, port.token_waits),
            (port_stat::FILTER_DROPS, events.filters.drops),
            (port_stat::FILTER_MISSES, events.filters.misses),
            (port_stat::GSO_SPLITS, events.gso_splits),
            (port_stat::GSO_DROPS, events.gso_drops),
            (port_stat::SLACK_FORFEITS, port.slack_forfeits),
            (port_stat::SLACK_FORFEITED, port.slack_forfeited),
            (port_stat::SIGNAL_EXCESS, port.signal_excess),
            (port_stat::GSO_PIECES, events.gso_pieces),
        ];
        for (sum, (number, value)) in self.counted.iter_mut().zip(counted) {
            *sum = (number, sum.1.wrapping_add(value));
        }
    }

    /// Writes them.
    pub(crate) fn write(&self, stats: &mut Stats) -> Result {
        stats.own(|message| {
            all(message, port_stat::PAD, &self.in_force)?;
            all(message, port_stat::PAD, &self.counted)
        })
    }
}

/// How many wire packets a child holds that counts super-packets. Bytes are counted alike by all:
/// of the `left` packets of `left_bytes` that it holds or has dropped it holds those that make up
/// its backlog. That is exact while it holds all or nothing of them, and an estimate in between.
fn held_whole(left: u64, left_bytes: u64, backlog: u64) -> u64 {
    if backlog >= left_bytes {
        return left;
    }
    match NonZero::new(left_bytes) {
        Some(bytes) => left.saturating_mul(backlog) / bytes,
        None => left,
    }
}

/// What became of the packets that a child got.
pub(crate) struct InChild {
    /// Packets that it holds.
    pub(crate) held: u64,
    /// Bytes of them.
    pub(crate) held_bytes: u64,
    /// Packets that this child or one before it dropped.
    pub(crate) dropped: u64,
}

impl InChild {
    /// Of a band with these counters. `holds_whole`: `child` may hold super-packets.
    ///
    /// A child tells nobody why it drops, and some of its drops not at all. What came in, was not
    /// sent, is not in our own queue and was not dropped by ourselves, the child holds, or it was
    /// dropped by this child or one before it.
    pub(crate) fn of(band: &BandStats, child: Option<Child<'_>>, holds_whole: bool) -> Self {
        let left = band
            .offered_packets
            .saturating_sub(band.sent_packets)
            .saturating_sub(band.dropped())
            .saturating_sub(band.queued_packets);
        let left_bytes = band
            .offered_bytes
            .saturating_sub(band.sent_bytes)
            .saturating_sub(band.dropped_bytes)
            .saturating_sub(band.queued_bytes);
        let (held, held_bytes) = child.map_or((0, 0), |child| {
            let bytes = child.backlog().into();
            let packets = if holds_whole {
                held_whole(left, left_bytes, bytes)
            } else {
                child.queued().into()
            };
            (left.min(packets), bytes)
        });
        InChild {
            held,
            held_bytes,
            dropped: left.saturating_sub(held),
        }
    }
}

/// Statistics of one class.
// Not inlined: its caller has what was counted of pauses on the stack.
#[inline(never)]
pub(crate) fn class(
    this: &TurnstilePort,
    child: Option<Child<'_>>,
    minor: u16,
    pauses: Option<&Counts>,
    stats: &mut Stats,
) -> Result {
    let Some(band) = u8::try_from(minor)
        .ok()
        .and_then(|minor| Band::from_minor(minor, this.port.config()))
    else {
        return Ok(());
    };
    let mut band_stats = this.port.stats(band);
    if let Some((_, meta)) = this.peeked.filter(|(peeked, _)| *peeked == band) {
        // Still here, as in the port's own `qlen`.
        let (segs, len) = (u64::from(meta.segs), u64::from(meta.len));
        band_stats.sent_packets = band_stats.sent_packets.wrapping_sub(segs);
        band_stats.sent_bytes = band_stats.sent_bytes.wrapping_sub(len);
        band_stats.queued_packets = band_stats.queued_packets.wrapping_add(segs);
        band_stats.queued_bytes = band_stats.queued_bytes.wrapping_add(len);
    }
    let child = child.filter(|_| band == Band::Data);
    let own_drops = band_stats.dropped();
    let InChild {
        held,
        held_bytes,
        dropped: child,
    } = InChild::of(&band_stats, child, this.child_holds_whole);
    let queued = band_stats.queued_packets.saturating_add(held);
    let backlog = band_stats.queued_bytes.saturating_add(held_bytes);
    stats.class(&ClassStats {
        bytes: band_stats.sent_bytes,
        packets: band_stats.sent_packets,
        queued: queued as u32,
        backlog: backlog as u32,
        drops: own_drops.saturating_add(child) as u32,
        overlimits: 0,
    })?;
    stats.own(|message| {
        counted(&band_stats, (queued, child), message)?;
        if band == Band::Data {
            markers(this, message)?;
            heard(band_stats.stormed, pauses, message)?;
            sent(pauses, message)?;
        }
        Ok(())
    })
}

/// What each class counts. `queued` packets are here, the child's included, and that dropped so
/// many.
fn counted(stats: &BandStats, (queued, child): (u64, u64), message: &mut Message) -> Result {
    all(
        message,
        band_stat::PAD,
        &[
            (band_stat::OFFERED_PACKETS, stats.offered_packets),
            (band_stat::OFFERED_BYTES, stats.offered_bytes),
            (band_stat::OVER_LIMIT, stats.over_limit),
            (band_stat::EXPIRED, stats.expired),
            (band_stat::TRIMMED, stats.trimmed),
            (band_stat::PURGED, stats.purged),
            (band_stat::CHILD, child),
            (band_stat::QUEUED, queued),
            (band_stat::MAX_PACKETS, stats.max_packets),
            (band_stat::MAX_BYTES, stats.max_bytes),
            (band_stat::SOJOURN_MEAN, stats.sojourn_mean().0),
            (band_stat::SOJOURN_MAX, stats.sojourn_max),
        ],
    )
}

/// All classes of a port together, those included that it no longer has.
#[inline(never)]
fn sum(this: &TurnstilePort) -> BandStats {
    (0..Band::COUNT)
        .filter_map(Band::from_index)
        .fold(BandStats::default(), |sum, band| {
            sum.and(&this.port.stats(band))
        })
}

/// Statistics of one queue's port, as of one class.
pub(crate) fn queue(this: &TurnstilePort, child: Option<Child<'_>>, stats: &mut Stats) -> Result {
    let sum = sum(this);
    let InChild { held, dropped, .. } = InChild::of(&sum, child, this.child_holds_whole);
    let queued = sum.queued_packets.saturating_add(held);
    stats.own(|message| counted(&sum, (queued, dropped), message))
}

/// What the next switch paused, and what that cost.
fn heard(stormed: u64, pauses: Option<&Counts>, message: &mut Message) -> Result {
    if pauses.is_none() && stormed == 0 {
        return Ok(());
    }
    let (heard, refused) = pauses.map_or_else(Default::default, |all| (all.heard, all.refused));
    all(
        message,
        band_stat::PAD,
        &[
            (band_stat::STORMED, stormed),
            (band_stat::PFC_PAUSED, heard.paused),
            (band_stat::PFC_RESUMED, heard.resumed),
            (band_stat::PFC_PAUSES, heard.pauses),
            (band_stat::PFC_TIME, heard.time.0),
            (band_stat::PFC_LONGEST, heard.longest.0),
            (band_stat::PFC_STORMS, heard.storms),
            (band_stat::PFC_REFUSED, refused),
        ],
    )?;
    match pauses.and_then(|all| all.of_priorities.as_ref()) {
        Some(priorities) => of_priorities(priorities, message),
        None => Ok(()),
    }
}

/// The same of each priority.
#[inline(never)]
fn of_priorities(all: &[PartCounters; PRIORITIES as usize], message: &mut Message) -> Result {
    let mut each = |number, of: fn(&PartCounters) -> u64| {
        let mut bytes = [0; PRIORITIES as usize * size_of::<u64>()];
        for (to, priority) in bytes.chunks_exact_mut(size_of::<u64>()).zip(all) {
            to.copy_from_slice(&of(priority).to_ne_bytes());
        }
        message.bytes(number, &bytes)
    };
    each(band_stat::PFC_PRIORITY_PAUSED, |all| all.paused)?;
    each(band_stat::PFC_PRIORITY_TIME, |all| all.time.0)?;
    each(band_stat::PFC_PRIORITY_LONGEST, |all| all.longest.0)
}

/// What the other end was asked for, while the port pauses others.
fn sent(pauses: Option<&Counts>, message: &mut Message) -> Result {
    let Some((is, counters)) = pauses.and_then(|all| all.sent.as_ref()) else {
        return Ok(());
    };
    let ingress = &counters.ingress;
    all(
        message,
        band_stat::PAD,
        &[
            (band_stat::PFC_XOFF, is.xoff),
            (band_stat::PFC_XON, is.xon),
            (band_stat::PFC_HEADROOM, is.headroom),
            (band_stat::PFC_HELD, is.held),
            (band_stat::PFC_MOST, ingress.most),
            (band_stat::PFC_MOST_HEADROOM, ingress.most_headroom),
            (band_stat::PFC_NO_HEADROOM, ingress.drops),
            (band_stat::PFC_SENT, counters.sent),
            (band_stat::PFC_ASKED, ingress.pauses),
            (band_stat::PFC_ENDED, ingress.ends),
            (band_stat::PFC_REFRESHED, ingress.refreshes),
            (band_stat::PFC_ASKED_TIME, counters.time.0),
            (band_stat::PFC_ASKED_LONGEST, counters.longest.0),
        ],
    )
}

/// What the markers did, those that are on or were.
fn markers(this: &TurnstilePort, message: &mut Message) -> Result {
    let markers = this.port.markers();
    let stats = markers.stats();
    let phantom = markers.phantom();
    if phantom.is_some() || stats.phantom.seen != 0 {
        let (backlog, max) = phantom.map_or((0, 0), |phantom| {
            (phantom.backlog(now()), phantom.max_backlog())
        });
        all(
            message,
            band_stat::PAD,
            &[
                (band_stat::PHANTOM_SEEN, stats.phantom.seen),
                (band_stat::PHANTOM_MARKABLE, stats.phantom.markable),
                (band_stat::PHANTOM_MARKED, stats.phantom.marked),
                (band_stat::PHANTOM_BACKLOG, backlog),
                (band_stat::PHANTOM_MAX, max),
            ],
        )?;
    }
    if markers.ren().is_some() || stats.ren.seen != 0 {
        all(
            message,
            band_stat::PAD,
            &[
                (band_stat::REN_SEEN, stats.ren.seen),
                (band_stat::REN_UNDER, stats.ren.under),
                (band_stat::REN_FULL, stats.ren.full),
                (band_stat::REN_OVER, stats.ren.over),
                (band_stat::REN_KEPT, stats.ren.kept),
                (band_stat::REN_PERIODS, stats.ren.periods),
            ],
        )?;
    }
    let tcd_now = markers.tcd_now(now(), this.port.data_bytes());
    if let Some((state, _)) = tcd_now {
        message.u64(
            band_stat::TCD_STATE,
            match state {
                State::NotCongested => uapi::TCD_NOT_CONGESTED,
                State::Congested => uapi::TCD_CONGESTED,
                State::Undetermined => uapi::TCD_UNDETERMINED,
            },
            band_stat::PAD,
        )?;
    }
    let tcd = tcd_now.map_or(stats.tcd, |(_, counters)| counters);
    if tcd_now.is_some() || tcd.seen != 0 {
        all(
            message,
            band_stat::PAD,
            &[
                (band_stat::TCD_SEEN, tcd.seen),
                (band_stat::TCD_UNMARKED, tcd.unmarked),
                (band_stat::TCD_CE, tcd.ce),
                (band_stat::TCD_UE, tcd.ue),
                (band_stat::TCD_KEPT, tcd.kept),
                (band_stat::TCD_CONGESTIONS, tcd.congestions),
                (band_stat::TCD_PAUSES, tcd.pauses),
                (band_stat::TCD_TIME_NOT_CONGESTED, tcd.not_congested),
                (band_stat::TCD_TIME_CONGESTED, tcd.congested),
                (band_stat::TCD_TIME_UNDETERMINED, tcd.undetermined),
            ],
        )?;
    }
    if markers.any() || stats.unwritable != 0 {
        message.u64(band_stat::UNWRITABLE, stats.unwritable, band_stat::PAD)?;
    }
    Ok(())
}
