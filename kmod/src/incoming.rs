// SPDX-License-Identifier: GPL-2.0
//! A message that comes in, as the socket's side keeps it.

use crate::budget::Place;
use kernel::rbtree::RBTreeNodeReservation;
use knet_transport::{Segments, SockAddress};
use turnstile_core::transport::host::InId;

/// What is kept with the endpoint while a message comes, and with the socket until it is read.
pub(crate) struct Incoming {
    /// The socket's handle.
    pub(crate) socket: u64,
    /// Its number on the socket.
    pub(crate) number: u64,
    /// Whom it is from.
    pub(crate) from: SockAddress,
    /// Which local address it is for.
    pub(crate) local: [u8; 16],
    /// The device that it came by first.
    pub(crate) device: u32,
    /// The VRF that this is in, which answers stay in; 0: none.
    pub(crate) vrf: u32,
    /// What came.
    pub(crate) segments: Segments,
    /// Its length, once that is known.
    pub(crate) length: Option<u32>,
    /// All bytes below have come.
    pub(crate) contiguous: u32,
    /// All bytes below were read.
    pub(crate) read: u32,
    /// Bytes below may come.
    pub(crate) window: u32,
    /// What room it has.
    pub(crate) place: Place,
    /// When it began, ns.
    pub(crate) began: u64,
    /// Where it is in the order of those that can be read, once it can.
    pub(crate) order: Option<u64>,
    /// Its place among those that are complete, so that completing needs no memory.
    pub(crate) slot: Option<RBTreeNodeReservation<u64, Incoming>>,
}

impl Incoming {
    /// Bytes below can be handed out. While the length is not known the last byte is kept back: it
    /// goes out with the message's end, so that no read is empty.
    pub(crate) fn readable(&self) -> u32 {
        if self.length.is_some() {
            self.contiguous
        } else {
            self.contiguous.saturating_sub(1)
        }
    }

    /// Whether there is something to hand out.
    pub(crate) fn has_more(&self) -> bool {
        self.readable() > self.read
    }

    /// Whether all of it was read.
    pub(crate) fn is_read(&self) -> bool {
        self.length == Some(self.read)
    }

    /// What it takes in the budget.
    pub(crate) fn reserved(&self) -> u32 {
        self.length.unwrap_or(self.contiguous)
    }
}

/// The message that is being read.
pub(crate) enum Reading {
    /// It still comes in.
    Coming(InId, u64),
    /// It is complete.
    Whole(Incoming),
    /// It failed with this errno, and the application has read a part of it.
    Failed(u32),
}
