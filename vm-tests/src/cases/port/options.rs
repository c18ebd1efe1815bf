// SPDX-License-Identifier: GPL-2.0
//! Every option set, shown and changed, through `tc` and through `turnstile`.

use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};

use crate::cmd::Output;
use crate::harness::{Case, Ctx, MUCH_WORK};
use crate::netns::Netns;
use crate::tool::Tool;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("options/set-by-add-and-replace", set_by_add_and_replace)
        .needs(MUCH_WORK)
        .timeout_s(240),
    Case::new("options/set-by-change", set_by_change)
        .needs(MUCH_WORK)
        .timeout_s(240),
    Case::new("options/defaults", defaults),
    Case::new("options/in-force", in_force),
    Case::new("options/json-through-jq", json_through_jq),
    Case::new("options/show-can-be-typed-back", show_can_be_typed_back)
        .needs(MUCH_WORK)
        .timeout_s(240),
    Case::new("options/both-tools-agree", both_tools_agree),
    Case::new("options/add-replace-change-delete", verbs),
];

/// One way to give one option: the words, the key in JSON, its value there, and the words that are
/// printed.
struct Setting {
    words: &'static str,
    key: &'static str,
    json: fn() -> Value,
    printed: &'static str,
}

macro_rules! settings {
    ($($words:literal => $key:literal: $json:tt, $printed:literal;)*) => {
        &[$(Setting { words: $words, key: $key, json: || json!($json), printed: $printed }),*]
    };
}

