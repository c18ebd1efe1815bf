// SPDX-License-Identifier: GPL-2.0
//! What a person may type wrongly, to `tc` and to `turnstile`.

use anyhow::{ensure, Context, Result};

use super::{check_words, Bench, Verdicts};
use crate::harness::Ctx;
use crate::tool::Tool;

/// Words after `turnstile`, and what the refusal must say: the option, the value, what is allowed.
const REFUSED: &[(&str, &[&str])] = &[
    ("link 10", &["link", "\"10\"", "1kbit..800gbit"]),
    ("link 999bit", &["link", "999bit", "1kbit..800gbit"]),
    ("link 801gbit", &["link", "801gbit", "1kbit..800gbit"]),
    ("link -1gbit", &["link", "-1gbit", "kbit"]),
    ("link fast", &["link", "fast", "kbit", "auto"]),
    ("link 10ms", &["link", "10ms", "kbit"]),
    ("link 5%", &["link", "5%", "kbit"]),
    ("link", &["link", "value", "RATE"]),
    ("tokens 0.009%", &["tokens", "0.009%", "0.01%..50%"]),
    (
        "tokens 50.0000001%",
        &["tokens", "50.0000001%", "0.01%..50%"],
    ),
    ("tokens 0%", &["tokens", "0%", "0.01%..50%"]),
    ("tokens 200%", &["tokens", "200%", "0.01%..50%"]),
    ("tokens x%", &["tokens", "x%", "percentage"]),
    ("tokens 5ms", &["tokens", "5ms", "percentage", "kbit"]),
    ("tokens 0bit", &["tokens", "\"0bit\"", "byte per second"]),
    ("tokens 5", &["tokens", "\"5\"", "did you mean 5%?"]),
    ("tokns 5%", &["\"tokns\"", "did you mean \"tokens\"?"]),
    // Of the 10 Gbit/s that a veth reports; only the kernel knows that.
    ("tokens 999kbit", &["tokens", "999kbit", "1mbit..5gbit"]),
    ("tokens 5001mbit", &["tokens", "5001mbit", "1mbit..5gbit"]),
    (
        "link 1gbit tokens 501mbit",
        &["tokens", "501mbit", "100kbit..500mbit"],
    ),
    ("tokens 5% tokens 1gbit", &["tokens", "twice"]),
    ("tokens", &["tokens", "value", "PERCENT|RATE"]),
    ("priorities 0", &["priorities", "\"0\"", "1..8"]),
    ("priorities 9", &["priorities", "\"9\"", "1..8"]),
    ("priorities -1", &["priorities", "-1", "1..8"]),
    (
        "priorities 4294967297",
        &["priorities", "4294967297", "1..8"],
    ),
    ("priorities 1.5", &["priorities", "1.5", "whole number"]),
    ("priorities many", &["priorities", "many", "whole number"]),
    ("priorities 4kbit", &["priorities", "4kbit", "whole number"]),
    ("priorities", &["priorities", "value"]),
    ("priorities 4 priorities 4", &["priorities", "twice"]),
    (
        "token-limit 0",
        &["token-limit", "\"0\"", "1..1024 packets"],
    ),
    (
        "token-limit 1025",
        &["token-limit", "1025", "1..1024 packets"],
    ),
    ("token-limit 8ms", &["token-limit", "8ms", "whole number"]),
    ("token-limit", &["token-limit", "value"]),
    (
        "token-expiry 0",
        &["token-expiry", "\"0\"", "1ns..10s", "off"],
    ),
    (
        "token-expiry 10000000001ns",
        &["token-expiry", "10000000001ns", "1ns..10s"],
    ),
    ("token-expiry 11s", &["token-expiry", "11s", "1ns..10s"]),
    ("token-expiry -1us", &["token-expiry", "-1us", "ns"]),
    (
        "token-expiry 10kbit",
        &["token-expiry", "10kbit", "a time", "auto", "off"],
    ),
    (
        "token-expiry never",
        &["token-expiry", "never", "a time", "auto", "off"],
    ),
    ("token-expiry", &["token-expiry", "value"]),
    (
        "order both",
        &["order", "both", "tokens-first", "data-first"],
    ),
    ("order", &["order", "value"]),
    ("token-drop first", &["token-drop", "first", "fair", "last"]),
    ("token-drop", &["token-drop", "value"]),
    ("order data-first order data-first", &["order", "twice"]),
    (
        "unscheduled 0",
        &["unscheduled", "\"0\"", "1..1024 packets", "off"],
    ),
    (
        "unscheduled 1025",
        &["unscheduled", "1025", "1..1024 packets"],
    ),
    (
        "unscheduled none",
        &["unscheduled", "none", "whole number", "off"],
    ),
    ("unscheduled", &["unscheduled", "value"]),
    ("data-limit 1599", &["data-limit", "1599", "1600b..1gb"]),
    (
        "data-limit 1073741825",
        &["data-limit", "1073741825", "1600b..1gb"],
    ),
    ("data-limit 2gb", &["data-limit", "2gb", "1600b..1gb"]),
    ("data-limit 10ms", &["data-limit", "10ms", "a size"]),
    ("data-limit", &["data-limit", "value"]),
    (
        "signal-limit 0",
        &["signal-limit", "\"0\"", "1..100000 packets"],
    ),
    (
        "signal-limit 100001",
        &["signal-limit", "100001", "1..100000 packets"],
    ),
    ("signal-limit all", &["signal-limit", "all", "whole number"]),
    ("signal-limit", &["signal-limit", "value"]),
    (
        "signal-share 0.001%",
        &["signal-share", "0.001%", "0.01%..100%"],
    ),
    (
        "signal-share 101%",
        &["signal-share", "101%", "0.01%..100%"],
    ),
    ("signal-share 5", &["signal-share", "did you mean 5%?"]),
    ("signal-share", &["signal-share", "value"]),
    ("dscp CS9=data", &["dscp", "CS9", "0..63"]),
    ("dscp 64=data", &["dscp", "64", "0..63"]),
    ("dscp -1=data", &["dscp", "-1", "0..63"]),
    ("dscp EF=gold", &["dscp", "gold", "token7"]),
    ("dscp EF=token8", &["dscp", "token8", "token7"]),
    ("dscp EF", &["dscp", "EF", "="]),
    ("dscp EF=data,EF=signal", &["dscp", "EF", "twice"]),
    ("dscp EF=data,", &["dscp"]),
    ("dscp", &["dscp", "value"]),
    // Six priorities are the default.
    (
        "priorities 6 dscp EF=token6",
        &["dscp", "EF", "token6", "6 priorities"],
    ),
    (
        "dscp EF=token2 priorities 1",
        &["dscp", "EF", "token2", "1 priority"],
    ),
    (
        "unscheduled off dscp 1=unscheduled",
        &["dscp", "LE ", "unscheduled", "off"],
    ),
    ("split-gso no-split-gso", &["split-gso", "twice"]),
    ("split-gso on", &["unknown", "\"on\"", "split-gso"]),
    ("no-split-gso auto", &["unknown", "\"auto\"", "split-gso"]),
    ("split-gso auto auto", &["unknown", "\"auto\"", "split-gso"]),
    ("gso-hold", &["gso-hold", "value"]),
    ("gso-hold off", &["gso-hold", "off", "time", "auto"]),
    ("gso-hold 2s", &["gso-hold", "2s", "0ns..1s or auto"]),
    ("overhead 257", &["overhead", "257", "0b..256b"]),
    ("overhead -1", &["overhead", "-1", "size"]),
    ("overhead 1ms", &["overhead", "1ms", "size"]),
    ("overhead", &["overhead", "value"]),
    ("mpu 257", &["mpu", "257", "0b..256b"]),
    ("mpu 1k", &["mpu", "1k", "0b..256b"]),
    ("mpu", &["mpu", "value"]),
    ("jitter 10001us", &["jitter", "10001us", "0ns..10ms"]),
    ("jitter 10kbit", &["jitter", "10kbit", "a time"]),
    ("jitter", &["jitter", "value"]),
    ("phantom", &["phantom", "value", "drain", "mark", "off"]),
    ("phantom on", &["phantom", "\"on\"", "drain", "mark", "off"]),
    (
        "phantom drain 95%",
        &["phantom drain", "needs phantom mark"],
    ),
    ("phantom mark 1kb", &["phantom mark", "needs phantom drain"]),
    ("phantom drain 0.9% mark 0", &["drain", "0.9%", "1%..100%"]),
    ("phantom drain 101% mark 0", &["drain", "101%", "1%..100%"]),
    (
        "phantom drain much mark 0",
        &["drain", "much", "percentage", "kbit"],
    ),
    // Of the 10 Gbit/s that a veth reports.
    (
        "phantom drain 99mbit mark 0",
        &["phantom drain", "99mbit", "100mbit..10gbit"],
    ),
    (
        "phantom drain 10001mbit mark 0",
        &["phantom drain", "10001mbit", "100mbit..10gbit"],
    ),
    (
        "phantom drain 95% mark 1073741825",
        &["mark", "1073741825", "0b..1gb"],
    ),
    ("phantom drain 95% mark 5ms", &["mark", "5ms", "a size"]),
    ("phantom drain 95% mark", &["mark", "value"]),
    ("phantom drain 95% drain 95%", &["drain", "twice"]),
    ("phantom off phantom off", &["phantom", "twice"]),
    ("phantom off mark 1kb", &["unknown", "\"mark\""]),
    ("drain 95%", &["unknown", "\"drain\"", "phantom"]),
    ("ren", &["ren", "value", "period TIME"]),
    ("ren on", &["ren", "\"on\"", "period", "off"]),
    ("ren 48us", &["ren", "48us", "period"]),
    ("ren period", &["ren", "period", "value"]),
    ("ren period 999ns", &["period", "999ns", "1us..1s"]),
    ("ren period 1001ms", &["period", "1001ms", "1us..1s"]),
    ("ren period 10kbit", &["period", "10kbit", "a time"]),
    ("ren off ren off", &["ren", "twice"]),
    ("period 48us", &["unknown", "\"period\"", "ren"]),
    ("colour red", &["unknown", "colour", "link", "mpu"]),
    ("LINK 1gbit", &["unknown", "LINK", "link"]),
    ("priorities 4 colour", &["unknown", "colour"]),
];

