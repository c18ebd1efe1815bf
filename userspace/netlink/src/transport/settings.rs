// SPDX-License-Identifier: GPL-2.0
//! The transport's options: words, attributes, printing and help, all from [`OPTIONS`].

use std::collections::BTreeMap;
use std::fmt;

use turnstile_core::port::config::limits::{Range, Unit};
use turnstile_core::transport::config::{option, Opt, Value, Values, OPTIONS};
use turnstile_core::transport::uapi::config as number;

use crate::attr::{self, attributes, Malformed};
use crate::grammar::{self, GrammarError};
use crate::print::{Printer, Text};
use crate::table::wrap;
use crate::units;

/// Options with values, by attribute number: those that a user gives, or all that the kernel
/// reports.
///
/// The kernel, not this type, has the last word on what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<u16, Value>,
    /// bytes/s: the link rate in force. Only the kernel says it.
    pub link_in_force: Option<u64>,
}

/// Whether the option's number counts bytes.
fn is_size(option: &Opt) -> bool {
    matches!(option.number, number::SEND_BUFFER | number::RECEIVE_BUFFER)
}

/// The option's range, and the word for 0.
fn range(option: &Opt) -> Option<(Range, Option<&'static str>)> {
    match option.values {
        Values::Choice(_) => None,
        Values::Number(range) => Some((range, None)),
        Values::NumberOr(range, zero) => Some((range, Some(zero))),
    }
}

/// What follows the word in a synopsis: `TIME|off`.
pub fn placeholder(option: &Opt) -> String {
    let Some((range, zero)) = range(option) else {
        return option.values.to_string();
    };
    let unit = match range.unit {
        Unit::Number if is_size(option) => "BYTES",
        Unit::Number => "N",
        Unit::Rate => "RATE",
        Unit::Share => "PERCENT",
        Unit::Time => "TIME",
    };
    match zero {
        Some(zero) => format!("{unit}|{zero}"),
        None => unit.to_owned(),
    }
}

/// A value as it is typed.
pub fn word(option: &Opt, value: u64) -> String {
    match (option.values, range(option)) {
        (Values::Choice(words), _) => usize::try_from(value)
            .ok()
            .and_then(|at| words.get(at))
            .map_or_else(|| value.to_string(), |word| (*word).to_owned()),
        (_, Some((_, Some(zero)))) if value == 0 => zero.to_owned(),
        (_, Some((range, _))) => match range.unit {
            Unit::Number if is_size(option) => units::size(value),
            Unit::Rate => units::rate(value),
            Unit::Share => units::percent(u32::try_from(value).unwrap_or(u32::MAX)),
            Unit::Time => units::time(value),
            Unit::Number => value.to_string(),
        },
        (_, None) => value.to_string(),
    }
}

/// Reads a value, or says why not.
fn read(option: &Opt, text: &str) -> Result<Value, String> {
    let value = match option.values {
        Values::Choice(words) => match words.iter().position(|word| *word == text) {
            Some(at) => at as u64,
            None => return Err(format!("\"{text}\" is none of {}", option.values)),
        },
        Values::NumberOr(_, zero) if zero == text => 0,
        Values::Number(range) => measure(option, text, range, &[])?,
        Values::NumberOr(range, zero) => measure(option, text, range, &[zero])?,
    };
    Ok(match option.default {
        // What is in range fits.
        Value::U32(_) => Value::U32(u32::try_from(value).unwrap_or(u32::MAX)),
        Value::U64(_) => Value::U64(value),
    })
}

fn measure(option: &Opt, text: &str, range: Range, words: &[&str]) -> Result<u64, String> {
    let only = Some(range);
    match range.unit {
        Unit::Number if is_size(option) => grammar::bytes(only, text).map(u64::from),
        Unit::Number => grammar::whole(only, text, words).map(u64::from),
        Unit::Rate => grammar::number(only, text, units::parse_rate, grammar::RATE, words),
        Unit::Share => grammar::number(only, text, units::parse_percent, grammar::PERCENT, words),
        Unit::Time => grammar::number(only, text, units::parse_time, grammar::TIME, words),
    }
}

