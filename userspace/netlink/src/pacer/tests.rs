// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use turnstile_core::pacer::config::OPTIONS;
use turnstile_core::pacer::uapi::option;

use crate::print::Text;

fn words(text: &str) -> Result<Options, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Options::parse(&words).map_err(|error| error.to_string())
}

#[test]
fn every_option() {
    let text =
        "interval 7200ns eta 50% beta 375 associate 0% idle 1ms flows 4096 bucket 1500b limit 64kb \
                pass-limit 1mb initial-rate 10gbit no-split-gso overhead 0 mpu 64";
    let options = words(text).unwrap();
    assert_eq!(options.to_string(), text);
    assert_eq!(options.get(option::INITIAL_RATE64), Some(1_250_000_000));
    assert_eq!(options.get(option::SPLIT_GSO), Some(0));
    assert_eq!(Options::decode(&options.encode()), Ok(options));
    assert_eq!(words("").unwrap(), Options::default());
    assert!(Options::default().encode().is_empty());
}

#[test]
fn refused() {
    for (text, error) in [
        ("eta", "eta: needs a value: PERCENT".to_owned()),
        ("eta 0%", "eta: \"0%\" is not in 0.1%..100%".to_owned()),
        ("eta 101%", "eta: \"101%\" is not in 0.1%..100%".to_owned()),
        (
            "eta 5",
            "eta: \"5\" is not a percentage: did you mean 5%?".to_owned(),
        ),
        (
            "intervall 5us",
            "unknown word \"intervall\": did you mean \"interval\"?".to_owned(),
        ),
        ("eta much", "eta: \"much\" is not a percentage".to_owned()),
        ("beta 0", "beta: \"0\" is not in 1..1000000".to_owned()),
        ("beta 1.5", "beta: \"1.5\" is not a whole number".to_owned()),
        (
            "interval 999ns",
            "interval: \"999ns\" is not in 1us..1s".to_owned(),
        ),
        ("idle 5", "idle: \"5\" is not in 10us..60s".to_owned()),
        (
            "flows 4097",
            "flows: \"4097\" is not in 1..4096 flows".to_owned(),
        ),
        ("bucket 63", "bucket: \"63\" is not in 64b..1mb".to_owned()),
        (
            "limit 1599",
            "limit: \"1599\" is not in 1600b..1gb".to_owned(),
        ),
        (
            "initial-rate 10",
            "initial-rate: \"10\" is not in 1kbit..800gbit or auto".to_owned(),
        ),
        (
            "associate 100.1%",
            "associate: \"100.1%\" is not in 0%..100%".to_owned(),
        ),
        ("beta 1 beta 2", "beta: given twice".to_owned()),
        (
            "split-gso no-split-gso",
            "split-gso: given twice".to_owned(),
        ),
        (
            "no-eta",
            "unknown word \"no-eta\": the options are ".to_owned() + &Options::names().join(", "),
        ),
    ] {
        assert_eq!(words(text), Err(error), "{text}");
    }
}

/// docs/netlink.md is for programs that do not read Rust: its numbers have to be right.
#[test]
fn documented() {
    let text = include_str!("../../../../docs/netlink.md");
    let (_, text) = text.split_once("## The pacer").unwrap();
    for row in OPTIONS {
        let row = format!("| {} | `{}` |", row.number, row.name);
        assert!(text.contains(&row), "no {row}");
    }
    for (at, (name, _)) in Stats::ABOUT.iter().enumerate() {
        let row = format!("| {} | `{name}` |", at + 2);
        assert!(text.contains(&row), "no {row}");
    }
}

#[test]
fn statistics_as_text() {
    let stats = Stats {
        rate: 125_000_000,
        updates: 3,
        delay_max: 1_500,
        gso_splits: 1,
        ..Stats::default()
    };
    assert_eq!(Stats::decode(&stats.encode()), Ok(stats));
    let mut text = Text::default();
    print_stats(&stats, "  ", &mut text);
    let text = text.finish();
    assert!(
        text.starts_with("  rate 1gbit updates 3 flows 0 max-flows 0\n  echoes 0 "),
        "{text}"
    );
    assert!(
        text.contains("delay-max 1.5us") && text.ends_with("gso-splits 1"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn any_statistics_do_no_harm(bytes: Vec<u8>) {
        let _ = Stats::decode(&bytes);
    }
}
