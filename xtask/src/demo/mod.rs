// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask demo`: has the guest measure Turnstile beside two stock set-ups, and shows what
//! came out.

mod messages;
mod picture;
mod picture_messages;
mod tables;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::bed::Bed;
use crate::env::{checkout, Env};
use crate::follow;
use crate::guest::Limits;
use crate::report::Report;
use crate::session::Session;
use turnstile_test_protocol::demo::Demo;
use turnstile_test_protocol::run::{Mode, RunConfig};

/// The longest a demonstration may take.
const LIMITS: Limits = Limits {
    overall: Duration::from_secs(10 * 60),
    silence: Duration::from_secs(2 * 60),
};

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure nothing: show the figures of an earlier run again, from its demo.json
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Runs the demonstration; `false` if the guest was not well.
///
/// # Errors
/// What is needed cannot be had or compiled, or the guest sent nothing to show.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if let Some(file) = &options.from {
        let out = checkout().join("out");
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        print!("{}", show(file, &out)?);
        return Ok(true);
    }
    let began = Instant::now();
    let env = Env::open()?;
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(&env, Bed::Vm)?;
    drop(lock);
    let ready = began.elapsed();
    let out = env.src.join("out");
    let json = out.join("demo.json");
    if json.exists() {
        // A failed run must not show the figures of an earlier one.
        fs::remove_file(&json).with_context(|| format!("cannot remove {}", json.display()))?;
    }
    let config = RunConfig::of(Mode::Demo);
    let report = Report::new(env.ui.clone());
    session.boot(&env, &built, &config, |guest| {
        follow::run(&env, guest, "demo", LIMITS, &out, &report)
    })?;
    if !json.exists() {
        bail!("the guest sent no demo.json");
    }
    env.ui.result(show(&json, &out)?);
    let (total, ready) = (began.elapsed().as_secs_f64(), ready.as_secs_f64());
    env.ui.result(format!(
        "demo took {total:.0} s: {ready:.0} s to set up and build, {:.0} s in the guest",
        total - ready
    ));
    Ok(report.totals().1 == 0)
}

/// Writes the tables and the pictures of a demo.json into the folder `out`; returns the tables.
fn show(json: &Path, out: &Path) -> Result<String> {
    let text = fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    let demo: Demo = serde_json::from_slice(&text)
        .with_context(|| format!("{} holds no figures of a demo", json.display()))?;
    if demo.setups.is_empty() {
        bail!("{} holds no set-up", json.display());
    }
    let mut text = tables::render(&demo);
    let mut pictures = vec![("demo.svg", picture::draw(&demo)?)];
    if let Some(messages) = &demo.messages {
        text.push('\n');
        text.push_str(&messages::render(messages));
        pictures.push(("demo-messages.svg", picture_messages::draw(messages)?));
    }
    let files = pictures.iter().map(|(name, data)| (*name, data));
    for (name, data) in files.chain([("demo.txt", &text)]) {
        let path = out.join(name);
        fs::write(&path, data).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let _ = writeln!(
        text,
        "\nin {}: {} (the pictures), demo.txt, demo.json",
        out.display(),
        pictures
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(text)
}