/// Every option with its least, its greatest and its special values, and units that print as
/// others.
const SETTINGS: &[Setting] = settings! {
    "link 1kbit" => "link": 125, "link 1kbit";
    "link 800gbit" => "link": 100_000_000_000_u64, "link 800gbit";
    "link 2.5gbit" => "link": 312_500_000, "link 2500mbit";
    "link 10mbps" => "link": 10_000_000, "link 80mbit";
    "link 1000000" => "link": 125_000, "link 1mbit";
    "tokens 0.01%" => "tokens": {"share": 0.0001}, "tokens 0.01%";
    "tokens 50%" => "tokens": {"share": 0.5}, "tokens 50%";
    "tokens 5.1787916%" => "tokens": {"share": 0.051787916}, "tokens 5.1787916%";
    "tokens 1mbit" => "tokens": {"rate": 125_000}, "tokens 1mbit";
    "priorities 1" => "priorities": 1, "priorities 1";
    "priorities 8" => "priorities": 8, "priorities 8";
    "token-limit 1" => "token-limit": 1, "token-limit 1";
    "token-limit 1024" => "token-limit": 1024, "token-limit 1024";
    "token-expiry 1ns" => "token-expiry": 1, "token-expiry 1ns";
    "token-expiry 250" => "token-expiry": 250_000, "token-expiry 250us";
    "token-expiry 10s" => "token-expiry": 10_000_000_000_u64, "token-expiry 10s";
    "token-expiry off" => "token-expiry": "off", "token-expiry off";
    "token-expiry auto" => "token-expiry": "auto", "token-expiry auto";
    "token-drop last" => "token-drop": "last", "token-drop last";
    "token-drop fair" => "token-drop": "fair", "token-drop fair";
    "order data-first" => "order": "data-first", "order data-first";
    "order tokens-first" => "order": "tokens-first", "order tokens-first";
    "unscheduled 1024" => "unscheduled": 1024, "unscheduled 1024";
    "unscheduled off" => "unscheduled": "off", "unscheduled off";
    "data-limit 1600" => "data-limit": 1600, "data-limit 1600b";
    "data-limit 64kb" => "data-limit": 65536, "data-limit 64kb";
    "data-limit 1gb" => "data-limit": 1_073_741_824, "data-limit 1gb";
    "signal-limit 1" => "signal-limit": 1, "signal-limit 1";
    "signal-limit 100000" => "signal-limit": 100_000, "signal-limit 100000";
    "signal-share 0.01%" => "signal-share": 0.0001, "signal-share 0.01%";
    "signal-share 100%" => "signal-share": 1, "signal-share 100%";
    "signal-share off" => "signal-share": "off", "signal-share off";
    "dscp EF=token0,10=signal" =>
        "dscp": {"10": "signal", "46": "token0"}, "dscp AF11=signal,EF=token0";
    "dscp none" => "dscp": {}, "dscp none";
    "dscp default" => "dscp": {"48": "signal", "56": "signal"}, "dscp CS6=signal,CS7=signal";
    "no-split-gso" => "split-gso": false, "no-split-gso";
    "split-gso" => "split-gso": true, " split-gso";
    "split-gso auto" => "split-gso": "auto", " split-gso auto";
    "gso-hold 0" => "gso-hold": 0, "gso-hold 0ns";
    "gso-hold 25us" => "gso-hold": 25_000, "gso-hold 25us";
    "gso-hold 1s" => "gso-hold": 1_000_000_000, "gso-hold 1s";
    "gso-hold auto" => "gso-hold": "auto", "gso-hold auto";
    "overhead 0" => "overhead": 0, "overhead 0";
    "overhead 256" => "overhead": 256, "overhead 256";
    "mpu 0" => "mpu": 0, "mpu 0";
    "mpu 256" => "mpu": 256, "mpu 256";
    "jitter 0" => "jitter": 0, "jitter 0ns";
    "jitter 7" => "jitter": 7000, "jitter 7us";
    "jitter 10ms" => "jitter": 10_000_000, "jitter 10ms";
    "phantom drain 95% mark 1kb" =>
        "phantom": {"drain": {"share": 0.95}, "mark": 1024}, "phantom drain 95% mark 1kb";
    "phantom mark 0 drain 1%" =>
        "phantom": {"drain": {"share": 0.01}, "mark": 0}, "phantom drain 1% mark 0b";
    "phantom drain 10mbit mark 1gb" =>
        "phantom": {"drain": {"rate": 1_250_000}, "mark": 1_073_741_824},
        "phantom drain 10mbit mark 1gb";
    "phantom drain 100% mark 6000" =>
        "phantom": {"drain": {"share": 1}, "mark": 6000}, "phantom drain 100% mark 6000b";
    "phantom off" => "phantom": "off", "phantom off";
    "ren period 1us" => "ren": {"period": 1000}, "ren period 1us";
    "ren period 1s" => "ren": {"period": 1_000_000_000}, "ren period 1s";
    "ren off" => "ren": "off", "ren off";
    "pfc data 0" =>
        "pfc": {"data": "0", "watchdog": 200_000_000, "xoff": "off"},
        "pfc data 0 watchdog 200ms xoff off";
    "pfc data 7 watchdog 1ms" =>
        "pfc": {"data": "7", "watchdog": 1_000_000, "xoff": "off"},
        "pfc data 7 watchdog 1ms xoff off";
    "pfc data 4,3 watchdog 200ms" =>
        "pfc": {"data": "3,4", "watchdog": 200_000_000, "xoff": "off"},
        "pfc data 3,4 watchdog 200ms xoff off";
    "pfc data pause watchdog 200ms" =>
        "pfc": {"data": "pause", "watchdog": 200_000_000, "xoff": "off"},
        "pfc data pause watchdog 200ms xoff off";
    "pfc off" => "pfc": "off", "pfc off";
    "tcd threshold 200kb" =>
        "tcd": {"threshold": 204_800, "max-on": "auto"}, "tcd threshold 200kb max-on auto";
    "tcd threshold 1 max-on 34us" =>
        "tcd": {"threshold": 1, "max-on": 34_000}, "tcd threshold 1b max-on 34us";
    "tcd threshold 1 max-on off" =>
        "tcd": {"threshold": 1, "max-on": "off"}, "tcd threshold 1b max-on off";
    "tcd off" => "tcd": "off", "tcd off";
};

