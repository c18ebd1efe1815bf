// SPDX-License-Identifier: GPL-2.0
//! Policies: which message gets tokens first, and with which priority.
//!
//! Both follow from one number, the message's weight: its remaining bytes (SRPT), its attained
//! service (LAS), the time to its deadline (EDF), or the remaining bytes of its coflow. A token's
//! priority is TOP's function of that number, in packets; among a host's own messages the number
//! itself decides.

use core::num::NonZeroU64;

use super::config::{Policy, Resolved, Schedule, Speed};
use crate::port::config::FRAME_WIRE_LEN;
use crate::units::Nanos;

mod lengths;
mod priority;

pub(crate) use lengths::Lengths;
pub use priority::PriorityFunction;

/// The facts of an incoming message that a policy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes, if the length is known.
    pub length: Option<u32>,
    /// Bytes that have come.
    pub received: u32,
    /// Bytes of a full-length packet.
    pub mss: u16,
    /// The deadline.
    pub deadline: Option<Nanos>,
    /// Missing bytes of all messages of its coflow, if it has one; for those of unknown length the
    /// bytes that have come.
    pub coflow: Option<u64>,
    /// The priority that the application wants.
    pub wish: Option<u8>,
    /// When its next token is due.
    pub due: Nanos,
    /// Its place among messages of which as much is missing, under SRPT.
    pub lot: u64,
}

/// An order of messages: among those that may get a token, the one with the smallest key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(
    /// The policy's criterion.
    pub u64,
    /// Among equals: when its token is due, or its lot.
    pub u64,
);

impl Key {
    /// After all others.
    pub const LAST: Self = Self(u64::MAX, u64::MAX);
    /// Before all others.
    pub const FIRST: Self = Self(0, 0);
}

/// A message's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its tokens' priority, 0 the highest. Less than [`PriorityFunction::priorities`].
    pub priority: u8,
    /// Its order among the host's own messages.
    pub key: Key,
}

/// Below the priority in a key.
const WEIGHT_BITS: u32 = 56;
const MAX_WEIGHT: u64 = (1 << WEIGHT_BITS) - 1;

/// A message's rank now.
///
/// Under [`Policy::Top`] the priority comes first, so that an application's choice counts among its
/// host's own messages too; without a choice, priority and weight agree. An older key is nearly
/// right, as weights change by a packet at a time.
pub fn standing(config: &Resolved, speed: &Speed, now: Nanos, facts: &Facts) -> Standing {
    if config.policy != Policy::Top {
        return Standing {
            priority: 0,
            key: Key(facts.due.0, 0),
        };
    }
    // (in packets, in its own unit)
    let (packets, weight) = match config.schedule {
        Schedule::Srpt => of_bytes(facts, remaining(facts)),
        Schedule::Las => of_bytes(facts, facts.received.into()),
        Schedule::Edf => match facts.deadline {
            Some(deadline) => (in_frames(speed, deadline - now), deadline.0),
            None => (u64::MAX, MAX_WEIGHT),
        },
        Schedule::Coflow => of_bytes(facts, facts.coflow.unwrap_or(remaining(facts))),
    };
    let lowest = config.priority.lowest();
    let priority = match facts.wish {
        Some(wish) => wish.min(lowest),
        None => config.priority.of(packets),
    };
    let second = match config.schedule {
        Schedule::Srpt if facts.length.is_some() => facts.lot,
        _ => facts.due.0,
    };
    let key = (u64::from(priority) << WEIGHT_BITS) | weight.min(MAX_WEIGHT);
    Standing {
        priority,
        key: Key(key, second),
    }
}

/// The missing bytes; for a message of unknown length, those that have come (TOP section 3.2,
/// "non-clairvoyant").
fn remaining(facts: &Facts) -> u64 {
    match facts.length {
        Some(length) => length.saturating_sub(facts.received).into(),
        None => facts.received.into(),
    }
}

fn of_bytes(facts: &Facts, bytes: u64) -> (u64, u64) {
    let packets = match NonZeroU64::new(facts.mss.into()) {
        // Up to the next whole packet.
        Some(mss) => (bytes / mss).saturating_add(u64::from(bytes % mss != 0)),
        None => bytes,
    };
    (packets, bytes)
}

/// How many full frames the link carries in `time`.
fn in_frames(speed: &Speed, time: Nanos) -> u64 {
    match NonZeroU64::new(speed.link_rate.duration(FRAME_WIRE_LEN).0) {
        Some(frame) => time.0 / frame,
        None => time.0,
    }
}

#[cfg(test)]
mod tests;
