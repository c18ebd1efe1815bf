// SPDX-License-Identifier: GPL-2.0
//! The option grammar: words as a user types them to `tc` or `turnstile`.

use std::fmt;
use std::iter::Peekable;

use turnstile_core::config::limits::{self, Range};
use turnstile_core::config::{Drain, Expiry, Order, Tokens};
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
        Key::SplitGso | Key::Phantom => {}
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

/// A rate has to be an allowed share of the link, which the kernel knows best: here it has to be a rate.
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

/// A whole number. Anything that looks like a number, but is none of the allowed ones, is out of range.
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use turnstile_core::config::DscpMap;

    fn words(text: &str) -> Result<Options, String> {
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option() {
        let all = words(
            "link 10gbit tokens 5.5% priorities 8 token-limit 16 token-expiry 20us order data-first unscheduled off \
             data-limit 1mb signal-limit 10 dscp EF=token0 no-split-gso overhead 0 phantom drain 95% mark 1kb mpu 64b",
        )
        .unwrap();
        let mut dscp = DscpMap::NONE;
        dscp.0[46] = 0x10;
        assert_eq!(
            all,
            Options {
                link: Some(Link::Rate(1_250_000_000)),
                tokens: Some(Tokens::Share(55_000_000)),
                priorities: Some(8),
                token_limit: Some(16),
                token_expiry: Some(Expiry::After(Nanos(20_000))),
                order: Some(Order::DataFirst),
                unscheduled: Some(0),
                data_limit: Some(1 << 20),
                signal_limit: Some(10),
                dscp: Some(dscp),
                split_gso: Some(false),
                overhead: Some(0),
                mpu: Some(64),
                phantom: Some(Phantom::On {
                    drain: Some(Drain::Share(950_000_000)),
                    mark: Some(1024),
                }),
            }
        );
        let phantom = |text: &str| words(text).unwrap().phantom;
        let on = |drain, mark| Some(Phantom::On { drain, mark });
        assert_eq!(phantom("phantom off"), Some(Phantom::Off));
        assert_eq!(
            phantom("phantom mark 0 drain 950mbit"),
            on(Some(Drain::Rate(118_750_000)), Some(0))
        );
        assert_eq!(
            phantom("phantom drain 100% link auto"),
            on(Some(Drain::Share(1_000_000_000)), None)
        );
        assert_eq!(phantom("phantom mark 30kb"), on(None, Some(30 << 10)));
        assert_eq!(words(""), Ok(Options::default()));
        assert_eq!(words("link auto").unwrap().link, Some(Link::Auto));
        assert_eq!(
            words("tokens 500mbit").unwrap().tokens,
            Some(Tokens::Rate(62_500_000))
        );
        assert_eq!(
            words("token-expiry off split-gso").unwrap().token_expiry,
            Some(Expiry::Off)
        );
    }

    #[test]
    fn refused() {
        let rate = RATE;
        for (text, error) in [
            ("link", "link: needs a value: RATE|auto".to_owned()),
            (
                "link 10",
                "link: \"10\" is not in 1kbit..800gbit, nor \"auto\"".to_owned(),
            ),
            (
                "link 801gbit",
                "link: \"801gbit\" is not in 1kbit..800gbit, nor \"auto\"".to_owned(),
            ),
            (
                "link fast",
                format!("link: \"fast\" is not {rate}, nor \"auto\""),
            ),
            (
                "link -1gbit",
                format!("link: \"-1gbit\" is not {rate}, nor \"auto\""),
            ),
            (
                "link 10% ",
                format!("link: \"10%\" is not {rate}, nor \"auto\""),
            ),
            (
                "tokens 0.009%",
                "tokens: \"0.009%\" is not in 0.01%..50%".to_owned(),
            ),
            (
                "tokens 51%",
                "tokens: \"51%\" is not in 0.01%..50%".to_owned(),
            ),
            ("tokens x%", "tokens: \"x%\" is not a percentage".to_owned()),
            (
                "tokens 0",
                "tokens: \"0\" is less than a byte per second".to_owned(),
            ),
            (
                "tokens all",
                format!("tokens: \"all\" is not a percentage (5.5%), nor {rate}"),
            ),
            ("tokens 5% tokens 1gbit", "tokens: given twice".to_owned()),
            (
                "priorities 9",
                "priorities: \"9\" is not in 1..8".to_owned(),
            ),
            (
                "priorities 0",
                "priorities: \"0\" is not in 1..8".to_owned(),
            ),
            (
                "priorities -1",
                "priorities: \"-1\" is not in 1..8".to_owned(),
            ),
            (
                "priorities 99999999999999999999999999999999999999999999",
                "priorities: \"99999999999999999999999999999999999999999999\" is not in 1..8"
                    .to_owned(),
            ),
            (
                "priorities 1.5",
                "priorities: \"1.5\" is not a whole number".to_owned(),
            ),
            (
                "token-limit 0",
                "token-limit: \"0\" is not in 1..1024".to_owned(),
            ),
            (
                "token-expiry 10parsecs",
                "token-expiry: \"10parsecs\" is not a time (s, ms, us, ns), \"auto\" or \"off\""
                    .to_owned(),
            ),
            (
                "token-expiry 0",
                "token-expiry: \"0\" is not in 1ns..10s, nor \"auto\", nor \"off\"".to_owned(),
            ),
            (
                "token-expiry 11s",
                "token-expiry: \"11s\" is not in 1ns..10s, nor \"auto\", nor \"off\"".to_owned(),
            ),
            (
                "order both",
                "order: \"both\" is not \"tokens-first\" or \"data-first\"".to_owned(),
            ),
            (
                "unscheduled 0",
                "unscheduled: \"0\" is not in 1..1024, nor \"off\"".to_owned(),
            ),
            (
                "unscheduled none",
                "unscheduled: \"none\" is not a whole number, nor \"off\"".to_owned(),
            ),
            (
                "data-limit 1599",
                "data-limit: \"1599\" is not in 1600..1073741824".to_owned(),
            ),
            (
                "data-limit 2gb",
                "data-limit: \"2gb\" is not in 1600..1073741824".to_owned(),
            ),
            (
                "data-limit 10ms",
                "data-limit: \"10ms\" is not a size (b, kb, mb, gb)".to_owned(),
            ),
            (
                "signal-limit 100001",
                "signal-limit: \"100001\" is not in 1..100000".to_owned(),
            ),
            (
                "dscp CS9=data",
                "dscp: \"CS9\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE".to_owned(),
            ),
            (
                "overhead 257",
                "overhead: \"257\" is not in 0..256".to_owned(),
            ),
            ("mpu 1k", "mpu: \"1k\" is not in 0..256".to_owned()),
            (
                "phantom",
                "phantom: needs a value: { drain PERCENT|RATE mark BYTES | off }".to_owned(),
            ),
            (
                "phantom on",
                "phantom: \"on\" is not \"drain\", \"mark\" or \"off\"".to_owned(),
            ),
            (
                "phantom off drain 95%",
                format!("unknown word \"drain\"; the options are {}", table::names()),
            ),
            ("phantom drain", "phantom: drain: needs a value".to_owned()),
            (
                "phantom drain 0.9%",
                "phantom: drain: \"0.9%\" is not in 1%..100%".to_owned(),
            ),
            (
                "phantom drain 101%",
                "phantom: drain: \"101%\" is not in 1%..100%".to_owned(),
            ),
            (
                "phantom drain much mark 0",
                format!("phantom: drain: \"much\" is not a percentage (5.5%), nor {rate}"),
            ),
            (
                "phantom drain 0 mark 0",
                "phantom: drain: \"0\" is less than a byte per second".to_owned(),
            ),
            (
                "phantom mark 2gb",
                "phantom: mark: \"2gb\" is not in 0..1073741824".to_owned(),
            ),
            (
                "phantom mark 10ms drain 95%",
                "phantom: mark: \"10ms\" is not a size (b, kb, mb, gb)".to_owned(),
            ),
            (
                "phantom drain 95% drain 95%",
                "phantom: drain: given twice".to_owned(),
            ),
            (
                "phantom mark 1kb mark 1kb",
                "phantom: mark: given twice".to_owned(),
            ),
            ("phantom off phantom off", "phantom: given twice".to_owned()),
            (
                "split-gso no-split-gso",
                "split-gso: given twice".to_owned(),
            ),
            (
                "no-link",
                format!(
                    "unknown word \"no-link\"; the options are {}",
                    table::names()
                ),
            ),
            (
                "LINK 1gbit",
                format!("unknown word \"LINK\"; the options are {}", table::names()),
            ),
        ] {
            assert_eq!(words(text), Err(error), "{text}");
        }
        assert!(
            table::names().starts_with("link, tokens, ")
                && table::names().contains("split-gso, no-split-gso, ")
        );
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in prop::collection::vec("\\PC{0,12}|link|tokens|dscp|priorities|[0-9]{1,40}%?", 0..12)) {
            let _ = parse(&words);
        }
    }
}