/// The nearest allowed values, for each option.
const ACCEPTED: &[&str] = &[
    "link 1kbit",
    "link 800gbit",
    "link auto",
    "tokens 0.01%",
    "tokens 50%",
    "tokens 1mbit",
    "tokens 5gbit",
    "link 1gbit tokens 500mbit",
    "link auto tokens 5%",
    "priorities 1",
    "priorities 8",
    "token-limit 1",
    "token-limit 1024",
    "token-expiry 1ns",
    "token-expiry 10s",
    "token-expiry auto",
    "token-expiry off",
    "order data-first",
    "order tokens-first",
    "unscheduled off",
    "unscheduled 1024",
    "unscheduled 1",
    "data-limit 1600",
    "data-limit 1gb",
    "signal-limit 1",
    "signal-limit 100000",
    "signal-share 0.01%",
    "signal-share 100%",
    "signal-share off",
    "priorities 8 dscp EF=token7,63=unscheduled,0=signal",
    "dscp none priorities 1",
    "dscp default",
    "no-split-gso",
    "split-gso",
    "split-gso auto",
    "gso-hold 0",
    "gso-hold 1s",
    "gso-hold auto",
    "overhead 0",
    "overhead 256",
    "mpu 0",
    "mpu 256",
    "jitter 0",
    "jitter 10ms",
    "phantom drain 1% mark 0",
    "phantom drain 100% mark 1gb",
    "phantom drain 100mbit mark 1500",
    "phantom drain 10gbit mark 1500",
    "link 1gbit phantom drain 950mbit mark 1kb",
    "phantom off link auto",
    "ren period 1us",
    "ren period 1s",
    "ren off",
];

