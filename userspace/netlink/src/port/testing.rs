// SPDX-License-Identifier: GPL-2.0
//! Random options for property tests, and that printing them gives the words that they came from.

use proptest::option;
use proptest::prelude::*;
use turnstile_core::port::band::Band;
use turnstile_core::port::config::limits::{self, Range};
use turnstile_core::port::config::{Drain, DscpMap, Expiry, Order, Tokens};
use turnstile_core::units::Nanos;

use crate::{parse, Link, Options, Phantom};

fn value(range: Range) -> impl Strategy<Value = u64> {
    // Round numbers too: they print in larger units.
    (range.min..=range.max, 0u32..9, any::<bool>()).prop_map(move |(value, digits, binary)| {
        let unit = if binary {
            1u64 << digits
        } else {
            10u64.pow(digits)
        };
        (value / unit * unit).max(range.min)
    })
}

fn small(range: Range) -> impl Strategy<Value = Option<u32>> {
    option::of(value(range).prop_map(|value| value as u32))
}

fn any_map() -> impl Strategy<Value = DscpMap> {
    let band = (0..Band::COUNT).prop_map(|index| Band::from_index(index).unwrap().minor());
    prop::collection::vec(prop_oneof![3 => Just(Band::Data.minor()), 1 => band], 64)
        .prop_map(|minors| DscpMap(minors.try_into().unwrap()))
}

/// Off, or at least one of its parts.
fn any_phantom() -> impl Strategy<Value = Phantom> {
    let drain = prop_oneof![
        value(limits::PHANTOM_DRAIN).prop_map(|ppb| Drain::Share(ppb as u32)),
        (1u64..=limits::LINK.max).prop_map(Drain::Rate),
    ];
    prop_oneof![
        Just(Phantom::Off),
        (option::of(drain), small(limits::PHANTOM_MARK))
            .prop_filter("nothing is given", |(drain, mark)| drain.is_some()
                || mark.is_some())
            .prop_map(|(drain, mark)| Phantom::On { drain, mark }),
    ]
}

/// Any subset of the options, with any allowed values.
pub(crate) fn any_options() -> impl Strategy<Value = Options> {
    let link = prop_oneof![Just(Link::Auto), value(limits::LINK).prop_map(Link::Rate)];
    let tokens = prop_oneof![
        value(limits::TOKENS).prop_map(|ppb| Tokens::Share(ppb as u32)),
        (1u64..=limits::LINK.max / 2).prop_map(Tokens::Rate),
    ];
    let expiry = prop_oneof![
        Just(Expiry::Auto),
        Just(Expiry::Off),
        value(limits::TOKEN_EXPIRY).prop_map(|ns| Expiry::After(Nanos(ns))),
    ];
    let ren = option::of(value(limits::REN_PERIOD).prop_map(Nanos));
    let unscheduled = prop_oneof![1 => Just(Some(0)), 3 => small(limits::UNSCHEDULED)];
    let order = prop_oneof![Just(Order::TokensFirst), Just(Order::DataFirst)];
    let groups = (
        option::of(link),
        option::of(tokens),
        option::of(expiry),
        option::of(order),
        option::of(any_map()),
    );
    let counts = (
        small(limits::PRIORITIES),
        small(limits::TOKEN_LIMIT),
        unscheduled,
        small(limits::DATA_LIMIT),
        small(limits::SIGNAL_LIMIT),
        small(limits::OVERHEAD),
        small(limits::MPU),
    );
    (
        groups,
        counts,
        any::<Option<bool>>(),
        (
            option::of(any_phantom()),
            option::of(ren),
            option::of(value(limits::JITTER).prop_map(Nanos)),
        ),
    )
        .prop_map(
            |(
                (link, tokens, token_expiry, order, dscp),
                counts,
                split_gso,
                (phantom, ren, jitter),
            )| {
                Options {
                    link,
                    tokens,
                    priorities: counts.0,
                    token_limit: counts.1,
                    token_expiry,
                    order,
                    unscheduled: counts.2,
                    data_limit: counts.3,
                    signal_limit: counts.4,
                    dscp,
                    split_gso,
                    overhead: counts.5,
                    mpu: counts.6,
                    jitter,
                    phantom,
                    ren,
                }
            },
        )
}

proptest! {
    #[test]
    fn printed_options_read_back(options in any_options()) {
        let text = options.to_string();
        let words: Vec<&str> = text.split_whitespace().collect();
        prop_assert_eq!(parse(&words), Ok(options));
    }
}
