// SPDX-License-Identifier: GPL-2.0
//! Runs a list of cases and reports on each.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;

use super::case::{Case, Need};
use super::kmsg;
use super::leftovers::{reap_orphans, Usage};
use super::objects::Objects;
use crate::clock;
use crate::events::{Event, Events};

/// How to run the cases.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Factor on every time limit.
    pub timeout_scale: f64,
    /// How long a case's leavings may take to go, before that factor.
    pub cleanup: Duration,
    /// Lockdep, where the kernel has it, must still be on at the end.
    pub lockdep: bool,
}

/// The argument with which this program runs one case in its own process.
pub(crate) const CASE_ARGUMENT: &str = "--in-this-process";

/// How long the kernel may take to take a case's namespaces apart. Emulated machines are slow at
/// it: every device waits for several RCU grace periods.
pub const CLEANUP: Duration = Duration::from_secs(20);

enum Verdict {
    Passed,
    Skipped(String),
    Failed(String),
}

/// Runs `cases` one after the other. Returns whether all passed.
///
/// # Errors
/// When the cases cannot be run at all.
pub fn run_all(cases: &[&Case], options: Options) -> Result<bool> {
    let events = Events::from_env();
    // Whatever a case starts and leaves running becomes our child.
    nix::sys::prctl::set_child_subreaper(true).context("adopting orphans")?;
    // A sleeper with slack wakes up with the first timer of a case that falls into it, and reads
    // the clock, which takes a nanosecond where time is simulated: the case would be late by it.
    clock::exact_timers();
    println!("vm-tests: {} cases, seed {}", cases.len(), options.seed);
    events.send(&Event::Plan { cases: cases.len() });
    let (mut passed, mut failed) = (0, 0);
    for case in cases {
        println!("start {}", case.name);
        events.send(&Event::Start {
            case: case.name.into(),
        });
        let began = Instant::now();
        let verdict = judge(case, options);
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match verdict {
            Verdict::Passed => {
                passed += 1;
                println!("pass  {} ({ms} ms)", case.name);
                events.send(&Event::Pass {
                    case: case.name.into(),
                    ms,
                });
            }
            Verdict::Skipped(why) => {
                println!("skip  {}: {why}", case.name);
                events.send(&Event::Skip {
                    case: case.name.into(),
                    why,
                });
            }
            Verdict::Failed(why) => {
                failed += 1;
                println!("FAIL  {} ({ms} ms): {why}", case.name);
                events.send(&Event::Fail {
                    case: case.name.into(),
                    ms,
                    why,
                });
            }
        }
    }
    if let Some(why) = lockdep_is_off().filter(|_| options.lockdep) {
        failed += 1;
        println!("FAIL  lockdep: {why}");
        events.send(&Event::Fail {
            case: "lockdep".into(),
            ms: 0,
            why,
        });
    }
    println!("vm-tests: {passed} passed, {failed} failed");
    events.send(&Event::Done { passed, failed });
    Ok(failed == 0)
}

/// Lockdep switches itself off after its first report, and for other reasons too: then its silence
/// would mean nothing.
fn lockdep_is_off() -> Option<String> {
    let stats = std::fs::read_to_string("/proc/lockdep_stats").ok()?;
    let state = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("debug_locks:"))
        .map(str::trim);
    (state != Some("1")).then(|| format!("switched off before the end (debug_locks: {state:?})"))
}

