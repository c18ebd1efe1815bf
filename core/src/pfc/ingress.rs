// SPDX-License-Identifier: GPL-2.0
//! Who asks for pauses: the bytes that a switch or host holds of one ingress and one priority.
//!
//! A port counts what has come in by each link and not left yet. [`Ingress::arrive`] and
//! [`Ingress::leave`] say when a control frame has to go back by that link, and
//! [`Ingress::refresh`] when one has to be repeated so that the pause does not end at the other
//! end: half of the time of the frame that was sent.
//!
//! # Two rooms
//!
//! What comes in is put into one of two rooms, and leaves the second one first:
//!
//! 1. The *pool* that all ingresses share, as long as the priority is not paused and its part of
//!    the pool stays within `xoff`. So no more than `xoff` of the pool is ever taken.
//! 2. Its own *headroom*: the frame that finds no room in the first, which is the one that sends
//!    the pause, and all that comes until the pause acts. How much that can be says
//!    [`Headroom::above_xoff`](super::headroom::Headroom::above_xoff).
//!
//! What does not fit into the headroom either is not counted, and is to be dropped: [`Fits::No`].
//!
//! The pause ends when the headroom is empty and the priority holds no more than `xon`. There
//! should be a frame at least between `xon` and `xoff`, or each frame is a pause and its end.
//!
//! # Dynamic thresholds
//!
//! With [`Xoff::Share`] the threshold is `alpha` times what is free in the pool (Choudhury and
//! Hahne, *Dynamic Queue Length Thresholds for Shared-Memory Packet Switches*, 1998): with n
//! priorities that want more than they have, each gets alpha / (1 + n alpha) of the pool, and 1 /
//! (1 + n alpha) stays free for those to come. A priority that holds nothing may send whatever the
//! threshold is: otherwise it could stay paused with nothing left to wait for.
//!
//! # One frame that waits
//!
//! A control frame that has not left yet says what is decided meanwhile: the last decision of each
//! priority is what counts, and no frame waits behind another.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{time_of, MAX_QUANTA};
use crate::units::{Nanos, Rate};

/// What all ingresses share. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    size: u64,
    used: u64,
}

impl Pool {
    /// An empty pool of so many bytes.
    pub const fn new(size: u64) -> Self {
        Self { size, used: 0 }
    }

    /// Bytes in it.
    #[inline]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Another size from now on. What is in it stays; there is no room until less is.
    pub fn set(&mut self, size: u64) {
        self.size = size;
    }
}

/// A pool as an ingress uses it.
pub trait Room {
    /// Bytes that still fit.
    fn free(&self) -> u64;

    /// Takes so many, if they fit.
    fn take(&mut self, bytes: u64) -> bool;

    /// They are there already.
    fn have(&mut self, bytes: u64);

    /// They are there no longer.
    fn give(&mut self, bytes: u64);
}

impl Room for Pool {
    #[inline]
    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    #[inline]
    fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free();
        if fits {
            self.have(bytes);
        }
        fits
    }

    fn have(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
    }

    #[inline]
    fn give(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }
}

/// A pool that ingresses on several processors share, each of which has a handle of the bytes that
/// are in it. How large it is, is each one's own to say.
#[derive(Clone, Copy, Debug)]
pub struct Common<S> {
    size: u64,
    used: S,
}

impl<S: Deref<Target = AtomicU64>> Common<S> {
    /// A pool of so many bytes, of which `used` are taken.
    pub const fn new(size: u64, used: S) -> Self {
        Self { size, used }
    }

    /// Another size from now on, as for [`Pool::set`].
    pub fn set(&mut self, size: u64) {
        self.size = size;
    }
}

