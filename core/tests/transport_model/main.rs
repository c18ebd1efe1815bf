// SPDX-License-Identifier: GPL-2.0
//! The transport in a model network: hosts with the real endpoint, switches with the real port,
//! links that lose, reorder and duplicate.
//!
//! Time is virtual and everything is seeded: a run is the same each time.

mod adversary;
mod apart;
mod attacks;
mod batches;
mod cipher;
mod crossing;
mod crowds;
mod failing;
mod fanout;
mod forged;
mod fuzz;
mod gaps;
mod goals;
mod host;
mod hostlink;
mod idle;
mod late;
mod leaves;
mod links;
mod network;
mod outage;
mod overtaken;
mod paced;
mod paths;
mod pauses;
mod progress;
mod published;
mod ren;
mod restarts;
mod rules;
mod sealed;
mod sealed_share;
mod sharing;
mod short;
mod shuffles;
mod soak;
mod starts;
mod starved;
mod takers;
mod topology;
mod trains;
mod turns;
mod vanished;
mod victims;

use network::{Link, Network};
use turnstile_core::units::Nanos;

/// All draws and lengths are asked for (`TURNSTILE_LONG=1`), and not only those that together show
/// each thing once.
fn is_long() -> bool {
    std::env::var_os("TURNSTILE_LONG").is_some()
}

fn nanos(now: u64) -> Nanos {
    Nanos(now)
}
