// SPDX-License-Identifier: GPL-2.0
//! `docs/netlink/turnstile.yaml` is for programs that do not read Rust: its numbers have to be
//! right. Both files are read as text here: what is in one must be in the other.

use std::collections::{BTreeMap, BTreeSet};

use turnstile_core::transport::config::OPTIONS;

const SPEC: &str = include_str!("../../../../docs/netlink/turnstile.yaml");
const UAPI: &str = include_str!("../../../../core/src/transport/uapi.rs");

/// Name and value.
type Numbers = BTreeMap<String, u64>;

fn kebab(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// The constants of a module of uapi (empty: of the file itself) whose names begin so; `MAX` and
/// `FIRST` are none of the interface's.
fn uapi(module: &str, prefix: &str) -> Numbers {
    let part = match module {
        "" => UAPI,
        _ => {
            let start = UAPI.find(&format!("pub mod {module} {{")).unwrap();
            let part = &UAPI[start..];
            &part[..part.find("\n}").unwrap()]
        }
    };
    let mut numbers = Numbers::new();
    for line in part.lines().map(str::trim) {
        let Some((name, rest)) = line
            .strip_prefix("pub const ")
            .and_then(|l| l.split_once(": "))
        else {
            continue;
        };
        let value = rest
            .split_once("= ")
            .unwrap()
            .1
            .trim_end_matches(';')
            .parse();
        if let (Some(name), Ok(value)) = (name.strip_prefix(prefix), value) {
            if !["MAX", "FIRST"].contains(&name) {
                numbers.insert(kebab(name), value);
            }
        }
    }
    assert!(!numbers.is_empty(), "{module} {prefix}");
    numbers
}

/// The part of the specification from a top-level key to the next.
fn section(key: &str) -> &'static str {
    let start = SPEC.find(&format!("\n{key}:\n")).unwrap() + 1;
    let part = &SPEC[start..];
    let end = part
        .match_indices('\n')
        .map(|(at, _)| at)
        .find(|at| part[at + 1..].starts_with(|c: char| c.is_ascii_lowercase()));
    end.map_or(part, |end| &part[..end])
}

/// The list item of this name in a part, whose items are indented by `indent`.
fn item(part: &'static str, indent: usize, name: &str) -> &'static str {
    let dash = format!("\n{}-\n", " ".repeat(indent));
    let head = format!("{}name: {name}\n", " ".repeat(indent + 2));
    let found: Vec<_> = part
        .split(dash.as_str())
        .filter(|item| item.starts_with(&head))
        .collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0]
}

/// What is named in a part's items, by a key of each.
fn keys(part: &'static str, indent: usize, key: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut name = String::new();
    for line in part.lines() {
        let Some(rest) = line.strip_prefix(&" ".repeat(indent + 2)) else {
            continue;
        };
        if let Some(new) = rest.strip_prefix("name: ") {
            // Words that YAML takes for something else are in quotes.
            name = new.trim_matches('"').to_owned();
        } else if let Some(value) = rest.strip_prefix(&format!("{key}: ")) {
            assert!(
                values.insert(name.clone(), value.to_owned()).is_none(),
                "{name} twice"
            );
        }
    }
    values
}

