// SPDX-License-Identifier: GPL-2.0
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::options::{Kind, Value};

fn refused(config: Config) -> String {
    config.validate(None).unwrap_err().to_string()
}

fn value(option: &Opt, value: u64) -> Value {
    match option.kind {
        Kind::U32 => Value::U32(value as u32),
        _ => Value::U64(value),
    }
}

fn with(name: &str, number: u64) -> Config {
    let option = Config::named(name).unwrap();
    let mut config = Config::DEFAULT;
    assert!(config.set(option.number, value(option, number)));
    config
}

#[test]
fn the_defaults_are_valid_and_what_they_are_documented_to_be() {
    let resolved = Config::DEFAULT.validate(None).unwrap();
    assert_eq!(resolved.speed.link, 1_250_000_000);
    assert_eq!(resolved.policy, Policy::Top);
    assert_eq!(resolved.feedback, Feedback::Ranked);
    assert_eq!(resolved.speed.token_rate.bytes_per_sec(), 64_734_895);
    // 84 B at 5.1787916 % of 10 Gbit/s: 1297.6 ns.
    assert_eq!(resolved.speed.token_time, 1328743);
    assert_eq!(resolved.token_expiry, None);
    assert_eq!(resolved.update_period, None);
    assert_eq!(resolved.initial_rate, 1_000_000_000);
    // 62.5 KB: 10 Gbit/s for 50 us.
    assert_eq!(resolved.base_bytes(&resolved.speed), 62_500);
    assert_eq!(resolved.priority.priorities(), 8);
    assert!(resolved.learns_lengths);
    assert_eq!(
        with("priorities", 6).validate(None).unwrap().priority,
        PriorityFunction::new(6, 20_000, 1000, 0)
    );
}

#[test]
fn policies_differ_in_what_is_documented_and_nothing_else() {
    let of = |policy| {
        let config = Config {
            policy,
            unscheduled: 4,
            ..Config::DEFAULT
        };
        config.validate(None).unwrap()
    };
    let top = of(uapi::POLICY_TOP);
    assert_eq!(
        (top.unscheduled, top.feedback),
        (Unscheduled::Packets(4), Feedback::Ranked)
    );
    for (policy, is) in [
        (uapi::POLICY_EXPRESSPASS, Policy::ExpressPass),
        (uapi::POLICY_REN, Policy::Ren),
    ] {
        let other = of(policy);
        assert_eq!(other.policy, is);
        assert_eq!(
            (other.priority.priorities(), other.unscheduled),
            (1, Unscheduled::Packets(0))
        );
        assert_eq!(other.feedback, Feedback::Weighted);
        let same = Resolved {
            policy: top.policy,
            priority: top.priority,
            learns_lengths: true,
            feedback: top.feedback,
            unscheduled: Unscheduled::Packets(4),
            worth: Worth::Auto,
            ..other
        };
        assert_eq!(same, top);
    }
}

#[test]
fn the_link_is_the_users_the_devices_or_the_usual_one() {
    let link = |set, device| with("link", set).validate(device).unwrap().speed.link;
    assert_eq!(link(0, None), USUAL_LINK);
    assert_eq!(link(0, Some(0)), USUAL_LINK);
    assert_eq!(link(0, Some(12_500_000_000)), 12_500_000_000);
    assert_eq!(link(125_000_000, Some(12_500_000_000)), 125_000_000);
    // Slower and faster than anything.
    assert_eq!(link(0, Some(1)), 125);
    assert_eq!(
        link(0, Some(u64::MAX)),
        crate::units::Rate::MAX_BYTES_PER_SEC
    );
}

#[test]
fn the_table_has_every_attribute_that_can_be_set_in_order() {
    let numbers: Vec<u16> = OPTIONS.iter().map(|option| option.number).collect();
    let set = |number: &u16| *number != number::LINK_IN_FORCE;
    let expected: Vec<u16> = (number::POLICY..=number::MAX).filter(set).collect();
    assert_eq!(numbers, expected);
    for option in OPTIONS {
        assert!(option.doc.trim().len() > 10 && !option.name.contains('_'));
        // A value of the other width is not taken.
        let mut config = Config::DEFAULT;
        let narrow = config.set(option.number, Value::U32(77));
        let wide = config.set(option.number, Value::U64(77));
        assert!(narrow != wide);
        assert_eq!(narrow, option.kind == Kind::U32);
        let set = config.get(option.number);
        assert_eq!(set.and_then(|value| value.number()), Some(77));
        for other in OPTIONS.iter().filter(|other| other.number != option.number) {
            assert_eq!(config.get(other.number), Config::DEFAULT.get(other.number));
        }
    }
    let mut config = Config::DEFAULT;
    for none in [0, number::PAD, number::LINK_IN_FORCE, u16::MAX] {
        assert_eq!(config.get(none), None);
        assert!(!config.set(none, Value::U32(1)) && !config.set(none, Value::U64(1)));
    }
    assert_eq!(config, Config::DEFAULT);
}

