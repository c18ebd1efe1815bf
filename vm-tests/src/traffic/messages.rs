// SPDX-License-Identifier: GPL-2.0
//! Messages between hosts, over Turnstile's sockets or TCP, with their completion times: from the
//! request to send until the receiving application has read the last byte.
//!
//! One thread does all of it: it sleeps until a message is due or a socket is ready. Both
//! transports are used alike: a message takes an idle `Channel` between its two hosts, which is an
//! open connection, or a pair of Turnstile sockets of hosts that have exchanged a message, so that
//! neither is charged for handshakes. A
//! message that finds no idle channel waits, and its time runs.

mod channel;
mod engine;
mod hosts;
mod outcome;
mod sizes;

use std::net::Ipv4Addr;

use crate::netns::Netns;
use crate::topology::Fabric;

pub use engine::Messages;
pub use hosts::Hosts;
pub use outcome::{summary, Alone, Class};
pub use sizes::{poisson, Sizes, CACHE_FOLLOWER, DATA_MINING, HADOOP, WEB_SEARCH};

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, with the congestion control that the hosts' routes name.
    Tcp,
    /// Turnstile's sockets, with what is configured in the hosts' namespaces.
    Turnstile,
}

/// A host that sends and receives.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Where its sockets are.
    pub ns: &'a Netns,
    /// Where it is reached.
    pub address: Ipv4Addr,
}

/// The hosts of a network, in its order.
pub fn places(fabric: &Fabric) -> Vec<Place<'_>> {
    (0..fabric.hosts())
        .map(|host| Place {
            ns: fabric.host(host),
            address: fabric.address(host),
        })
        .collect()
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of the host that sends it.
    pub from: usize,
    /// Index of the host that gets it.
    pub to: usize,
    /// Its length, at least 1.
    pub bytes: u64,
    /// When it is requested, ns after the start.
    pub at: u64,
    /// Turnstile: the priority of its tokens, instead of the policy's.
    pub priority: Option<u8>,
}

impl Message {
    /// At the start, with the policy's priority.
    pub const fn new(from: usize, to: usize, bytes: u64) -> Self {
        Self {
            from,
            to,
            bytes,
            at: 0,
            priority: None,
        }
    }

    /// Asked for so many ns after the start.
    pub const fn at(self, at: u64) -> Self {
        Self { at, ..self }
    }

    /// With tokens of this priority.
    pub const fn priority(self, priority: u8) -> Self {
        Self {
            priority: Some(priority),
            ..self
        }
    }
}

/// The result for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The message.
    pub message: Message,
    /// Completion time: ns from the request until its last byte was read; `None`: it did not arrive
    /// in time.
    pub took: Option<u64>,
}