/// Two hosts, and the device of the first.
fn pair() -> Result<Net> {
    Builder::pair().build()
}

const DEV: &str = "eth0";

/// A port's options as JSON.
fn shown(tool: Tool, ns: &Netns) -> Result<Value> {
    let port = tool.show_json(ns, DEV)?;
    port.get("options")
        .cloned()
        .with_context(|| format!("no options in {port}"))
}

/// That a setting is shown, in JSON and in words, and everything else is as in `before`.
fn check_shown(tool: Tool, ns: &Netns, setting: &Setting, before: &Value) -> Result<()> {
    let mut expected = before.clone();
    expected[setting.key] = (setting.json)();
    let now = shown(tool, ns)?;
    ensure!(
        now == expected,
        "{tool:?}: after `{}`: {now} instead of {expected}",
        setting.words
    );
    let text = tool.show(ns, DEV)?;
    ensure!(
        text.contains(setting.printed),
        "{tool:?}: after `{}`: no `{}` in {text}",
        setting.words,
        setting.printed
    );
    Ok(())
}

/// A new port with one option beside the defaults.
fn set_by_add_and_replace(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for tool in Tool::ALL {
        tool.port(ns, "add", DEV, "link 20mbit")?;
        let defaults = shown(tool, ns)?;
        for (setting, verb) in SETTINGS.iter().zip(["add", "replace"].iter().cycle()) {
            tool.delete(ns, DEV)?;
            let link = if setting.key == "link" {
                ""
            } else {
                "link 20mbit"
            };
            tool.port(ns, verb, DEV, &format!("{link} {}", setting.words))?;
            check_shown(tool, ns, setting, &defaults)?;
        }
        tool.delete(ns, DEV)?;
    }
    Ok(())
}

/// `change` sets what is given and leaves the rest, however it was.
fn set_by_change(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for tool in Tool::ALL {
        tool.port(
            ns,
            "add",
            DEV,
            "link 20mbit tokens 4% priorities 3 token-limit 9 token-expiry 3ms order data-first \
             unscheduled 2 data-limit 100000 signal-limit 50 signal-share 7% dscp EF=signal \
             no-split-gso gso-hold 40us overhead 20 mpu 80 jitter 20us",
        )?;
        for setting in SETTINGS {
            let before = shown(tool, ns)?;
            // A rate of tokens stands for a share of the link: it goes before the link may change.
            tool.port(ns, "change", DEV, setting.words)?;
            check_shown(tool, ns, setting, &before)?;
            if setting.key == "tokens" || setting.key == "link" {
                tool.port(ns, "change", DEV, "link 20mbit tokens 4%")?;
            }
        }
        tool.delete(ns, DEV)?;
    }
    Ok(())
}

/// What is not given has its documented default.
fn defaults(_: &mut Ctx) -> Result<()> {
    let expected = json!({
        "link": 1_250_000, "tokens": {"share": 0.051787916}, "priorities": 8,
        "token-limit": 8, "token-expiry": "auto", "token-drop": "fair",
        "order": "tokens-first", "unscheduled": 1, "data-limit": 1_514_000, "signal-limit": 1000,
        "signal-share": 0.05,
        "dscp": {"48": "signal", "56": "signal"}, "split-gso": "auto", "gso-hold": "auto",
        "overhead": 24, "mpu": 84, "jitter": 50_000,
        "phantom": "off", "ren": "off", "pfc": "off", "tcd": "off",
    });
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for tool in Tool::ALL {
        tool.port(ns, "add", DEV, "link 10mbit")?;
        let options = shown(tool, ns)?;
        ensure!(
            options == expected,
            "{tool:?}: {options} instead of {expected}"
        );
        tool.delete(ns, DEV)?;
        // Without options at all the port takes the speed that the device reports.
        tool.port(ns, "add", DEV, "")?;
        ensure!(
            shown(tool, ns)?["link"] == "auto",
            "{tool:?}: {}",
            shown(tool, ns)?
        );
        tool.delete(ns, DEV)?;
        // The data limit follows queue length and MTU.
        ns.ip(&format!("link set {DEV} txqueuelen 100 mtu 900"))?;
        tool.port(ns, "add", DEV, "link 10mbit")?;
        ensure!(
            shown(tool, ns)?["data-limit"] == 91_400,
            "{tool:?}: {}",
            shown(tool, ns)?
        );
        tool.delete(ns, DEV)?;
        ns.ip(&format!("link set {DEV} txqueuelen 1000 mtu 1500"))?;
    }
    Ok(())
}

