// SPDX-License-Identifier: GPL-2.0
//! Rate control at the sender: the laws of DCQCN and of TIMELY, for policies in which senders send
//! without being asked, and slow down when the network says so.
//!
//! | module | what is there |
//! |---|---|
//! | [`dcqcn`] | DCQCN (SIGCOMM 2015): the receiver reports marks |
//! | [`timely`] | TIMELY (SIGCOMM 2015): round-trip times |
//! | `flow` | what a sender keeps of each message |
//! | `lately` | how many messages send |
//!
//! Both know a third kind of mark, from ports that detect three states (*Congestion Detection in
//! Lossless Networks*, SIGCOMM 2021, called TCD): see [`Mark`].
//!
//! # How to use it
//!
//! 1. Make a [`Law`] of the options and the link's rate, once for each link, and again when one of
//!    them changes.
//! 2. Make a [`RateControl`] for each message, or for each peer, and hand it the law with each
//!    call. It is small and can be copied. One for each peer learns more: a notification takes at
//!    least a round trip, and a short message is over by then. One for each message is what the
//!    papers' flows are, if messages are long.
//! 3. Tell it each packet that is sent ([`RateControl::sent`]), each notification that comes
//!    ([`RateControl::notified`]), and each segment that is acknowledged
//!    ([`RateControl::completed`]). A law ignores what is not for it, so that the caller need not
//!    know which one it is.
//! 4. After each packet wait for [`RateControl::interval`], or for anything up to that longer,
//!    which is taken off the next time. Where each packet of several flows comes as regularly as a
//!    clock, the one that a port marks first may be the same flow's each time.
//! 5. At the receiver keep a [`dcqcn::Notifier`] for each of DCQCN's flows.
//!
//! No timer is needed. Time that has passed is made up for at the next call, in a bounded number of
//! steps and with the same result. Whoever waits for long between two packets may ask
//! [`RateControl::next`] when the rate goes up, and come back then.
//!
//! # Rates
//!
//! Rates are whole bytes per second on the wire, from 1 to [`Rate::MAX_BYTES_PER_SEC`]. A byte per
//! second is less than a millionth of the lowest rate in use, so nothing finer is needed, and
//! [`Rate::from_bytes_per_sec`] takes any of them. A [`Rate`] itself is not kept: a law would have
//! to reduce its fraction at each step. Cuts are rounded such that the rate is the higher one, by
//! less than a byte per second.

use core::num::NonZeroU64;

use super::jitter::NANO;
use crate::port::marker::field::ecn;
use crate::port::marker::tcd::UE;
use crate::units::{Nanos, Rate};

pub mod dcqcn;
pub(super) mod flow;
pub(super) mod lately;
mod part;
pub mod timely;

/// What a port said about a packet by marking it. The order is that of weight: of several packets
/// that are told as one, the last one in this order counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Nothing.
    #[default]
    None,
    /// The port cannot tell: it was paused by the next one, so its queue may not be its own (TCD
    /// calls it undetermined, UE). A sender without TCD takes it for no mark.
    Undetermined,
    /// The port is congested (CE).
    Congested,
}

impl Mark {
    /// What the two bits of an IP header's ECN field say: RFC 3168's, but that ECT(1) is TCD's UE.
    #[inline]
    pub const fn from_ecn(ecn: u8) -> Self {
        match ecn & ecn::MASK {
            ecn::CE => Self::Congested,
            UE => Self::Undetermined,
            _ => Self::None,
        }
    }

    /// The same two bits; 0 if it is not marked.
    #[inline]
    pub const fn ecn(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Undetermined => UE,
            Self::Congested => ecn::CE,
        }
    }
}

/// The constants of a law, worked out from options and a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// DCQCN's.
    Dcqcn(dcqcn::Law),
    /// TIMELY's.
    Timely(timely::Law),
}

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DCQCN's.
    Dcqcn,
    /// TIMELY's.
    Timely,
}

/// The rate of one message, or of all messages to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateControl {
    /// By DCQCN.
    Dcqcn(dcqcn::Dcqcn),
    /// By TIMELY.
    Timely(timely::Timely),
}

impl RateControl {
    /// A flow that begins, at a host with `others` more of them under way.
    ///
    /// DCQCN begins at the rate of the link however many there are, and TIMELY at an equal part of
    /// it.
    pub fn new(law: &Law, others: u32) -> Self {
        match law {
            Law::Dcqcn(law) => Self::Dcqcn(dcqcn::Dcqcn::new(law)),
            Law::Timely(law) => Self::Timely(timely::Timely::new(law, others)),
        }
    }

