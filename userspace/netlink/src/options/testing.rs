// SPDX-License-Identifier: GPL-2.0
//! What holds for every table: random options print as words that read back, and go through
//! attributes unchanged; texts fit; documentation is what the tables say.

use proptest::prelude::*;
use turnstile_core::options::{Form, Kind, Opt, Range, Table, Value};
use turnstile_core::port::band::Band;
use turnstile_core::{pacer, port, transport};

use super::{Entry, Options};

/// A number in the range. Round ones too: they print in larger units.
fn number(range: Range) -> impl Strategy<Value = u64> {
    (range.min..=range.max, 0u32..9, any::<bool>()).prop_map(move |(value, digits, binary)| {
        let unit = match binary {
            true => 1u64 << digits,
            false => 10u64.pow(digits),
        };
        (value / unit * unit).max(range.min)
    })
}

fn any_map() -> impl Strategy<Value = Value> {
    let band = (0..Band::COUNT).prop_map(|index| Band::from_index(index).unwrap().minor());
    prop::collection::vec(prop_oneof![3 => Just(Band::Data.minor()), 1 => band], 64)
        .prop_map(|minors| Value::Map(minors.try_into().unwrap()))
}

/// Any value of a row, in the attribute for it.
fn any_value(row: &'static Opt, off: bool) -> BoxedStrategy<(u16, Value)> {
    let attribute = |value| match row.kind {
        Kind::U32 => (row.number, Value::U32(value as u32)),
        _ => (row.number, Value::U64(value)),
    };
    let range = match row.form {
        Form::Map => return any_map().prop_map(|map| (row.number, map)).boxed(),
        Form::Number(range, _) | Form::Part(range, _) => number(range).boxed(),
        form => (form.ends().0..=form.ends().1).boxed(),
    };
    let words = row.form.words().iter().skip(usize::from(!off));
    let words: Vec<_> = words.map(|(_, value)| *value).collect();
    let any = match words.is_empty() {
        true => range,
        false => prop_oneof![3 => range, 1 => prop::sample::select(words)].boxed(),
    };
    match row.rate {
        Some(rate) => prop_oneof![
            any.prop_map(attribute),
            (1u64..=50_000_000_000).prop_map(move |value| (rate, Value::U64(value))),
        ]
        .boxed(),
        None => any.prop_map(attribute).boxed(),
    }
}

/// The values of an entry, if it is given: of a group, the word for off, or any of its members.
fn any_entry(entry: &Entry) -> BoxedStrategy<Vec<(u16, Value)>> {
    let is_group = entry.members().is_some();
    let rows = entry.rows.iter().zip(0..);
    let members: Vec<_> = rows
        .map(|(row, at)| prop::option::of(any_value(row, !is_group || at > 0)))
        .collect();
    let members = members.prop_map(|given| given.into_iter().flatten().collect::<Vec<_>>());
    match entry.off().filter(|_| is_group) {
        Some((_, value)) => {
            let row = entry.rows[0];
            let off = match row.kind {
                Kind::U32 => Value::U32(value as u32),
                _ => Value::U64(value),
            };
            prop_oneof![3 => members, 1 => Just(vec![(row.number, off)])].boxed()
        }
        None => members.boxed(),
    }
}

/// Any subset of the options, with any allowed values.
pub(crate) fn any_options<T: Table + std::fmt::Debug>() -> impl Strategy<Value = Options<T>> {
    let entries: Vec<_> = Options::<T>::entries().iter().map(any_entry).collect();
    entries.prop_map(|given| {
        let mut options = Options::default();
        for (number, value) in given.into_iter().flatten() {
            options.set(number, value);
        }
        options
    })
}

fn reads_back<T: Table + PartialEq + std::fmt::Debug>(options: Options<T>) {
    let text = options.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(Options::parse(&words), Ok(options.clone()));
    assert_eq!(Options::decode(&options.encode()), Ok(options));
}

fn does_no_harm<T: Table>(words: &[String], bytes: &[u8]) {
    let _ = (Options::<T>::parse(words), Options::<T>::decode(bytes));
}

/// Bytes of any options, with one of them spoilt and the end cut off.
fn spoilt<T: Table + std::fmt::Debug>() -> impl Strategy<Value = Vec<u8>> {
    let spoil = any::<(prop::sample::Index, prop::sample::Index, u8)>();
    (any_options::<T>(), spoil).prop_map(|(options, (end, at, with))| {
        let mut bytes = options.encode();
        bytes.truncate(end.index(bytes.len() + 1));
        let len = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at.index(len)) {
            *byte = with;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn a_port_reads_back(options in any_options::<port::config::Config>()) {
        reads_back(options);
    }

    #[test]
    fn a_pacer_reads_back(options in any_options::<pacer::config::Config>()) {
        reads_back(options);
    }

    #[test]
    fn a_transport_reads_back(options in any_options::<transport::config::Config>()) {
        reads_back(options);
    }

    #[test]
    fn any_words_and_bytes_are_read_or_refused(
        words in prop::collection::vec(
            "\\PC{0,12}|link|tokens|dscp|phantom|drain|off|eta|policy|jitter|[0-9]{1,40}%?", 0..12,
        ),
        bytes: Vec<u8>,
    ) {
        does_no_harm::<port::config::Config>(&words, &bytes);
        does_no_harm::<pacer::config::Config>(&words, &bytes);
        does_no_harm::<transport::config::Config>(&words, &bytes);
    }

    #[test]
    fn spoilt_bytes_do_no_harm(
        port in spoilt::<port::config::Config>(),
        transport in spoilt::<transport::config::Config>(),
    ) {
        does_no_harm::<port::config::Config>(&[], &port);
        does_no_harm::<transport::config::Config>(&[], &transport);
    }
}

fn texts<T: Table + PartialEq + std::fmt::Debug>() {
    let help = Options::<T>::help();
    assert!(help.lines().all(|line| line.chars().count() <= 100));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for entry in Options::<T>::entries() {
        assert!(words.contains(&entry.synopsis()));
        let default = Options::<T>::default_of(&entry);
        // A default that the device decides cannot be typed.
        if entry.rows[0].usual.is_some() {
            continue;
        }
        let words = match entry.rows[0].form {
            Form::Flag(_) => default.split(' ').collect(),
            _ => vec![entry.name, default.as_str()],
        };
        let options = Options::<T>::parse(&words).unwrap();
        for row in &entry.rows {
            if let Some((number, value)) = options.given(row) {
                assert_eq!(T::DEFAULT.get(number), Some(value), "{}", row.name);
            }
        }
    }
}

#[test]
fn help_has_every_option_and_defaults_can_be_typed() {
    texts::<port::config::Config>();
    texts::<pacer::config::Config>();
    texts::<transport::config::Config>();
}

/// The tables of options in the documentation are those of the code. With `UPDATE=1` in the
/// environment, they are written there.
#[test]
fn documentation_has_the_tables() {
    let rows = super::help::markdown::<transport::config::Config>();
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/../../docs/transport-options.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let head = "| option | values | unless set | what it is |\n|---|---|---|---|\n";
    let (before, after) = text.split_once(head).unwrap();
    let (_, after) = after.split_once("\n\n").unwrap();
    let expected = format!("{before}{head}{rows}\n{after}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(text == expected, "{path}: run this test with UPDATE=1");
    }
}
