// SPDX-License-Identifier: GPL-2.0
//! How much room it takes to lose nothing: what can still come when a port has decided to send a
//! pause (IEEE 802.1Qbb Annex O).
//!
//! # The model
//!
//! Two ports, *ours* and the *peer's*, at the two ends of a link that carries `rate` each way. All
//! lengths are bytes on the wire, with preamble and gap, as ports count them: a frame is sent, and
//! has come, when its gap is over. It is counted then, and whole.
//!
//! 1. We decide in the moment in which a frame has come. Another one has just begun to leave here,
//!    of up to `ours` bytes, and is not interrupted.
//! 2. The pause frame, 84 bytes, leaves next. A control frame that waits says what was decided last
//!    ([`ingress`](super::ingress)), so none is before it.
//! 3. It is `delay` on the cable.
//! 4. The peer begins no frame later than `response` quanta after it has come (IEEE 802.3 clause
//!    31B.3.7). If one of the two is a program, add in `late` how late both may be: until a packet
//!    that has come is looked at, until a pause that was decided is before all others in the
//!    device, until the peer's scheduler heeds it and its device has sent what it was given before.
//! 5. In the last moment it begins one of up to `theirs` bytes, and before that it has sent without
//!    a gap, as all might be of this priority.
//! 6. The last byte is `delay` on the cable.
//!
//! So no more comes than
//!
//! ```text
//! ours + 84 + 64 response + theirs + rate (2 delay + late)
//! ```
//!
//! and that much does come if all of it happens: the sum is sufficient and tight, to the byte where
//! `rate (2 delay + late)` is a whole number of bytes, and one byte more than needed where it had
//! to be rounded up. With frames counted without preamble, gap or padding, or with those of other
//! priorities between, less comes.
//!
//! [`Headroom::after_pause`] is that sum. A port of whole frames finds that it has to pause when a
//! frame does not fit below its threshold, and that frame needs room too:
//! [`Headroom::above_xoff`] has a frame of `theirs` bytes more.
//!
//! The clocks of both ends are taken to be alike. They may differ by 200 parts in a million (IEEE
//! 802.3), which is 4 bytes in 20 KB: for that, and for what a transceiver holds, there is `late`.

use crate::units::{Nanos, Rate};

use super::QUANTUM_BYTES;

/// Bytes of a control frame on the wire: 64, and preamble and gap.
pub const FRAME_WIRE_LEN: u32 = 84;

/// How long light takes for a meter of fibre; 4.8 in copper. In ns.
pub const NANOS_PER_METER: u32 = 5;

/// Quanta, up to 1 Gbit/s (IEEE 802.3 clause 31B.3.7; at 100 Mbit/s and less it is one and 64 bits
/// at most).
pub const RESPONSE_1G: u32 = 2;
/// Quanta, at 10 Gbit/s but for 10GBASE-T.
pub const RESPONSE_10G: u32 = 60;
/// Quanta, with 10GBASE-T.
pub const RESPONSE_10GBASE_T: u32 = 74;
/// Quanta, at 25 Gbit/s (802.3by).
pub const RESPONSE_25G: u32 = 80;
/// Quanta, at 40 Gbit/s (802.3ba).
pub const RESPONSE_40G: u32 = 118;
/// Quanta, at 100 Gbit/s (802.3ba).
pub const RESPONSE_100G: u32 = 394;
/// Quanta, at 400 Gbit/s (802.3bs).
pub const RESPONSE_400G: u32 = 905;

/// What the standard allows a peer on a link of that rate to take until it begins no more frames,
/// in quanta. For 10GBASE-T it is [`RESPONSE_10GBASE_T`] instead. A speed that is between those of
/// the constants has the next higher one's. `None` beyond 400 Gbit/s, and without a rate.
pub fn response(rate: &Rate) -> Option<u32> {
    const GBIT: u64 = 125_000_000;
    const LIMITS: [(u64, u32); 6] = [
        (1, RESPONSE_1G),
        (10, RESPONSE_10G),
        (25, RESPONSE_25G),
        (40, RESPONSE_40G),
        (100, RESPONSE_100G),
        (400, RESPONSE_400G),
    ];
    let link = rate.bytes_per_sec();
    let within = |&&(gbit, _): &&(u64, u32)| link <= gbit.wrapping_mul(GBIT);
    let found = LIMITS.iter().find(within)?;
    (link != 0).then_some(found.1)
}

/// [`response`]; beyond 400 Gbit/s, where the standard says nothing, twice the quanta for twice the
/// rate.
pub fn longest_response(rate: &Rate) -> u32 {
    response(rate).unwrap_or(2 * RESPONSE_400G)
}

/// A link, and who is at its ends. See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The link's, each way.
    pub rate: Rate,
    /// The longest frame of any priority that we send, in bytes on the wire.
    pub ours: u32,
    /// The longest frame that the peer sends, in bytes on the wire.
    pub theirs: u32,
    /// One way on the cable: [`NANOS_PER_METER`].
    pub delay: Nanos,
    /// How long after a pause the peer may begin a frame, in quanta: [`response`].
    pub response: u32,
    /// How much longer than the standard allows both ends may take, together.
    pub late: Nanos,
}

impl Headroom {
    /// How many bytes can come after a pause was decided. At most [`u64::MAX`]. Slow, for
    /// configuration.
    pub fn after_pause(&self) -> u64 {
        let twice = self.delay + self.delay;
        let flown = self.rate.volume_in(twice + self.late);
        let whole = self.rate.bytes_of(flown);
        let up = u64::from(self.rate.volume(whole) < flown);
        let reaction = u64::from(self.response).wrapping_mul(QUANTUM_BYTES.into());
        // All but `whole` are below 2^39.
        reaction
            .wrapping_add(self.ours.into())
            .wrapping_add(FRAME_WIRE_LEN.into())
            .wrapping_add(self.theirs.into())
            .saturating_add(whole)
            .saturating_add(up)
    }

    /// How many bytes can be there beyond the threshold, of which whole frames are counted: what
    /// [`Limits::headroom`](super::ingress::Limits::headroom) has to be. Slow, for configuration.
    pub fn above_xoff(&self) -> u64 {
        self.after_pause().saturating_add(self.theirs.into())
    }
}

#[cfg(test)]
mod tests;
