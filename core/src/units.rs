// SPDX-License-Identifier: GPL-2.0
//! Nanoseconds and exact rates.
//!
//! A rate is a fraction, `bytes` every `per_ns` nanoseconds, and a packet's time is whole
//! nanoseconds plus a remainder that is carried over to the next packet. So a sequence of packets,
//! however long, ends at the time that exact arithmetic gives.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};

/// A point in time or a span of it, in nanoseconds. Arithmetic saturates at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all; the beginning of time.
    pub const ZERO: Self = Self(0);
    /// Later than anything: 584 years.
    pub const MAX: Self = Self(u64::MAX);
    /// A millisecond.
    pub const MILLISECOND: Self = Self(1_000_000);
    /// A second.
    pub const SECOND: Self = Self(1_000_000_000);

    /// The number of nanoseconds.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl Add for Nanos {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;
const SECOND_NZ: NonZeroU64 = match NonZeroU64::new(SECOND) {
    Some(second) => second,
    None => NonZeroU64::MIN,
};

/// A rate: so many bytes in so many nanoseconds, exactly.
///
/// # Invariants
///
/// `bytes` < 2^42 and `0 < per_ns <= 10^18`; `whole` and `rest` are the quotient and the remainder
/// of `per_ns / bytes`, or both 0 ([`Rate::UNLIMITED`]), and `whole` < 2^41: a byte takes at most
/// 37 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    bytes: NonZeroU64,
    per_ns: NonZeroU64,
    whole: u64,
    rest: u64,
}

impl Rate {
    /// The highest rate there is: 2^42 - 1 bytes/s, 35 Tbit/s.
    pub const MAX_BYTES_PER_SEC: u64 = (1 << Self::BYTES_BITS) - 1;

    /// The longest packet that is timed by its own length, 4 MiB - 1; a longer one is timed as
    /// this.
    ///
    /// With it, `length x bytes` fits 64 bits. The longest thing that Linux hands to a device is a
    /// GSO super-packet of 512 KiB.
    pub const MAX_LEN: u32 = (1 << 22) - 1;

    /// No limit: packets at this rate take no time.
    ///
    /// With it, unshaped packets take the same path as shaped ones. It has no value in bytes;
    /// [`Rate::bytes_per_sec`] gives 0.
    pub const UNLIMITED: Self = Self {
        bytes: NonZeroU64::MIN,
        per_ns: NonZeroU64::MIN,
        whole: 0,
        rest: 0,
    };

    const BYTES_BITS: u32 = 42;
    const WHOLE_BITS: u32 = 41;

    /// `bytes` per second, exactly. `None` for 0 and for more than [`Rate::MAX_BYTES_PER_SEC`].
    pub fn from_bytes_per_sec(bytes: u64) -> Option<Self> {
        let bytes = NonZeroU64::new(bytes)?;
        if bytes.get() > Self::MAX_BYTES_PER_SEC {
            return None;
        }
        let common = gcd(bytes, SECOND_NZ);
        Self::new(bytes.get() / common, SECOND / common)
    }

    /// `ppb` parts per billion of a link of `link_bytes_per_sec`.
    ///
    /// Exact where the reduced fraction has less than 2^42 bytes in it. With the default share,
    /// that is every link of a whole number of Mbit/s up to 339 Gbit/s, and the usual ones beyond.
    /// Otherwise the rate is a little lower than asked for, by less than 1 part in 10^10 up to 800
    /// Gbit/s; never higher.
    ///
    /// `None` if the link or the share is 0, the link is faster than [`Rate::MAX_BYTES_PER_SEC`],
    /// the share is more than all of it, or so little that a byte takes more than half an hour.
    pub fn from_share(link_bytes_per_sec: u64, ppb: u32) -> Option<Self> {
        let link = NonZeroU64::new(link_bytes_per_sec)?;
        let share = NonZeroU64::new(u64::from(ppb))?;
        if link.get() > Self::MAX_BYTES_PER_SEC || share > SECOND_NZ {
            return None;
        }
        // link / 10^9 ns x share / 10^9, each factor of the numerator reduced against each of the
        // denominator, so that 64-bit arithmetic reduces the 128-bit fraction.
        let (link, link_ns) = reduce(link, SECOND_NZ);
        let (share, billion) = reduce(share, SECOND_NZ);
        let (link, billion) = reduce(link, billion);
        let (share, link_ns) = reduce(share, link_ns);
        let mut bytes = u128::from(link.get()).wrapping_mul(u128::from(share.get()));
        // At most 10^18.
        let mut per_ns = link_ns.get().wrapping_mul(billion.get());
        // Both lose their low bits alike; bytes round down and time up, so that the rate is never
        // higher.
        while bytes >> Self::BYTES_BITS != 0 {
            bytes >>= 1;
            per_ns = per_ns.wrapping_add(1) >> 1;
        }
        Self::new(bytes as u64, per_ns)
    }

    fn new(bytes: u64, per_ns: u64) -> Option<Self> {
        let bytes = NonZeroU64::new(bytes)?;
        let per_ns = NonZeroU64::new(per_ns)?;
        let (whole, rest) = (per_ns.get() / bytes, per_ns.get() % bytes);
        if whole >> Self::WHOLE_BITS != 0 {
            return None;
        }
        Some(Self {
            bytes,
            per_ns,
            whole,
            rest,
        })
    }

    /// Bytes per second, rounded down. 0 for [`Rate::UNLIMITED`], and for less than one.
    pub fn bytes_per_sec(&self) -> u64 {
        if *self == Self::UNLIMITED {
            return 0;
        }
        let dividend = u128::from(self.bytes.get()).wrapping_mul(u128::from(SECOND));
        divide(dividend, self.per_ns)
    }

