// SPDX-License-Identifier: GPL-2.0
use serde_json::json;
use turnstile_core::transport::uapi::config as number;

use turnstile_core::options::Value;

use super::Settings;
use crate::attr;
use crate::json::Json;
use crate::print::print_options;

fn parse(text: &str) -> Result<Settings, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Settings::parse(&words).map_err(|error| error.to_string())
}

#[test]
fn words_of_each_kind() {
    let text = "policy ren link 25gbit token-share 5% initial-rate 50% update-period rtt \
        base-rtt 48us token-expiry off clock tai priorities 8 schedule coflow unscheduled 1 \
        timeout 2s send-buffer 1mb dscp-token EF";
    let settings = parse(text).unwrap();
    assert_eq!(
        settings.to_string(),
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    assert_eq!(settings.get(number::POLICY), Some(2));
    assert_eq!(settings.get(number::LINK_RATE64), Some(3_125_000_000));
    assert_eq!(settings.get(number::TOKEN_SHARE), Some(50_000_000));
    assert_eq!(settings.get(number::SEND_BUFFER), Some(1 << 20));
    assert_eq!(settings.get(number::UPDATE_PERIOD), Some(0));
    assert_eq!(settings.get(number::JITTER), None);
    assert!(parse("").unwrap().is_empty());
}

#[test]
fn refused_words() {
    for (text, error) in [
        (
            "policy",
            "policy: needs a value: expresspass|top|ren|dcqcn|timely",
        ),
        (
            "policy tcp",
            "policy: \"tcp\" is none of expresspass|top|ren|dcqcn|timely",
        ),
        ("link 1", "link: \"1\" is not in 1kbit..800gbit or auto"),
        (
            "link off",
            &format!(
                "link: \"off\" is not {}, nor \"auto\"",
                "a rate (bit, kbit, mbit, gbit, tbit; kibit, ...; bps, kbps, ... for bytes)"
            ),
        ),
        (
            "token-share 60%",
            "token-share: \"60%\" is not in 0.01%..50%",
        ),
        (
            "target-loss 5",
            "target-loss: \"5\" is not a percentage: did you mean 5%?",
        ),
        ("base-rtt 1ns", "base-rtt: \"1ns\" is not in 1us..1s"),
        (
            "token-expiry 2s",
            "token-expiry: \"2s\" is not in 1us..1s or off",
        ),
        ("priorities -1", "priorities: \"-1\" is not in 1..8 or auto"),
        (
            "max-incoming 0",
            "max-incoming: \"0\" is not in 1..65536 messages",
        ),
        (
            "send-buffer 1kb",
            "send-buffer: \"1kb\" is not in 64kb..1gb",
        ),
        ("jitter 1% jitter 1%", "jitter: given twice"),
    ] {
        assert_eq!(parse(text), Err(error.to_owned()), "{text}");
    }
    let unknown = parse("speed 1gbit").unwrap_err();
    assert!(unknown.starts_with("unknown word \"speed\": the options are policy, link, "));
}

/// Code points have the names that a port's map takes, and numbers in JSON.
#[test]
fn code_points_have_names() {
    let all = "dscp-signal CS6 dscp-token EF dscp-data 3 dscp-unscheduled LE";
    let settings = parse(all).unwrap();
    assert_eq!(settings.to_string(), all);
    assert_eq!(
        parse("dscp-signal 48 dscp-token ef dscp-data 3 dscp-unscheduled 1"),
        Ok(settings)
    );
    let refused = "dscp-token: \"CS8\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE";
    assert_eq!(parse("dscp-token CS8"), Err(refused.to_owned()));
    let mut to = Json::default();
    print_options(&parse("dscp-token EF").unwrap(), &mut to);
    assert_eq!(to.finish(), json!({"dscp-token": 46}));
}

#[test]
fn as_json() {
    let mut settings = parse("policy top link auto token-share 5% rto 1ms priorities 6").unwrap();
    settings.set(number::LINK_IN_FORCE, Value::U64(1_250_000_000));
    let mut to = Json::default();
    print_options(&settings, &mut to);
    assert_eq!(
        to.finish(),
        json!({"policy": "top", "link": "auto", "token-share": 0.05, "priorities": 6,
            "rto": 1_000_000, "link-in-force": 1_250_000_000})
    );
    assert!(
        !settings.to_string().contains("link-in-force"),
        "cannot be typed"
    );
}

#[test]
fn a_newer_kernel_may_say_more() {
    let mut bytes = parse("rto 1ms").unwrap().encode();
    attr::put_u64(&mut bytes, number::LINK_IN_FORCE, 7);
    attr::put(&mut bytes, number::MAX + 1, b"news");
    let settings = Settings::decode(&bytes).unwrap();
    assert_eq!(
        (
            settings.to_string().as_str(),
            settings.get(number::LINK_IN_FORCE)
        ),
        ("rto 1ms", Some(7))
    );
    let mut short = Vec::new();
    attr::put(&mut short, number::RTO, &[1, 2, 3, 4]);
    let error = Settings::decode(&short).unwrap_err().to_string();
    assert!(error.contains("attribute rto"), "{error}");
}
