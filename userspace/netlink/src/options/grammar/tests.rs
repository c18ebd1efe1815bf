// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use turnstile_core::port::config::DscpMap;

fn words(text: &str) -> Result<Options, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    parse(&words).map_err(|error| error.to_string())
}

#[test]
fn every_option() {
    let all = words(
        "link 10gbit tokens 5.5% priorities 8 token-limit 16 token-expiry 20us order data-first unscheduled off \
         data-limit 1mb signal-limit 10 dscp EF=token0 no-split-gso overhead 0 phantom drain 95% mark 1kb mpu 64b ren period 48us \
         jitter 20us",
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
            jitter: Some(Nanos(20_000)),
            phantom: Some(Phantom::On {
                drain: Some(Drain::Share(950_000_000)),
                mark: Some(1024),
            }),
            ren: Some(Some(Nanos(48_000))),
        }
    );
    assert_eq!(words("ren off link auto").unwrap().ren, Some(None));
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
        ("jitter", "jitter: needs a value: TIME".to_owned()),
        (
            "jitter off",
            "jitter: \"off\" is not a time (s, ms, us, ns)".to_owned(),
        ),
        (
            "jitter 10001us",
            "jitter: \"10001us\" is not in 0ns..10ms".to_owned(),
        ),
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
            "ren",
            "ren: needs a value: { period TIME | off }".to_owned(),
        ),
        (
            "ren 48us",
            "ren: \"48us\" is not \"period\" or \"off\"".to_owned(),
        ),
        ("ren period", "ren: period: needs a value: TIME".to_owned()),
        (
            "ren period 999ns",
            "ren: period: \"999ns\" is not in 1us..1s".to_owned(),
        ),
        (
            "ren period 2s",
            "ren: period: \"2s\" is not in 1us..1s".to_owned(),
        ),
        (
            "ren period 1kb",
            "ren: period: \"1kb\" is not a time (s, ms, us, ns)".to_owned(),
        ),
        ("ren off ren off", "ren: given twice".to_owned()),
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