    /// `bytes` as a [`Volume`].
    #[inline]
    pub(crate) fn volume(&self, bytes: u64) -> Volume {
        // per_ns < 2^60: below 2^124.
        Volume(u128::from(bytes).wrapping_mul(u128::from(self.per_ns.get())))
    }

    /// The volume that passes in `time` at this rate.
    #[inline]
    pub(crate) fn volume_in(&self, time: Nanos) -> Volume {
        // bytes < 2^42: below 2^106.
        Volume(u128::from(time.0).wrapping_mul(u128::from(self.bytes.get())))
    }

    /// The whole bytes of a volume of this rate; at most [`u64::MAX`]. Slow.
    pub(crate) fn bytes_of(&self, volume: Volume) -> u64 {
        divide(volume.0, self.per_ns)
    }

    /// The initial carry of a sequence of packets that starts at a whole nanosecond. See
    /// [`Rate::advance`].
    #[inline]
    pub(crate) fn fresh(&self) -> u64 {
        self.bytes.get().wrapping_sub(1)
    }

    /// The time of `len` bytes after a packet that left `carry`: whole nanoseconds, and the new
    /// carry.
    ///
    /// A carry is a part of a nanosecond, in units of 1/`bytes` ns; it belongs to this rate. It
    /// starts at 1 ns less one unit ([`Rate::fresh`]), so that the sum of the times is the exact
    /// sum rounded up, not down: nothing leaves early. `len` saturates at [`Rate::MAX_LEN`].
    #[inline]
    pub(crate) fn advance(&self, len: u32, carry: u64) -> (Nanos, u64) {
        let len = u64::from(len.min(Self::MAX_LEN));
        // rest < bytes < 2^42, len < 2^22 and carry < bytes: below 2^64.
        let parts = len.wrapping_mul(self.rest).wrapping_add(carry);
        // whole < 2^41: below 2^63 + 2^23.
        let time = len
            .wrapping_mul(self.whole)
            .wrapping_add(parts / self.bytes);
        (Nanos(time), parts % self.bytes)
    }

    /// A carry of this rate in units of another rate's, rounded up.
    pub(crate) fn part_of(&self, carry: u64, other: &Self) -> u64 {
        // carry x other / bytes, where all are less than 2^42: in two steps of 21 bits each, so
        // that 64 bits suffice.
        const STEP: u32 = Rate::BYTES_BITS / 2;
        let (high, low) = (
            other.bytes.get() >> STEP,
            other.bytes.get() & ((1 << STEP) - 1),
        );
        let first = carry.wrapping_mul(high);
        let second = ((first % self.bytes) << STEP).wrapping_add(carry.wrapping_mul(low));
        let up = u64::from(second % self.bytes != 0);
        let quotient = ((first / self.bytes) << STEP).wrapping_add(second / self.bytes);
        quotient.wrapping_add(up)
    }

    /// The sum of two carries, or of a carry and a whole nanosecond: whole nanoseconds, and a
    /// carry.
    pub(crate) fn join(&self, a: u64, b: u64) -> (Nanos, u64) {
        // Below 2^43 each.
        let sum = a.wrapping_add(b);
        (Nanos(sum / self.bytes), sum % self.bytes)
    }

    /// Units of a carry per nanosecond.
    #[inline]
    pub(crate) fn parts(&self) -> u64 {
        self.bytes.get()
    }

    /// The time of `len` bytes, rounded up to a nanosecond. `len` saturates at [`Rate::MAX_LEN`].
    #[inline]
    pub fn duration(&self, len: u32) -> Nanos {
        self.advance(len, self.fresh()).0
    }
}

/// An exact amount of bytes at a [`Rate`], in a unit of which a byte is `per_ns` and a nanosecond's
/// flow `bytes`, so that neither bytes nor time leave a remainder. It is valid with its rate only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Volume(u128);

impl Volume {
    /// Saturating addition.
    #[inline]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Saturating subtraction.
    #[inline]
    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `dividend / divisor`, rounded down, at most [`u64::MAX`]; bit by bit, since a 128-bit division
/// does not link in the kernel.
fn divide(dividend: u128, divisor: NonZeroU64) -> u64 {
    let divisor = u128::from(divisor.get());
    let mut quotient: u64 = 0;
    let mut rest: u128 = 0;
    let mut bit: u128 = 1 << 127;
    while bit != 0 {
        // Below twice the divisor.
        rest = (rest << 1) | u128::from(dividend & bit != 0);
        if quotient >> 63 != 0 {
            return u64::MAX;
        }
        quotient <<= 1;
        if rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
        bit >>= 1;
    }
    quotient
}

/// The greatest common divisor.
fn gcd(a: NonZeroU64, b: NonZeroU64) -> NonZeroU64 {
    let (mut a, mut b) = (a, b);
    while let Some(rest) = NonZeroU64::new(a.get() % b) {
        (a, b) = (b, rest);
    }
    b
}

/// `a / b` in lowest terms.
fn reduce(a: NonZeroU64, b: NonZeroU64) -> (NonZeroU64, NonZeroU64) {
    let common = gcd(a, b);
    // Neither quotient is 0, since `common` divides both.
    let over = |x: NonZeroU64| NonZeroU64::new(x.get() / common).unwrap_or(NonZeroU64::MIN);
    (over(a), over(b))
}

#[cfg(test)]
mod tests;