/// What is refused on a device that reports no speed.
const SPEEDLESS: &[(&str, &[&str])] = &[
    ("tokens 60%", &["tokens", "60%", "0.01%..50%"]),
    ("tokens 20tbit", &["tokens", "0.01%..50%", "link"]),
    (
        "phantom drain 40tbit mark 1kb",
        &["phantom drain", "1%..100%", "link"],
    ),
    (
        "link 1gbit tokens 600mbit",
        &["tokens", "600mbit", "100kbit..500mbit"],
    ),
];

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("")?;
    let mut verdicts = Verdicts::default();
    for tool in Tool::ALL {
        for (words, says) in REFUSED {
            let verdict = refused(&mut bench, tool, words, says);
            verdicts.row(&format!("{tool:?}: {words}"), verdict);
        }
        let before = bench.state()?;
        tool.port(bench.ns(), "change", "eth0", "priorities 7")?;
        ensure!(
            bench.state()? != before,
            "{tool:?}: an accepted change does not show in the dump: the table proves nothing"
        );
        tool.port(bench.ns(), "change", "eth0", "priorities 8")?;
        for words in ACCEPTED {
            let verdict = accepted(&bench, tool, words);
            verdicts.row(&format!("{tool:?}: {words}"), verdict);
        }
        // As at the start, for the other tool.
        let ns = bench.ns();
        ns.tc("qdisc del dev eth0 root")?;
        tool.port(ns, "add", "eth0", "")?;
        for kind in ["dummy", "ifb"] {
            verdicts.row(
                &format!("{tool:?}: {kind} without link"),
                speedless(&bench, tool, kind),
            );
        }
    }
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

