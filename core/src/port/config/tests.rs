// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::options::{Share, Value};
use crate::pfc::scope::Scope;
use crate::port::uapi::class;
use crate::shaper::Beyond;
use crate::units::Rate;
use std::format;
use std::string::{String, ToString};

const GBIT: u64 = 125_000_000;
const TEN_G: Option<u64> = Some(10 * GBIT);

fn refusal(change: impl Fn(&mut Config)) -> String {
    let mut config = Config::DEFAULT;
    change(&mut config);
    config
        .validate(TEN_G)
        .expect_err("must be refused")
        .to_string()
}

fn accepted(change: impl Fn(&mut Config)) -> Resolved {
    let mut config = Config::DEFAULT;
    change(&mut config);
    config.validate(TEN_G).unwrap_or_else(|e| panic!("{e}"))
}

/// Both ends of an option's range are accepted, the values next to them refused, with these words.
fn ends(option: &str, shown: &str, set: impl Fn(&mut Config, u64)) {
    let range = Config::named(option).unwrap().form.range().unwrap();
    accepted(|c| set(c, range.min));
    accepted(|c| set(c, range.max));
    for value in range.min.checked_sub(1).into_iter().chain([range.max + 1]) {
        let text = refusal(|c| set(c, value));
        let (name, rest) = text.split_once(": ").unwrap();
        assert_eq!(name, option);
        assert!(rest.ends_with(&format!(" is not in {shown}")), "{text}");
    }
}

#[test]
fn every_range_ends_where_it_should() {
    ends("link", "1kbit..800gbit or auto", |c, v| c.link = Some(v));
    ends("tokens", "0.01%..50%", |c, v| {
        c.tokens = Tokens::Share(v as u32)
    });
    ends("priorities", "1..8", |c, v| c.priorities = v as u8);
    ends("token-limit", "1..1024 packets", |c, v| {
        c.token_limit = v as u32
    });
    ends("data-limit", "1600b..1gb", |c, v| c.data_limit = v as u32);
    ends("signal-limit", "1..100000 packets", |c, v| {
        c.signal_limit = v as u32
    });
    ends("signal-share", "0.01%..100% or off", |c, v| {
        c.signal_share = v as u32
    });
    ends("overhead", "0b..256b", |c, v| c.overhead = v as u32);
    ends("mpu", "0b..256b", |c, v| c.mpu = v as u32);
    ends("jitter", "0ns..10ms", |c, v| c.jitter = Nanos(v));
    ends("gso-hold", "0ns..1s or auto", |c, v| {
        c.gso_hold = GsoHold::ns(v as u32)
    });
    assert_eq!(limits::DSCP.to_string(), "0..63");
    // 0 stands for off.
    for limit in [0, 1, 1024] {
        accepted(|c| c.unscheduled = limit);
    }
    assert_eq!(
        refusal(|c| c.unscheduled = 1025),
        "unscheduled: 1025 is not in 1..1024 packets or off"
    );
    let after = |ns| Expiry::After(Nanos(ns));
    for expiry in [Expiry::Off, Expiry::Auto, after(1), after(10_000_000_000)] {
        accepted(|c| c.token_expiry = expiry);
    }
}

#[test]
fn signals_have_a_share_of_the_link_unless_it_is_all() {
    let rate = |share| {
        let resolved = accepted(|c| c.signal_share = share);
        resolved.signal_rate.map(|rate| rate.bytes_per_sec())
    };
    assert_eq!(rate(Config::DEFAULT.signal_share), Some(10 * GBIT / 20));
    assert_eq!(rate(100_000), Some(10 * GBIT / 10_000));
    assert_eq!(rate(999_999_999), Some(10 * GBIT - 2));
    assert_eq!(rate(1_000_000_000), None);
    assert_eq!(rate(0), None);
    // The least of the slowest link: 80 s for a byte.
    let slow = accepted(|c| (c.signal_share, c.link) = (100_000, Some(125)));
    assert_eq!(slow.signal_rate.unwrap().duration(1), Nanos(80_000_000_000));
}

