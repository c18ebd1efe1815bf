// SPDX-License-Identifier: GPL-2.0
//! How a socket's receive buffer is shared by the messages that come in.
//!
//! A message that takes no more than half of the buffer has all of its length *reserved* when it
//! begins, so that it can be complete without anybody reading. Others *stream*: the first of them
//! has half of the buffer for itself, the *exclusive* one, and is handed out while it comes; those
//! behind it *share* a quarter, so that their first bytes are under way. While messages stream,
//! reservations have the last quarter. When there is none left, short messages wait among those
//! that share.
//!
//! So there is no deadlock: the exclusive message goes on as it is read, and when it ends the next
//! one takes its place. The application cannot be waiting for a message that waits for room which
//! only another read would make.

/// Counted for each message beside its bytes.
pub(crate) const OVERHEAD: u32 = 1024;
/// A buffer is never taken to be smaller.
const LEAST: u32 = 16 << 10;

/// What room a message has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All of its length is reserved.
    Reserved,
    /// Part of the shared quarter.
    Shared,
    /// Half of the buffer.
    Exclusive,
}

/// A socket's receive buffer.
pub(crate) struct Budget {
    total: u32,
    reserved: u32,
    shared: u32,
    exclusive: Option<u64>,
    /// How many share.
    waiting: u32,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self {
            total: LEAST,
            reserved: 0,
            shared: 0,
            exclusive: None,
            waiting: 0,
        }
    }

    /// The buffer is that large, in the kernel's way of counting: half of it is for bytes of
    /// messages.
    pub(crate) fn resize(&mut self, receive_buffer: u32) {
        self.total = (receive_buffer / 2).max(LEAST);
    }

    fn half(&self) -> u32 {
        self.total / 2
    }

    fn quarter(&self) -> u32 {
        self.total / 4
    }

    /// A message begins. Returns its place, and how much of it may come.
    pub(crate) fn admit(&mut self, length: Option<u32>) -> (Place, u32) {
        let streams = self.exclusive.is_some() || self.waiting != 0;
        let limit = if streams { self.quarter() } else { self.total };
        if let Some(length) = length.filter(|length| *length <= self.half()) {
            let reserved = self
                .reserved
                .saturating_add(length)
                .saturating_add(OVERHEAD);
            if reserved <= limit {
                self.reserved = reserved;
                return (Place::Reserved, length);
            }
        }
        let window = (self.total / 16)
            .min(self.quarter().saturating_sub(self.shared))
            .min(length.unwrap_or(u32::MAX));
        self.shared = self.shared.saturating_add(window);
        self.waiting = self.waiting.saturating_add(1);
        (Place::Shared, window)
    }

    /// Whether the first of those that share can be exclusive now.
    pub(crate) fn may_promote(&self) -> bool {
        self.exclusive.is_none() && self.waiting != 0 && self.reserved <= self.half()
    }

    /// A message that had `window` of the shared part is exclusive; it may have this much.
    pub(crate) fn promote(&mut self, number: u64, window: u32) -> u32 {
        self.leave_shared(window);
        self.exclusive = Some(number);
        self.half()
    }

    /// How far ahead of what was read the exclusive message may be.
    pub(crate) fn ahead(&self) -> u32 {
        self.half()
    }

    fn leave_shared(&mut self, window: u32) {
        self.shared = self.shared.saturating_sub(window);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A message that shared is complete: what it takes is a reservation from now on.
    pub(crate) fn settle(&mut self, window: u32, length: u32) {
        self.leave_shared(window);
        self.reserved = self
            .reserved
            .saturating_add(length)
            .saturating_add(OVERHEAD);
    }

    /// A message is read or gone.
    pub(crate) fn leave(&mut self, place: Place, window: u32, length: u32) {
        match place {
            Place::Reserved => {
                self.reserved = self
                    .reserved
                    .saturating_sub(length)
                    .saturating_sub(OVERHEAD);
            }
            Place::Shared => self.leave_shared(window),
            Place::Exclusive => self.exclusive = None,
        }
    }

    /// The message that has half of the buffer.
    pub(crate) fn exclusive(&self) -> Option<u64> {
        self.exclusive
    }
}