fn refused(bench: &mut Bench, tool: Tool, words: &str, says: &[&str]) -> Result<()> {
    let before = bench.state()?;
    let place = "root handle 1:";
    let said = tool
        .try_port(bench.ns(), "change", "eth0", place, words)?
        .failure()?;
    check_words(&said, says)?;
    ensure!(bench.state()? == before, "the refused change left a trace");
    let said = tool
        .try_port(bench.ns(), "add", "spare", place, words)?
        .failure()?;
    check_words(&said, says).context("add")?;
    bench.spare_is_bare()
}

fn accepted(bench: &Bench, tool: Tool, words: &str) -> Result<()> {
    let ns = bench.ns();
    tool.port(ns, "change", "eth0", words)?;
    tool.port(ns, "add", "spare", words)?;
    ns.tc("qdisc del dev spare root").map(drop)
}

/// Without a speed a rate is refused only if no link has it as a share; the rest as ever.
fn speedless(bench: &Bench, tool: Tool, kind: &str) -> Result<()> {
    let ns = bench.ns();
    let dev = format!("{kind}9");
    ns.ip(&format!("link add {dev} type {kind}"))?;
    for (words, says) in SPEEDLESS {
        let said = tool
            .try_port(ns, "add", &dev, "root handle 1:", words)?
            .failure()?;
        check_words(&said, says)?;
        ensure!(
            !ns.tc(&format!("qdisc show dev {dev}"))?
                .contains("turnstile"),
            "the refused add left a port behind"
        );
    }
    tool.port(ns, "add", &dev, "priorities 4")?;
    tool.port(ns, "change", &dev, "link 1gbit")?;
    tool.port(ns, "change", &dev, "link auto")?;
    let before = ns.tc(&format!("qdisc show dev {dev}"))?;
    for (words, says) in SPEEDLESS {
        let said = tool
            .try_port(ns, "change", &dev, "root handle 1:", words)?
            .failure()?;
        check_words(&said, says)?;
        ensure!(
            ns.tc(&format!("qdisc show dev {dev}"))? == before,
            "the refused change left a trace"
        );
    }
    ns.ip(&format!("link del {dev}")).map(drop)
}
