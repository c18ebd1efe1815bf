// SPDX-License-Identifier: GPL-2.0
//! The host pacer, qdisc kind `turnstile_pacer`, over netlink.
//!
//! | item | what is there |
//! |---|---|
//! | [`Options`] | the options of a pacer: words ⇄ options ⇄ netlink attributes |
//! | [`table`] | the one table of options behind all of these, help texts and man pages |
//! | [`Stats`] | what a pacer counts |
//! | `client` | the async client (feature `client`) |
//!
//! ```
//! use turnstile_netlink::pacer::Options;
//!
//! let options = Options::parse(&["interval", "7.2us", "beta", "375", "associate", "12.5%"])?;
//! assert_eq!(options.to_string(), "interval 7200ns beta 375 associate 12.5%");
//! assert_eq!(Options::decode(&options.encode())?, options);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "client")]
pub mod client;
mod stats;
pub mod table;

use std::fmt;

use crate::attr::{attributes, put_u32, put_u64, Malformed};
use crate::grammar::{self, GrammarError};
use crate::print::{Printer, Text};
use crate::units;

pub use stats::{print_stats, Stats};
pub use table::Key;
use table::{Form, Info, OPTIONS};

/// The options that were given.
///
/// The kernel has the last word on what is allowed: values out of range can be sent, and are
/// refused there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options([Option<u64>; OPTIONS.len()]);

impl Options {
    /// The value of an option, as it is in its attribute; `None` if it was not given.
    pub fn get(&self, key: Key) -> Option<u64> {
        self.0[key as usize]
    }

    /// Gives an option.
    pub fn set(&mut self, key: Key, value: u64) {
        self.0[key as usize] = Some(value);
    }

    /// Reads `word value word value …`. Each option may be given once.
    ///
    /// # Errors
    /// What is wrong with which word.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Self, GrammarError> {
        let mut options = Self::default();
        let mut words = words.iter().map(AsRef::as_ref);
        while let Some(word) = words.next() {
            let (info, on) = find(word).ok_or_else(|| {
                GrammarError::new(
                    "unknown word",
                    format_args!("\"{word}\"; the options are {}", table::names()),
                )
            })?;
            if options.get(info.key).is_some() {
                return Err(GrammarError::new(info.name, "given twice"));
            }
            let value = match info.form {
                Form::Flag => Ok(on.into()),
                _ => match words.next() {
                    Some(value) => read(info, value),
                    None => Err(format!("needs a value: {}", info.form.placeholder())),
                },
            };
            options.set(
                info.key,
                value.map_err(|why| GrammarError::new(info.name, why))?,
            );
        }
        Ok(options)
    }

    /// The attributes inside `TCA_OPTIONS`, without the header of the nest around them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        for info in OPTIONS {
            match (self.get(info.key), info.form.is_u64()) {
                (Some(value), true) => put_u64(&mut to, info.number, value),
                // What does not fit is out of range, and so is the highest number.
                (Some(value), false) => put_u32(
                    &mut to,
                    info.number,
                    u32::try_from(value).unwrap_or(u32::MAX),
                ),
                (None, _) => {}
            }
        }
        to
    }

    /// Reads what [`Options::encode`] or the kernel's dump wrote. Attributes it does not know are
    /// left out.
    ///
    /// # Errors
    /// Attributes that are cut short.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        for attribute in attributes(bytes) {
            let attribute = attribute?;
            let Some(info) = OPTIONS.iter().find(|info| info.number == attribute.number) else {
                continue;
            };
            let value = match info.form.is_u64() {
                true => attribute.u64(info.name)?,
                false => attribute.u32(info.name)?.into(),
            };
            options.set(info.key, value);
        }
        Ok(options)
    }
}

/// The option that `word` starts, and whether it is not negated.
fn find(word: &str) -> Option<(&'static Info, bool)> {
    OPTIONS.iter().find_map(|info| {
        if word == info.name {
            Some((info, true))
        } else if info.form == Form::Flag && word.strip_prefix("no-") == Some(info.name) {
            Some((info, false))
        } else {
            None
        }
    })
}

fn read(info: &Info, value: &str) -> Result<u64, String> {
    let range = Some(info.range);
    match info.form {
        Form::Time => grammar::number(range, value, units::parse_time, grammar::TIME, &[]),
        Form::Percent => grammar::number(range, value, units::parse_percent, grammar::PERCENT, &[]),
        Form::RateOrAuto if value == "auto" => Ok(0),
        Form::RateOrAuto => {
            grammar::number(range, value, units::parse_rate, grammar::RATE, &["auto"])
        }
        Form::Size | Form::Bytes => grammar::bytes(range, value).map(u64::from),
        Form::Number | Form::Flag => grammar::whole(range, value, &[]).map(u64::from),
    }
}

/// Shows the options that are given, as [`Options::parse`] reads them.
pub fn print_options(options: &Options, to: &mut dyn Printer) {
    for info in OPTIONS {
        let Some(value) = options.get(info.key) else {
            continue;
        };
        let name = info.name;
        let small = u32::try_from(value).unwrap_or(u32::MAX);
        match info.form {
            Form::Time => {
                let shown = units::time(value);
                to.number(name, &value, format_args!("{name} {shown} "));
            }
            Form::Percent => {
                let shown = units::percent(small);
                to.number(name, &units::share(small), format_args!("{name} {shown} "));
            }
            Form::RateOrAuto if value == 0 => to.string(name, "auto", format_args!("{name} auto ")),
            Form::RateOrAuto => {
                let shown = units::rate(value);
                to.number(name, &value, format_args!("{name} {shown} "));
            }
            Form::Size => {
                let shown = units::size(value);
                to.number(name, &value, format_args!("{name} {shown} "));
            }
            Form::Number | Form::Bytes => {
                to.number(name, &value, format_args!("{name} {value} "));
            }
            Form::Flag => {
                let no = if value == 0 { "no-" } else { "" };
                to.boolean(name, value != 0, format_args!("{no}{name} "));
            }
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::default();
        print_options(self, &mut text);
        f.write_str(&text.finish())
    }
}

#[cfg(test)]
mod tests;
