// SPDX-License-Identifier: GPL-2.0
use super::*;
use turnstile_core::pfc::ingress::Alpha;
use turnstile_core::pfc::scope::Scope;
use turnstile_core::port::config::{
    Delay, Drain, DscpMap, Dynamic, Expiry, Generate, GsoHold, MaxOn, Order, Pfc, Phantom, Room,
    SplitGso, Tcd, TokenDrop, Tokens,
};
use turnstile_core::port::uapi::option;
use turnstile_core::units::Nanos;

use crate::attr::{put, put_u32, Malformed};

const RATE: &str = "a rate (bit, kbit, mbit, gbit, tbit; kibit, ...; bps, kbps, ... for bytes)";

fn words(text: &str) -> Result<Options, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    parse(&words).map_err(|error| error.to_string())
}

#[test]
fn every_option() {
    let all = words(
        "link 10gbit tokens 5.5% priorities 8 token-limit 16 token-expiry 20us token-drop last \
         order data-first unscheduled off data-limit 1mb signal-limit 10 signal-share 2.5% \
         dscp EF=token0 no-split-gso gso-hold 25us overhead 0 \
         phantom drain 95% mark 1kb mpu 64b ren period 48us jitter 20us \
         pfc data 3,4 watchdog 10ms xoff auto xon auto headroom 90kb delay 50ns alpha 1/4 \
         buffer 4mb \
         tcd threshold 200kb max-on 34us",
    )
    .unwrap();
    let mut dscp = DscpMap::NONE;
    dscp.0[46] = 0x10;
    assert_eq!(
        all.configure(Config::DEFAULT),
        Config {
            link: Some(1_250_000_000),
            tokens: Tokens::Share(55_000_000),
            priorities: 8,
            token_limit: 16,
            token_expiry: Expiry::After(Nanos(20_000)),
            token_drop: TokenDrop::Last,
            order: Order::DataFirst,
            unscheduled: 0,
            data_limit: 1 << 20,
            signal_limit: 10,
            signal_share: 25_000_000,
            dscp,
            split_gso: SplitGso::No,
            gso_hold: GsoHold::ns(25_000),
            overhead: 0,
            mpu: 64,
            jitter: Nanos(20_000),
            phantom: Some(Phantom {
                drain: Drain::Share(950_000_000),
                mark: 1024,
            }),
            ren: Some(Nanos(48_000)),
            pfc: Some(Pfc {
                data: Scope::Priorities(0b1_1000),
                watchdog: Nanos(10_000_000),
                generate: Some(Generate {
                    xoff: Room::AUTO,
                    xon: Room::AUTO,
                    headroom: Room::bytes(90 << 10),
                    delay: Delay::ns(50),
                    share: Some(Dynamic {
                        alpha: Alpha(64),
                        buffer: 4 << 20,
                    }),
                }),
            }),
            tcd: Some(Tcd {
                threshold: 200 << 10,
                max_on: MaxOn::Time(Nanos(34_000)),
            }),
        }
    );
    let given = |text: &str, number| words(text).unwrap().get(number);
    for (text, value) in [
        ("off", 0),
        ("data 0", 1),
        ("data 7", 128),
        ("data 4,3,3", 0b1_1000),
        ("data pause", 256),
    ] {
        let text = format!("pfc {text}");
        assert_eq!(given(&text, option::PFC_DATA), Some(value), "{text}");
    }
    for (text, value) in [
        ("off", 0),
        ("1/64", 4),
        ("0.25", 64),
        ("1/3", 85),
        ("0.3", 76),
        ("0.30078125", 77),
        ("8", 2048),
        ("7.5", 1920),
    ] {
        let text = format!("pfc alpha {text}");
        assert_eq!(given(&text, option::PFC_ALPHA), Some(value), "{text}");
    }
    for (text, said) in [
        (
            "data 8",
            "pfc: data: \"8\" is not in 0..7 or a list of them",
        ),
        (
            "data 3,",
            "pfc: data: \"3,\" is not a list of priorities (3,4)",
        ),
        (
            "data 3,99",
            "pfc: data: \"3,99\" is not in 0..7 or a list of them",
        ),
        ("alpha 9", "pfc: alpha: \"9\" is not in 1/64..8 or off"),
        (
            "alpha 1/0",
            "pfc: alpha: \"1/0\" is not a ratio (1/4, 0.25, 2), nor \"off\"",
        ),
        (
            "alpha 1/65",
            "pfc: alpha: \"1/65\" is not in 1/64..8 or off",
        ),
    ] {
        let error = words(&format!("pfc {text}")).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
    assert_eq!(given("ren off link auto", option::REN_PERIOD), Some(0));
    assert_eq!(given("ren off link auto", option::LINK_RATE64), Some(0));
    assert_eq!(given("signal-share off", option::SIGNAL_SHARE), Some(0));
    assert_eq!(given("phantom off", option::PHANTOM_SHARE), Some(0));
    let both = "phantom mark 0 drain 950mbit";
    assert_eq!(given(both, option::PHANTOM_RATE64), Some(118_750_000));
    assert_eq!(given(both, option::PHANTOM_MARK), Some(0));
    let one = "phantom drain 100% link auto";
    assert_eq!(given(one, option::PHANTOM_SHARE), Some(1_000_000_000));
    assert_eq!(given(one, option::PHANTOM_MARK), None);
    assert_eq!(
        given("phantom mark 30kb", option::PHANTOM_MARK),
        Some(30 << 10)
    );
    assert_eq!(words(""), Ok(Options::default()));
    assert_eq!(
        given("tokens 500mbit", option::TOKEN_RATE64),
        Some(62_500_000)
    );
    assert_eq!(given("tokens 500mbit", option::TOKEN_SHARE), None);
    // Only what looks like a percentage is asked about.
    assert_eq!(given("tokens 5000", option::TOKEN_RATE64), Some(625));
    assert_eq!(
        given("token-expiry off split-gso", option::TOKEN_EXPIRY),
        Some(0)
    );
    for (text, split) in [("no-split-gso", 0), ("split-gso", 1), ("split-gso auto", 2)] {
        assert_eq!(given(text, option::SPLIT_GSO), Some(split));
        let after = format!("{text} gso-hold auto");
        assert_eq!(given(&after, option::SPLIT_GSO), Some(split));
        assert_eq!(given(&after, option::GSO_HOLD), Some(u64::MAX));
        assert_eq!(words(&after).unwrap().to_string(), after);
    }
    assert_eq!(
        given("token-expiry auto", option::TOKEN_EXPIRY),
        Some(u64::MAX)
    );
}

#[test]
fn refused() {
    let rate = RATE;
    let names = Options::names().join(", ");
    for (text, error) in [
        ("link", "link: needs a value: RATE|auto".to_owned()),
        (
            "link 10",
            "link: \"10\" is not in 1kbit..800gbit or auto".to_owned(),
        ),
        (
            "link 801gbit",
            "link: \"801gbit\" is not in 1kbit..800gbit or auto".to_owned(),
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
            "tokens 0bit",
            "tokens: \"0bit\" is less than a byte per second".to_owned(),
        ),
        (
            "tokens 5",
            "tokens: \"5\" has no unit: did you mean 5%?".to_owned(),
        ),
        (
            "tokens 5.5",
            "tokens: \"5.5\" has no unit: did you mean 5.5%?".to_owned(),
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
            "token-limit: \"0\" is not in 1..1024 packets".to_owned(),
        ),
        (
            "token-expiry 10parsecs",
            "token-expiry: \"10parsecs\" is not a time (s, ms, us, ns), \"auto\" or \"off\""
                .to_owned(),
        ),
        (
            "token-expiry 0",
            "token-expiry: \"0\" is not in 1ns..10s, auto or off".to_owned(),
        ),
        (
            "token-expiry 11s",
            "token-expiry: \"11s\" is not in 1ns..10s, auto or off".to_owned(),
        ),
        (
            "order both",
            "order: \"both\" is none of tokens-first|data-first".to_owned(),
        ),
        (
            "unscheduled 0",
            "unscheduled: \"0\" is not in 1..1024 packets or off".to_owned(),
        ),
        (
            "unscheduled none",
            "unscheduled: \"none\" is not a whole number, nor \"off\"".to_owned(),
        ),
        (
            "data-limit 1599",
            "data-limit: \"1599\" is not in 1600b..1gb".to_owned(),
        ),
        (
            "data-limit 2gb",
            "data-limit: \"2gb\" is not in 1600b..1gb".to_owned(),
        ),
        (
            "data-limit 10ms",
            "data-limit: \"10ms\" is not a size (b, kb, mb, gb)".to_owned(),
        ),
        (
            "signal-limit 100001",
            "signal-limit: \"100001\" is not in 1..100000 packets".to_owned(),
        ),
        (
            "dscp CS9=data",
            "dscp: \"CS9\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE".to_owned(),
        ),
        (
            "overhead 257",
            "overhead: \"257\" is not in 0b..256b".to_owned(),
        ),
        ("mpu 1k", "mpu: \"1k\" is not in 0b..256b".to_owned()),
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
            "unknown word \"drain\": did you mean \"phantom drain\"?".to_owned(),
        ),
        (
            "phantom drain",
            "phantom: drain: needs a value: PERCENT|RATE".to_owned(),
        ),
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
            "phantom drain 95 mark 0",
            "phantom: drain: \"95\" has no unit: did you mean 95%?".to_owned(),
        ),
        (
            "phantom mark 2gb",
            "phantom: mark: \"2gb\" is not in 0b..1gb".to_owned(),
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
            "split-gso auto split-gso auto",
            "split-gso: given twice".to_owned(),
        ),
        (
            "no-split-gso auto",
            format!("unknown word \"auto\": the options are {names}"),
        ),
        (
            "gso-hold 2s",
            "gso-hold: \"2s\" is not in 0ns..1s or auto".to_owned(),
        ),
        (
            "gso-hold off",
            "gso-hold: \"off\" is not a time (s, ms, us, ns), nor \"auto\"".to_owned(),
        ),
        (
            "no-link",
            format!("unknown word \"no-link\": the options are {names}"),
        ),
        (
            "LINK 1gbit",
            "unknown word \"LINK\": did you mean \"link\"?".to_owned(),
        ),
        (
            "tokns 5%",
            "unknown word \"tokns\": did you mean \"tokens\"?".to_owned(),
        ),
        (
            "token_expiry off",
            "unknown word \"token_expiry\": did you mean \"token-expiry\"?".to_owned(),
        ),
        (
            "no-split-gos",
            "unknown word \"no-split-gos\": did you mean \"no-split-gso\"?".to_owned(),
        ),
        (
            "colour red",
            format!("unknown word \"colour\": the options are {names}"),
        ),
    ] {
        assert_eq!(words(text), Err(error), "{text}");
    }
    assert!(names.starts_with("link, tokens, ") && names.contains("split-gso, no-split-gso, "));
}

