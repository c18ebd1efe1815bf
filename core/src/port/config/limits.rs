// SPDX-License-Identifier: GPL-2.0
//! The allowed values of each option.

use core::fmt;

/// From `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest allowed value.
    pub min: u64,
    /// The highest allowed value.
    pub max: u64,
    /// How these numbers are shown.
    pub unit: Unit,
}

/// How a value is shown to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    Number,
    /// Bytes/s. Limits are shown in kbit and gbit.
    Rate,
    /// Parts per billion, shown as a percentage.
    Share,
    /// Nanoseconds. Limits are shown in the longest unit of which they are whole numbers.
    Time,
}

const fn range(min: u64, max: u64, unit: Unit) -> Range {
    Range { min, max, unit }
}

/// bytes/s: 1 kbit/s to 800 Gbit/s.
pub const LINK: Range = range(125, 100_000_000_000, Unit::Rate);
/// Parts per billion of the link. A rate must come to such a share, too.
pub const TOKENS: Range = range(100_000, 500_000_000, Unit::Share);
/// Number of token priorities.
pub const PRIORITIES: Range = range(1, 8, Unit::Number);
/// Parts per billion of the link: at what a phantom queue drains. A rate must come to such a share,
/// too.
pub const PHANTOM_DRAIN: Range = range(10_000_000, 1_000_000_000, Unit::Share);
/// Bytes in a phantom queue.
pub const PHANTOM_MARK: Range = range(0, 1 << 30, Unit::Number);
/// ns: REN's sampling period.
pub const REN_PERIOD: Range = range(1_000, 1_000_000_000, Unit::Time);
/// Packets per token queue.
pub const TOKEN_LIMIT: Range = range(1, 1024, Unit::Number);
/// ns.
pub const TOKEN_EXPIRY: Range = range(1, 10_000_000_000, Unit::Time);
/// Packets in the unscheduled band. 0, which is outside, stands for `off`.
pub const UNSCHEDULED: Range = range(1, 1024, Unit::Number);
/// Bytes in the data band's own queue.
pub const DATA_LIMIT: Range = range(1600, 1 << 30, Unit::Number);
/// Packets in the signal band.
pub const SIGNAL_LIMIT: Range = range(1, 100_000, Unit::Number);
/// Bytes per packet.
pub const OVERHEAD: Range = range(0, 256, Unit::Number);
/// Bytes.
pub const MPU: Range = range(0, 256, Unit::Number);
/// ns: how late the machine may be. 0: no allowance is made for that.
pub const JITTER: Range = range(0, 10_000_000, Unit::Time);
/// The code points that the DSCP map is for.
pub const DSCP: Range = range(0, 63, Unit::Number);

impl Range {
    /// Whether `value` is allowed.
    #[inline]
    pub const fn contains(&self, value: u64) -> bool {
        self.min <= value && value <= self.max
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Number => write!(f, "{}..{}", self.min, self.max),
            Unit::Rate => write!(f, "{}kbit..{}gbit", self.min / 125, self.max / 125_000_000),
            Unit::Share => write!(f, "{}..{}", Percent(self.min), Percent(self.max)),
            Unit::Time => write!(f, "{}..{}", Time(self.min), Time(self.max)),
        }
    }
}

/// Nanoseconds in the longest unit of which they are a whole number: `200us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(
    /// ns.
    pub u64,
);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        if ns % 1000 != 0 || ns == 0 {
            write!(f, "{ns}ns")
        } else if ns % 1_000_000 != 0 {
            write!(f, "{}us", ns / 1000)
        } else if ns % 1_000_000_000 != 0 {
            write!(f, "{}ms", ns / 1_000_000)
        } else {
            write!(f, "{}s", ns / 1_000_000_000)
        }
    }
}

/// Parts per billion as a percentage, with all its digits and no more: `5.1787916%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(
    /// Parts per billion.
    pub u64,
);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut rest, mut digits) = (self.0 / 10_000_000, self.0 % 10_000_000, 7_usize);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        while rest % 10 == 0 {
            rest /= 10;
            digits = digits.wrapping_sub(1);
        }
        write!(f, "{whole}.{rest:0digits$}%")
    }
}