impl Settings {
    /// Reads `word value word value …`. Each option may be given once.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Self, GrammarError> {
        let mut settings = Self::default();
        let mut words = words.iter().map(AsRef::as_ref);
        while let Some(word) = words.next() {
            let Some(option) = OPTIONS.iter().find(|option| option.name == word) else {
                let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
                return Err(GrammarError::new(
                    &format!("unknown word \"{word}\""),
                    format_args!("the options are {}", names.join(", ")),
                ));
            };
            let Some(text) = words.next() else {
                let needs = format!("needs a value: {}", placeholder(option));
                return Err(GrammarError::new(word, needs));
            };
            let value = read(option, text).map_err(|why| GrammarError::new(word, why))?;
            if settings.values.insert(option.number, value).is_some() {
                return Err(GrammarError::new(word, "given twice"));
            }
        }
        Ok(settings)
    }

    /// Nothing is set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of an option (of `turnstile_core::transport::uapi::config`), if it is set.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.values.get(&number).map(|value| value.get())
    }

    /// The options that are set, with their values, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Opt, u64)> + '_ {
        let known = OPTIONS
            .iter()
            .map(|option| (option, self.get(option.number)));
        known.filter_map(|(option, value)| Some((option, value?)))
    }

    /// As attributes of a request.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        for (number, value) in &self.values {
            match *value {
                Value::U32(value) => attr::put_u32(&mut to, *number, value),
                Value::U64(value) => attr::put_u64(&mut to, *number, value),
            }
        }
        to
    }

    /// From the attributes of an answer. What is not known is left out.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut settings = Self::default();
        for attribute in attributes(bytes) {
            let attribute = attribute?;
            if attribute.number == number::LINK_IN_FORCE {
                settings.link_in_force = Some(attribute.u64("link-in-force")?);
            }
            let Some(option) = option(attribute.number) else {
                continue;
            };
            let value = match option.default {
                Value::U32(_) => Value::U32(attribute.u32(option.name)?),
                Value::U64(_) => Value::U64(attribute.u64(option.name)?),
            };
            settings.values.insert(option.number, value);
        }
        Ok(settings)
    }

    /// Shows what is set: as words that can be typed back, or as members of JSON: rates in bytes/s,
    /// times in ns, shares as fractions.
    pub fn print(&self, to: &mut dyn Printer) {
        for (option, value) in self.iter() {
            let (name, typed) = (option.name, word(option, value));
            let text = format!("{name} {typed} ");
            match range(option) {
                None => to.string(name, &typed, format_args!("{text}")),
                Some((_, Some(_))) if value == 0 => to.string(name, &typed, format_args!("{text}")),
                Some((range, _)) if range.unit == Unit::Share => {
                    let ppb = u32::try_from(value).unwrap_or(u32::MAX);
                    to.number(name, &units::share(ppb), format_args!("{text}"));
                }
                Some(_) => to.number(name, &value, format_args!("{text}")),
            }
        }
        if let Some(rate) = self.link_in_force {
            to.number("link-in-force", &rate, format_args!(""));
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::default();
        self.print(&mut text);
        f.write_str(&text.finish())
    }
}

/// What an option's default is, as it is typed.
pub fn default(option: &Opt) -> String {
    word(option, option.default.get())
}

/// The allowed numbers, as they are typed; empty where the [`placeholder`] says it all.
pub fn allowed(option: &Opt) -> String {
    match range(option) {
        None => String::new(),
        Some((range, _)) if is_size(option) => {
            format!("{}..{}", units::size(range.min), units::size(range.max))
        }
        Some(_) => option.values.to_string(),
    }
}