#[test]
fn every_option_is_refused_beyond_its_range_and_named() {
    for option in OPTIONS {
        let (min, max) = option.form.ends();
        let below = min
            .checked_sub(1)
            .filter(|below| !option.form.contains(*below));
        for value in below.into_iter().chain([max + 1]) {
            let config = with(option.name, value);
            let refusal = config.validate(None).unwrap_err();
            assert_eq!(refusal, option.refuse(Problem::Not(value, option.form)));
            let text = refusal.to_string();
            assert!(
                text.starts_with(option.name) && text.len() <= 78,
                "{text}: {}",
                text.len()
            );
        }
    }
}

#[test]
fn refusals_read_well() {
    assert_eq!(
        refused(with("policy", 5)),
        "policy: 5 is none of expresspass|top|ren|dcqcn|timely"
    );
    assert_eq!(
        refused(with("link", 7)),
        "link: 56bit is not in 1kbit..800gbit or auto"
    );
    assert_eq!(
        refused(with("token-share", 99_999)),
        "token-share: 0.0099999% is not in 0.01%..50%"
    );
    assert_eq!(
        refused(with("priorities", 9)),
        "priorities: 9 is not in 1..8 or auto"
    );
    assert_eq!(
        refused(with("token-expiry", 1)),
        "token-expiry: 1ns is not in 1us..1s or off"
    );
    assert_eq!(
        refused(with("timeout", 1_000_000)),
        "timeout: 1ms is not in 100ms..3600s"
    );
    assert_eq!(
        refused(with("initial-rate", 3_000_000)),
        "initial-rate: 0.3% is below min-rate, 1.5%"
    );
    assert_eq!(
        refused(with("weight-initial", 1_000_000)),
        "weight-initial: 0.1% is below weight-min, 5%"
    );
    assert_eq!(
        refused(with("weight-max", 62_000_000)),
        "weight-max: 6.2% is below weight-initial, 6.25%"
    );
    let config = Config {
        rto: 300_000_000,
        timeout: 200_000_000,
        ..Config::DEFAULT
    };
    assert_eq!(refused(config), "rto: 300ms is above timeout, 200ms");
}

#[test]
fn ends_of_ranges_are_allowed() {
    for option in OPTIONS {
        let (min, max) = option.form.ends();
        let words = option.form.words().iter().map(|(_, value)| *value);
        for value in [min, max].into_iter().chain(words) {
            let mut config = with(option.name, value);
            config.policy = policy_of(option.name).unwrap_or(config.policy);
            // What must not be beyond this follows it.
            match option.name {
                "initial-rate" => config.min_rate = config.min_rate.min(value as u32),
                "weight-min" => {
                    config.weight_initial = config.weight_initial.max(value as u32);
                    config.weight_max = config.weight_max.max(value as u32);
                }
                "weight-initial" => {
                    config.weight_min = config.weight_min.min(value as u32);
                    config.weight_max = config.weight_max.max(value as u32);
                }
                "weight-max" => {
                    config.weight_min = config.weight_min.min(value as u32);
                    config.weight_initial = config.weight_initial.min(value as u32);
                }
                "timeout" => config.rto = config.rto.min(value),
                "security" => config.key = value as u32,
                "timely-low" => config.timely_high = config.timely_high.max(value),
                "timely-high" => config.timely_low = config.timely_low.min(value),
                _ => {}
            }
            let resolved = config.validate(None);
            assert!(resolved.is_ok(), "{} {value}: {resolved:?}", option.name);
        }
    }
}

/// The policy that an option is for, if it is not for all.
fn policy_of(name: &str) -> Option<u32> {
    match name.split('-').next() {
        Some("dcqcn") => Some(uapi::POLICY_DCQCN),
        Some("timely" | "tcd" | "minimum") => Some(uapi::POLICY_TIMELY),
        _ => None,
    }
}

