// SPDX-License-Identifier: GPL-2.0
//! The options of a port, of which a user gives some and the kernel reports all.

use turnstile_core::port::config::{Drain, DscpMap, Expiry, Order, Tokens};
use turnstile_core::units::Nanos;

/// What the port is shaped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Not shaped: the device's own speed counts.
    Auto,
    /// bytes/s.
    Rate(u64),
}

/// A phantom queue, or the parts of one that a change is to give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phantom {
    /// None.
    Off,
    /// What is `None` stays; a port that has no phantom queue needs both.
    On {
        /// The rate at which it drains.
        drain: Option<Drain>,
        /// Bytes: packets that find more in it are marked.
        mark: Option<u32>,
    },
}

/// The options that were given; what is `None` was not.
///
/// The kernel, not this type, has the last word on what is allowed: values out of range can be
/// sent, and are refused there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The rate that the whole port is shaped to.
    pub link: Option<Link>,
    /// The token group's rate.
    pub tokens: Option<Tokens>,
    /// Number of token priorities.
    pub priorities: Option<u32>,
    /// Packets: cap of each token queue.
    pub token_limit: Option<u32>,
    /// When a waiting token is dropped.
    pub token_expiry: Option<Expiry>,
    /// Which of tokens and data goes first.
    pub order: Option<Order>,
    /// Packets: cap of the unscheduled band; 0: no such band.
    pub unscheduled: Option<u32>,
    /// Bytes: cap of the data band's own queue.
    pub data_limit: Option<u32>,
    /// Packets: cap of the signal band.
    pub signal_limit: Option<u32>,
    /// Where packets go that nothing else classified.
    pub dscp: Option<DscpMap>,
    /// Split GSO super-packets into wire packets.
    pub split_gso: Option<bool>,
    /// Bytes added to each packet for what the wire carries beside it.
    pub overhead: Option<u32>,
    /// Bytes: the least that a packet occupies on the wire.
    pub mpu: Option<u32>,
    /// How late the machine may be.
    pub jitter: Option<Nanos>,
    /// The data band's phantom queue.
    pub phantom: Option<Phantom>,
    /// The sampling period of the data band's REN marker; inner `None`: there is none.
    pub ren: Option<Option<Nanos>>,
}
