// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::option;
use proptest::prelude::*;
use turnstile_core::pacer::config::Config;

fn words(text: &str) -> Result<Options, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Options::parse(&words).map_err(|error| error.to_string())
}

#[test]
fn the_table_is_in_the_order_of_its_keys() {
    for (at, info) in OPTIONS.iter().enumerate() {
        assert_eq!(info.key as usize, at);
        assert_eq!(usize::from(info.number), at + 2);
    }
}

#[test]
fn defaults_are_the_ones_in_force() {
    let mut text = String::new();
    for info in OPTIONS.iter().filter(|info| info.key != Key::PassLimit) {
        match info.form {
            Form::Flag => text += &format!("{} ", info.default),
            _ => text += &format!("{} {} ", info.name, info.default),
        }
    }
    let options = words(&text).unwrap();
    let config = Config::DEFAULT;
    for (key, value) in [
        (Key::Interval, config.interval.0),
        (Key::Eta, config.eta.into()),
        (Key::Beta, config.beta.into()),
        (Key::Associate, config.associate.into()),
        (Key::Idle, config.idle.0),
        (Key::Flows, config.flows.into()),
        (Key::Bucket, config.bucket.into()),
        (Key::Limit, config.limit.into()),
        (Key::InitialRate, config.initial_rate.unwrap_or(0)),
        (Key::SplitGso, config.split_gso.into()),
        (Key::Overhead, config.overhead.into()),
        (Key::Mpu, config.mpu.into()),
    ] {
        assert_eq!(options.get(key), Some(value), "{key:?}");
    }
}

#[test]
fn every_option() {
    let text =
        "interval 7200ns eta 50% beta 375 associate 0% idle 1ms flows 4096 bucket 1500b limit 64kb \
                pass-limit 1mb initial-rate 10gbit no-split-gso overhead 0 mpu 64";
    let options = words(text).unwrap();
    assert_eq!(options.to_string(), text);
    assert_eq!(options.get(Key::InitialRate), Some(1_250_000_000));
    assert_eq!(options.get(Key::SplitGso), Some(0));
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
        ("eta much", "eta: \"much\" is not a percentage".to_owned()),
        ("beta 0", "beta: \"0\" is not in 1..1000000".to_owned()),
        ("beta 1.5", "beta: \"1.5\" is not a whole number".to_owned()),
        (
            "interval 999ns",
            "interval: \"999ns\" is not in 1us..1s".to_owned(),
        ),
        ("idle 5", "idle: \"5\" is not in 10us..60s".to_owned()),
        ("flows 4097", "flows: \"4097\" is not in 1..4096".to_owned()),
        (
            "bucket 63",
            "bucket: \"63\" is not in 64..1048576".to_owned(),
        ),
        (
            "limit 1599",
            "limit: \"1599\" is not in 1600..1073741824".to_owned(),
        ),
        (
            "initial-rate 10",
            "initial-rate: \"10\" is not in 1kbit..800gbit, nor \"auto\"".to_owned(),
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
            format!(
                "unknown word: \"no-eta\"; the options are {}",
                table::names()
            ),
        ),
    ] {
        assert_eq!(words(text), Err(error), "{text}");
    }
}

#[test]
fn help_names_every_option() {
    let help = table::help();
    for info in OPTIONS {
        assert!(help.contains(&info.synopsis()));
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100));
}

/// docs/netlink.md is for programs that do not read Rust: its numbers have to be right.
#[test]
fn documented() {
    let text = include_str!("../../../../docs/netlink.md");
    let (_, text) = text.split_once("## The pacer").unwrap();
    for info in OPTIONS {
        let row = format!("| {} | `{}` |", info.number, info.name);
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

/// Any subset of the options, with any allowed values.
fn any_options() -> impl Strategy<Value = Options> {
    let values: Vec<_> = OPTIONS
        .iter()
        .map(|info| option::of(info.range.min..=info.range.max))
        .collect();
    values.prop_map(|values| {
        let mut options = Options::default();
        for (info, value) in OPTIONS.iter().zip(values) {
            if let Some(value) = value {
                options.set(info.key, value);
            }
        }
        options
    })
}

proptest! {
    #[test]
    fn printed_and_encoded_options_read_back(options in any_options()) {
        prop_assert_eq!(words(&options.to_string()), Ok(options));
        prop_assert_eq!(Options::decode(&options.encode()), Ok(options));
    }

    #[test]
    fn any_input_does_no_harm(words in prop::collection::vec("\\PC{0,12}|eta|idle|[0-9]{1,40}%?", 0..12), bytes: Vec<u8>) {
        let _ = Options::parse(&words);
        let _ = Options::decode(&bytes);
        let _ = Stats::decode(&bytes);
    }
}
