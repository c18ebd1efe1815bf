// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask bench`: has a guest count the instructions that qdiscs spend on a packet, and holds
//! Turnstile's against those of the stock ones.
//!
//! QEMU counts: each instruction of the guest is a nanosecond of its clock. So the figures do not
//! depend on the machine or on what else runs there, and a second boot must give the same.
//! `knet/bench/README.md` says what is measured, and how.

mod before;
#[cfg(test)]
mod example;
mod gates;
mod groups;
mod picture;
mod profile;
mod table;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use crate::bed::Bed;
use crate::env::Env;
use crate::follow;
use crate::guest::{Guest, Limits, Machine};
use crate::modules;
use crate::qemu::Accelerator;
use crate::report::Report;
use crate::session::{Built, Session};
use gates::Gate;
use turnstile_test_protocol::bench::{Boot, Messages, QUICK};
use turnstile_test_protocol::run::{Mode, RunConfig};

/// The longest a boot with all measurements may take. It says nothing for most of that, and takes
/// ten times as long where it has a tenth of a processor.
const LIMITS: Limits = Limits {
    overall: Duration::from_secs(20 * 60),
    silence: Duration::from_secs(10 * 60),
};
/// What the guest sends.
const FIGURES: &str = "figures.json";
/// The filter of a run that measures all loads: as long as the other one, so that images are alike
/// and what boots from them lies at the same addresses.
const WHOLE: &str = "whole";
/// What is left in the folder `out`.
const OUTPUTS: [&str; 3] = ["bench.txt", "bench.svg", "bench.json"];

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure only a few of the loads, in one boot: do not check that a second one gives the same
    /// figures
    #[arg(long)]
    once: bool,
    /// Count each instruction of one load by the function that it is in, and nothing else:
    /// turnstile/100B, tcp/bulk-paced… (bench.json names all)
    #[arg(long, value_name = "TRANSPORT/LOAD", conflicts_with = "once")]
    profile: Option<String>,
}

/// Measures, shows, and judges; `false` if a gate failed.
///
/// # Errors
/// What is needed cannot be had or compiled.
pub(crate) fn command(env: &Env, options: &Options) -> Result<bool> {
    let began = Instant::now();
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(env, Bed::Vm)?;
    drop(lock);
    let report = Report::new(env.ui.clone());
    let extent = if options.once {
        Extent::Once
    } else {
        Extent::Whole
    };
    match &options.profile {
        Some(row) => profile::run(
            env,
            &session,
            &with_meter(env, &session, &built)?,
            row,
            &report,
        )?,
        None => run(env, &session, &built, extent, &report)?,
    }
    env.ui.say(format!(
        "measured in {:.0} s",
        began.elapsed().as_secs_f64()
    ));
    Ok(report.end())
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All loads; and those of a quick run in a second boot.
    Whole,
    /// A few loads, in two boots.
    Quick,
    /// A few loads, in one boot.
    Once,
}

/// What is built, and the module that measures.
fn with_meter(env: &Env, session: &Session, built: &Built) -> Result<Built> {
    let mut built = built.clone();
    built.extra = vec![modules::bench(env, &session.chroot, &session.tree)?];
    Ok(built)
}

