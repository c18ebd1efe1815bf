// SPDX-License-Identifier: GPL-2.0
//! The tables of `docs/transport-options.md` agree with those in the code.

use std::fmt::Write as _;

use turnstile_core::port::config::limits::{Percent, Time, Unit};
use turnstile_core::transport::config::{Values, OPTIONS};
use turnstile_core::transport::stats::Counter;

const DOCS: &str = include_str!("../../docs/transport-options.md");

fn shown(values: Values, value: u64) -> String {
    let unit = match values {
        Values::Choice(words) => return words[value as usize].to_string(),
        Values::NumberOr(_, zero) if value == 0 => return zero.to_string(),
        Values::Number(range) | Values::NumberOr(range, _) => range.unit,
    };
    match unit {
        Unit::Number => value.to_string(),
        Unit::Rate => format!("{} B/s", value),
        Unit::Share => Percent(value).to_string(),
        Unit::Time => Time(value).to_string(),
    }
}

fn rows(of: impl Iterator<Item = String>) -> String {
    of.fold(String::new(), |mut all, row| {
        let _ = writeln!(all, "{row}");
        all
    })
}

fn options() -> String {
    rows(OPTIONS.iter().map(|option| {
        let values = option.values.to_string().replace('|', ", ");
        let default = shown(option.values, option.default.get());
        let (name, doc) = (option.name, option.doc.trim());
        format!("| `{name}` | {values} | {default} | {doc} |")
    }))
}

fn counters() -> String {
    rows(Counter::ALL.iter().map(|counter| {
        let (name, doc) = (counter.name(), counter.doc().trim());
        format!("| `{name}` | {doc} |")
    }))
}

#[test]
fn the_options_are_documented_as_they_are() {
    let options = options();
    assert!(
        DOCS.contains(&options),
        "docs/transport-options.md should have:\n{options}"
    );
}

#[test]
fn the_counters_are_documented_as_they_are() {
    let counters = counters();
    assert!(
        DOCS.contains(&counters),
        "docs/transport-options.md should have:\n{counters}"
    );
}
