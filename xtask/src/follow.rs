// SPDX-License-Identifier: GPL-2.0
//! Shows a run of the guest as it goes, and judges it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::env::Env;
use crate::guest::{Guest, Limits, Watcher};
use crate::log_scan::scan;
use crate::progress::{last_lines, Waiting};
use crate::report::Report;
use turnstile_test_protocol::event::Event;

/// Lines of the guest's log shown when something failed.
const TAIL_LINES: usize = 40;
/// Complaints of the kernel shown, of those found.
const SHOWN_COMPLAINTS: usize = 10;

/// Runs the guest to its end; every case it reports, and its log, are cases of `report`. The files
/// it sends go into the folder `files`.
///
/// # Errors
/// QEMU cannot be run or a file cannot be written; a guest that dies is a failed case instead.
pub(crate) fn run(
    env: &Env,
    guest: &Guest<'_>,
    mode: &str,
    limits: Limits,
    files: &Path,
    report: &Report,
) -> Result<()> {
    let began = Instant::now();
    let bed = guest.tree.bed.name();
    let failed_before = report.totals().1;
    let mut follower = Follower {
        env,
        bed,
        report,
        files,
        waiting: env.ui.waiting(&format!("{bed}: the guest boots")),
        running: None,
        planned: None,
        ended: 0,
        written: Ok(()),
    };
    let outcome = guest.run(limits, &mut follower)?;
    let Follower {
        running,
        planned,
        ended,
        written,
        waiting,
        ..
    } = follower;
    drop(waiting);
    written?;
    keep_files(&guest.files_path(), files)?;
    let log = keep_log(env, guest, mode)?;
    let during = running
        .map(|case| format!(" during {case}"))
        .unwrap_or_default();
    if let Some(why) = outcome.died {
        report.failed(
            &format!("{bed}: ends as it should{during}"),
            began.elapsed(),
            1,
            &why,
        );
    } else if let Some(planned) = planned.filter(|planned| *planned != ended) {
        let why = format!("{planned} cases were to run and {ended} ended");
        report.failed(&format!("{bed}: runs all cases"), began.elapsed(), 1, &why);
    }
    if !outcome.garbled.is_empty() {
        report.failed(
            &format!("{bed}: tells what can be read"),
            began.elapsed(),
            1,
            &outcome.garbled.join("\n"),
        );
    }
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let findings = scan(&text);
    let name = format!("{bed}: the kernel's log is clean");
    if findings.is_empty() {
        report.passed(&name, began.elapsed(), 1);
    } else {
        let shown: Vec<String> = findings
            .iter()
            .take(SHOWN_COMPLAINTS)
            .map(|f| format!("line {}: {}", f.line, f.text))
            .collect();
        let why = format!("{} lines:\n{}", findings.len(), shown.join("\n"));
        report.failed(&name, began.elapsed(), 1, &why);
    }
    if report.totals().1 > failed_before {
        env.ui.say(format!("last lines of the log of {bed}:"));
        for line in last_lines(&log, TAIL_LINES) {
            env.ui.say(format!("    {line}"));
        }
    }
    env.ui.say(format!("the log of {bed}: {}", log.display()));
    Ok(())
}

/// Copies what a simulated guest left in its folder.
fn keep_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        fs::create_dir_all(to)
            .and_then(|()| fs::copy(&path, &target))
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// Moves the log to where it outlives the run.
fn keep_log(env: &Env, guest: &Guest<'_>, mode: &str) -> Result<PathBuf> {
    let name = format!("guest-{}-{mode}", guest.tree.bed);
    let log = env.cache.logs().join(format!("{name}.log"));
    fs::copy(guest.console_path(), &log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let events = env.cache.logs().join(format!("{name}.events"));
    fs::copy(guest.events_path(), &events)
        .with_context(|| format!("cannot write {}", events.display()))?;
    Ok(log)
}

struct Follower<'a> {
    env: &'a Env,
    /// The bed's name.
    bed: &'static str,
    report: &'a Report,
    files: &'a Path,
    waiting: Waiting,
    /// The case that runs.
    running: Option<String>,
    planned: Option<usize>,
    ended: usize,
    /// The first failure to keep a file.
    written: Result<()>,
}

impl Follower<'_> {
    fn say(&mut self, what: &str) {
        self.waiting.set(&format!("{}: {what}", self.bed));
    }

    fn end(&mut self) {
        self.ended += 1;
        self.running = None;
    }

    fn keep(&self, name: &str, data: &str) -> Result<()> {
        // Whatever the guest calls it, it goes into this folder.
        let name = name.rsplit('/').next().unwrap_or(name);
        fs::create_dir_all(self.files)
            .and_then(|()| fs::write(self.files.join(name), data))
            .with_context(|| format!("cannot write {}", self.files.join(name).display()))
    }
}

impl Watcher for Follower<'_> {
    fn event(&mut self, event: Event) {
        match event {
            Event::Boot { kernel } => self.say(&format!("the guest runs {kernel}")),
            Event::Plan { cases } => self.planned = Some(cases),
            Event::Start { case } => {
                self.say(&case);
                self.running = Some(case);
            }
            Event::Pass { case, ms } => {
                self.end();
                self.report.ran(&case, true);
                self.report.passed(
                    &format!("{}: {case}", self.bed),
                    Duration::from_millis(ms),
                    1,
                );
            }
            Event::Fail { case, ms, why } => {
                self.end();
                self.report.ran(&case, true);
                self.report.failed(
                    &format!("{}: {case}", self.bed),
                    Duration::from_millis(ms),
                    1,
                    &why,
                );
            }
            Event::Skip { case, why } => {
                self.end();
                self.report.ran(&case, false);
                self.report.skipped(&format!("{}: {case}", self.bed), &why);
            }
            Event::File { name, data } => {
                let kept = self.keep(&name, &data);
                if self.written.is_ok() {
                    self.written = kept;
                }
            }
            Event::Progress { text } => {
                self.env.ui.say(format!("  .. {text}"));
                self.say(&text);
            }
            Event::Done { .. } => self.say("the guest switches off"),
            Event::Other => {}
        }
    }

    fn complaint(&mut self, line: &str) {
        self.env.ui.say(format!("  !! {}: {line}", self.bed));
    }

    fn tick(&mut self) {
        self.waiting.tick();
    }
}
