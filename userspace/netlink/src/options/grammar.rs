// SPDX-License-Identifier: GPL-2.0
//! The option grammar: words as a user types them to `tc` or `turnstile`.

use std::fmt;
use std::iter::Peekable;

use turnstile_core::options::{Form, Kind, Opt, Range, Table, Unit, Value};

use super::{dscp, help, units, Entry, Options};

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

impl<T: Table> Options<T> {
    /// Reads `word value word value …`. Each option may be given once.
    ///
    /// # Errors
    /// What is wrong with which word.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Self, GrammarError> {
        let entries = Entry::all(T::OPTIONS);
        let mut options = Self::default();
        let mut words = words.iter().map(AsRef::as_ref).peekable();
        while let Some(word) = words.next() {
            let Some((entry, on)) = find(&entries, word) else {
                let unknown = format!("unknown word \"{word}\"");
                return Err(GrammarError::new(&unknown, meant(&entries, word)));
            };
            let wrong = |why| GrammarError::new(entry.name, why);
            if entry.rows.iter().any(|row| options.given(row).is_some()) {
                return Err(wrong("given twice".to_owned()));
            }
            let row = entry.rows[0];
            if let Form::Flag(others) = row.form {
                let other = others.iter().filter(|_| on);
                let other = other.filter_map(|(word, value)| words.next_if_eq(word).map(|_| value));
                let value = other.copied().next().unwrap_or(on.into());
                options.set(row.number, fitting(row, value));
            } else if entry.members().is_some() {
                options.group(entry, &mut words).map_err(wrong)?;
            } else {
                let needs = || wrong(format!("needs a value: {}", help::value(row.form)));
                let text = words.next().ok_or_else(needs)?;
                let (number, value) = read(row, row.form, text).map_err(wrong)?;
                options.set(number, value);
            }
        }
        Ok(options)
    }

    /// The word that turns a group off, or at least one of its members with a value.
    fn group<'a>(
        &mut self,
        entry: &Entry,
        words: &mut Peekable<impl Iterator<Item = &'a str>>,
    ) -> Result<(), String> {
        let row = entry.rows[0];
        if let Some((off, value)) = entry.off() {
            if words.next_if_eq(&off).is_some() {
                self.set(row.number, fitting(row, value));
                return Ok(());
            }
        }
        let find = |word: &str| entry.members()?.find(|(name, _)| *name == word);
        let mut some = false;
        while let Some((name, row)) = words.peek().copied().and_then(find) {
            words.next();
            if self.given(row).is_some() {
                return Err(format!("{name}: given twice"));
            }
            let form = entry.form_within(row);
            let text = words
                .next()
                .ok_or_else(|| format!("{name}: needs a value: {}", help::value(form)))?;
            let (number, value) = read(row, form, text).map_err(|why| format!("{name}: {why}"))?;
            self.set(number, value);
            some = true;
        }
        match words.peek() {
            _ if some => Ok(()),
            None => Err(format!("needs a value: {}", entry.value())),
            Some(word) => {
                let members = entry.members().into_iter().flatten().map(|(name, _)| name);
                let all: Vec<_> = members.chain(entry.off().map(|(word, _)| word)).collect();
                Err(format!("\"{word}\" is not {}", either(&all)))
            }
        }
    }
}

/// The option that `word` starts, and whether it is not negated.
fn find<'a>(entries: &'a [Entry], word: &str) -> Option<(&'a Entry, bool)> {
    entries.iter().find_map(|entry| {
        if word == entry.name {
            Some((entry, true))
        } else if entry.is_flag() && word.strip_prefix("no-") == Some(entry.name) {
            Some((entry, false))
        } else {
            None
        }
    })
}

/// What somebody may have meant by a word that is no option; else all that there are.
fn meant(entries: &[Entry], word: &str) -> String {
    let lower = word.to_lowercase();
    let members = entries.iter().flat_map(|entry| &entry.rows);
    let names = help::starts(entries);
    let closest = names
        .iter()
        .min_by_key(|name| strsim::damerau_levenshtein(name, &lower));
    let near = |name: &&String| {
        strsim::damerau_levenshtein(name, &lower) <= (lower.chars().count() + 1) / 3
    };
    let of_group = members.map(|row| row.name).find(|name| {
        let (_, member) = name.split_once(' ').unwrap_or_default();
        !member.is_empty() && member == lower
    });
    match of_group.or(closest.filter(near).map(String::as_str)) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("the options are {}", names.join(", ")),
    }
}

