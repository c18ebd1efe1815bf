// SPDX-License-Identifier: GPL-2.0
//! The pacer's counters, as `tc -s` and `turnstile pacer show -s` get them.

use super::{now, TurnstilePacer, CHILD};
use crate::report::InChild;
use kernel::prelude::*;
use knet::{Child, ClassStats, Locked, Stats};
use turnstile_core::{
    pacer::uapi::{class, stat},
    pacer::Lane,
    stats::BandStats,
};

/// Packets that were dropped by a change or a reset.
fn lost(stats: &BandStats) -> u64 {
    stats.trimmed.saturating_add(stats.purged)
}

fn in_child(this: &TurnstilePacer, child: Option<Child<'_>>) -> InChild {
    let pass = this.pacer.stats(Lane::Pass);
    InChild::of(pass, child, this.child_holds_whole)
}

/// Statistics of the pacer as a whole.
pub(super) fn pacer(
    this: &mut TurnstilePacer,
    on: &mut Locked<'_, TurnstilePacer>,
    stats: &mut Stats,
) -> Result {
    let now = now();
    let (rate, updates) = this.pacer.rate(now);
    let since = this.pacer.waiting_since(now);
    let flows = on.listener(|flows| {
        flows.0.note_waiting(since);
        flows.0.age(now);
        flows.0.stats()
    });
    let flows = flows.unwrap_or_default();
    let pass = this.pacer.stats(Lane::Pass);
    let paced = this.pacer.stats(Lane::Paced);
    let child = in_child(this, on.context().child(CHILD));
    let events = &this.events;
    let values = [
        (stat::RATE64, rate),
        (stat::UPDATES, updates),
        (stat::FLOWS, flows.flows),
        (stat::MAX_FLOWS, flows.max_flows),
        (stat::ECHOES, flows.echoes),
        (stat::ASSOCIATED, flows.associated),
        (stat::TABLE_FULL, flows.table_full),
        (stat::AGED, flows.aged),
        (stat::PASS_OFFERED, pass.offered_packets),
        (stat::PASS_SENT, pass.sent_packets),
        (
            stat::PASS_QUEUED,
            pass.queued_packets.saturating_add(child.held),
        ),
        (stat::PASS_OVER_LIMIT, pass.over_limit),
        (stat::PASS_LOST, lost(pass).saturating_add(child.dropped)),
        (stat::PACED_OFFERED, paced.offered_packets),
        (stat::PACED_SENT, paced.sent_packets),
        (stat::PACED_QUEUED, paced.queued_packets),
        (stat::PACED_OVER_LIMIT, paced.over_limit),
        (stat::PACED_LOST, lost(paced)),
        (stat::BACKLOG, this.pacer.backlog()),
        (stat::MAX_BACKLOG, paced.max_bytes),
        (stat::DELAY_MEAN, paced.sojourn_mean().0),
        (stat::DELAY_MAX, paced.sojourn_max),
        (stat::WAITS, this.pacer.waits()),
        (stat::FILTER_DROPS, events.filters.drops),
        (stat::FILTER_MISSES, events.filters.misses),
        (stat::GSO_SPLITS, events.gso_splits),
    ];
    stats.own(|message| {
        values
            .iter()
            .try_for_each(|&(number, value)| message.u64(number, value, stat::PAD))
    })
}

/// The counters of one class.
pub(super) fn class(
    this: &TurnstilePacer,
    child: Option<Child<'_>>,
    minor: u16,
    stats: &mut Stats,
) -> Result {
    let (lane, child) = match minor {
        class::PASS => (this.pacer.stats(Lane::Pass), Some(in_child(this, child))),
        _ => (this.pacer.stats(Lane::Paced), None),
    };
    let (held, held_bytes, dropped) = child.map_or((0, 0, 0), |child| {
        (child.held, child.held_bytes, child.dropped)
    });
    stats.class(&ClassStats {
        bytes: lane.sent_bytes,
        packets: lane.sent_packets,
        queued: lane.queued_packets.saturating_add(held) as u32,
        backlog: lane.queued_bytes.saturating_add(held_bytes) as u32,
        drops: lane.dropped().saturating_add(dropped) as u32,
        overlimits: 0,
    })
}