/// Nothing else is ordered by the number: it counts.
impl<S: Deref<Target = AtomicU64>> Room for Common<S> {
    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used.load(Relaxed))
    }

    fn take(&mut self, bytes: u64) -> bool {
        let size = self.size;
        let fits = |used: u64| used.checked_add(bytes).filter(|&used| used <= size);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    fn have(&mut self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    fn give(&mut self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// A factor in 1/256, as thresholds have it: 1/256 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha(pub u16);

impl Alpha {
    /// A half: one priority gets a third of the pool, two get a quarter each.
    pub const HALF: Self = Self(128);
    /// One: one priority gets half of the pool, two get a third each.
    pub const ONE: Self = Self(256);

    /// So many times `free` bytes, rounded down.
    pub fn of(self, free: u64) -> u64 {
        let (high, low) = (free >> 8, free & 255);
        let part = low.wrapping_mul(self.0.into()) >> 8;
        high.saturating_mul(self.0.into()).saturating_add(part)
    }
}

/// When a priority is paused and when that ends. Bytes held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xoff {
    /// Always the same.
    Fixed {
        /// It is paused when it would hold more.
        xoff: u64,
        /// The pause ends when it holds no more than this.
        xon: u64,
    },
    /// By what is free in the pool.
    Share {
        /// It is paused when it would hold more than this times the free bytes.
        alpha: Alpha,
        /// The pause ends when it holds so much less than that, or nothing.
        gap: u64,
    },
}

/// How an ingress is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The thresholds.
    pub xoff: Xoff,
    /// Bytes that it has for itself, for what comes when it has sent a pause.
    pub headroom: u64,
}

/// A control frame that has to go: what it says of the priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Send {
    /// For how many quanta the other end is to be silent; 0 if it may send.
    pub quanta: u16,
}

impl Send {
    /// Be silent.
    pub const PAUSE: Self = Self { quanta: MAX_QUANTA };
    /// You may send.
    pub const END: Self = Self { quanta: 0 };
}

/// Where a frame that arrived has found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// In the pool.
    Pool,
    /// In the headroom.
    Headroom,
    /// Nowhere. It is to be dropped, and does not leave.
    No,
}

/// What is counted of an ingress and priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pauses that began.
    pub pauses: u64,
    /// Pauses that ended.
    pub ends: u64,
    /// Frames that refreshed a pause.
    pub refreshes: u64,
    /// Frames that found no room.
    pub drops: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// The most bytes that were held.
    pub most: u64,
    /// The most bytes that were in the headroom.
    pub most_headroom: u64,
    /// Bytes that were said to leave and were not there. It is 0 if the caller makes no mistake.
    pub strays: u64,
}

/// The bytes of one ingress and one priority. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Ingress {
    limits: Limits,
    /// Half of the time of a pause.
    half: Nanos,
    pooled: u64,
    beyond: u64,
    /// When the pause that was sent is to be refreshed, if it is one.
    paused: Option<Nanos>,
    counters: Counters,
}

impl Ingress {
    /// Nothing is held. `rate` is that of the link by which the frames come.
    pub fn new(limits: Limits, rate: &Rate) -> Self {
        Self {
            limits,
            half: half(rate),
            pooled: 0,
            beyond: 0,
            paused: None,
            counters: Counters::default(),
        }
    }

    /// Other limits and another rate from now on. What is held stays where it is, and a pause lasts
    /// until it ends by the new limits: call [`Ingress::check`] then.
    pub fn set(&mut self, limits: Limits, rate: &Rate) {
        self.limits = limits;
        self.half = half(rate);
    }

    /// Bytes held.
    #[inline]
    pub fn held(&self) -> u64 {
        self.pooled.saturating_add(self.beyond)
    }

    /// What is in a pool is in another one from now on.
    pub fn pass(&self, from: &mut impl Room, to: &mut impl Room) {
        from.give(self.pooled);
        to.have(self.pooled);
    }

    /// Bytes in the headroom.
    #[inline]
    pub fn in_headroom(&self) -> u64 {
        self.beyond
    }

    /// Was the other end told to be silent?
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How much it may hold of the pool as it is.
    pub fn threshold(&self, pool: &impl Room) -> u64 {
        match self.limits.xoff {
            Xoff::Fixed { xoff, .. } => xoff,
            Xoff::Share { alpha, .. } => alpha.of(pool.free()),
        }
    }