/// A value that it does not have at first.
fn another(option: &Opt) -> u64 {
    let (min, max) = option.form.ends();
    let is_usual = Config::DEFAULT.get(option.number) == Some(value(option, min));
    if is_usual {
        max
    } else {
        min
    }
}

#[test]
fn what_is_given_for_another_policy_is_refused_and_forgotten() {
    let all = (uapi::POLICY_EXPRESSPASS..=uapi::POLICY_TIMELY).collect::<Vec<_>>();
    for option in OPTIONS {
        let Some(own) = policy_of(option.name) else {
            continue;
        };
        let both = matches!(option.name, "tcd" | "minimum-rate");
        let changed = with(option.name, another(option));
        for policy in &all {
            let is_own = *policy == own || both && *policy == uapi::POLICY_DCQCN;
            let mut config = Config {
                policy: *policy,
                ..changed
            };
            let said = config.validate(None).map_err(|it| it.to_string());
            let of = match (both, own) {
                (true, _) => "dcqcn or timely",
                (_, uapi::POLICY_DCQCN) => "dcqcn",
                _ => "timely",
            };
            let refused = std::format!("{}: only with policy {of}", option.name);
            if option.name != "timely-high" {
                assert_eq!(said.map(drop).err(), (!is_own).then_some(refused));
            }
            // Given once more it stays, to be refused; set before it is forgotten.
            let mut given = Given::default();
            given.add(option.number);
            let before = config;
            config.settle(given);
            assert_eq!(config, before);
            config.settle(Given::default());
            assert_eq!(config == before, is_own, "{} {policy}", option.name);
        }
    }
}

#[test]
fn laws_have_the_options_of_theirs() {
    use crate::transport::rate::{dcqcn, timely};
    let resolved = Config::DEFAULT.validate(None).unwrap();
    assert_eq!(resolved.dcqcn, dcqcn::Config::DEFAULT);
    assert_eq!(resolved.timely, timely::Config::DEFAULT);
    // Each option changes something of one of them; those that both have, of both.
    for option in OPTIONS {
        let name = option.name;
        let of_dcqcn = name.starts_with("dcqcn-") || name == "cnp-interval";
        let of_timely = name.starts_with("timely-");
        let of_both = name == "tcd" || name == "minimum-rate";
        let policy = policy_of(name).unwrap_or(uapi::POLICY_TOP);
        let config = Config {
            policy,
            ..with(name, another(option))
        };
        let Ok(changed) = config.validate(None) else {
            continue;
        };
        assert_eq!(
            changed.dcqcn != resolved.dcqcn,
            of_dcqcn || of_both,
            "{name}"
        );
        assert_eq!(
            changed.timely != resolved.timely,
            of_timely || of_both,
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_values_are_refused_or_come_to_something(
        values in prop::collection::vec(any::<(prop::sample::Index, u64, bool)>(), 0..6),
        device in any::<Option<u64>>(),
    ) {
        let mut config = Config::DEFAULT;
        for (option, value, small) in values {
            let option = option.get(OPTIONS);
            let value = if small { value % 70_000 } else { value };
            let value = self::value(option, value);
            prop_assert!(config.set(option.number, value));
        }
        match config.validate(device) {
            Ok(resolved) => {
                prop_assert!(resolved.min_rate <= resolved.initial_rate);
                prop_assert!(resolved.initial_rate <= 1_000_000_000);
                let line = resolved.base_bytes(&resolved.speed);
                prop_assert!(resolved.speed.token_time != 0 && line != 0);
            }
            Err(refusal) => prop_assert!(refusal.to_string().len() <= 78, "{}", refusal),
        }
    }
}

#[test]
fn what_is_above_a_cap_is_refused_by_name_and_defaults_are_not() {
    Config::DEFAULT.within_caps().unwrap();
    for (number, cap) in CAPS {
        let row = Config::option(*number).unwrap();
        let most = row.form.range().unwrap().max;
        assert!(most > *cap, "{}: nothing is capped", row.name);
        let mut config = with(row.name, *cap);
        config.within_caps().unwrap();
        config = with(row.name, cap + 1);
        config.validate(None).unwrap();
        let said = config.within_caps().unwrap_err().to_string();
        let wanted = std::format!(
            "{}: {} is above {cap}, this user namespace's cap",
            row.name,
            cap + 1
        );
        assert_eq!(said, wanted);
        // The kernel's messages have 79 bytes.
        assert!(said.len() + "turnstile: ".len() < 80, "{said}");
    }
}