#[test]
fn refusals_name_the_option_the_value_and_the_range() {
    assert_eq!(
        refusal(|c| c.priorities = 9),
        "priorities: 9 is not in 1..8"
    );
    assert_eq!(
        refusal(|c| c.link = Some(100)),
        "link: 800bit is not in 1kbit..800gbit or auto"
    );
    assert_eq!(
        refusal(|c| c.tokens = Tokens::Share(600_000_001)),
        "tokens: 60.0000001% is not in 0.01%..50%"
    );
    assert_eq!(
        refusal(|c| c.tokens = Tokens::Rate(900_000_000)),
        "tokens: 7200mbit is not in 1mbit..5gbit"
    );
    assert_eq!(
        refusal(|c| c.token_expiry = Expiry::After(Nanos(20_000_000_000))),
        "token-expiry: 20s is not in 1ns..10s, auto or off"
    );
}

/// Who pauses others is taken for one of those who pause it.
#[test]
fn max_on_follows_the_thresholds_of_the_fabric() {
    let max_on = |generate: Option<Generate>| {
        let config = Config {
            pfc: Some(Pfc {
                data: Scope::one(0),
                watchdog: Nanos(200_000_000),
                generate,
            }),
            tcd: Some(Tcd {
                threshold: 50_000,
                max_on: MaxOn::Auto,
            }),
            unscheduled: 0,
            ..Config::DEFAULT
        };
        config.validate(TEN_G).unwrap().max_on.unwrap().0
    };
    let generate = |xoff: Room, xon: Room, delay| {
        Some(Generate {
            xoff,
            xon,
            headroom: Room::AUTO,
            delay: Delay::ns(delay),
            share: None,
        })
    };
    let auto = max_on(None);
    assert_eq!(max_on(generate(Room::AUTO, Room::AUTO, 500)), auto);
    assert_eq!(
        max_on(generate(Room::bytes(100_000), Room::AUTO, 500)),
        auto
    );
    // 20 times what headroom counts, too, at 0.8 ns a byte: two full frames and the pause, 60
    // quanta of 64 bytes, both ways, twice the jitter; and what lies between the thresholds. Its
    // own time is rounded up.
    let delay = (2 * 1538 + 84 + 60 * 64) * 8 / 10 + 2 * 500 + 2 * 50_000;
    let thresholds = 20 * 2 * 1538 * 8 / 10;
    assert!(auto.abs_diff(thresholds + 20 * delay) <= 20, "{auto}");
    // 20 times both ways, and 20 times what lies between the thresholds, at 0.8 ns a byte.
    assert_eq!(
        max_on(generate(Room::AUTO, Room::AUTO, 1500)),
        auto + 20 * 2000
    );
    let apart = max_on(generate(Room::bytes(100_000), Room::bytes(90_000), 500));
    assert_eq!(apart, auto + 20 * (10_000 - 2 * 1538) * 8 / 10);
    // An xoff that is worked out may be far from an xon that was given.
    let room = 3 * 1538 + 84 + 60 * 64 + (2 * 500 + 2 * 50_000) * 10 / 8;
    for xon in [0, 40_000, 200_000] {
        let apart = room.max(xon) - xon;
        let found = max_on(generate(Room::AUTO, Room::bytes(xon), 500));
        assert_eq!(found, auto + 20 * u64::from(apart) * 8 / 10, "{xon}");
    }
}

#[test]
fn without_a_speed_nothing_that_follows_from_it_is_known() {
    for speed in [None, Some(0)] {
        let config = Config {
            phantom: phantom(Drain::Share(950_000_000)),
            ren: Some(Nanos(48_000)),
            ..Config::DEFAULT
        };
        let resolved = config.validate(speed).unwrap();
        assert!(resolved.is_unresolved());
        assert_eq!(
            resolved,
            Resolved {
                max_on: None,
                link: 0,
                shaped: false,
                link_rate: Rate::UNLIMITED,
                token_beyond: Beyond {
                    from: 84,
                    to: 168,
                    rate: Rate::UNLIMITED,
                },
                token_rate: Rate::UNLIMITED,
                interval: Nanos::ZERO,
                drain: None,
                signal_rate: None,
                expiry: None,
                // A poll's worth of tokens, and one more.
                token_limit: 65,
                slack: Config::DEFAULT.jitter,
                // The port marks.
                whole: 0,
            }
        );
        assert_eq!(resolved.token_rate.bytes_per_sec(), 0);
    }
    assert!(!Config::DEFAULT.validate(TEN_G).unwrap().is_unresolved());
    let shaped = Config {
        link: Some(125),
        ..Config::DEFAULT
    };
    assert!(!shaped.validate(None).unwrap().is_unresolved());
}