#[test]
fn numbers_of_the_kernel() {
    let mut expected = Vec::new();
    put(&mut expected, 2, &0x0102u64.to_ne_bytes());
    put(&mut expected, 5, &7u32.to_ne_bytes());
    let options = words("priorities 7 link 258bps").unwrap();
    assert_eq!(options.encode(), expected);
    assert!(Options::default().encode().is_empty());
}

#[test]
fn a_newer_kernel_may_say_more() {
    let mut bytes = Vec::new();
    put(&mut bytes, option::MAX + 1, b"news");
    put_u32(&mut bytes, option::MPU, 64);
    let options = Options::decode(&bytes).unwrap();
    assert_eq!(options.to_string(), "mpu 64");
}

#[test]
fn nonsense_is_named() {
    let mut bytes = Vec::new();
    put_u32(&mut bytes, option::ORDER, 2);
    let error = Options::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("attribute order"), "{error}");
    for (number, name) in [
        (option::DSCP_MAP, "dscp"),
        (option::LINK_RATE64, "link"),
        (option::MPU, "mpu"),
        (option::JITTER, "jitter"),
    ] {
        let mut cut = Vec::new();
        put(&mut cut, number, &[1, 2]);
        let bytes = vec![1, 2];
        let malformed = Malformed::Value { name, bytes };
        assert_eq!(Options::decode(&cut), Err(malformed));
    }
    let mut bytes = Vec::new();
    put(&mut bytes, option::DSCP_MAP, &[4; 64]);
    assert!(Options::decode(&bytes).is_err());
}

#[test]
fn a_shell_completes_what_the_table_has() {
    let entries = Options::entries();
    let of = |name: &str| entries.iter().find(|e| e.name == name).unwrap().words();
    assert_eq!(of("link"), ["auto"]);
    assert_eq!(of("token-expiry"), ["auto", "off"]);
    assert_eq!(of("order"), ["tokens-first", "data-first"]);
    assert_eq!(of("dscp"), ["default", "none"]);
    assert_eq!(of("phantom"), ["drain", "mark", "off"]);
    assert_eq!(of("ren"), ["period", "off"]);
    assert!(of("tokens").is_empty());
    assert_eq!(of("split-gso"), ["auto"]);
}
