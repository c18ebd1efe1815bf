// SPDX-License-Identifier: GPL-2.0
//! What a message has of a receive buffer, and what the [budget](super::Budget) wants to know of
//! it.

/// What room a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// None: it waits, and its length is known and small enough to be reserved.
    Waiting,
    /// All of its length is reserved.
    Reserved,
    /// The same, of the eighth that is for short messages when all else is taken.
    Spare,
    /// Part of the shared eighth, perhaps nothing: it waits to be exclusive.
    Shared,
    /// Half of the buffer.
    Exclusive,
}

/// Whose room a message has, and whether it is in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its sender has not proved its address: it has strangers' room, and is in no queue.
    Stranger,
    /// It has, and the message still has strangers' room.
    Former,
    /// It has, and the message has others' room.
    Known,
}

/// In which order messages that wait get room; of a class the shortest first, or for turns and
/// those that stream by [rounds](super::Rounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// They may have a part of what is spare.
    First,
    /// Their senders have too much for that.
    Late,
    /// Their senders have stalled.
    Last,
}

/// What a message's sender has of the buffer already, of messages whose senders have proved their
/// addresses. Bytes, as they are [charged](super::Budget::charged).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Has {
    /// The peer, an address with any number of ports, in all.
    pub peer: u32,
    /// Its network, of the [spare](Place::Spare) part.
    pub net: u32,
    /// A message of the peer was given up because it did not go on: the buffer does not grow for
    /// others of it.
    pub stalled: bool,
}

/// A message that waits, as [`next`](super::Budget::next) wants to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its number; smaller ones came earlier.
    pub number: u64,
    /// Bytes: of one that is [`Place::Waiting`] its length; of one that shares its window, if that
    /// is not of strangers' room.
    pub bytes: u32,
    /// What its sender has.
    pub has: Has,
}

/// Who is given room next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nobody.
    None,
    /// This one of those that are [`Place::Waiting`], and its place; see
    /// [`reserve`](super::Budget::reserve).
    Reserve(Waiter, Place),
    /// This one of them is longer than half of what the buffer may be by now: it shares from now
    /// on, with a window of 0; see [`stream`](super::Budget::stream).
    Stream(Waiter),
    /// The first of those that share; see [`promote`](super::Budget::promote).
    Promote,
}