#[test]
fn without_a_speed_rates_and_times_are_as_given() {
    let config = Config {
        tokens: Tokens::Rate(GBIT),
        token_expiry: Expiry::After(Nanos(5_000)),
        phantom: phantom(Drain::Rate(9 * GBIT)),
        jitter: Nanos::ZERO,
        ..Config::DEFAULT
    };
    let resolved = config.validate(None).unwrap();
    assert!(resolved.is_unresolved());
    assert_eq!(resolved.token_rate.bytes_per_sec(), GBIT);
    assert_eq!(resolved.drain.unwrap().bytes_per_sec(), 9 * GBIT);
    assert_eq!(resolved.expiry, Some(Nanos(5_000)));
    // What is no share of the link when there is one is moved into the range.
    let resolved = config.resolve_for_speed(GBIT).unwrap();
    assert_eq!(resolved.token_rate.bytes_per_sec(), GBIT / 2);
    assert_eq!(resolved.drain.unwrap().bytes_per_sec(), GBIT);
}

#[test]
fn without_a_speed_a_rate_is_a_share_of_some_link() {
    let tokens = |rate| Config {
        tokens: Tokens::Rate(rate),
        ..Config::DEFAULT
    };
    let drain = |rate| Config {
        phantom: phantom(Drain::Rate(rate)),
        ..Config::DEFAULT
    };
    let fastest = Rate::MAX_BYTES_PER_SEC;
    for config in [tokens(1), tokens(fastest / 2), drain(2), drain(fastest)] {
        assert!(config.validate(None).unwrap().is_unresolved());
    }
    for config in [tokens(0), tokens(fastest / 2 + 1), tokens(u64::MAX)] {
        let refusal = config.validate(None).unwrap_err().to_string();
        assert!(
            refusal.ends_with("is not in 0.01%..50% of any link"),
            "{refusal}"
        );
    }
    for config in [drain(0), drain(1), drain(fastest + 1), drain(u64::MAX)] {
        let refusal = config.validate(None).unwrap_err().to_string();
        assert!(
            refusal.ends_with("is not in 1%..100% of any link"),
            "{refusal}"
        );
    }
}

#[test]
fn a_map_names_only_bands_that_the_port_has() {
    assert_eq!(refusal(|c| c.dscp.0[8] = 7), "dscp: CS1: 7 is not a class");
    assert_eq!(
        refusal(|c| c.dscp.0[63] = 0x18),
        "dscp: 63: 24 is not a class"
    );
    assert_eq!(refusal(|c| c.dscp.0[0] = 0), "dscp: CS0: 0 is not a class");
    assert_eq!(
        refusal(|c| (c.priorities, c.dscp.0[34]) = (4, 0x15)),
        "dscp: AF41 goes to token5, but there are 4 priorities"
    );
    assert_eq!(
        refusal(|c| (c.priorities, c.dscp.0[34]) = (1, 0x11)),
        "dscp: AF41 goes to token1, but there is 1 priority"
    );
    assert_eq!(
        refusal(|c| (c.unscheduled, c.dscp.0[8]) = (0, 3)),
        "dscp: CS1 goes to unscheduled, which is off"
    );
    accepted(|c| (c.priorities, c.dscp.0[34]) = (6, 0x15));
    accepted(|c| c.dscp.0[8] = 3);
}

#[test]
fn percentages_have_all_digits_and_no_more() {
    let shown = |ppb| crate::options::Percent(ppb).to_string();
    assert_eq!(shown(51_787_916), "5.1787916%");
    assert_eq!(shown(100_000), "0.01%");
    assert_eq!(shown(500_000_000), "50%");
    assert_eq!(shown(1), "0.0000001%");
    assert_eq!(shown(55_000_000), "5.5%");
    assert_eq!(shown(0), "0%");
}

