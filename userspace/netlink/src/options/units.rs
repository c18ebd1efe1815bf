// SPDX-License-Identifier: GPL-2.0
//! Rates, times, sizes and percentages: read as tc reads them, printed so that they read back the
//! same.
//!
//! tc computes in `double`; here every number is an exact decimal, so that what has no rounding on
//! paper has none here either. As in tc, units know no case, a bare rate is in bit/s, a bare time
//! in microseconds, a bare size in bytes, sizes go by 1024, and what is left below one byte or one
//! nanosecond is cut off. Hexadecimal numbers, `inf` and `nan`, which `strtod` lets through, are
//! refused.

use std::fmt::Write;

use turnstile_core::options::Unit;
use turnstile_core::pfc::PRIORITIES;

/// The units of a rate, in bit/s.
const RATE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", 1 << 10),
    ("mibit", 1 << 20),
    ("gibit", 1 << 30),
    ("tibit", 1 << 40),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
    ("tbps", 8_000_000_000_000),
    ("kibps", 8 << 10),
    ("mibps", 8 << 20),
    ("gibps", 8 << 30),
    ("tibps", 8 << 40),
];

/// The units of a time, in nanoseconds.
const TIME_UNITS: &[(&str, u64)] = &[
    ("", 1_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("secs", 1_000_000_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("msecs", 1_000_000),
    ("us", 1_000),
    ("usec", 1_000),
    ("usecs", 1_000),
    ("ns", 1),
    ("nsec", 1),
    ("nsecs", 1),
];

/// The units of a size, in bytes.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("kbit", 1 << 7),
    ("mbit", 1 << 17),
    ("gbit", 1 << 27),
];

/// Digits that are kept of a number: with any unit they fit 128 bits, and no `u64` needs more.
const DIGITS: u32 = 25;

/// `digits * 10^exponent`.
struct Decimal {
    digits: u128,
    exponent: i64,
}

impl Decimal {
    /// Reads the number at the start of `text`; gives it and what follows it.
    fn split(text: &str) -> Option<(Self, &str)> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let (mut digits, mut exponent, mut kept, mut seen, mut point) =
            (0u128, 0i64, 0, false, false);
        let mut end = text.len();
        for (at, c) in text.char_indices() {
            match c {
                '0'..='9' => {
                    seen = true;
                    if kept < DIGITS {
                        digits = digits * 10 + u128::from(c as u8 - b'0');
                        kept += u32::from(digits != 0);
                        exponent -= i64::from(point);
                    } else {
                        exponent += i64::from(!point);
                    }
                }
                '.' if !point => point = true,
                _ => {
                    end = at;
                    break;
                }
            }
        }
        if !seen {
            return None;
        }
        let mut rest = &text[end..];
        // An exponent counts only if it is complete: "1e" is the number 1 and an unknown unit.
        if let Some(tail) = rest.strip_prefix(['e', 'E']) {
            let unsigned = tail.strip_prefix(['+', '-']).unwrap_or(tail);
            let length = unsigned.bytes().take_while(u8::is_ascii_digit).count();
            if length > 0 {
                // Nothing beyond four digits makes a difference.
                let size = unsigned[..length].parse::<i64>().unwrap_or(9999).min(9999);
                exponent += if tail.starts_with('-') { -size } else { size };
                rest = &unsigned[length..];
            }
        }
        Some((Self { digits, exponent }, rest))
    }

    /// `self * by / over`, cut off to a whole number; `u64::MAX` stands for everything above.
    fn scale(&self, by: u64, over: u64) -> u64 {
        if self.digits == 0 {
            return 0;
        }
        let power = u32::try_from(self.exponent.unsigned_abs())
            .ok()
            .and_then(|e| 10u128.checked_pow(e));
        let value = self.digits.saturating_mul(u128::from(by));
        let value = match (self.exponent >= 0, power) {
            (true, Some(power)) => value.saturating_mul(power) / u128::from(over),
            (true, None) => u128::MAX,
            (false, Some(power)) => power
                .checked_mul(u128::from(over))
                .map_or(0, |divisor| value / divisor),
            (false, None) => 0,
        };
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}

/// Reads a number with one of `units` and gives it in `over`ths of what these are in.
fn read(text: &str, units: &[(&str, u64)], over: u64) -> Option<u64> {
    let (number, unit) = Decimal::split(text)?;
    let (_, scale) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    Some(number.scale(*scale, over))
}

/// Reads a rate, in bytes/s. `None`: not a rate. `u64::MAX`: that or more.
pub fn parse_rate(text: &str) -> Option<u64> {
    read(text, RATE_UNITS, 8)
}

/// Reads a time, in ns. `None`: not a time. `u64::MAX`: that or more.
pub fn parse_time(text: &str) -> Option<u64> {
    read(text, TIME_UNITS, 1)
}

/// Reads a size, in bytes. `None`: not a size. `u64::MAX`: that or more.
pub fn parse_size(text: &str) -> Option<u64> {
    read(text, SIZE_UNITS, 1)
}

/// Reads a percentage with its sign, in parts per billion. `None`: not a percentage. `u64::MAX`:
/// that or more.
pub fn parse_percent(text: &str) -> Option<u64> {
    read(text, &[("%", 10_000_000)], 1)
}

/// Reads a list of priorities, `3,4`, as a bit for each. `None`: not such a list. `u64::MAX`: one
/// of them is none.
pub fn parse_priorities(text: &str) -> Option<u64> {
    let mut mask = 0_u64;
    for part in text.split(',') {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        mask |= match part.parse::<u32>() {
            Ok(priority) if priority < PRIORITIES.into() => 1 << priority,
            _ => return Some(u64::MAX),
        };
    }
    Some(mask)
}

/// Reads a ratio, `1/4` or `0.25`, in 1/256, rounded down. `None`: not a ratio. `u64::MAX`: that
/// or more.
pub fn parse_ratio(text: &str) -> Option<u64> {
    let Some((above, below)) = text.split_once('/') else {
        return read(text, &[("", 256)], 1);
    };
    let whole = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u128>().ok(),
        false => None,
    };
    let (above, below) = (whole(above)?, whole(below)?);
    let ratio = above.checked_mul(256)?.checked_div(below)?;
    Some(u64::try_from(ratio).unwrap_or(u64::MAX))
}