const RATE: &str = "a rate (bit, kbit, mbit, gbit, tbit; kibit, ...; bps, kbps, ... for bytes)";

/// A value as words, in the row's attribute for it; or why it is none.
fn read(row: &Opt, form: Form, text: &str) -> Result<(u16, Value), String> {
    let word = form.words().iter().find(|(word, _)| *word == text);
    let value = match form {
        _ if word.is_some() => word.map_or(0, |(_, value)| *value),
        Form::Choice(words) => match words.iter().position(|word| *word == text) {
            Some(at) => at as u64,
            None => return Err(format!("\"{text}\" is none of {form}")),
        },
        Form::Map => return Ok((row.number, Value::Map(dscp::parse(text)?.0))),
        Form::Part(range, _) if !text.ends_with('%') => {
            let rate = rate(text, range)?;
            return Ok((row.rate.unwrap_or(row.number), Value::U64(rate)));
        }
        Form::Number(range, _) | Form::Part(range, _) => measure(form, range, text)?,
        Form::Flag(_) => 0,
    };
    Ok((row.number, fitting(row, value)))
}

/// The number as the row's attribute has it: what is in range fits.
fn fitting(row: &Opt, value: u64) -> Value {
    match row.kind {
        Kind::U32 => Value::U32(u32::try_from(value).unwrap_or(u32::MAX)),
        _ => Value::U64(value),
    }
}

/// A rate that stands for a share of the link. Whether it is an allowed one, the kernel knows best:
/// here it has to be a rate.
fn rate(text: &str, range: Range) -> Result<u64, String> {
    if units::is_bare(text) && text.parse::<f64>().is_ok_and(|number| number <= 100.0) {
        return Err(match is_share(text, range) {
            true => format!("\"{text}\" has no unit: did you mean {text}%?"),
            false => format!("\"{text}\" has no unit; as a percentage it is not in {range}"),
        });
    }
    match units::parse_rate(text) {
        Some(rate) if rate > 0 => Ok(rate),
        Some(_) => Err(format!("\"{text}\" is less than a byte per second")),
        None => Err(format!("\"{text}\" is not a percentage (5.5%), nor {RATE}")),
    }
}

/// Whether a number without a unit would be in the range as a percentage.
fn is_share(text: &str, range: Range) -> bool {
    let share = units::parse_percent(&format!("{text}%"));
    units::is_bare(text) && share.is_some_and(|share| range.contains(share))
}

/// A number in its range, or why not.
fn measure(form: Form, range: Range, text: &str) -> Result<u64, String> {
    let (number, kind) = match range.unit {
        Unit::Count(_) => (whole(text), "a whole number"),
        Unit::Rate => (units::parse_rate(text), RATE),
        Unit::Share => (units::parse_percent(text), "a percentage"),
        Unit::Time => (units::parse_time(text), "a time (s, ms, us, ns)"),
        Unit::Size | Unit::Bytes => (units::parse_size(text), "a size (b, kb, mb, gb)"),
        Unit::Code => return dscp::code(text).map(u64::from),
        Unit::Priorities => (units::parse_priorities(text), "a list of priorities (3,4)"),
        Unit::Ratio => (units::parse_ratio(text), "a ratio (1/4, 0.25, 2)"),
    };
    match number {
        Some(number) if range.contains(number) => Ok(number),
        Some(_) => Err(format!("\"{text}\" is not in {form}")),
        None if range.unit == Unit::Share && is_share(text, range) => Err(format!(
            "\"{text}\" is not a percentage: did you mean {text}%?"
        )),
        None => {
            let mut words: Vec<_> = form.words().iter().map(|(word, _)| *word).collect();
            Err(match words.pop() {
                None => format!("\"{text}\" is not {kind}"),
                Some(last) if words.is_empty() => {
                    format!("\"{text}\" is not {kind}, nor \"{last}\"")
                }
                Some(last) => format!("\"{text}\" is not {kind}, {} or \"{last}\"", quoted(&words)),
            })
        }
    }
}

/// Anything that looks like a whole number, but is none that can be, is beyond all ranges.
fn whole(text: &str) -> Option<u64> {
    match text.parse::<i128>() {
        Ok(number) => Some(u64::try_from(number).unwrap_or(u64::MAX)),
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => Some(u64::MAX),
        Err(_) => None,
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(", ")
}

fn either(words: &[&str]) -> String {
    match words {
        [most @ .., last] if !most.is_empty() => format!("{} or \"{last}\"", quoted(most)),
        _ => quoted(words),
    }
}