/// Limits that jitter raises are shown as they are set, and beside them what is in force: by both
/// tools.
fn in_force(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    // At 10 Gbit/s an interval is 1297.6 ns: 39 are begun in 50 us. 103 tokens of 104 bytes take
    // 165 474.4 ns.
    for (words, limit, expiry, slack) in [
        ("", 103, 225_856, 60_381),
        ("token-limit 1 token-expiry 1us", 103, 225_856, 60_381),
        ("token-limit 104 token-expiry 1ms", 104, 1_000_000, 60_381),
        ("token-expiry off jitter 10us", 72, 0, 20_381),
        ("jitter 0", 8, 10_381, 10_381),
        ("token-limit 1 token-expiry 1us jitter 0", 1, 1000, 10_381),
    ] {
        for tool in Tool::ALL {
            tool.port(ns, "add", DEV, &format!("link 10gbit {words}"))?;
            for (line, key) in [
                ("tc -s -j qdisc show dev eth0 root", "stats"),
                ("turnstile -s -j port show eth0", "stats"),
                ("turnstile -d -j port show eth0", "in-force"),
            ] {
                let port = crate::cmd::json(&ns.run(line)?)?;
                // tc's own counters are beside the port's.
                let shown = [&port[0][key], &port[0]]
                    .into_iter()
                    .find(|shown| shown["token-slack"].is_number())
                    .with_context(|| format!("`{line}` shows no slack: {port}"))?;
                let is = [
                    &shown["token-limit"],
                    &shown["token-expiry"],
                    &shown["token-slack"],
                ];
                let wanted = [json!(limit), json!(expiry), json!(slack)];
                ensure!(
                    is.into_iter().eq(&wanted),
                    "`{words}`, `{line}`: {is:?} instead of {wanted:?}"
                );
            }
            let options = shown(tool, ns)?;
            for (word, value) in [("token-limit 1 ", 1), ("token-limit 104 ", 104)] {
                ensure!(
                    !words.starts_with(word) || options["token-limit"] == value,
                    "`{words}` is shown as {options}"
                );
            }
            tool.delete(ns, DEV)?;
        }
    }
    Ok(())
}

/// jq takes the JSON of ports and classes, with and without statistics.
fn json_through_jq(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    Tool::Tc.port(ns, "add", DEV, "link 20mbit dscp EF=token0 no-split-gso")?;
    for (line, filter) in [
        ("tc -j qdisc show dev eth0", ".[0].options.priorities == 8"),
        (
            "tc -s -j qdisc show dev eth0",
            ".[0].options.dscp[\"46\"] == \"token0\"",
        ),
        ("tc -s -j -p qdisc show dev eth0", ".[0].qlen == 0"),
        ("tc -j class show dev eth0", "length == 11"),
        (
            "tc -s -j class show dev eth0",
            "[.[].band] == [\"signal\",\"data\",\"unscheduled\",\
            \"token0\",\"token1\",\"token2\",\"token3\",\"token4\",\"token5\",\
             \"token6\",\"token7\"]",
        ),
        ("turnstile -j port show", "length == 1"),
        (
            "turnstile -j port show eth0",
            ".[0].options.priorities == 8",
        ),
        (
            "turnstile -s -j port show eth0",
            ".[0].classes | length == 11",
        ),
        (
            "turnstile -s -j -p port show eth0",
            ".[0].options[\"split-gso\"] == false",
        ),
    ] {
        let text = ns.run(line)?;
        // The filter is one word of the line: no blanks in it.
        let jq = format!("jq -e {}", filter.replace(' ', ""));
        let output: Output = ns.enter(|| crate::cmd::run_here(&jq, &text))?;
        let said = [&output.stdout, &output.stderr].map(|text| text.trim());
        ensure!(
            output.ok,
            "`{line}` | jq '{filter}': {}: {text}",
            said.join(" ")
        );
    }
    Ok(())
}