#[test]
fn the_defaults_are_as_documented() {
    let expected = Config {
        link: None,
        tokens: Tokens::Share((84_u64 * 1_000_000_000 / 1622) as u32),
        priorities: 8,
        token_limit: 8,
        token_expiry: Expiry::Auto,
        token_drop: TokenDrop::Fair,
        order: Order::TokensFirst,
        unscheduled: 1,
        data_limit: 1_514_000,
        signal_limit: 1000,
        signal_share: 50_000_000,
        dscp: DscpMap::DEFAULT,
        split_gso: SplitGso::Auto,
        gso_hold: GsoHold::AUTO,
        overhead: 4 + 8 + 12,
        mpu: 64 + 8 + 12,
        jitter: Nanos(50_000),
        phantom: None,
        ren: None,
        pfc: None,
        tcd: None,
    };
    assert_eq!(Config::DEFAULT, expected);
}

#[test]
fn the_defaults_are_the_papers_but_for_jitter() {
    let accepted = |change: &dyn Fn(&mut Config)| {
        accepted(|c| {
            c.jitter = Nanos::ZERO;
            change(c);
        })
    };
    let resolved = accepted(&|_| {});
    assert_eq!(resolved.link, 10 * GBIT);
    assert!(!resolved.shaped);
    assert_eq!(resolved.token_rate.bytes_per_sec(), 64_734_895);
    assert_eq!(resolved.link_rate.bytes_per_sec(), 10 * GBIT);
    // 84 B + 1538 B at 10 Gbit/s: 1297.6 ns.
    assert_eq!(resolved.interval, Nanos(1298));
    assert_eq!(resolved.expiry, Some(Nanos(10_381)));
    // With a larger share the interval is shorter, and frames are what counts; with a smaller one
    // it is longer.
    let large = accepted(&|c| c.tokens = Tokens::Share(500_000_000));
    assert_eq!(large.expiry, Some(Nanos(10_381)));
    let small = accepted(&|c| c.tokens = Tokens::Share(10_000_000));
    assert_eq!(small.expiry, Some(Nanos(53_760)));
    let codes = (0..64).filter(|&code| DscpMap::DEFAULT.get(code) == class::SIGNAL);
    assert!(codes.eq([48, 56]));
    assert!((0..64).all(|code| DscpMap::NONE.get(code) == class::DATA));
    assert_eq!(DscpMap::DEFAULT.get(48 + 64), class::SIGNAL);
}

#[test]
fn a_link_rate_shapes_and_outranks_the_device() {
    let resolved = accepted(|c| c.link = Some(GBIT));
    assert!(resolved.shaped);
    assert_eq!(resolved.link, GBIT);
    let config = Config {
        link: Some(GBIT),
        ..Config::DEFAULT
    };
    assert_eq!(config.validate(None), Ok(resolved));
    assert_eq!(config.resolve_for_speed(40 * GBIT), Some(resolved));
}

#[test]
fn the_expiry_can_be_set_and_turned_off() {
    assert_eq!(accepted(|c| c.token_expiry = Expiry::Off).expiry, None);
    let set = accepted(|c| {
        c.token_expiry = Expiry::After(Nanos(77));
        c.jitter = Nanos::ZERO;
    });
    assert_eq!(set.expiry, Some(Nanos(77)));
}

#[test]
fn a_token_rate_must_be_an_allowed_share_of_the_link() {
    let link = 10 * GBIT;
    for (rate, allowed) in [
        (link / 10_000 - 1, false),
        (link / 10_000, true),
        (link / 2, true),
        (link / 2 + 1, false),
        (0, false),
        (u64::MAX, false),
    ] {
        let config = Config {
            tokens: Tokens::Rate(rate),
            ..Config::DEFAULT
        };
        let resolved = config.validate(TEN_G);
        assert_eq!(resolved.is_ok(), allowed, "{rate}");
        if let Ok(resolved) = resolved {
            assert_eq!(resolved.token_rate.bytes_per_sec(), rate);
        }
    }
    // 0.01 % of 1 kbit/s is no whole byte/s: 1 is the least.
    let config = Config {
        link: Some(125),
        tokens: Tokens::Rate(1),
        ..Config::DEFAULT
    };
    assert_eq!(config.validate(None).unwrap().token_rate.bytes_per_sec(), 1);
    // 0.01 % of 10 001 B/s is more than 1.
    let config = Config {
        link: Some(10_001),
        tokens: Tokens::Rate(1),
        ..Config::DEFAULT
    };
    assert!(config.validate(None).is_err());
}

