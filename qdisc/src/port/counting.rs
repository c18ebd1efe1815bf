// SPDX-License-Identifier: GPL-2.0
//! Data on its way in, in a port that pauses others: it is charged to whom it came from.
//!
//! That is the ledger of the port on the device which the packet came in by, if that port pauses
//! others, too. What comes from elsewhere, or was made here, is bounded by `data-limit` as in any
//! port.

use super::{now, Apart, TurnstilePort};
use crate::{
    options::refuse,
    packet::{OnEnqueue, PortPacket},
    pauses::{Ear, Link},
};
use kernel::prelude::*;
use knet::{Configuring, DropReason, Enqueuing, Extack, Skb, Tally};
use turnstile_core::{
    pfc::ledger::Charge,
    port::config::{Config, Resolved},
    port::{Enqueue, Slot},
    queue::Packet,
    units::Nanos,
};

/// Which way data takes, with this configuration. `grafted`: the data class has a child.
pub(super) fn apart(config: &Config, grafted: bool) -> Apart {
    if grafted {
        Apart::Child
    } else if config.generates() {
        Apart::Counted
    } else {
        Apart::No
    }
}

/// Begins to hear the next switch, if the configuration says so and that is new. `grafted`: the
/// data class has a child.
///
/// # Errors
///
/// `EINVAL` with a message, where others cannot be paused; `ENOMEM`.
#[inline(never)]
pub(super) fn begin(
    on: &mut Configuring<'_, TurnstilePort>,
    config: &Config,
    resolved: &Resolved,
    (link, grafted): (Link, bool),
    extack: &mut Extack,
) -> Result {
    may_pause(config, on.is_root(), link, grafted, extack)?;
    let Some(pfc) = &config.pfc else {
        return Ok(());
    };
    match on.lock(|this, _| this.port.config().pfc.is_some()) {
        Some(true) => Ok(()),
        _ => {
            let tally = tally(on, config)?;
            on.listen(Ear::new(pfc, config, resolved, link, tally)?)
        }
    }
}

/// What ports of the namespace count together that share a buffer, if this is to be one.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn tally(on: &Configuring<'_, TurnstilePort>, config: &Config) -> Result<Option<Tally>> {
    let generate = config.pfc.and_then(|pfc| pfc.generate);
    match generate.and_then(|generate| generate.share) {
        Some(_) => on.device().tally().map(Some),
        None => Ok(None),
    }
}

/// Refuses to pause others where that does not work.
fn may_pause(
    config: &Config,
    root: bool,
    link: Link,
    grafted: bool,
    extack: &mut Extack,
) -> Result {
    let what = if !config.generates() {
        return Ok(());
    } else if !root {
        // What asks a child for packets only when some are queued there.
        "pfc xoff: only for a device's root qdisc: others are not asked in time"
    } else if !link.ethernet {
        "pfc xoff: the device is no Ethernet, and has no pauses"
    } else if link.stacked {
        "pfc xoff: frames of a bridge, bond or VLAN leave by other devices: give it to those"
    } else if grafted {
        "pfc xoff: class :2 has a child qdisc, which may drop packets"
    } else {
        return Ok(());
    };
    Err(refuse::<Config>(extack, what))
}

impl TurnstilePort {
    /// [`TurnstilePort::put`] for data, in a port that pauses others.
    #[inline(never)]
    pub(super) fn put_counted(
        skb: Skb,
        slot: Slot,
        came: Option<Nanos>,
        on: &mut Enqueuing<'_, Self>,
    ) {
        let at = came.unwrap_or_else(now);
        let mut packet = PortPacket::new(skb, on.qdisc().0.port.framing());
        let wire_len = packet.meta().wire_len;
        let charge = on.listener_of(&packet.0, |ear| ear.ledger().charge(at, wire_len));
        let (this, report) = on.qdisc();
        let meta = packet.meta();
        let has_room = match charge {
            Some(Charge::Held(epoch)) => {
                packet.set_charged(epoch);
                true
            }
            Some(Charge::Asking(epoch)) => {
                this.port.asks_for_pause();
                packet.set_charged(epoch);
                true
            }
            Some(Charge::Full) => false,
            None => {
                if this.port.data_bytes() == 0 {
                    // Some of it was dropped.
                    this.own = 0;
                }
                let has_room = this.port.has_room_for_own(this.own, &meta);
                if has_room {
                    this.own = this.own.saturating_add(meta.len.into());
                }
                has_room
            }
        };
        if !has_room {
            this.port.refuse_data(&meta);
            return report.refuse(packet.0, DropReason::OverLimit);
        }
        let queued = this
            .port
            .enqueue_at(at, slot, packet, &mut OnEnqueue(report));
        if queued == Enqueue::Queued {
            report.queued(meta.len);
        }
    }
}
