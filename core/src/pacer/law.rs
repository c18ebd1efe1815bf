// SPDX-License-Identifier: GPL-2.0
//! The rate of the token bucket, by HULL's equation 4.
//!
//! Every T_r, with M_r bytes received from the host since the last time and Q_tb bytes waiting for
//! tokens now (section 4.2):
//!
//! ```text
//! R_tb <- (1 - eta) x R_tb + eta x M_r / T_r + beta x Q_tb
//! ```
//!
//! A rate is a whole number of [`UNITS`] per byte/s. The remainders of both divisions are carried
//! over, so that roundings do not add up: the rate is always less than two units from the result in
//! real numbers.

use crate::pacer::config::Config;
use crate::units::Rate;
use core::num::NonZeroU64;

/// Units of a byte/s.
pub(crate) const UNITS: u64 = 1 << UNIT_BITS;
const UNIT_BITS: u32 = 8;

const BILLION: u64 = 1_000_000_000;
const BILLION_NZ: NonZeroU64 = match NonZeroU64::new(BILLION) {
    Some(billion) => billion,
    None => NonZeroU64::MIN,
};

/// The highest rate: 35 Tbit/s. Below 2^50 units.
const MAX: u64 = Rate::MAX_BYTES_PER_SEC << UNIT_BITS;
/// Bytes per interval, and of backlog, saturate at this.
const MAX_BYTES: u64 = 1 << 40;

/// The constants of the equation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    /// T_r, ns. At most 2^30.
    interval: NonZeroU64,
    /// Parts per billion, at most 10^9.
    eta: NonZeroU64,
    /// 1/s. Below 2^20.
    beta: u64,
}

impl Law {
    pub(crate) fn new(config: &Config) -> Self {
        let up_to =
            |value: u64, max: u64| NonZeroU64::new(value.min(max)).unwrap_or(NonZeroU64::MIN);
        Self {
            interval: up_to(config.interval.0, 1 << 30),
            eta: up_to(config.eta.into(), BILLION),
            beta: u64::from(config.beta).min(1 << 20),
        }
    }

    /// T_r, ns.
    pub(crate) fn interval(&self) -> u64 {
        self.interval.get()
    }
}

/// R_tb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacingRate {
    units: u64,
    /// The remainder of eta x M_r / T_r, in 1/T_r units.
    rest_in: u64,
    /// The remainder of eta x R_tb, in 10^-9 units.
    rest_out: u64,
}

impl PacingRate {
    pub(crate) fn new(bytes_per_sec: u64) -> Self {
        Self {
            units: bytes_per_sec.min(Rate::MAX_BYTES_PER_SEC) << UNIT_BITS,
            rest_in: 0,
            rest_out: 0,
        }
    }

    /// In [`UNITS`] per byte/s. Below 2^50.
    #[inline]
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// T_r has passed, in which `arrived` bytes came from the host, and `backlog` bytes wait for
    /// tokens.
    pub(crate) fn update(&mut self, law: &Law, arrived: u64, backlog: u64) {
        let eta = law.eta.get();
        // eta x M_r / T_r: the billion of eta and the nanoseconds of T_r cancel. Below 2^48 units
        // of bytes, the rest below 2^30, and eta at most 2^30: the product of rest and eta, with
        // the carry, is below 2^61.
        let arrived = arrived.min(MAX_BYTES) << UNIT_BITS;
        let part = (arrived % law.interval)
            .wrapping_mul(eta)
            .wrapping_add(self.rest_in % law.interval);
        self.rest_in = part % law.interval;
        let gain = (arrived / law.interval)
            .saturating_mul(eta)
            .saturating_add(part / law.interval);
        // eta x R_tb. The quotient is below 2^21.
        let part = (self.units % BILLION_NZ)
            .wrapping_mul(eta)
            .wrapping_add(self.rest_out);
        self.rest_out = part % BILLION_NZ;
        let loss = (self.units / BILLION_NZ)
            .wrapping_mul(eta)
            .wrapping_add(part / BILLION_NZ);
        // Below 2^48 x 2^20: saturates where the rate does, too.
        let push = (backlog.min(MAX_BYTES) << UNIT_BITS).saturating_mul(law.beta);
        self.units = self
            .units
            .saturating_sub(loss)
            .saturating_add(gain)
            .saturating_add(push)
            .min(MAX);
    }

    /// `times` times T_r have passed in which nothing arrived and nothing waited: (1 - eta)^times
    /// of the rate is left.
    ///
    /// Returns the sum of the rates at the beginning of each interval, in units.
    pub(crate) fn decay(&mut self, law: &Law, times: u64) -> u64 {
        let before = self.units;
        self.units = times_power(before, keep(law.eta), times);
        (self.rest_in, self.rest_out) = (0, 0);
        // Each interval takes eta of the rate at its beginning: what all of them took is eta of the
        // sum.
        let taken = before.saturating_sub(self.units);
        (taken / law.eta)
            .saturating_mul(BILLION)
            .saturating_add((taken % law.eta).wrapping_mul(BILLION) / law.eta)
    }
}

/// Fractions up to 1 are in units of 2^-62.
const ONE_BITS: u32 = 62;

/// 1 - eta.
fn keep(eta: NonZeroU64) -> u64 {
    // In two steps of 32 and 30 bits: eta is at most 2^30, and a rest is below 2^30.
    let high = eta.get() << 32;
    let low = (high % BILLION_NZ) << 30;
    let part = ((high / BILLION_NZ) << 30).wrapping_add(low / BILLION_NZ);
    (1_u64 << ONE_BITS).saturating_sub(part)
}

/// `value x part`, rounded down.
fn fraction(value: u64, part: u64) -> u64 {
    let product = u128::from(value).wrapping_mul(u128::from(part)) >> ONE_BITS;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// `value x base^times`, rounded down at each of up to 64 steps.
fn times_power(mut value: u64, mut base: u64, mut times: u64) -> u64 {
    while times != 0 && value != 0 {
        if times & 1 != 0 {
            value = fraction(value, base);
        }
        base = fraction(base, base);
        times >>= 1;
    }
    value
}

#[cfg(test)]
mod tests;
