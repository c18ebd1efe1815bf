// SPDX-License-Identifier: GPL-2.0
//! The transport: messages between hosts, scheduled by tokens that the receiver gives and the
//! sender answers with data.
//!
//! Nothing here does I/O or reads a clock: packets and times come in, packets and deadlines come
//! out.
//!
//! | module | what is there |
//! |---|---|
//! | [`config`] | the options: ranges, defaults, checks and what they come to |
//! | [`endpoint`] | all messages of a host: start here |
//! | [`feedback`] | how fast a message is given tokens |
//! | [`host`] | what its user implements, and the facts that it gives |
//! | [`jitter`] | random numbers, and intervals that are varied by them |
//! | [`policy`] | which message is given tokens first, and with which priority |
//! | [`ring`] | events that wait to be told |
//! | [`stats`] | what is counted |
//! | [`wire`] | the packets: reading what anybody may have sent, and writing |

pub mod config;
pub mod endpoint;
pub mod feedback;
mod gaps;
mod heap;
pub mod host;
mod incoming;
mod index;
pub mod jitter;
mod ledger;
mod outgoing;
mod pacer;
mod paged;
mod peers;
pub mod policy;
mod ranges;
mod remembered;
pub mod ring;
mod seen;
mod slab;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod uapi;
pub mod wire;
