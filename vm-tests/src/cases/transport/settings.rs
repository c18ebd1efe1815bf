// SPDX-License-Identifier: GPL-2.0
//! `turnstile transport`: what is set is shown, can be typed back, and holds for one namespace.

use serde_json::Value;
use turnstile_core::options::Form;
use turnstile_core::transport::config::OPTIONS;

use anyhow::{ensure, Context, Result};

use super::sealed::psk;
use crate::cmd::json;
use crate::harness::Ctx;
use crate::netns::Netns;

/// The words that `transport show` prints, less the first.
fn shown(ns: &Netns) -> Result<String> {
    let line = ns.run("turnstile transport show")?;
    let words = line
        .strip_prefix("transport ")
        .context("no line of words")?;
    Ok(words.trim_end().to_owned())
}

fn as_json(ns: &Netns) -> Result<Value> {
    json(&ns.run("turnstile -j transport show")?)
}

/// Every option, one at a time, and all at once.
pub(super) fn there_and_back(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("one")?;
    let other = Netns::create("other")?;
    let defaults = shown(&ns)?;
    ensure!(shown(&other)? == defaults, "two new namespaces differ");
    for option in OPTIONS {
        if option.name == "key" {
            ns.run("turnstile transport set security off")?;
        }
        ensure!(
            defaults.split(' ').any(|word| word == option.name),
            "{} is not in {defaults}",
            option.name
        );
        let words: Vec<&str> = match option.form {
            Form::Choice(words) => words.to_vec(),
            form => form.words().iter().map(|(word, _)| *word).collect(),
        };
        for word in words {
            let pair = format!("{} {word}", option.name);
            // Which is named by its number, and taken away with the word.
            let key = match word {
                "psk" => format!(" key {}", psk("settings", 1)?),
                _ => String::new(),
            };
            ns.run(&format!("turnstile transport set {pair}{key}"))?;
            let now = shown(&ns)?;
            ensure!(
                format!(" {now} ").contains(&format!(" {pair} ")),
                "{pair} is not in {now}"
            );
        }
    }
    let mixed = "policy ren link 25gbit token-share 4.5% base-rtt 30us timeout 3s rto 500us \
                 send-buffer 1mb dscp-data AF11";
    ns.run(&format!("turnstile transport set {mixed}"))?;
    let now = shown(&ns)?;
    ns.run(&format!("turnstile transport set {defaults}"))?;
    ensure!(
        shown(&ns)? == defaults,
        "not back at the defaults: {}",
        shown(&ns)?
    );
    ns.run(&format!("turnstile transport set {now}"))?;
    ensure!(shown(&ns)? == now, "not typed back: {}", shown(&ns)?);
    let value = as_json(&ns)?;
    ensure!(
        value["policy"] == "ren"
            && value["link"] == 3_125_000_000_u64
            && value["token-share"] == 0.045,
        "{value}"
    );
    ensure!(value["link-in-force"] == 3_125_000_000_u64, "{value}");
    ensure!(shown(&other)? == defaults, "another namespace changed");
    // Leaving a policy forgets what is only for it, and not what others have.
    let words = "policy dcqcn tcd on dcqcn-timer 300us minimum-rate 5mbit cnp-interval 30us";
    ns.run(&format!("turnstile transport set {words}"))?;
    let tuned = shown(&ns)?;
    for pair in [
        "policy dcqcn",
        "tcd on",
        "dcqcn-timer 300us",
        "minimum-rate 5mbit",
    ] {
        ensure!(tuned.contains(pair), "{pair} is not in {tuned}");
    }
    ns.run("turnstile transport set policy timely")?;
    let words = shown(&ns)?;
    for pair in [
        "tcd on",
        "minimum-rate 5mbit",
        "dcqcn-timer 55us",
        "cnp-interval 30us",
    ] {
        ensure!(words.contains(pair), "{pair} is not in {words}");
    }
    ns.run("turnstile transport set policy top")?;
    let words = shown(&ns)?;
    for pair in ["tcd off", "minimum-rate 10mbit", "cnp-interval 30us"] {
        ensure!(words.contains(pair), "{pair} is not in {words}");
    }
    ns.run(&format!("turnstile transport set {tuned}"))?;
    ensure!(shown(&ns)? == tuned, "not typed back: {}", shown(&ns)?);
    ns.run(&format!("turnstile transport set {now}"))?;
    let from_outside = other.run("turnstile --netns one transport show")?;
    ensure!(
        from_outside.trim_end() == format!("transport {now}"),
        "{from_outside}"
    );
    Ok(())
}

/// What is refused changes nothing, and is told in words, by the command or by the kernel.
pub(super) fn refused(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("one")?;
    let before = shown(&ns)?;
    for (words, says) in [
        (
            "policy tcp",
            "policy: \"tcp\" is none of expresspass|top|ren|dcqcn|timely",
        ),
        ("timely-beta 900", "timely-beta: only with policy timely"),
        (
            "policy timely dcqcn-timer 300us",
            "dcqcn-timer: only with policy dcqcn",
        ),
        ("tcd on", "tcd: only with policy dcqcn or timely"),
        (
            "policy timely timely-low 600us",
            "timely-low: 600us is above timely-high, 500us",
        ),
        (
            "policy dcqcn dcqcn-g 101%",
            "dcqcn-g: \"101%\" is not in 0.0000001%..100%",
        ),
        (
            "policy dcqcn minimum-rate 100bit",
            "minimum-rate: \"100bit\" is not in 1kbit..800gbit",
        ),
        (
            "token-share 60%",
            "token-share: \"60%\" is not in 0.01%..50%",
        ),
        ("rto 5s", "rto: \"5s\" is not in 200us..1s"),
        ("priorities 6 speed 1gbit", "unknown word \"speed\""),
        ("policie top", "did you mean \"policy\"?"),
        ("target-loss 5", "did you mean 5%?"),
        ("dscp-token EE", "CS0..CS7, AF11..AF43, EF, LE"),
        ("timeout 200ms rto 1s", "rto: 1s is above timeout, 200ms"),
        (
            "jitter 5% weight-min 60%",
            "weight-initial: 6.25% is below weight-min, 60%",
        ),
    ] {
        let line = format!("turnstile transport set {words}");
        let said = ns.try_run(&line)?.failure()?;
        ensure!(said.contains(says), "{line}: {said}");
        ensure!(shown(&ns)? == before, "{line} changed something");
    }
    Ok(())
}
