// SPDX-License-Identifier: GPL-2.0
//! Printing, as text that can be typed back and as JSON, by one set of calls.
//!
//! A [`Printer`] shows a value either as text or as JSON. The plugin has one over tc's own print
//! functions, this crate one for text ([`Text`]) and one for JSON ([`crate::json::Json`]).

use std::fmt;

use turnstile_core::options::{Form, Table, Unit, Value};

use super::{dscp, units, Options};

/// Shows values. Each call gives the key and value for JSON, and the words that text shows instead,
/// which end in a space.
pub trait Printer {
    /// Text that JSON does not have.
    fn text(&mut self, shown: fmt::Arguments<'_>);
    /// A string.
    fn string(&mut self, key: &str, value: &str, shown: fmt::Arguments<'_>);
    /// A number: `value` shows as a decimal.
    fn number(&mut self, key: &str, value: &dyn fmt::Display, shown: fmt::Arguments<'_>);
    /// Yes or no.
    fn boolean(&mut self, key: &str, value: bool, shown: fmt::Arguments<'_>);
    /// Begins an object of JSON.
    fn open(&mut self, key: &str);
    /// Ends it.
    fn close(&mut self);
}

/// Collects text.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// The text, without the space after its last word.
    pub fn finish(self) -> String {
        self.0.trim_end().to_owned()
    }
}

impl Printer for Text {
    fn text(&mut self, shown: fmt::Arguments<'_>) {
        self.0 += &shown.to_string();
    }

    fn string(&mut self, _: &str, _: &str, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn number(&mut self, _: &str, _: &dyn fmt::Display, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn boolean(&mut self, _: &str, _: bool, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn open(&mut self, _: &str) {}

    fn close(&mut self) {}
}

/// Shows the options that are given, as [`Options::parse`] reads them. In JSON rates are in
/// bytes/s, times in ns, shares fractions. What only the kernel says is in JSON alone.
pub fn print_options<T: Table>(options: &Options<T>, to: &mut dyn Printer) {
    for entry in Options::<T>::entries() {
        let Some(members) = entry.members() else {
            let row = entry.rows[0];
            if let Some((_, value)) = options.given(row) {
                show(entry.name, row.form, &value, to);
            }
            continue;
        };
        let given: Vec<_> = members
            .filter_map(|(name, row)| Some((name, row.form, options.given(row)?.1)))
            .collect();
        let first = options.given(entry.rows[0]);
        let off = first.and_then(|(_, value)| word(entry.rows[0].form, &value));
        let off = off.filter(|off| entry.off().is_some_and(|(word, _)| word == *off));
        let name = entry.name;
        match off {
            Some(off) => to.string(name, off, format_args!("{name} {off} ")),
            None if given.is_empty() => {}
            None => {
                to.open(name);
                to.text(format_args!("{name} "));
                for (member, form, value) in given {
                    show(member, form, &value, to);
                }
                to.close();
            }
        }
    }
    for row in T::REPORTED {
        if let Some(value) = options.get(row.number) {
            to.number(row.name, &value, format_args!(""));
        }
    }
}

fn show(name: &str, form: Form, value: &Value, to: &mut dyn Printer) {
    let typed = typed(form, value);
    let text = format!("{name} {typed} ");
    let number = value.number().unwrap_or(0);
    let share = || units::share(u32::try_from(number).unwrap_or(u32::MAX));
    match (form, value) {
        (Form::Flag(_), _) if word(form, value).is_none() => {
            let no = if number == 0 { "no-" } else { "" };
            to.boolean(name, number != 0, format_args!("{no}{name} "));
        }
        (Form::Choice(_), _) => to.string(name, &typed, format_args!("{text}")),
        (Form::Map, Value::Map(map)) => {
            to.open(name);
            to.text(format_args!("{text}"));
            for (code, band) in dscp::entries(map) {
                to.string(&code.to_string(), &band.to_string(), format_args!(""));
            }
            to.close();
        }
        (Form::Map, _) => {}
        _ if word(form, value).is_some() => to.string(name, &typed, format_args!("{text}")),
        (Form::Part(..), Value::U64(rate)) => {
            to.open(name);
            to.number("rate", rate, format_args!("{text}"));
            to.close();
        }
        (Form::Part(..), _) => {
            to.open(name);
            to.number("share", &share(), format_args!("{text}"));
            to.close();
        }
        (Form::Number(range, _), _) if range.unit == Unit::Share => {
            to.number(name, &share(), format_args!("{text}"));
        }
        (Form::Number(range, _), _) if range.unit == Unit::Ratio => {
            let ratio = units::ratio(number);
            to.number(name, &ratio, format_args!("{text}"));
        }
        (Form::Number(range, _), _) if range.unit == Unit::Priorities => {
            to.string(name, &typed, format_args!("{text}"));
        }
        (Form::Flag(_) | Form::Number(..), _) => {
            to.number(name, &number, format_args!("{text}"));
        }
    }
}

/// The word that stands for the value.
fn word(form: Form, value: &Value) -> Option<&'static str> {
    let number = value.number()?;
    let mut words = form.words().iter();
    let (word, _) = words.find(|(_, word)| *word == number)?;
    // A rate is never a word.
    match (form, value) {
        (Form::Part(..), Value::U64(_)) => None,
        _ => Some(word),
    }
}

/// A value as it is typed.
pub(super) fn typed(form: Form, value: &Value) -> String {
    if let Some(word) = word(form, value) {
        return word.to_owned();
    }
    let number = match value {
        Value::Map(map) => return dscp::print(map),
        value => value.number().unwrap_or(0),
    };
    match form {
        Form::Choice(words) => usize::try_from(number)
            .ok()
            .and_then(|at| words.get(at))
            .map_or_else(|| number.to_string(), |word| (*word).to_owned()),
        Form::Part(..) if matches!(value, Value::U64(_)) => units::rate(number),
        Form::Number(range, _) | Form::Part(range, _) => match range.unit {
            Unit::Rate => units::rate(number),
            // So few that no unit is needed to read them.
            Unit::Bytes => number.to_string(),
            unit => unit.show(number).to_string(),
        },
        Form::Flag(_) | Form::Map => number.to_string(),
    }
}

impl<T: Table> fmt::Display for Options<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::default();
        print_options(self, &mut text);
        f.write_str(&text.finish())
    }
}
