// SPDX-License-Identifier: GPL-2.0
//! A message that comes in, as the socket's side keeps it.

use core::num::NonZeroU32;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNodeReservation;
use knet_transport::{Segments, SockAddress, Tie};
use turnstile_core::transport::budget::{Place, Standing};
use turnstile_core::transport::host::{InId, Least};

/// As the endpoint and then the socket have it: it stays where it is made.
pub(crate) type Kept = KBox<Incoming>;

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
    /// What the socket was tied to when it began.
    pub(crate) tie: Tie,
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
    /// Whether its sender has proved its address, and whose room it has.
    pub(crate) standing: Standing,
    /// Its sender had stalled before it began.
    pub(crate) stalled: bool,
    /// It is charged for so many bytes, if that is more than its length: for the memory that it
    /// takes.
    pub(crate) kept: u32,
    /// Some of it was handed out.
    pub(crate) begun: bool,
    /// When it began, ns.
    pub(crate) began: u64,
    /// Where it is in the order of those that can be read, once it can.
    pub(crate) order: Option<u64>,
    /// Its place among those that are complete, so that completing needs no memory.
    pub(crate) slot: Option<Slot>,
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

    /// Bytes that can be handed out.
    pub(crate) fn unread(&self) -> u32 {
        self.readable().saturating_sub(self.read)
    }

    /// Whether there is something to hand out.
    pub(crate) fn has_more(&self) -> bool {
        self.readable() > self.read
    }

    /// Whether all of it was read.
    pub(crate) fn is_read(&self) -> bool {
        self.length == Some(self.read)
    }

    /// What the budget wants to know when it leaves.
    pub(crate) fn charged(&self) -> u32 {
        match self.place {
            Place::Shared => self.window,
            _ => self.length.unwrap_or(self.contiguous).max(self.kept),
        }
    }

    /// How much should come of it if others wait for what it has: a part of what it may have.
    pub(crate) fn least(&self) -> Least {
        Least {
            bytes: self.part(LEAST_PART),
            always: true,
        }
    }

    /// The same if others could do without, and are slower.
    pub(crate) fn least_slow(&self) -> Least {
        Least {
            bytes: self.part(LEAST_SLOW_PART),
            always: false,
        }
    }

    fn part(&self, part: NonZeroU32) -> u32 {
        (self.window.saturating_sub(self.read) / part).max(1)
    }
}

/// The part of a message's window that should come in `timeout` if others wait for it.
const LEAST_PART: NonZeroU32 = NonZeroU32::new(16).unwrap();
/// The same if others could do without.
const LEAST_SLOW_PART: NonZeroU32 = NonZeroU32::new(256).unwrap();

/// A place among the messages that are complete. In the tree there is always one.
pub(crate) type Slot = RBTreeNodeReservation<u64, Option<Kept>>;

/// Where a message is.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    /// It still comes in.
    Coming(InId),
    /// It is complete, and has this place in the order of those that can be read.
    Done(u64),
}
