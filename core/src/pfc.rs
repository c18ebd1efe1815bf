// SPDX-License-Identifier: GPL-2.0
//! Links that lose nothing: priority-based flow control (PFC, IEEE 802.1Qbb, now clause 36 of
//! 802.1Q) and the older pause of a whole link (IEEE 802.3x, now Annex 31B of 802.3).
//!
//! A port whose buffer fills up asks the other end of the link to be silent for a while. What is on
//! its way by then still comes, and needs room: the *headroom*.
//!
//! | module | what is there |
//! |---|---|
//! | [`frame`] | the control frames of both, read and written |
//! | [`ingress`] | who asks: bytes held of one ingress and priority, and when a frame has to go |
//! | [`scope`] | what pauses are of: some priorities, or the whole link |
//! | [`pause`] | who obeys: until when data is paused, and for how long it has been |
//! | [`ledger`] | what is held of what came in by a device, and the frame that is owed |
//! | [`headroom`] | how much room it takes to lose nothing |
//!
//! A PFC frame says *this priority*, not *this flow*: one receiver that is slow halts all traffic
//! of its priority on the way to it, and a circle of such ports halts for good. The watchdog of
//! [`pause::Pauses`] is for that.

use crate::units::{Nanos, Rate};

pub mod frame;
pub mod headroom;
pub mod ingress;
pub mod ledger;
pub mod pause;
pub mod scope;

/// How many priorities a link has: 0 to 7 (IEEE 802.1Q clause 6.9.3).
pub const PRIORITIES: u8 = 8;
/// Bytes that take as long as a quantum of a pause: 512 bits (IEEE 802.3 clause 31B.2).
pub const QUANTUM_BYTES: u32 = 64;
/// The longest pause that a frame can ask for, in quanta: 33.6 ms at 1 Gbit/s, 336 us at 100.
pub const MAX_QUANTA: u16 = u16::MAX;

/// How long a pause of so many quanta takes on a link of that rate: the exact time, rounded up to a
/// nanosecond. No time at all with [`Rate::UNLIMITED`].
#[inline]
pub fn time_of(rate: &Rate, quanta: u16) -> Nanos {
    // Below 2^22, which is what a rate can time: Rate::MAX_LEN.
    rate.duration(u32::from(quanta).wrapping_mul(QUANTUM_BYTES))
}

#[cfg(test)]
mod tests;
