// SPDX-License-Identifier: GPL-2.0
//! The option grammar: words as a user types them to `tc` or `turnstile`.

use std::fmt;
use std::iter::Peekable;

use turnstile_core::port::config::limits::{self, Range};
use turnstile_core::port::config::{Drain, Expiry, Order, Tokens};
use turnstile_core::units::Nanos;

use crate::table::{self, Info, Key};
use crate::{dscp, units, Link, Options, Phantom};

/// Words that are no options. `Display` names the word, the value, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarError(String);

impl GrammarError {
    /// `why` the `word` cannot be.
    pub fn new(word: &str, why: impl fmt::Display) -> Self {
        Self(format!("{word}: {why}"))
    }
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GrammarError {}

/// Reads `word value word value …`.
///
/// Each option may be given once. What is not given stays `None`.
pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Options, GrammarError> {
    let mut options = Options::default();
    let mut seen = Vec::new();
    let mut words = words.iter().map(AsRef::as_ref).peekable();
    while let Some(word) = words.next() {
        let (info, on) = find(word).ok_or_else(|| {
            GrammarError(format!(
                "unknown word \"{word}\"; the options are {}",
                table::names()
            ))
        })?;
        if seen.contains(&info.key) {
            return Err(GrammarError(format!("{}: given twice", info.name)));
        }
        seen.push(info.key);
        let outcome = if info.value.is_empty() {
            options.split_gso = Some(on);
            Ok(())
        } else if info.key == Key::Phantom {
            phantom(info, &mut words).map(|phantom| options.phantom = Some(phantom))
        } else if info.key == Key::Ren {
            ren(info, &mut words).map(|period| options.ren = Some(period))
        } else {
            match words.next() {
                Some(value) => set(&mut options, info, value),
                None => Err(format!("needs a value: {}", info.value)),
            }
        };
        outcome.map_err(|why| GrammarError(format!("{}: {why}", info.name)))?;
    }
    Ok(options)
}

/// The option that `word` starts, and whether it is not negated.
fn find(word: &str) -> Option<(&'static Info, bool)> {
    table::OPTIONS.iter().find_map(|info| {
        if word == info.name {
            Some((info, true))
        } else if info.value.is_empty() && word.strip_prefix("no-") == Some(info.name) {
            Some((info, false))
        } else {
            None
        }
    })
}

pub(crate) const RATE: &str =
    "a rate (bit, kbit, mbit, gbit, tbit; kibit, ...; bps, kbps, ... for bytes)";
pub(crate) const TIME: &str = "a time (s, ms, us, ns)";
const SIZE: &str = "a size (b, kb, mb, gb)";
pub(crate) const PERCENT: &str = "a percentage";

fn set(options: &mut Options, info: &Info, value: &str) -> Result<(), String> {
    match info.key {
        Key::Link => {
            options.link = Some(match value {
                "auto" => Link::Auto,
                _ => Link::Rate(number(
                    info.range,
                    value,
                    units::parse_rate,
                    RATE,
                    &["auto"],
                )?),
            });
        }
        Key::Tokens => options.tokens = Some(tokens(info, value)?),
        Key::TokenExpiry => {
            options.token_expiry = Some(match value {
                "auto" => Expiry::Auto,
                "off" => Expiry::Off,
                _ => Expiry::After(Nanos(number(
                    info.range,
                    value,
                    units::parse_time,
                    TIME,
                    &["auto", "off"],
                )?)),
            });
        }
        Key::Order => {
            options.order = Some(match value {
                "tokens-first" => Order::TokensFirst,
                "data-first" => Order::DataFirst,
                _ => {
                    return Err(format!(
                        "\"{value}\" is not \"tokens-first\" or \"data-first\""
                    ))
                }
            });
        }
        Key::Unscheduled => {
            options.unscheduled = Some(match value {
                "off" => 0,
                _ => whole(info.range, value, &["off"])?,
            });
        }
        Key::Dscp => options.dscp = Some(dscp::parse(value)?),
        Key::Priorities => options.priorities = Some(whole(info.range, value, &[])?),
        Key::TokenLimit => options.token_limit = Some(whole(info.range, value, &[])?),
        Key::SignalLimit => options.signal_limit = Some(whole(info.range, value, &[])?),
        Key::DataLimit => options.data_limit = Some(bytes(info.range, value)?),
        Key::Overhead => options.overhead = Some(bytes(info.range, value)?),
        Key::Mpu => options.mpu = Some(bytes(info.range, value)?),
        Key::Jitter => {
            let ns = number(info.range, value, units::parse_time, TIME, &[])?;
            options.jitter = Some(Nanos(ns));
        }
        Key::SplitGso | Key::Phantom | Key::Ren => {}
    }
    Ok(())
}

/// A part of the link.
enum Part {
    /// Parts per billion.
    Share(u32),
    /// bytes/s.
    Rate(u64),
}

/// A rate has to be an allowed share of the link, which the kernel knows best: here it has to be a
/// rate.
fn part(info: &Info, value: &str) -> Result<Part, String> {
    if value.ends_with('%') {
        let ppb = number(info.range, value, units::parse_percent, PERCENT, &[])?;
        return Ok(Part::Share(u32::try_from(ppb).unwrap_or(u32::MAX)));
    }
    match units::parse_rate(value) {
        Some(rate) if rate > 0 => Ok(Part::Rate(rate)),
        Some(_) => Err(format!("\"{value}\" is less than a byte per second")),
        None => Err(format!(
            "\"{value}\" is not a percentage (5.5%), nor {RATE}"
        )),
    }
}

fn tokens(info: &Info, value: &str) -> Result<Tokens, String> {
    part(info, value).map(|part| match part {
        Part::Share(ppb) => Tokens::Share(ppb),
        Part::Rate(rate) => Tokens::Rate(rate),
    })
}

/// `off`, or one or both of `drain PERCENT|RATE` and `mark BYTES`.
fn phantom<'a>(
    info: &Info,
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Phantom, String> {
    if words.next_if_eq(&"off").is_some() {
        return Ok(Phantom::Off);
    }
    let (mut drain, mut mark) = (None, None);
    while let Some(word) = words.next_if(|word| matches!(*word, "drain" | "mark")) {
        let twice = match word {
            "drain" => drain.is_some(),
            _ => mark.is_some(),
        };
        if twice {
            return Err(format!("{word}: given twice"));
        }
        let value = words.next().ok_or(format!("{word}: needs a value"))?;
        let wrong = |why| format!("{word}: {why}");
        if word == "drain" {
            drain = Some(match part(info, value).map_err(wrong)? {
                Part::Share(ppb) => Drain::Share(ppb),
                Part::Rate(rate) => Drain::Rate(rate),
            });
        } else {
            mark = Some(bytes(Some(limits::PHANTOM_MARK), value).map_err(wrong)?);
        }
    }
    match (drain, mark, words.peek()) {
        (None, None, None) => Err(format!("needs a value: {}", info.value)),
        (None, None, Some(word)) => {
            Err(format!("\"{word}\" is not \"drain\", \"mark\" or \"off\""))
        }
        _ => Ok(Phantom::On { drain, mark }),
    }
}

/// `off`, or `period TIME`.
fn ren<'a>(
    info: &Info,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Option<Nanos>, String> {
    match words.next() {
        None => Err(format!("needs a value: {}", info.value)),
        Some("off") => Ok(None),
        Some("period") => {
            let value = words.next().ok_or("period: needs a value: TIME")?;
            let period = number(info.range, value, units::parse_time, TIME, &[]);
            period
                .map(|ns| Some(Nanos(ns)))
                .map_err(|why| format!("period: {why}"))
        }
        Some(word) => Err(format!("\"{word}\" is not \"period\" or \"off\"")),
    }
}

/// A number in the range of its option, or why not. `words` may stand in its place.
pub(crate) fn number(
    range: Option<Range>,
    value: &str,
    read: fn(&str) -> Option<u64>,
    kind: &str,
    words: &[&str],
) -> Result<u64, String> {
    let Some(number) = read(value) else {
        return Err(match words {
            [] => format!("\"{value}\" is not {kind}"),
            [one] => format!("\"{value}\" is not {kind}, nor \"{one}\""),
            [first, .., last] => format!("\"{value}\" is not {kind}, \"{first}\" or \"{last}\""),
        });
    };
    match range {
        Some(range) if !range.contains(number) => Err(outside(value, range, words)),
        _ => Ok(number),
    }
}

fn outside(value: &str, range: Range, words: &[&str]) -> String {
    let mut text = format!("\"{value}\" is not in {range}");
    for word in words {
        text += &format!(", nor \"{word}\"");
    }
    text
}

/// A whole number. Anything that looks like a number, but is none of the allowed ones, is out of
/// range.
pub(crate) fn whole(range: Option<Range>, value: &str, words: &[&str]) -> Result<u32, String> {
    let read = |text: &str| match text.parse::<i128>() {
        Ok(number) => Some(u64::try_from(number).unwrap_or(u64::MAX)),
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => Some(u64::MAX),
        Err(_) => None,
    };
    number(range, value, read, "a whole number", words)
        .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A size in bytes.
pub(crate) fn bytes(range: Option<Range>, value: &str) -> Result<u32, String> {
    number(range, value, units::parse_size, SIZE, &[])
        .map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