/// The options in what a tool shows: everything behind the port's place.
fn options_of(text: &str) -> Result<String> {
    let line = text
        .lines()
        .find(|line| line.contains("link "))
        .with_context(|| format!("no options in {text}"))?;
    let at = line.find("link ").context("no link")?;
    Ok(line[at..].trim_end().to_owned())
}

/// Random ports: what `show` prints makes the same port elsewhere, whichever tool prints and
/// whichever reads.
fn show_can_be_typed_back(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    for round in 0..24 {
        let mut words = vec!["link 20mbit".to_owned()];
        let mut keys = vec!["link"];
        // One setting of each option, about every second option.
        for _ in 0..12 {
            let setting = ctx.rng.pick(SETTINGS);
            if !keys.contains(&setting.key) {
                keys.push(setting.key);
                words.push(setting.words.to_owned());
            }
        }
        let printer = Tool::ALL[round % 2];
        let reader = Tool::ALL[round / 2 % 2];
        printer.port(here, "replace", DEV, &words.join(" "))?;
        let text = printer.show(here, DEV)?;
        reader.port(there, "add", DEV, &options_of(&text)?)?;
        let (first, second) = (shown(printer, here)?, shown(printer, there)?);
        ensure!(
            first == second,
            "`{}`: {first} became {second}",
            words.join(" ")
        );
        ensure!(
            options_of(&text)? == options_of(&printer.show(there, DEV)?)?,
            "`{text}` prints otherwise elsewhere"
        );
        reader.delete(there, DEV)?;
        printer.delete(here, DEV)?;
    }
    Ok(())
}

/// Both tools show the same port alike.
fn both_tools_agree(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for words in [
        "link 20mbit",
        "link 1.5gbit tokens 3mbit dscp EF=token0 unscheduled off \
         token-expiry 1500ns data-limit 99999",
    ] {
        Tool::Tc.port(ns, "replace", DEV, words)?;
        let (tc, ours) = (shown(Tool::Tc, ns)?, shown(Tool::Turnstile, ns)?);
        ensure!(tc == ours, "tc shows {tc}, turnstile {ours}");
        let (tc, ours) = (
            options_of(&Tool::Tc.show(ns, DEV)?)?,
            options_of(&Tool::Turnstile.show(ns, DEV)?)?,
        );
        ensure!(tc == ours, "tc shows `{tc}`, turnstile `{ours}`");
    }
    Ok(())
}

/// `add` where a port is, is refused; `replace` changes it; `change` where none is, is refused;
/// `del` removes it.
fn verbs(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for tool in Tool::ALL {
        let attempt = |verb, words| tool.try_port(ns, verb, DEV, "root handle 1:", words);
        attempt("change", "link 20mbit")?
            .failure()
            .context("change without a port")?;
        attempt("add", "link 20mbit")?.success()?;
        attempt("add", "link 30mbit")?
            .failure()
            .context("add where a port is")?;
        ensure!(
            shown(tool, ns)?["link"] == 2_500_000,
            "a refused add changed the port"
        );
        attempt("replace", "priorities 2")?.success()?;
        let now = shown(tool, ns)?;
        ensure!(
            now["priorities"] == 2 && now["link"] == 2_500_000,
            "replace did not change the port: {now}"
        );
        tool.delete(ns, DEV)?;
        ensure!(tool.show_json(ns, DEV).is_err(), "the port is still there");
        attempt("replace", "link 20mbit")?.success()?;
        tool.delete(ns, DEV)?;
    }
    Ok(())
}