/// Boots the guest as often as the extent says, prints the table, leaves `bench.txt`, `bench.json`
/// and `bench.svg` in the folder `out`, and adds each gate to `report`. `session` is the `vm`
/// bed's.
///
/// # Errors
/// The measuring module cannot be compiled, QEMU cannot be run, or a file cannot be written. A
/// guest that fails is a failed case instead.
pub(crate) fn run(
    env: &Env,
    session: &Session,
    built: &Built,
    extent: Extent,
    report: &Report,
) -> Result<()> {
    let out = env.src.join("out");
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for path in OUTPUTS.map(|name| out.join(name)) {
        if path.exists() {
            // A failed run must not show the figures of an earlier one.
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    let built = with_meter(env, session, built)?;
    let began = Instant::now();
    let mut boots = Vec::new();
    for number in 1..=if extent == Extent::Once { 1 } else { 2 } {
        let quick = number == 2 || extent != Extent::Whole;
        match boot(env, session, &built, number, quick, report)? {
            Ok(boot) => boots.push(boot),
            Err(why) => {
                report.failed("bench: the guest measures", began.elapsed(), 1, &why);
                return Ok(());
            }
        }
    }
    let gates = gates::judge(&boots);
    let text = format!("{}\n{}", table::render(&boots[0]), table::verdicts(&gates));
    let contents = [
        text.clone(),
        picture::draw(&boots[0])?,
        format!("{:#}\n", to_json(&boots, &gates)),
    ];
    for (name, data) in OUTPUTS.iter().zip(&contents) {
        let path = out.join(name);
        fs::write(&path, data).with_context(|| format!("cannot write {}", path.display()))?;
    }
    env.ui.result(&text);
    env.ui.result(format!(
        "in {}: bench.svg (the picture), bench.txt, bench.json",
        out.display()
    ));
    for gate in &gates {
        let name = format!("bench: {}", gate.name);
        match &gate.verdict {
            Ok(_) => report.passed(&name, Duration::ZERO, 1),
            Err(why) => report.failed(&name, Duration::ZERO, 1, why),
        }
    }
    if extent == Extent::Once {
        report.skipped("bench: a second boot gives the same", "--once");
    }
    Ok(())
}

/// One boot of the guest; its figures, or why there are none.
fn boot(
    env: &Env,
    session: &Session,
    built: &Built,
    number: usize,
    quick: bool,
    report: &Report,
) -> Result<Result<Boot, String>> {
    let config = RunConfig {
        filter: if quick { QUICK } else { WHOLE }.into(),
        ..RunConfig::of(Mode::Bench)
    };
    session.boot(env, built, &config, |guest| {
        let counted = Guest {
            machine: Machine::Qemu(Accelerator::Counted),
            ..*guest
        };
        let name = format!("bench-{number}");
        follow::run(env, &counted, &name, LIMITS, guest.run, report)?;
        let sent = guest.run.join(FIGURES);
        if !sent.exists() {
            return Ok(Err("it sent no figures".into()));
        }
        let text = fs::read(&sent).with_context(|| format!("cannot read {}", sent.display()))?;
        Ok(Boot::read(&text))
    })
}

/// One row, with what follows from it.
fn message(row: &Messages) -> serde_json::Value {
    json!({
        "name": row.name(),
        "transport": row.transport,
        "load": row.load,
        "title": row.title,
        "instructions": row.instructions,
        "messages": row.messages,
        "bytes": row.bytes,
        "packets": row.packets,
        "per-message": row.per_message(),
        "per-byte": row.per_byte(),
        "per-packet": row.per_packet(),
    })
}

/// All figures, for programs.
fn to_json(boots: &[Boot], gates: &[Gate]) -> serde_json::Value {
    let boots: Vec<_> = boots
        .iter()
        .map(|boot| {
            let setups: Vec<_> = boot
                .setups
                .iter()
                .map(|s| {
                    json!({
                        "name": s.name,
                        "kind": s.kind,
                        "title": s.title,
                        "packets": s.packets,
                        "commands": s.commands,
                        "per-packet": s.costs(),
                    })
                })
                .collect();
            json!({
                "kernel": boot.kernel,
                "ruler": boot.ruler,
                "setups": setups,
                "messages": boot.messages.iter().map(message).collect::<Vec<_>>(),
            })
        })
        .collect();
    let gates: Vec<_> = gates
        .iter()
        .map(|gate| {
            let detail = match &gate.verdict {
                Ok(detail) | Err(detail) => detail,
            };
            json!({"name": gate.name, "passed": gate.verdict.is_ok(), "detail": detail})
        })
        .collect();
    json!({"unit": "instructions", "boots": boots, "gates": gates})
}

#[cfg(test)]
mod tests {
    use super::*;
    use example::example;

    #[test]
    fn the_file_for_programs_has_all_boots_and_gates() {
        let boots = [example(), example()];
        let json = to_json(&boots, &gates::judge(&boots));
        assert_eq!(json["boots"].as_array().map(Vec::len), Some(2));
        let first = &json["boots"][1]["setups"][0];
        assert_eq!(first["name"], "turnstile/class-id");
        assert_eq!(first["per-packet"]["direct"], 210.0);
        assert_eq!(first["per-packet"]["xmit-minus-noqueue"], 500.0);
        let message = &json["boots"][0]["messages"][1];
        assert_eq!(message["name"], "tcp/100B");
        assert_eq!(message["per-message"], 5000.0);
        assert_eq!(message["per-packet"], 2500.0);
        assert!(json["gates"]
            .as_array()
            .is_some_and(|gates| gates.iter().all(|gate| gate["passed"] == true)));
    }
}