/// 1/256 as a decimal: `0.25`.
pub fn ratio(value: u64) -> String {
    fraction(u128::from(value) * 390_625, 100_000_000)
}

/// `value` as a decimal in the largest of `units` (ascending, powers of ten) that is not above it.
fn decimal(value: u128, units: &[(&str, u64)]) -> String {
    let (name, scale) = units
        .iter()
        .rev()
        .find(|(_, scale)| value >= u128::from(*scale))
        .unwrap_or(&units[0]);
    format!("{}{name}", fraction(value, u128::from(*scale)))
}

/// `value / scale` in full; `scale` is a power of ten.
fn fraction(value: u128, scale: u128) -> String {
    let mut text = (value / scale).to_string();
    let rest = value % scale;
    if rest != 0 {
        let width = scale.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text
}

const RATE_NAMES: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
];
/// Whether `text` is a number without a unit. What that is in differs from command to command, so
/// that words which are easily mistaken should ask for one.
pub fn is_bare(text: &str) -> bool {
    matches!(Decimal::split(text), Some((_, "")))
}

const TIME_NAMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];
/// A rate in bytes/s as [`parse_rate`] reads it back: `10gbit`.
pub fn rate(bytes: u64) -> String {
    let value = u128::from(bytes) * 8;
    let even = |(_, scale): &&(&str, u64)| value != 0 && value % u128::from(*scale) == 0;
    let (name, scale) = RATE_NAMES.iter().rev().find(even).unwrap_or(&RATE_NAMES[0]);
    format!("{}{name}", value / u128::from(*scale))
}

/// A time in ns as [`parse_time`] reads it back: `1500ns`.
pub fn time(ns: u64) -> String {
    Unit::Time.show(ns).to_string()
}

/// A size in bytes as [`parse_size`] reads it back: `64kb`.
pub fn size(bytes: u64) -> String {
    Unit::Size.show(bytes).to_string()
}

/// Parts per billion as [`parse_percent`] reads them back: `5.1787916%`.
pub fn percent(ppb: u32) -> String {
    Unit::Share.show(ppb.into()).to_string()
}

/// Parts per billion as a fraction of one: `0.051787916`.
pub fn share(ppb: u32) -> String {
    fraction(u128::from(ppb), 1_000_000_000)
}

/// A measured rate in bytes/s, in full and easy to read: `517.879128mbit`.
pub fn rate_decimal(bytes: u64) -> String {
    decimal(u128::from(bytes) * 8, RATE_NAMES)
}

