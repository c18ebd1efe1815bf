// SPDX-License-Identifier: GPL-2.0
//! Numbers in the units that users type.

use core::fmt;

use super::dscp::Code;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things of this name, which ranges are shown with; empty: a bare number.
    Count(&'static str),
    /// Bytes/s, shown in bit/s: `10gbit`.
    Rate,
    /// Parts per billion, shown as a percentage: `5.1787916%`.
    Share,
    /// Nanoseconds, shown in the longest unit of which they are a whole number: `200us`.
    Time,
    /// Bytes, shown in the largest unit of which they are a whole number: `64kb`.
    Size,
    /// Bytes, so few that options show them without a unit.
    Bytes,
    /// A DSCP, shown by its name.
    Code,
    /// A bit for each priority, shown as their numbers: `3,4`.
    Priorities,
    /// 1/256, shown as `2`, `1/64` or `0.3125`.
    Ratio,
}

impl Unit {
    /// `value` as a user types it.
    pub const fn show(self, value: u64) -> Shown {
        Shown { value, unit: self }
    }
}

/// A value in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    value: u64,
    unit: Unit,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.unit {
            Unit::Count(_) => write!(f, "{value}"),
            Unit::Rate => bits(value, f),
            Unit::Share => write!(f, "{}", Percent(value)),
            Unit::Time => write!(f, "{}", Time(value)),
            Unit::Size | Unit::Bytes => size(value, f),
            Unit::Code => write!(f, "{}", Code(value)),
            Unit::Priorities => priorities(value, f),
            Unit::Ratio => ratio(value, f),
        }
    }
}

/// From `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest allowed value.
    pub min: u64,
    /// The highest allowed value.
    pub max: u64,
    /// What these numbers count.
    pub unit: Unit,
}

impl Range {
    /// From `min` to `max`.
    pub const fn new(min: u64, max: u64, unit: Unit) -> Self {
        Self { min, max, unit }
    }

    /// Whether `value` is allowed.
    #[inline]
    pub const fn contains(&self, value: u64) -> bool {
        self.min <= value && value <= self.max
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, unit } = *self;
        match unit {
            Unit::Count("") | Unit::Code => write!(f, "{min}..{max}"),
            Unit::Priorities => f.write_str("0..7 or a list of them"),
            Unit::Count(things) => write!(f, "{min}..{max} {things}"),
            _ => write!(f, "{}..{}", unit.show(min), unit.show(max)),
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

/// The numbers of the bits that are set, from the lowest on; of what has others, it as a number.
fn priorities(mask: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if mask > 255 {
        return write!(f, "{mask}");
    }
    let (mut between, mut rest) = ("", mask);
    for priority in 0..8 {
        if rest & 1 != 0 {
            write!(f, "{between}{priority}")?;
            between = ",";
        }
        rest >>= 1;
    }
    Ok(())
}

/// 1/256 as a whole number, as one part of so many, or as a decimal with all its digits.
fn ratio(value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value & 255 == 0 {
        return write!(f, "{}", value >> 8);
    }
    if value.is_power_of_two() {
        return write!(f, "1/{}", 256_u64.checked_div(value).unwrap_or(0));
    }
    let (mut rest, mut digits) = ((value & 255).wrapping_mul(390_625), 8_usize);
    while rest % 10 == 0 {
        rest /= 10;
        digits = digits.wrapping_sub(1);
    }
    write!(f, "{}.{rest:0digits$}", value >> 8)
}

/// Bytes in the largest unit of which they are a whole number, by 1024.
fn size(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bytes % (1 << 10) != 0 || bytes == 0 {
        write!(f, "{bytes}b")
    } else if bytes % (1 << 20) != 0 {
        write!(f, "{}kb", bytes / (1 << 10))
    } else if bytes % (1 << 30) != 0 {
        write!(f, "{}mb", bytes / (1 << 20))
    } else {
        write!(f, "{}gb", bytes / (1 << 30))
    }
}

/// Bytes/s in the largest unit of bit/s of which they are a whole number. What is beyond all links
/// is shown in whole Tbit/s, or its digits would fill the line.
fn bits(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bytes % 125_000_000_000 == 0 && bytes != 0 || bytes > 1_000_000_000_000 {
        write!(f, "{}tbit", bytes / 125_000_000_000)
    } else if bytes % 125 != 0 || bytes == 0 {
        write!(f, "{}bit", bytes.saturating_mul(8))
    } else if bytes % 125_000 != 0 {
        write!(f, "{}kbit", bytes / 125)
    } else if bytes % 125_000_000 != 0 {
        write!(f, "{}mbit", bytes / 125_000)
    } else {
        write!(f, "{}gbit", bytes / 125_000_000)
    }
}

/// A range of rates in bytes/s whose ends are worked out: each end is shown by three digits, and
/// rounded into the range, so that it can be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates(pub(crate) u64, pub(crate) u64);

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rounded(self.0, true, f)?;
        f.write_str("..")?;
        rounded(self.1, false, f)
    }
}

fn rounded(bytes: u64, up: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut digits, mut zeros) = (bytes.saturating_mul(8), 0_u32);
    while digits >= 1000 {
        let rest = digits % 10;
        digits = (digits / 10).wrapping_add(u64::from(up && rest != 0));
        zeros = zeros.wrapping_add(1);
    }
    let unit = match zeros {
        0 => return write!(f, "{digits}bit"),
        1..=3 => "kbit",
        4..=6 => "mbit",
        7..=9 => "gbit",
        _ => "tbit",
    };
    // Digits behind the point: zeros 1, 4, 7 … leave two, 2, 5, 8 … one.
    let (whole, rest, places) = match zeros % 3 {
        1 => (digits / 100, digits % 100, 2_usize),
        2 => (digits / 10, digits % 10, 1),
        _ => (digits, 0, 0),
    };
    match (rest, rest % 10) {
        (0, _) => write!(f, "{whole}{unit}"),
        (_, 0) => write!(f, "{whole}.{}{unit}", rest / 10),
        _ => write!(f, "{whole}.{rest:0places$}{unit}"),
    }
}
