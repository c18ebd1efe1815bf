// SPDX-License-Identifier: GPL-2.0
//! The transport: messages between hosts. The receiver schedules them with tokens, which the sender
//! answers with data.
//!
//! Sans-I/O: packets and times are arguments, packets to send and deadlines are results; nothing
//! here does I/O or reads a clock.
//!
//! | module | what is there |
//! |---|---|
//! | [`config`] | the options: ranges, defaults, checks, and the values that follow from them |
//! | [`endpoint`] | all messages of a host: start here |
//! | [`budget`] | how a socket's receive buffer is shared by messages |
//! | [`feedback`] | credit feedback: the rate of a message's tokens |
//! | [`host`] | the traits that the endpoint's user implements, and the facts about messages that it gets |
//! | [`jitter`] | random numbers, and randomized intervals between tokens |
//! | [`policy`] | which message gets tokens first, and with which priority |
//! | [`rate`] | rates of senders that are not asked: DCQCN and TIMELY |
//! | [`ring`] | a bounded queue of events for listeners |
//! | [`room`] | how a socket's send buffer is shared by its peers |
//! | [`seal`] | sealed packets: keys, numbers, what follows a packet |
//! | [`stats`] | the counters |
//! | [`wire`] | the wire format: parsing untrusted packets, and writing |

/// Counts a step of a table, for tests of how long calls take; otherwise nothing.
macro_rules! step {
    () => {
        #[cfg(test)]
        $crate::transport::testing::step();
    };
}

mod again;
mod allowance;
mod below;
mod bucket;
pub mod budget;
pub mod config;
mod early;
pub mod endpoint;
mod fan;
pub mod feedback;
mod gaps;
mod heap;
mod hint;
pub mod host;
mod incoming;
mod index;
pub mod jitter;
mod ledger;
mod line;
mod links;
mod maybe;
pub mod net;
mod orphans;
mod outgoing;
mod pacer;
mod paged;
mod peers;
pub mod policy;
pub mod ports;
mod progress;
mod ranges;
pub mod rate;
mod remembered;
pub mod ring;
pub mod room;
pub mod seal;
mod seen;
mod shares;
mod siphash;
mod slab;
mod stalls;
pub mod stats;
mod tally;
#[cfg(test)]
mod testing;
mod turns;
pub mod uapi;
mod used;
mod vain;
mod waiting;
mod wakes;
pub mod wire;