#[test]
fn another_device_speed_moves_a_token_rate_into_the_range() {
    let config = Config {
        tokens: Tokens::Rate(GBIT),
        ..Config::DEFAULT
    };
    let rate_at = |speed| {
        config
            .resolve_for_speed(speed)
            .unwrap()
            .token_rate
            .bytes_per_sec()
    };
    assert_eq!(rate_at(10 * GBIT), GBIT);
    assert_eq!(rate_at(GBIT), GBIT / 2);
    assert_eq!(rate_at(30_000 * GBIT), 3 * GBIT);
    assert_eq!(config.resolve_for_speed(0), None);
    let share = Config::DEFAULT.resolve_for_speed(GBIT).unwrap();
    assert_eq!(share.token_rate.bytes_per_sec(), 6_473_489);
}

#[test]
fn an_absurd_device_speed_is_used_as_far_as_it_goes() {
    for (speed, used) in [(1, 125), (u64::MAX, Rate::MAX_BYTES_PER_SEC)] {
        assert_eq!(Config::DEFAULT.validate(Some(speed)).unwrap().link, used);
    }
}

#[test]
fn every_attribute_leads_back() {
    for config in [
        Config::DEFAULT,
        Config {
            link: Some(GBIT),
            tokens: Share::Rate(GBIT / 10),
            token_expiry: Expiry::After(Nanos(5)),
            token_drop: TokenDrop::Last,
            order: Order::DataFirst,
            split_gso: SplitGso::No,
            gso_hold: GsoHold::ns(25_000),
            phantom: phantom(Drain::Rate(GBIT / 2)),
            ren: Some(Nanos(48_000)),
            ..Config::DEFAULT
        },
    ] {
        let mut copy = Config {
            priorities: 1,
            token_expiry: Expiry::Off,
            dscp: DscpMap::NONE,
            ..Config::DEFAULT
        };
        let mut given = Given::default();
        let copied = config.each(|number, value| copy.take(&mut given, number, value));
        assert_eq!(copied, Ok(()));
        copy.settle(Config::DEFAULT.groups(), given).unwrap();
        assert_eq!(copy, config);
    }
}

#[test]
fn attributes_that_mean_nothing_are_not_taken() {
    let mut config = Config::DEFAULT;
    for (attribute, value) in [
        (number::ORDER, Value::U32(2)),
        (number::ORDER, Value::U64(1)),
        (number::TOKEN_DROP, Value::U32(2)),
        (number::SPLIT_GSO, Value::U32(3)),
        (number::GSO_HOLD, Value::U64(1 << 32)),
        (number::PRIORITIES, Value::U32(256)),
        (number::DSCP_MAP, Value::U32(1)),
        (number::LINK_RATE64, Value::U32(1)),
        (number::TOKEN_SHARE, Value::U64(1)),
        (number::TOKEN_RATE64, Value::U32(1)),
        (number::PHANTOM_MARK, Value::U64(1)),
        (number::PAD, Value::U32(1)),
        (number::MAX + 1, Value::U32(1)),
    ] {
        assert!(!config.set(attribute, value), "{attribute} {value:?}");
    }
    assert_eq!(config, Config::DEFAULT);
}

