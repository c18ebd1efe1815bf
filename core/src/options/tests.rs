// SPDX-License-Identifier: GPL-2.0
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use super::units::Rates;
use super::*;
use crate::{pacer, port, transport};

#[test]
fn values_are_shown_as_they_are_typed() {
    for (unit, value, shown) in [
        (Unit::Rate, 0, "0bit"),
        (Unit::Rate, 1, "8bit"),
        (Unit::Rate, 125, "1kbit"),
        (Unit::Rate, 312_500_000, "2500mbit"),
        (Unit::Rate, 1_250_000_000, "10gbit"),
        (Unit::Rate, 1_250_000_001, "10000000008bit"),
        (Unit::Rate, 125_000_000_000, "1tbit"),
        (Unit::Rate, u64::MAX, "147573952tbit"),
        (Unit::Share, 51_787_916, "5.1787916%"),
        (Unit::Time, 1_500_000, "1500us"),
        (Unit::Time, 0, "0ns"),
        (Unit::Size, 1600, "1600b"),
        (Unit::Size, 0, "0b"),
        (Unit::Size, 1 << 30, "1gb"),
        (Unit::Size, 3 << 20, "3mb"),
        (Unit::Bytes, 2048, "2kb"),
        (Unit::Code, 46, "EF"),
        (Unit::Code, 47, "47"),
        (Unit::Priorities, 1 << 3, "3"),
        (Unit::Priorities, 0b1001_1000, "3,4,7"),
        (Unit::Ratio, 4, "1/64"),
        (Unit::Ratio, 128, "1/2"),
        (Unit::Ratio, 256, "1"),
        (Unit::Ratio, 2048, "8"),
        (Unit::Ratio, 77, "0.30078125"),
        (Unit::Ratio, 1920, "7.5"),
        (Unit::Count("packets"), 7, "7"),
    ] {
        assert_eq!(unit.show(value).to_string(), shown);
    }
}

#[test]
fn ranges_have_units() {
    let shown = |min, max, unit| Range::new(min, max, unit).to_string();
    assert_eq!(shown(1600, 1 << 30, Unit::Size), "1600b..1gb");
    assert_eq!(shown(1, 1024, Unit::Count("packets")), "1..1024 packets");
    assert_eq!(shown(1, 8, Unit::Count("")), "1..8");
    assert_eq!(shown(0, 63, Unit::Code), "0..63");
    assert_eq!(shown(1, 255, Unit::Priorities), "0..7 or a list of them");
    assert_eq!(shown(4, 2048, Unit::Ratio), "1/64..8");
    assert_eq!(limits::LINK.to_string(), "1kbit..800gbit");
    assert_eq!(limits::TOKENS.to_string(), "0.01%..50%");
    let two = Form::Number(limits::MPU, &[("auto", 300), ("off", 400)]);
    assert_eq!(two.to_string(), "0b..256b, auto or off");
    assert!([0, 256, 300, 400].iter().all(|value| two.contains(*value)));
    assert!([257, 299, 401].iter().all(|value| !two.contains(*value)));
}

#[test]
fn ends_that_are_worked_out_are_rounded_into_their_range() {
    for (min, max, shown) in [
        (125_000, 625_000_000, "1mbit..5gbit"),
        (1, 62, "8bit..496bit"),
        (12_346, 61_728_394, "98.8kbit..493mbit"),
        (124_876, 1_249_999, "1mbit..9.99mbit"),
        (12_876_000, 15_900_000, "104mbit..127mbit"),
        (126_100, 12_630_000_000, "1.01mbit..101gbit"),
        (126, 1_262_500_000_000, "1.01kbit..10.1tbit"),
    ] {
        assert_eq!(Rates(min, max).to_string(), shown);
    }
}

/// Of all tables.
fn rows() -> Vec<&'static Opt> {
    let tables = [
        port::config::OPTIONS,
        pacer::config::OPTIONS,
        transport::config::OPTIONS,
    ];
    tables.into_iter().flatten().collect()
}

fn told(row: &Opt, what: Problem) -> String {
    row.refuse(what).to_string()
}

/// Of 79 characters that the kernel passes on, the longest name with its colon takes 17, but no
/// option of the pacer's has a long refusal; the port's and the family's names take 11.
const LINE: usize = 79 - "turnstile: ".len();

#[test]
fn every_refusal_fits_a_line() {
    for row in rows() {
        let most = match row.kind {
            Kind::U64 => u64::MAX,
            _ => u32::MAX.into(),
        };
        let mut said = vec![told(row, Problem::Not(most, row.form))];
        if let Form::Part(range, _) = row.form {
            for rate in [u64::MAX, 1_000_000_000_000, 124_999_999_999, 123_456_789] {
                for allowed in [
                    None,
                    Some((1_234_567, 99_999_999)),
                    Some((12_346, 61_728_394)),
                ] {
                    said.push(told(
                        row,
                        Problem::NotAShare {
                            rate,
                            range,
                            allowed,
                        },
                    ));
                }
            }
        }
        for text in said {
            assert!(text.len() <= LINE, "{}: {text}", text.len());
        }
    }
    let row = port::config::Config::named("dscp").unwrap();
    for what in [
        Problem::NoClass(38, 255),
        Problem::NoPriority {
            code: 38,
            priority: 7,
            priorities: 6,
        },
        Problem::NoUnscheduled(38),
    ] {
        assert!(told(row, what).len() <= LINE, "{}", told(row, what));
    }
}

/// What help texts, man pages and documentation are made of.
#[test]
fn texts_are_in_the_users_words() {
    for row in rows() {
        let doc = row.doc.trim();
        assert!(doc.ends_with('.') && doc.len() > 10, "{}: {doc}", row.name);
        for wire in [
            "arts per billion",
            "0: none",
            "ns:",
            "ytes/s",
            "`",
            "attribute",
        ] {
            assert!(!doc.contains(wire), "{}: {doc}", row.name);
        }
        assert!(!row.source.ends_with('.'), "{}", row.source);
    }
}

#[test]
fn numbers_and_names_are_given_once() {
    fn once<T: Table>() {
        let mut numbers = vec![T::PAD];
        let mut names = Vec::new();
        for row in T::OPTIONS.iter().chain(T::REPORTED) {
            numbers.push(row.number);
            numbers.extend(row.rate);
            names.push(row.name);
        }
        for list in [
            numbers.iter().map(|n| format!("{n:02}")).collect(),
            names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ] {
            let mut sorted = list.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), list.len(), "{list:?}");
        }
        // So many can be kept of a request's attributes.
        assert!(numbers.iter().all(|number| *number < 128));
        assert!(T::DEFAULT.check().is_ok());
        for row in T::OPTIONS {
            assert_eq!(T::option(row.number), Some(row));
            assert_eq!(T::named(row.name), Some(row));
        }
    }
    once::<port::config::Config>();
    once::<pacer::config::Config>();
    once::<transport::config::Config>();
}