/// A measured time in ns, in full and easy to read: `10.368us`.
pub fn time_decimal(ns: u64) -> String {
    decimal(u128::from(ns), TIME_NAMES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_as_in_tc() {
        for (text, bytes) in [
            ("1000", 125),
            ("8bit", 1),
            ("7bit", 0),
            ("1kbit", 125),
            ("1KBit", 125),
            ("2.5gbit", 312_500_000),
            (".5gbit", 62_500_000),
            ("5.gbit", 625_000_000),
            ("+1e9", 125_000_000),
            ("1.5e-3gbit", 187_500),
            ("100mbps", 100_000_000),
            ("1KiBps", 1024),
            ("1mibit", 131_072),
            ("1tibit", 1 << 37),
            ("800gbit", 100_000_000_000),
            ("0.1gbit", 12_500_000),
            ("0.0000000000000000000000000000001e40bit", 125_000_000),
            ("147573952589676412920bit", u64::MAX),
            ("99999999tbps", u64::MAX),
            ("1e9999999999", u64::MAX),
            ("1e-9999999999", 0),
            ("100000000000000000000000000000000000000000000000", u64::MAX),
        ] {
            assert_eq!(parse_rate(text), Some(bytes), "{text}");
        }
        for text in [
            "", "gbit", "-1gbit", "1 gbit", "1xbit", "nan", "inf", "0x10", "1e", "1.2.3", ".",
            "1gbit ", "1%", "½gbit",
        ] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }

    #[test]
    fn times_and_sizes_as_in_tc() {
        for (text, ns) in [
            ("10", 10_000),
            ("10us", 10_000),
            ("1.5ms", 1_500_000),
            ("3nsecs", 3),
            ("1S", 1_000_000_000),
            ("0.5ns", 0),
        ] {
            assert_eq!(parse_time(text), Some(ns), "{text}");
        }
        for text in ["10parsecs", "-1us", "1m", "auto", ""] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        for (text, bytes) in [
            ("84", 84),
            ("84b", 84),
            ("1k", 1024),
            ("1.5Kb", 1536),
            ("2mbit", 262_144),
            ("1gbit", 1 << 27),
            ("1G", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["1tb", "1bytes", "-1", "1kibit"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(parse_percent("5.1787916%"), Some(51_787_916));
        assert_eq!(parse_percent("100%"), Some(1_000_000_000));
        assert_eq!(parse_percent("0.00000001%"), Some(0));
        assert_eq!(parse_percent("5"), None);
        assert_eq!(parse_percent("-5%"), None);
    }

    #[test]
    fn printed_in_the_largest_even_unit() {
        assert_eq!(rate(1_250_000_000), "10gbit");
        assert_eq!(rate(1_250_000_001), "10000000008bit");
        assert_eq!(rate(0), "0bit");
        assert_eq!(time(10_000), "10us");
        assert_eq!(time(1_500_000), "1500us");
        assert_eq!(size(1 << 20), "1mb");
        assert_eq!(size(1_514_000), "1514000b");
        assert_eq!(percent(51_787_916), "5.1787916%");
        assert_eq!(percent(500_000_000), "50%");
        assert_eq!(share(51_787_916), "0.051787916");
        assert_eq!(rate_decimal(64_734_891), "517.879128mbit");
        assert_eq!(time_decimal(10_368), "10.368us");
        assert_eq!(time_decimal(0), "0ns");
    }

    proptest! {
        #[test]
        fn printing_reads_back(value: u64, ppb: u32, zeros in 0u32..19) {
            let ten = 10u64.pow(zeros);
            for value in [value, value / ten * ten, value >> zeros << zeros] {
                prop_assert_eq!(parse_rate(&rate(value)), Some(value));
                prop_assert_eq!(parse_rate(&rate_decimal(value)), Some(value));
                prop_assert_eq!(parse_time(&time(value)), Some(value));
                prop_assert_eq!(parse_time(&time_decimal(value)), Some(value));
                prop_assert_eq!(parse_size(&size(value)), Some(value));
            }
            prop_assert_eq!(parse_percent(&percent(ppb)), Some(u64::from(ppb)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", number in "[0-9.e+-]{0,60}[a-z%]{0,5}") {
            for text in [&text, &number] {
                let _ = (parse_rate(text), parse_time(text), parse_size(text), parse_percent(text));
            }
        }

        #[test]
        fn close_to_what_tc_computes(mantissa in 0.0f64..1e6, unit in 0usize..19) {
            let (name, scale) = RATE_UNITS[unit];
            let text = format!("{mantissa:.6}");
            let exact = parse_rate(&format!("{text}{name}")).unwrap() as f64;
            let approximate = (text.parse::<f64>().unwrap() * scale as f64 / 8.0).floor();
            prop_assert!((exact - approximate).abs() <= 1.0 + approximate * 1e-12);
        }
    }
}
