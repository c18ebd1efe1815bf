// SPDX-License-Identifier: GPL-2.0
//! Options through both tools: set, changed, shown, typed back; and refused.

use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use turnstile_core::pacer::uapi::{option, KIND};

use super::bench::{line, Bench, DEV, PACER};
use crate::cases::support::Verdicts;
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::raw_netlink::{attribute, attribute_u32, attribute_u64, Request, ROOT};
use crate::tool::Tool;

/// Words, and what both tools show of them.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("interval 7200ns", "interval", "7200"),
    ("interval 1s", "interval", "1000000000"),
    ("eta 0.1%", "eta", "0.001"),
    ("eta 100%", "eta", "1"),
    ("beta 375", "beta", "375"),
    ("beta 1000000", "beta", "1000000"),
    ("associate 0%", "associate", "0"),
    ("associate 33.3333333%", "associate", "0.333333333"),
    ("idle 10us", "idle", "10000"),
    ("idle 60s", "idle", "60000000000"),
    ("flows 1", "flows", "1"),
    ("flows 4096", "flows", "4096"),
    ("bucket 64", "bucket", "64"),
    ("bucket 1mb", "bucket", "1048576"),
    ("limit 1600", "limit", "1600"),
    ("limit 1gb", "limit", "1073741824"),
    ("pass-limit 100000", "pass-limit", "100000"),
    ("initial-rate 1kbit", "initial-rate", "125"),
    ("initial-rate 800gbit", "initial-rate", "100000000000"),
    ("initial-rate auto", "initial-rate", "\"auto\""),
    ("no-split-gso", "split-gso", "false"),
    ("split-gso", "split-gso", "true"),
    ("overhead 0", "overhead", "0"),
    ("mpu 256", "mpu", "256"),
];

fn show(tool: Tool, flags: &str) -> String {
    match tool {
        Tool::Tc => format!("tc {flags} qdisc show dev {DEV}"),
        Tool::Turnstile => format!("turnstile {flags} pacer show {DEV}"),
    }
}

fn shown(tool: Tool, ns: &Netns) -> Result<Value> {
    let all = crate::cmd::json(&ns.run(&show(tool, "-j"))?)?;
    let mut list = all.as_array().into_iter().flatten();
    let pacer = list.find(|qdisc| qdisc["kind"] == KIND);
    Ok(pacer.with_context(|| format!("no pacer in {all}"))?["options"].clone())
}

/// The options in what a tool shows as text.
fn words_of(text: &str) -> Result<String> {
    let at = text.find("interval ").context("no options")?;
    let line = text[at..].lines().next().unwrap_or_default();
    Ok(line.trim_end().to_owned())
}

pub(super) fn every_option(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    let ns = &bench.net.hosts[0].ns;
    let defaults = json!({
        "interval": 64_000, "eta": 0.125, "beta": 16, "associate": 0.125,
        "idle": 10_000_000, "flows": 64, "bucket": 3072,
        "limit": 131_072, "pass-limit": 1_514_000, "initial-rate": "auto",
        "split-gso": true, "overhead": 24, "mpu": 84,
    });
    let mut verdicts = Verdicts::default();
    for (at, (words, key, value)) in SETTINGS.iter().enumerate() {
        let (setter, shower) = (Tool::ALL[at % 2], Tool::ALL[at / 2 % 2]);
        let verdict = || -> Result<()> {
            let expected: Value = serde_json::from_str(value)?;
            // With an add, and with a change.
            bench.pacer(setter, "add", words)?;
            let options = shown(shower, ns)?;
            let mut all = defaults.clone();
            all[*key] = expected;
            ensure!(options == all, "added: {options}, not {all}");
            ns.tc(&format!("qdisc del dev {DEV} root"))?;
            bench.pacer(setter, "add", "")?;
            ensure!(shown(shower, ns)? == defaults, "not the defaults");
            bench.pacer(setter, "change", words)?;
            let options = shown(shower, ns)?;
            ensure!(options == all, "changed: {options}, not {all}");
            // What is shown can be typed back, by the other tool.
            let text = words_of(&ns.run(&show(shower, ""))?)?;
            ns.tc(&format!("qdisc del dev {DEV} root"))?;
            bench.pacer(shower, "replace", &text)?;
            ensure!(shown(setter, ns)? == all, "typed back `{text}`");
            ns.tc(&format!("qdisc del dev {DEV} root"))?;
            Ok(())
        };
        verdicts.row(words, verdict());
        let _ = ns.try_run(&format!("tc qdisc del dev {DEV} root"))?;
    }
    verdicts.finish()?;
    // Statistics of both tools: the same keys, and numbers.
    bench.pacer(Tool::Tc, "add", "interval 1s eta 0.1%")?;
    let stats = |tool: Tool| -> Result<Value> {
        let all = crate::cmd::json(&ns.run(&show(tool, "-s -j"))?)?;
        Ok(all[0]["stats"].clone())
    };
    let (tc, ours) = (stats(Tool::Tc)?, stats(Tool::Turnstile)?);
    let keys = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .map_or(Vec::new(), |object| object.keys().cloned().collect())
    };
    ensure!(
        keys(&tc) == keys(&ours) && keys(&tc).len() == 26,
        "tc shows {tc}, turnstile {ours}"
    );
    ensure!(tc["rate"].as_u64() > Some(0), "{tc}");
    let text = ns.run(&show(Tool::Tc, "-s"))?;
    ensure!(text.contains("\n  rate "), "{text}");
    // Another qdisc is neither changed nor deleted as if it were a pacer.
    ns.tc(&format!("qdisc replace dev {DEV} root handle 5: pfifo"))?;
    for verb in ["change", "del", "add"] {
        let output = ns
            .try_run(&format!("turnstile pacer {verb} {DEV}"))?
            .failure()?;
        ensure!(output.contains("pacer"), "{verb}: {output}");
    }
    ensure!(
        bench.tc.get(0x5_0000)?.kind == "pfifo",
        "the other qdisc is gone"
    );
    Ok(())
}