/// A request's attributes, and what they make of a phantom queue.
#[test]
fn parts_of_a_phantom_queue_go_together() {
    let set = |before: Option<Phantom>, request: &[(u16, Value)]| {
        let before = Config {
            phantom: before,
            ..Config::DEFAULT
        };
        let mut config = before;
        let mut given = Given::default();
        for (number, value) in request {
            config
                .take(&mut given, *number, *value)
                .map_err(|refusal| refusal.to_string())?;
        }
        let settled = config.settle(before.groups(), given);
        settled.map(|()| config.phantom).map_err(|r| r.to_string())
    };
    let share = |ppb| (number::PHANTOM_SHARE, Value::U32(ppb));
    let rate = (number::PHANTOM_RATE64, Value::U64(7));
    let mark = |bytes| (number::PHANTOM_MARK, Value::U32(bytes));
    let on = phantom(Drain::Share(950_000_000));
    let with = |drain, mark| Ok(Some(Phantom { drain, mark }));
    assert_eq!(set(on, &[]), Ok(on));
    assert_eq!(set(None, &[]), Ok(None));
    assert_eq!(set(on, &[share(0)]), Ok(None));
    assert_eq!(set(None, &[share(0)]), Ok(None));
    assert_eq!(set(None, &[mark(5), rate]), with(Drain::Rate(7), 5));
    assert_eq!(set(on, &[mark(0)]), with(Drain::Share(950_000_000), 0));
    let half = 500_000_000;
    assert_eq!(set(on, &[share(half)]), with(Drain::Share(half), 1000));
    for both in [[share(half), rate], [rate, share(0)]] {
        let refused = set(on, &both).unwrap_err();
        assert_eq!(refused, "phantom drain: both a share and a rate");
    }
    for request in [[share(0), mark(5)], [mark(5), share(0)]] {
        for before in [on, None] {
            let refused = Err("phantom mark: the phantom queue is off".to_string());
            assert_eq!(set(before, &request), refused);
        }
    }
    let refused = set(None, &[rate]).unwrap_err();
    assert_eq!(refused, "phantom drain: needs phantom mark, too");
    let refused = set(None, &[mark(5)]).unwrap_err();
    assert_eq!(refused, "phantom mark: needs phantom drain, too");
}

/// HULL's figures: 95 % of the link, 1 KB (table 3).
fn phantom(drain: Drain) -> Option<Phantom> {
    Some(Phantom { drain, mark: 1000 })
}

#[test]
fn a_phantom_queue_drains_at_a_share_or_at_a_rate() {
    let drain = |drain| accepted(|c| c.phantom = phantom(drain)).drain.unwrap();
    assert_eq!(accepted(|_| {}).drain, None);
    let share = drain(Drain::Share(950_000_000));
    assert_eq!(share.bytes_per_sec(), 95 * GBIT / 10);
    assert_eq!(drain(Drain::Rate(95 * GBIT / 10)), share);
    assert_eq!(
        drain(Drain::Share(1_000_000_000)).bytes_per_sec(),
        10 * GBIT
    );
    assert_eq!(drain(Drain::Rate(10 * GBIT)).bytes_per_sec(), 10 * GBIT);
    assert_eq!(drain(Drain::Share(10_000_000)).bytes_per_sec(), GBIT / 10);
    assert_eq!(drain(Drain::Rate(GBIT / 10)).bytes_per_sec(), GBIT / 10);
    let refused = |drain| refusal(|c| c.phantom = phantom(drain));
    assert_eq!(
        refused(Drain::Share(9_999_999)),
        "phantom drain: 0.9999999% is not in 1%..100% or off"
    );
    assert_eq!(
        refused(Drain::Share(1_000_000_001)),
        "phantom drain: 100.0000001% is not in 1%..100% or off"
    );
    for (rate, shown) in [
        (0, "0bit"),
        (GBIT / 10 - 1, "99999992bit"),
        (10 * GBIT + 1, "10000000008bit"),
        (u64::MAX, "147573952tbit"),
    ] {
        assert_eq!(
            refused(Drain::Rate(rate)),
            std::format!("phantom drain: {shown} is not in 100mbit..10gbit")
        );
    }
    let mark = |mark| Phantom {
        drain: Drain::Share(950_000_000),
        mark,
    };
    accepted(|c| c.phantom = Some(mark(0)));
    accepted(|c| c.phantom = Some(mark(1 << 30)));
    assert_eq!(
        refusal(|c| c.phantom = Some(mark((1 << 30) + 1))),
        "phantom mark: 1073741825b is not in 0b..1gb"
    );
}