    /// Whose law it goes by.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Dcqcn(_) => Kind::Dcqcn,
            Self::Timely(_) => Kind::Timely,
        }
    }

    /// The law has changed. The rate stays, within the new limits. If it is another kind of law,
    /// all but the rate begins anew.
    pub fn configure(&mut self, law: &Law, now: Nanos) {
        let rate = self.bytes_per_sec();
        match (&mut *self, law) {
            (Self::Dcqcn(state), Law::Dcqcn(law)) => state.configure(law),
            (Self::Timely(state), Law::Timely(law)) => state.configure(law),
            (_, Law::Dcqcn(law)) => *self = Self::Dcqcn(dcqcn::Dcqcn::at(law, now, rate)),
            (_, Law::Timely(law)) => *self = Self::Timely(timely::Timely::at(law, rate)),
        }
    }

    /// The rate in bytes/s, on the wire. At least the law's minimum, at most the link's rate.
    #[inline]
    pub const fn bytes_per_sec(&self) -> u64 {
        match self {
            Self::Dcqcn(state) => state.bytes_per_sec(),
            Self::Timely(state) => state.bytes_per_sec(),
        }
    }

    /// The time of a packet of `wire_len` bytes at this rate, in 1024ths of a ns ([`NANO`]) and
    /// rounded up to one. A length above [`Rate::MAX_LEN`] counts as that.
    #[inline]
    pub fn interval(&self, wire_len: u32) -> u64 {
        const UNITS: u64 = Nanos::SECOND.0.wrapping_mul(NANO);
        let Some(rate) = NonZeroU64::new(self.bytes_per_sec()) else {
            return u64::MAX;
        };
        // Below 2^22 x 2^40, and the rate is below 2^42.
        let units = u64::from(wire_len.min(Rate::MAX_LEN)).wrapping_mul(UNITS);
        units.wrapping_add(rate.get().wrapping_sub(1)) / rate
    }

    /// Time has passed. To be called before the rate is used, if that is not right after one of the
    /// other calls.
    #[inline]
    pub fn advance(&mut self, law: &Law, now: Nanos) {
        if let (Self::Dcqcn(state), Law::Dcqcn(law)) = (self, law) {
            state.advance(law, now);
        }
    }

    /// `bytes` were sent, as many as they are on the wire; what is sent again counts again.
    #[inline]
    pub fn sent(&mut self, law: &Law, now: Nanos, bytes: u32) {
        if let (Self::Dcqcn(state), Law::Dcqcn(law)) = (self, law) {
            state.sent(law, now, bytes);
        }
    }

    /// A notification has come from the receiver's [`dcqcn::Notifier`]. Whether TCD held the rate.
    #[inline]
    pub fn notified(&mut self, law: &Law, now: Nanos, mark: Mark) -> bool {
        match (self, law) {
            (Self::Dcqcn(state), Law::Dcqcn(law)) => state.notified(law, now, mark),
            _ => false,
        }
    }

    /// A segment was acknowledged as a whole. See [`timely::Timely::completed`]. Whether TCD held
    /// the rate.
    #[inline]
    pub fn completed(&mut self, law: &Law, rtt: Nanos, mark: Mark) -> bool {
        match (self, law) {
            (Self::Timely(state), Law::Timely(law)) => state.completed(law, rtt, mark),
            _ => false,
        }
    }

    /// When the rate next goes up by the time alone. `None` if it does not.
    #[inline]
    pub fn next(&self, law: &Law) -> Option<Nanos> {
        match (self, law) {
            (Self::Dcqcn(state), Law::Dcqcn(law)) => state.next(law),
            _ => None,
        }
    }
}

/// The limits of a law: (minimum, line), where 1 <= minimum <= line <= [`Rate::MAX_BYTES_PER_SEC`].
fn limits(minimum: u64, line: u64) -> (u64, u64) {
    let line = line.clamp(1, Rate::MAX_BYTES_PER_SEC);
    (minimum.max(1).min(line), line)
}

/// `value` within a range of times that has no 0 in it.
fn time_within(value: Nanos, least: Nanos, most: Nanos) -> NonZeroU64 {
    NonZeroU64::new(value.0.max(least.0).min(most.0)).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests;