/// Runs one case and what is checked after every case.
fn judge(case: &Case, options: Options) -> Verdict {
    match lacking(case) {
        Ok(None) => {}
        Ok(Some(why)) => return Verdict::Skipped(why),
        Err(error) => return Verdict::Failed(format!("{error:#}")),
    }
    let before = Usage::now();
    let objects = match Objects::now() {
        Ok(objects) => objects,
        Err(error) => return Verdict::Failed(format!("{error:#}")),
    };
    let mut log = match kmsg::Watch::start() {
        Ok(log) => log,
        Err(error) => return Verdict::Failed(format!("{error:#}")),
    };
    let mut failures = Vec::new();
    if let Err(error) = run_in_child(case, options) {
        failures.push(format!("{error:#}"));
    }
    let orphans = reap_orphans();
    if !orphans.is_empty() {
        failures.push(format!("left processes running: {}", orphans.join(", ")));
    }
    let patience = options.cleanup.mul_f64(options.timeout_scale);
    failures.extend(Usage::difference(&before, patience));
    // What a failed case left lying about says nothing new.
    if failures.is_empty() {
        match objects.growth(patience) {
            Ok(None) => {}
            Ok(Some(lost)) if lost.most <= case.kept_once => {
                failures.extend(lost_again(case, options, &lost.what, patience));
            }
            Ok(Some(lost)) => failures.push(lost.what),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    match log.complaints() {
        Ok(lines) if lines.is_empty() => {}
        Ok(lines) => failures.push(format!("the kernel complained: {}", lines.join(" | "))),
        Err(error) => failures.push(format!("{error:#}")),
    }
    if failures.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Failed(failures.join("\n"))
    }
}

/// What the case loses each time. What the kernel keeps from the first time that it needs much of
/// something is not lost: then running the case once more takes no more of it.
fn lost_again(case: &Case, options: Options, lost: &str, patience: Duration) -> Option<String> {
    let again = || -> Result<Option<String>> {
        let objects = Objects::now()?;
        run_in_child(case, options)?;
        Ok(objects.growth(patience)?.map(|lost| lost.what))
    };
    match again() {
        Ok(None) => {
            println!("    {}: {lost}; run again, it kept no more", case.name);
            None
        }
        Ok(Some(more)) => Some(format!("{lost}\nand when it ran again: {more}")),
        Err(error) => Some(format!("{lost}\nand when it ran again: {error:#}")),
    }
}

/// Why the case does not apply here, if so; an error where something is missing that must be there.
fn lacking(case: &Case) -> Result<Option<String>> {
    for need in case.needs {
        match *need {
            Need::Smp => {
                if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
                    return Ok(Some("needs more than one CPU".into()));
                }
            }
            Need::VirtualTime => {
                if !clock::is_simulated() {
                    return Ok(Some("needs virtual time".into()));
                }
            }
            Need::Speed => {
                if is_sanitized() {
                    return Ok(Some("needs a kernel without sanitizers".into()));
                }
            }
            Need::SignedModules => {
                if !modules_are_signed()? {
                    return Ok(Some("needs a kernel whose modules are signed".into()));
                }
            }
            Need::Suspend => {
                if !crate::suspend::is_possible() {
                    return Ok(Some("needs a machine that can be suspended".into()));
                }
            }
            Need::Module(name) => {
                let status = Command::new("modprobe")
                    .arg(name)
                    .status()
                    .context("starting modprobe")?;
                anyhow::ensure!(
                    status.success(),
                    "needs the kernel module {name}, which cannot be loaded"
                );
            }
            Need::Program(name) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
                anyhow::ensure!(found, "needs the program {name}, which is not in PATH");
            }
        }
    }
    Ok(None)
}

/// Whether modules that came with the kernel end with what `scripts/sign-file` appends.
fn modules_are_signed() -> Result<bool> {
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    let module = format!("/lib/modules/{}/{SIGNED_MODULE}", release.trim());
    let bytes = std::fs::read(&module).unwrap_or_default();
    Ok(bytes.ends_with(SIGNATURE_MARKER))
}

/// A module of the kernel's own, below `/lib/modules` of its release.
pub const SIGNED_MODULE: &str = "kernel/net/sched/sch_tbf.ko";
/// What a signed module ends with.
pub const SIGNATURE_MARKER: &[u8] = b"~Module signature appended~\n";

/// Starts the case's process, and ends it with all of its group when its time is over.
fn run_in_child(case: &Case, options: Options) -> Result<()> {
    let why_path = Path::new("/tmp").join(format!("vm-tests-{}.why", std::process::id()));
    let why =
        File::create(&why_path).with_context(|| format!("creating {}", why_path.display()))?;
    let mut child = Command::new("/proc/self/exe")
        .args([
            CASE_ARGUMENT,
            case.name,
            "--seed",
            &options.seed.to_string(),
        ])
        .stdin(Stdio::null())
        // Errors of the case come back here; what it prints goes to the log.
        .stderr(Stdio::from(why))
        .process_group(0)
        .spawn()
        .context("starting the case's process")?;
    let limit = case.timeout.mul_f64(options.timeout_scale);
    let status = wait_until(&mut child, Instant::now() + limit);
    // The group's stragglers too, also after a good end.
    let group = Pid::from_raw(i32::try_from(child.id()).context("process id")?);
    let _ = killpg(group, Signal::SIGKILL);
    let said = std::fs::read_to_string(&why_path).unwrap_or_default();
    let _ = std::fs::remove_file(&why_path);
    let said = said.trim();
    match status? {
        Some(status) if status.success() => {
            if !said.is_empty() {
                println!("{said}");
            }
            Ok(())
        }
        Some(status) => match status.signal() {
            Some(signal) => anyhow::bail!("killed by signal {signal}: {said}"),
            None => anyhow::bail!(
                "{}",
                if said.is_empty() {
                    "failed without a word"
                } else {
                    said
                }
            ),
        },
        None => {
            child.wait().context("reaping the case's process")?;
            anyhow::bail!("not done after {} s; {said}", limit.as_secs_f64())
        }
    }
}

/// Waits for `child` until `deadline`; `None` if it still runs.
fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait().context("waiting for the case's process")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the kernel looks at each access to memory.
pub(crate) fn is_sanitized() -> bool {
    std::fs::read_to_string("/proc/cmdline").is_ok_and(|line| line.contains("kasan"))
}
