// SPDX-License-Identifier: GPL-2.0
//! The same run twice in virtual time, the second time on a busy machine: every byte must be equal.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::env::Env;
use crate::guest::{Limits, Watcher};
use crate::report::Report;
use crate::session::{Built, Session};
use turnstile_test_protocol::event::Event;
use turnstile_test_protocol::run::{Mode, RunConfig};

/// What is run: cases with much traffic, random operations, TCP, timers.
const CASES: &str = "behaviour/,gso/,accounting/,classify/";
/// How long each of the runs may take.
const LIMITS: Limits = Limits {
    overall: Duration::from_secs(10 * 60),
    silence: Duration::from_secs(3 * 60),
};

/// Runs a choice of the guest's cases twice on the session's bed, which must have a simulated
/// clock.
///
/// # Errors
/// The guest cannot be booted.
pub(crate) fn run(
    env: &Env,
    session: &Session,
    built: &Built,
    seed: u64,
    report: &Report,
) -> Result<()> {
    let began = Instant::now();
    let config = RunConfig {
        mode: Mode::Test,
        filter: CASES.into(),
        seed,
        timeout_scale: 1.0,
        ..RunConfig::default()
    };
    let once = || {
        session.boot(env, built, &config, |guest| {
            let mut verdict = Verdict::default();
            let outcome = guest.run(LIMITS, &mut verdict)?;
            if let Some(why) = outcome.died {
                bail!("{why}");
            }
            // Two runs that did nothing would be equal, too.
            if verdict.passed == 0 || verdict.failed > 0 {
                bail!("{} cases passed, {} failed", verdict.passed, verdict.failed);
            }
            output(guest.run)
        })
    };
    let idle = once()?;
    let busy = on_a_busy_machine(once)?;
    let name = format!("{}: determinism/same-bytes-twice", session.tree.bed);
    match difference(&idle, &busy) {
        None => report.passed(&name, began.elapsed(), 1),
        Some(why) => report.failed(&name, began.elapsed(), 1, &why),
    }
    Ok(())
}

/// How many cases of a run passed and failed.
#[derive(Debug, Default)]
struct Verdict {
    passed: usize,
    failed: usize,
}

impl Watcher for Verdict {
    fn event(&mut self, event: Event) {
        match event {
            Event::Pass { .. } => self.passed += 1,
            Event::Fail { .. } => self.failed += 1,
            _ => {}
        }
    }

    fn complaint(&mut self, _: &str) {}

    fn tick(&mut self) {}
}

/// Does something while every processor has other work from time to time, for as long and as often
/// as chance has it. Not without end: what UML's processes hand to one another would wait for a
/// time slice each, and a run take ten times as long.
pub(crate) fn on_a_busy_machine<T>(work: impl FnOnce() -> T) -> T {
    /// Spells of work and of rest are no longer.
    const WORK_US: u64 = 2_000;
    const REST_US: u64 = 10_000;
    let stop = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                // Its keys are random.
                let chance = RandomState::new();
                let mut spell = 0_u64;
                let mut next = |most| {
                    spell += 1;
                    Duration::from_micros(chance.hash_one(spell) % most)
                };
                while !stop.load(Ordering::Relaxed) {
                    let end = Instant::now() + next(WORK_US);
                    while Instant::now() < end {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(next(REST_US));
                }
            });
        }
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Everything that a run has written, by file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn output(run: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for name in ["console.log", "events.jsonl"] {
        let data = fs::read(run.join(name)).with_context(|| format!("no {name}"))?;
        files.insert(name.to_owned(), data);
    }
    for entry in fs::read_dir(run.join("files")).context("no folder of files")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.insert(name.into_owned(), fs::read(&path)?);
    }
    Ok(files)
}

/// The first thing in which two runs differ.
pub(crate) fn difference(
    one: &BTreeMap<String, Vec<u8>>,
    two: &BTreeMap<String, Vec<u8>>,
) -> Option<String> {
    let names = |run: &BTreeMap<String, Vec<u8>>| run.keys().cloned().collect::<Vec<_>>();
    if names(one) != names(two) {
        return Some(format!(
            "the files differ: {:?} and {:?}",
            names(one),
            names(two)
        ));
    }
    one.iter().find_map(|(name, first)| {
        let second = two.get(name)?;
        if first == second {
            return None;
        }
        let (first, second) = (
            String::from_utf8_lossy(first),
            String::from_utf8_lossy(second),
        );
        let place = first
            .lines()
            .zip(second.lines())
            .enumerate()
            .find(|(_, (a, b))| a != b);
        Some(match place {
            Some((line, (a, b))) => {
                format!("{name} differs in line {}:\n    {a}\n    {b}", line + 1)
            }
            None => format!("{name}: one run wrote more than the other"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(console: &str) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([("console.log".to_owned(), console.as_bytes().to_vec())])
    }

    #[test]
    fn the_first_different_line_is_shown() {
        assert_eq!(difference(&files("a\nb\n"), &files("a\nb\n")), None);
        let why = difference(&files("a\nb\nc\n"), &files("a\nx\nc\n")).unwrap();
        assert!(why.contains("line 2") && why.contains('x'), "{why}");
        assert!(difference(&files("a\n"), &files("a\nb\n")).is_some());
        assert!(difference(&files("a\n"), &BTreeMap::new()).is_some());
    }
}