fn numbers(part: &'static str, indent: usize) -> Numbers {
    let values = keys(part, indent, "value");
    values
        .into_iter()
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

#[test]
fn attributes_have_the_numbers_of_uapi() {
    let sets = section("attribute-sets");
    for (set, module) in [
        ("config", "config"),
        ("message", "message"),
        ("peer", "peer"),
        ("link", "link"),
    ] {
        assert_eq!(numbers(item(sets, 2, set), 6), uapi(module, ""), "{set}");
    }
}

#[test]
fn counters_have_the_numbers_and_descriptions_of_the_table() {
    let set = item(section("attribute-sets"), 2, "stats");
    let mut expected = Numbers::from([("pad".to_owned(), 1)]);
    for (name, number, about) in super::show::counters() {
        expected.insert(name.clone(), number.into());
        let words: Vec<&str> = item(set, 6, &name).split_whitespace().collect();
        assert!(words.join(" ").contains(about), "{name}: {about}");
    }
    assert_eq!(numbers(set, 6), expected);
}

#[test]
fn the_reply_with_the_counters_names_them_all() {
    let operation = item(section("operations"), 4, "stats-get");
    let named: BTreeSet<&str> = operation
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .collect();
    for (name, ..) in super::show::counters() {
        assert!(named.contains(name.as_str()), "{name}");
    }
}

#[test]
fn commands_have_the_numbers_of_uapi() {
    assert_eq!(numbers(section("operations"), 4), uapi("command", ""));
}

#[test]
fn words_have_the_numbers_of_uapi() {
    let definitions = section("definitions");
    for name in [
        "policy",
        "tcd",
        "feedback",
        "clock",
        "schedule",
        "direction",
        "event",
    ] {
        let prefix = format!("{}_", name.to_uppercase());
        assert_eq!(
            numbers(item(definitions, 2, name), 6),
            uapi("", &prefix),
            "{name}"
        );
    }
}

/// The types are in the comments of uapi.
#[test]
fn attributes_have_the_types_of_uapi() {
    let sets = section("attribute-sets");
    for module in ["config", "message", "peer", "link"] {
        let start = UAPI.find(&format!("pub mod {module} {{")).unwrap();
        let part = &UAPI[start..];
        let mut types = BTreeMap::new();
        let mut about = "";
        for line in part[..part.find("\n}").unwrap()].lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("/// ") {
                // The type is in a comment's first line.
                about = if about.is_empty() { text } else { about };
            } else if let Some(rest) = line.strip_prefix("pub const ") {
                let about = std::mem::take(&mut about);
                if rest.starts_with("MAX:") {
                    continue;
                }
                let kind = match about.split('`').nth(1) {
                    _ if about.starts_with("Padding") => "pad",
                    _ if about.starts_with("16 bytes") => "binary",
                    kind => kind.unwrap(),
                };
                types.insert(kebab(rest.split(':').next().unwrap()), kind.to_owned());
            }
        }
        assert_eq!(keys(item(sets, 2, module), 6, "type"), types, "{module}");
    }
}

#[test]
fn ranges_are_those_in_force() {
    let config = item(section("attribute-sets"), 2, "config");
    let names = uapi("config", "");
    let mut with_range = BTreeSet::new();
    for option in OPTIONS {
        let Some(range) = option.form.range() else {
            continue;
        };
        // The file has the constants' names, not the words.
        let number = u64::from(option.number);
        let name = names.iter().find(|(_, n)| **n == number).unwrap().0;
        // A range in that file has no holes.
        let words = option.form.words().iter().map(|(_, value)| *value);
        let least = words.clone().fold(range.min, u64::min);
        let most = words.fold(range.max, u64::max);
        assert_eq!(
            limits_of(config, name),
            (least.to_string(), most.to_string()),
            "{name}"
        );
        with_range.insert(name.clone());
    }
    assert_eq!(config.matches("checks:").count(), with_range.len());
}

/// `min` and `max` of an attribute.
fn limits_of(set: &'static str, name: &str) -> (String, String) {
    let attribute = item(set, 6, name);
    let get = |key: &str| {
        let line = attribute
            .lines()
            .find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_else(|| panic!("{name} has no {key}"))
            .to_owned()
    };
    (get("min: "), get("max: "))
}

#[test]
fn operations_name_attributes_that_exist() {
    let sets = section("attribute-sets");
    for operation in section("operations").split("\n    -\n").skip(1) {
        let set = operation
            .lines()
            .find_map(|l| l.trim().strip_prefix("attribute-set: "))
            .unwrap();
        let known = numbers(item(sets, 2, set), 6);
        for name in operation
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- "))
        {
            assert!(known.contains_key(name), "{name} in {operation}");
        }
    }
}