#[test]
fn at_another_speed_a_drain_rate_stays_a_share() {
    let config = Config {
        phantom: phantom(Drain::Rate(5 * GBIT)),
        ..Config::DEFAULT
    };
    let drain = |speed| {
        let resolved = config.resolve_for_speed(speed).unwrap();
        resolved.drain.unwrap().bytes_per_sec()
    };
    assert_eq!(drain(10 * GBIT), 5 * GBIT);
    assert_eq!(drain(GBIT), GBIT);
    assert_eq!(drain(1000 * GBIT), 10 * GBIT);
    assert_eq!(drain(501 * GBIT + 1), 626_250_001);
}

#[test]
fn a_sampling_period_is_a_round_trip() {
    for ns in [1_000, 48_000, 1_000_000_000] {
        accepted(|c| c.ren = Some(Nanos(ns)));
    }
    for ns in [999, 1_000_000_001, u64::MAX] {
        assert_eq!(
            refusal(|c| c.ren = Some(Nanos(ns))),
            std::format!("ren period: {ns}ns is not in 1us..1s or off")
        );
    }
}

#[test]
fn jitter_zero_is_the_papers_and_the_default_is_not() {
    let exact = accepted(|c| c.jitter = Nanos::ZERO);
    assert_eq!(exact.token_limit, 8);
    assert_eq!(exact.expiry, Some(Nanos(10_381)));
    // Eight intervals of 1297.6 ns; two frames and a token are 2528 ns.
    assert_eq!(exact.slack, Nanos(10_381));
    // 38.5 tokens fall due in 50 us. 103 tokens of 104 bytes take 165 474.4 ns.
    let resolved = accepted(|_| {});
    assert_eq!(resolved.token_limit, 64 + 39);
    assert_eq!(resolved.slack, Nanos(10_381 + 50_000));
    assert_eq!(resolved.expiry, Some(Nanos(165_475 + 60_381)));
    // Frames are longer than intervals at larger shares.
    let half = |c: &mut Config| c.tokens = Tokens::Share(500_000_000);
    let slack = accepted(|c| {
        half(c);
        c.jitter = Nanos::ZERO;
    });
    assert_eq!(slack.slack, Nanos(2528));
    assert_eq!(accepted(half).slack, Nanos(52_528));
}

#[test]
fn jitter_floors_what_is_set_and_leaves_what_is_more() {
    let set = |limit, expiry| {
        let resolved = accepted(|c| (c.token_limit, c.token_expiry) = (limit, expiry));
        (resolved.token_limit, resolved.expiry)
    };
    let after = |ns| Expiry::After(Nanos(ns));
    let least = Some(Nanos(225_856));
    assert_eq!(set(1, after(1)), (103, least));
    assert_eq!(set(103, after(225_856)), (103, least));
    assert_eq!(set(104, after(225_857)), (104, Some(Nanos(225_857))));
    assert_eq!(set(1024, Expiry::Off), (1024, None));
}

#[test]
fn a_burst_of_a_poll_fits_at_every_speed_and_share() {
    for link in [125, GBIT / 1000, GBIT / 10, GBIT, 40 * GBIT, 800 * GBIT] {
        for ppb in [100_000, 51_787_916, 500_000_000] {
            for jitter in [1, 50_000, 10_000_000] {
                let config = Config {
                    link: Some(link),
                    tokens: Tokens::Share(ppb),
                    jitter: Nanos(jitter),
                    ..Config::DEFAULT
                };
                let resolved = config.validate(None).unwrap();
                let expiry = resolved.expiry.unwrap();
                // As many as a poll brings and the jitter holds up, but for the most that is held
                // at all.
                let held = resolved
                    .token_rate
                    .duration(84 * (resolved.token_limit - 64));
                assert!(held >= Nanos(jitter) || resolved.token_limit == MAX_LIMIT_FLOOR);
                assert!(resolved.token_limit <= MAX_LIMIT_FLOOR);
                let poll = resolved.token_rate.duration(84 * 64);
                let frames = resolved.link_rate.duration(2 * 1538 + 84);
                assert!(expiry >= poll + frames + Nanos(jitter), "{link} {ppb}");
                assert!(resolved.slack >= frames + Nanos(jitter));
            }
        }
    }
}
