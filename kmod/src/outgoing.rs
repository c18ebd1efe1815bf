// SPDX-License-Identifier: GPL-2.0
//! A message that goes out, as the socket's side keeps it.

use crate::room::{Part, Share};
use knet_transport::{SockAddress, Tie, Writer, Written};
use turnstile_core::transport::host::OutId;

/// Counted for each message beside its bytes.
pub(crate) const OVERHEAD: u32 = 1024;

/// What is kept with the endpoint until the message is delivered or fails.
pub(crate) struct Outgoing {
    /// The socket's handle.
    pub(crate) socket: u64,
    /// Its number on the socket.
    pub(crate) number: u32,
    /// The data.
    pub(crate) written: Written,
    /// Bytes that were acknowledged.
    pub(crate) acked: u32,
    /// Bytes of the send buffer that it takes; of them those that are beside it.
    pub(crate) charged: u32,
    pub(crate) beside: u32,
    /// When it began, ns.
    pub(crate) began: u64,
    /// Whom it is for.
    pub(crate) to: SockAddress,
    /// Its peer has only a part of the send buffer.
    pub(crate) shares: bool,
    /// What its bytes are of.
    pub(crate) part: Part,
    /// The device that it has to go by; 0: the tie's, or any.
    pub(crate) device: u32,
    /// What the socket was tied to when it began.
    pub(crate) tie: Tie,
}

impl Outgoing {
    /// What it takes of the send buffer.
    pub(crate) fn share(&self) -> Share {
        Share {
            to: self.shares.then_some(self.to),
            part: self.part,
        }
    }
}

/// A message that further calls append to.
pub(crate) struct Open {
    /// What to append with.
    pub(crate) writer: Writer,
    /// The message, once it has begun.
    pub(crate) id: OutId,
    /// Its number on the socket.
    pub(crate) number: u32,
    /// Whom it is for.
    pub(crate) to: SockAddress,
    /// Its peer has only a part of the send buffer.
    pub(crate) shares: bool,
    /// Its length, if that was given.
    pub(crate) length: Option<u32>,
    /// How much of it there is.
    pub(crate) written: u32,
}

impl Open {
    /// The peer of whose part of the send buffer it takes.
    pub(crate) fn share(&self) -> Option<SockAddress> {
        self.shares.then_some(self.to)
    }
}