/// Words and attributes that are refused, with the option, the value and what is allowed; the pacer
/// stays as it was.
pub(super) fn refused(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("beta 17")?;
    let before = bench.tc.get(PACER)?.options;
    let mut verdicts = Verdicts::default();
    for (words, error) in [
        ("interval 999ns", "interval: \"999ns\" is not in 1us..1s"),
        ("eta 0%", "eta: \"0%\" is not in 0.1%..100%"),
        ("beta 0", "beta: \"0\" is not in 1..1000000"),
        ("associate 101%", "associate: \"101%\" is not in 0%..100%"),
        ("idle 61s", "idle: \"61s\" is not in 10us..60s"),
        ("flows 0", "flows: \"0\" is not in 1..4096 flows"),
        ("bucket 2mb", "bucket: \"2mb\" is not in 64b..1mb"),
        ("limit 10", "limit: \"10\" is not in 1600b..1gb"),
        ("pass-limit 10", "pass-limit: \"10\" is not in 1600b..1gb"),
        (
            "initial-rate 1tbit",
            "initial-rate: \"1tbit\" is not in 1kbit..800gbit or auto",
        ),
        ("overhead 257", "overhead: \"257\" is not in 0b..256b"),
        ("mpu 257", "mpu: \"257\" is not in 0b..256b"),
        ("beta", "beta: needs a value: N"),
        (
            "gamma 1",
            "unknown word \"gamma\": the options are interval, eta, ",
        ),
        ("intervall 5us", "did you mean \"interval\"?"),
        ("eta 5", "did you mean 5%?"),
        ("eta 5% eta 6%", "eta: given twice"),
    ] {
        for tool in Tool::ALL {
            let verdict = || -> Result<()> {
                let output = bench.net.hosts[0]
                    .ns
                    .try_run(&line(tool, "change", "root handle 1:", words))?
                    .failure()?;
                ensure!(output.contains(error), "{output}");
                Ok(())
            };
            verdicts.row(&format!("{tool:?} {words}"), verdict());
        }
    }
    let u32_of = |number, value: u32| attribute_u32(number, value);
    for (attributes, error) in [
        (
            attribute_u64(option::INTERVAL, 999),
            "interval: 999ns is not in 1us..1s",
        ),
        (
            u32_of(option::ETA, 999_999),
            "eta: 0.0999999% is not in 0.1%..100%",
        ),
        (
            u32_of(option::ETA, 1_000_000_001),
            "eta: 100.0000001% is not in 0.1%..100%",
        ),
        (u32_of(option::BETA, 0), "beta: 0 is not in 1..1000000"),
        (
            u32_of(option::ASSOCIATE, u32::MAX),
            "associate: 429.4967295% is not in 0%..100%",
        ),
        (
            attribute_u64(option::IDLE, u64::MAX),
            "idle: 18446744073709551615ns is not in 10us..60s",
        ),
        (
            u32_of(option::FLOWS, 4097),
            "flows: 4097 is not in 1..4096 flows",
        ),
        (
            u32_of(option::FLOWS, u32::MAX),
            "flows: 4294967295 is not in 1..4096 flows",
        ),
        (u32_of(option::BUCKET, 63), "bucket: 63b is not in 64b..1mb"),
        (
            u32_of(option::LIMIT, u32::MAX),
            "limit: 4294967295b is not in 1600b..1gb",
        ),
        (
            u32_of(option::PASS_LIMIT, 0),
            "pass-limit: 0b is not in 1600b..1gb",
        ),
        (
            attribute_u64(option::INITIAL_RATE64, 124),
            "initial-rate: 992bit is not in 1kbit..800gbit or auto",
        ),
        (u32_of(option::SPLIT_GSO, 2), "split-gso: 2 is not in 0..1"),
        (
            u32_of(option::OVERHEAD, 257),
            "overhead: 257b is not in 0b..256b",
        ),
        (u32_of(option::MPU, 257), "mpu: 257b is not in 0b..256b"),
        (u32_of(option::MAX + 1, 1), "unknown attribute 15"),
        (u32_of(option::INTERVAL, 1), "interval: 4 bytes, not 8"),
        (attribute_u64(option::BETA, 1), "beta: 8 bytes, not 4"),
        (attribute(option::MPU, &[]), "mpu: 0 bytes, not 4"),
        (
            [u32_of(option::BETA, 5), u32_of(option::BETA, 6)].concat(),
            "beta: given twice",
        ),
        // What comes before the fault has no effect.
        (
            [u32_of(option::BETA, 5), u32_of(option::MPU, 999)].concat(),
            "mpu: 999b is not in 0b..256b",
        ),
    ] {
        let verdict = || -> Result<()> {
            let answer = bench
                .tc
                .qdisc(Request::ChangeQdisc, ROOT, PACER, KIND, &attributes)?;
            ensure!(
                answer.errno == libc::EINVAL && answer.text == format!("{KIND}: {error}"),
                "errno {}: {}",
                answer.errno,
                answer.text
            );
            Ok(())
        };
        let mut verdict = verdict;
        verdicts.row(error, verdict());
    }
    verdicts.finish()?;
    ensure!(
        bench.tc.get(PACER)?.options == before,
        "a refused change changed the pacer"
    );
    Ok(())
}