/// What a terminal shows for `help`: a line or two per option, at most 100 columns wide.
pub fn help() -> String {
    let mut text = String::new();
    for option in OPTIONS {
        let range = match allowed(option) {
            range if range.is_empty() => range,
            range => format!("{range}; "),
        };
        text += &format!("  [ {} {} ]\n", option.name, placeholder(option));
        let about = format!(
            "{} ({range}default: {})",
            option.doc.trim(),
            default(option)
        );
        for line in wrap(&about, 88) {
            text += &format!("        {line}\n");
        }
    }
    text + "Rates, times and sizes have tc's units: 10gbit, 100mbps (bytes), 20us, 64kb; see tc(8).\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Settings, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Settings::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn words_of_each_kind() {
        let text = "policy ren link 25gbit token-share 5% initial-rate 50% update-period rtt base-rtt 48us \
            token-expiry off clock tai priorities 8 schedule coflow unscheduled 1 timeout 2s send-buffer 1mb dscp-token 46";
        let settings = parse(text).unwrap();
        assert_eq!(
            settings.to_string(),
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        assert_eq!(settings.get(number::POLICY), Some(2));
        assert_eq!(settings.get(number::LINK_RATE64), Some(3_125_000_000));
        assert_eq!(settings.get(number::TOKEN_SHARE), Some(50_000_000));
        assert_eq!(settings.get(number::SEND_BUFFER), Some(1 << 20));
        assert_eq!(settings.get(number::UPDATE_PERIOD), Some(0));
        assert_eq!(settings.get(number::JITTER), None);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn refused_words() {
        for (text, error) in [
            ("policy", "policy: needs a value: expresspass|top|ren"),
            (
                "policy tcp",
                "policy: \"tcp\" is none of expresspass|top|ren",
            ),
            (
                "link 1",
                "link: \"1\" is not in 1kbit..800gbit, nor \"auto\"",
            ),
            (
                "link off",
                &format!("link: \"off\" is not {}, nor \"auto\"", grammar::RATE),
            ),
            (
                "token-share 60%",
                "token-share: \"60%\" is not in 0.01%..50%",
            ),
            ("target-loss 5", "target-loss: \"5\" is not a percentage"),
            ("base-rtt 1ns", "base-rtt: \"1ns\" is not in 1us..1s"),
            (
                "token-expiry 2s",
                "token-expiry: \"2s\" is not in 1us..1s, nor \"off\"",
            ),
            ("priorities -1", "priorities: \"-1\" is not in 1..8"),
            ("max-incoming 0", "max-incoming: \"0\" is not in 1..65536"),
            (
                "send-buffer 1kb",
                "send-buffer: \"1kb\" is not in 65536..1073741824",
            ),
            ("jitter 1% jitter 1%", "jitter: given twice"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
        let unknown = parse("speed 1gbit").unwrap_err();
        assert!(unknown.starts_with("unknown word \"speed\": the options are policy, link, "));
    }

    #[test]
    fn defaults_can_be_typed() {
        for option in OPTIONS {
            let settings = parse(&format!("{} {}", option.name, default(option))).unwrap();
            assert_eq!(
                settings.get(option.number),
                Some(option.default.get()),
                "{}",
                option.name
            );
        }
    }

    #[test]
    fn as_json() {
        let mut settings =
            parse("policy top link auto token-share 5% rto 1ms priorities 6").unwrap();
        settings.link_in_force = Some(1_250_000_000);
        let mut to = Json::default();
        settings.print(&mut to);
        assert_eq!(
            to.finish(),
            json!({"policy": "top", "link": "auto", "token-share": 0.05, "priorities": 6, "rto": 1_000_000,
                "link-in-force": 1_250_000_000})
        );
        assert!(
            !settings.to_string().contains("link-in-force"),
            "cannot be typed"
        );
    }

    #[test]
    fn help_has_every_option_and_fits() {
        let help = help();
        for option in OPTIONS {
            assert!(help.contains(&format!("[ {} ", option.name)));
        }
        assert!(help.contains("[ token-expiry TIME|off ]"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_newer_kernel_may_say_more() {
        let mut bytes = parse("rto 1ms").unwrap().encode();
        attr::put_u64(&mut bytes, number::LINK_IN_FORCE, 7);
        attr::put(&mut bytes, number::MAX + 1, b"news");
        let settings = Settings::decode(&bytes).unwrap();
        assert_eq!(
            (settings.to_string().as_str(), settings.link_in_force),
            ("rto 1ms", Some(7))
        );
        let mut short = Vec::new();
        attr::put(&mut short, number::RTO, &[1, 2, 3, 4]);
        let error = Settings::decode(&short).unwrap_err().to_string();
        assert!(error.contains("attribute rto"), "{error}");
    }

    fn any_settings() -> impl Strategy<Value = Settings> {
        prop::collection::vec(any::<(bool, u64)>(), OPTIONS.len()).prop_map(|given| {
            let mut settings = Settings::default();
            for (option, (is_given, random)) in OPTIONS.iter().zip(given) {
                let value = match option.values {
                    Values::Choice(words) => random % words.len() as u64,
                    Values::Number(range) => range.min + random % (range.max - range.min + 1),
                    Values::NumberOr(_, _) if random % 3 == 0 => 0,
                    Values::NumberOr(range, _) => range.min + random % (range.max - range.min + 1),
                };
                let value = match option.default {
                    Value::U32(_) => Value::U32(value as u32),
                    Value::U64(_) => Value::U64(value),
                };
                if is_given {
                    settings.values.insert(option.number, value);
                }
            }
            settings
        })
    }

    proptest! {
        #[test]
        fn printed_settings_read_back(settings in any_settings()) {
            prop_assert_eq!(parse(&settings.to_string()), Ok(settings.clone()));
            prop_assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
        }

        #[test]
        fn any_bytes_and_words_do_no_harm(bytes: Vec<u8>, words in prop::collection::vec("\\PC{0,8}|policy|rto|[0-9]{1,30}%?", 0..6)) {
            let _ = (Settings::decode(&bytes), Settings::parse(&words));
        }
    }
}