    /// A frame of so many bytes has come in at `now`: where it has room, and whether a pause has to
    /// go.
    pub fn arrive(&mut self, now: Nanos, bytes: u32, pool: &mut impl Room) -> (Fits, Option<Send>) {
        let bytes = u64::from(bytes);
        let pooled = self.pooled.saturating_add(bytes);
        if self.paused.is_none() && pooled <= self.threshold(pool) && pool.take(bytes) {
            self.pooled = pooled;
            self.counters.most = self.counters.most.max(self.held());
            return (Fits::Pool, None);
        }
        let beyond = self.beyond.saturating_add(bytes);
        let fits = if beyond <= self.limits.headroom {
            self.beyond = beyond;
            self.counters.most = self.counters.most.max(self.held());
            self.counters.most_headroom = self.counters.most_headroom.max(beyond);
            Fits::Headroom
        } else {
            self.counters.drops = self.counters.drops.wrapping_add(1);
            self.counters.dropped_bytes = self.counters.dropped_bytes.wrapping_add(bytes);
            Fits::No
        };
        // Of a priority that holds nothing nothing will leave, which could end the pause.
        if self.is_paused() || self.held() == 0 {
            return (fits, None);
        }
        self.paused = Some(now + self.half);
        self.counters.pauses = self.counters.pauses.wrapping_add(1);
        (fits, Some(Send::PAUSE))
    }

    /// A frame of so many bytes leaves that [`Ingress::arrive`] found room for, on the wire or
    /// dropped: whether the pause is over.
    pub fn leave(&mut self, bytes: u32, pool: &mut impl Room) -> Option<Send> {
        let bytes = u64::from(bytes);
        let first = bytes.min(self.beyond);
        let rest = bytes.saturating_sub(first);
        let second = rest.min(self.pooled);
        let strays = rest.saturating_sub(second);
        self.beyond = self.beyond.saturating_sub(first);
        self.pooled = self.pooled.saturating_sub(second);
        self.counters.strays = self.counters.strays.saturating_add(strays);
        pool.give(second);
        self.check(pool)
    }

    /// Whether the pause is over, since there is more room than before: limits were changed, or
    /// others left a pool of [`Xoff::Share`]. A priority that is not asked about is told when
    /// something of it leaves.
    pub fn check(&mut self, pool: &impl Room) -> Option<Send> {
        if self.paused.is_none() || self.beyond != 0 || !self.is_below(pool) {
            return None;
        }
        self.end()
    }

    /// When [`Ingress::refresh`] is to be called: half of the time of the pause has passed since
    /// the frame was asked for. `None` while the priority is not paused, or if the link's rate is
    /// not known.
    #[inline]
    pub fn refresh_at(&self) -> Option<Nanos> {
        self.paused.filter(|_| self.half != Nanos::ZERO)
    }

    /// The frame that refreshes the pause, if that is due.
    pub fn refresh(&mut self, now: Nanos) -> Option<Send> {
        if self.refresh_at()? > now {
            return None;
        }
        self.paused = Some(now + self.half);
        self.counters.refreshes = self.counters.refreshes.wrapping_add(1);
        Some(Send::PAUSE)
    }

    /// Gives all back, since the device, or who counts, goes away: the bytes that were held, and
    /// what to say to the other end if it is still there. None of them may be said to leave later.
    pub fn forget(&mut self, pool: &mut impl Room) -> (u64, Option<Send>) {
        let held = self.held();
        pool.give(self.pooled);
        (self.pooled, self.beyond) = (0, 0);
        let send = if self.is_paused() { self.end() } else { None };
        (held, send)
    }

    fn is_below(&self, pool: &impl Room) -> bool {
        let below = match self.limits.xoff {
            Xoff::Fixed { xon, .. } => self.pooled <= xon,
            Xoff::Share { gap, .. } => self.pooled.saturating_add(gap) <= self.threshold(pool),
        };
        below || self.pooled == 0
    }

    fn end(&mut self) -> Option<Send> {
        self.paused = None;
        self.counters.ends = self.counters.ends.wrapping_add(1);
        Some(Send::END)
    }
}

/// Half of the longest pause, rounded down.
fn half(rate: &Rate) -> Nanos {
    Nanos(time_of(rate, MAX_QUANTA).0 >> 1)
}

#[cfg(test)]
mod tests;
