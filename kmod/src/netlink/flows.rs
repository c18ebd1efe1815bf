// SPDX-License-Identifier: GPL-2.0
//! Dumps of what is under way.

use super::info;
use crate::state::{State, Turnstile};
use kernel::prelude::*;
use knet_transport::{Control, Dump, Reply};
use turnstile_core::{
    transport::uapi::{link, peer},
    transport::{
        host::{LinkInfo, PeerInfo},
        stats::{Counter, Stats},
    },
    units::Nanos,
};

/// How many are copied each time the state is locked: the lock is held for a short and bounded
/// time, however many there are.
const BATCH: usize = 16;

/// One that was copied, and where to go on after it.
type Copied<T> = (T, u64);

/// Writes one after the other, from `dump`'s position on, until there is no room or `next` gives no
/// more.
///
/// What is there from the first part of the dump to the last is listed once, because its place does
/// not change. What came or went meanwhile may be missing; a reader is told that by the state's
/// number.
fn list<T: Copy>(
    net: &mut Control<'_, Turnstile>,
    dump: &mut Dump<'_>,
    next: impl Fn(&State, u64) -> Option<Copied<T>>,
    write: impl Fn(&T, &mut Reply) -> Result,
) -> Result {
    let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
    loop {
        batch.clear();
        let mut after = dump.position()[0];
        {
            let Some(state) = net.lock() else {
                return Ok(());
            };
            dump.state(changes(state.endpoint.stats()));
            while let Some(found) = next(&state, after) {
                after = found.1;
                // Never full: it ends with the last place.
                let _ = batch.push_within_capacity(found);
                if batch.len() >= BATCH {
                    break;
                }
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        for (item, after) in &batch {
            if !dump.entry(|message| write(item, message))? {
                return Ok(());
            }
            dump.position()[0] = *after;
        }
    }
}

/// A number that is another after a message began or ended.
fn changes(stats: &Stats) -> u32 {
    const ENDS_AND_BEGINNINGS: &[Counter] = &[
        Counter::OutOpened,
        Counter::OutDelivered,
        Counter::OutTimeout,
        Counter::OutRefused,
        Counter::OutReset,
        Counter::OutTooLong,
        Counter::OutProtocol,
        Counter::OutAborted,
        Counter::InOpened,
        Counter::InDelivered,
        Counter::InTimeout,
        Counter::InAborted,
        Counter::InProtocol,
        Counter::InClosed,
    ];
    ENDS_AND_BEGINNINGS.iter().fold(0, |sum: u32, &counter| {
        sum.wrapping_add(stats.get(counter) as u32)
    })
}

/// Positions from here on are those of incoming messages.
const INCOMING: u64 = 1 << 32;

/// `message-get`: the outgoing messages, then the incoming ones.
pub(super) fn messages(net: &mut Control<'_, Turnstile>, dump: &mut Dump<'_>) -> Result {
    let now = Nanos(knet_transport::now());
    let next = |state: &State, from: u64| {
        let outgoing = u32::try_from(from)
            .ok()
            .and_then(|from| state.endpoint.outgoing(now, from));
        if let Some((next, _, info, _)) = outgoing {
            return Some((info, next.into()));
        }
        let from = if from < INCOMING { 0 } else { from as u32 };
        let (next, _, info, _) = state.endpoint.incoming(now, from)?;
        Some((info, INCOMING | u64::from(next)))
    };
    list(net, dump, next, info::write)
}

/// `peer-get`.
pub(super) fn peers(net: &mut Control<'_, Turnstile>, dump: &mut Dump<'_>) -> Result {
    let next = |state: &State, from: u64| {
        let (next, info) = state.endpoint.peers(from as u32)?;
        Some((info, next.into()))
    };
    list(net, dump, next, write_peer)
}

fn write_peer(info: &PeerInfo, message: &mut Reply) -> Result {
    message.bytes(peer::ADDRESS, &info.address.ip)?;
    message.u32(peer::INCOMING, info.incoming)?;
    message.u32(peer::OUTGOING, info.outgoing)?;
    message.u64(peer::MISSING, info.missing, peer::PAD)?;
    message.u64(peer::UNACKNOWLEDGED, info.unacknowledged, peer::PAD)?;
    match info.rtt {
        Some(rtt) => message.u64(peer::RTT, rtt.0, peer::PAD),
        None => Ok(()),
    }
}

/// `link-get`.
pub(super) fn links(net: &mut Control<'_, Turnstile>, dump: &mut Dump<'_>) -> Result {
    let next = |state: &State, from: u64| {
        let (next, info) = state.endpoint.links(from as u32)?;
        Some((info, next.into()))
    };
    list(net, dump, next, write_link)
}

fn write_link(info: &LinkInfo, message: &mut Reply) -> Result {
    if info.device != 0 {
        message.u32(link::DEVICE, info.device)?;
    }
    message.u64(link::RATE, info.rate, link::PAD)?;
    message.u64(link::TOKEN_RATE, info.token_rate, link::PAD)?;
    message.u32(link::INCOMING, info.incoming)
}
