// SPDX-License-Identifier: GPL-2.0
//! Boots the guest and follows it until it switches off, or is past help.
//!
//! The guest has two serial ports: the console, and a line of events. Both go to files, which are
//! read as they grow; so nothing is lost when the guest has to be killed. How it is started is a
//! matter of [`qemu`] and [`uml`].

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use turnstile_test_protocol::event::Event;

use crate::chroot::Chroot;
use crate::events::Lines;
use crate::kernel::KernelTree;
use crate::log_scan::{is_panic, Reader};
use crate::qemu::{self, Accelerator};
use crate::uml;

/// How long a guest may take to switch off after its last event.
const POWER_OFF: Duration = Duration::from_secs(20);
/// How long a panicking kernel may go on printing.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How often the serial ports are read.
const POLL: Duration = Duration::from_millis(50);

/// What runs a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// QEMU.
    Qemu(Accelerator),
    /// The guest's kernel is a program of the host.
    Uml,
}

impl Machine {
    /// Words for the user.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Qemu(Accelerator::Kvm) => "under KVM",
            Self::Qemu(Accelerator::Tcg) => "under software emulation",
            Self::Qemu(Accelerator::Counted | Accelerator::Profiled) => {
                "under software emulation that counts instructions"
            }
            Self::Uml => "in virtual time",
        }
    }
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// In all.
    pub overall: Duration,
    /// Between two signs of life on either serial port.
    pub silence: Duration,
}

/// A guest about to be booted.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    /// The Debian that it is run from.
    pub chroot: &'a Chroot,
    /// Its kernel.
    pub tree: &'a KernelTree,
    /// The folder of this run: holds the image, gets the serial ports' files.
    /// [`OUT`](crate::env::OUT) in the chroot.
    pub run: &'a Path,
    /// What runs it.
    pub machine: Machine,
}

/// Told what happens in a guest while it runs.
pub(crate) trait Watcher {
    /// The guest reports.
    fn event(&mut self, event: Event);
    /// The console shows a line that should not be there.
    fn complaint(&mut self, line: &str);
    /// Time passes.
    fn tick(&mut self);
}

/// Watches nothing.
pub(crate) struct Nobody;

impl Watcher for Nobody {
    fn event(&mut self, _: Event) {}
    fn complaint(&mut self, _: &str) {}
    fn tick(&mut self) {}
}

/// How a run ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Why the guest was killed, if it was, or did not end as it should.
    pub died: Option<String>,
    /// Lines of the event port that are no events.
    pub garbled: Vec<String>,
}

impl Guest<'_> {
    /// Where the console's text is.
    pub(crate) fn console_path(&self) -> PathBuf {
        self.run.join("console.log")
    }

    /// Where the events are.
    pub(crate) fn events_path(&self) -> PathBuf {
        self.run.join("events.jsonl")
    }

    /// Where a simulated guest leaves files that are too large for its line of events.
    pub(crate) fn files_path(&self) -> PathBuf {
        self.run.join("files")
    }

    /// Boots it and tells `watcher` of it until it ends.
    ///
    /// # Errors
    /// What runs it cannot be started, or the serial ports' files cannot be read.
    pub(crate) fn run(&self, limits: Limits, watcher: &mut dyn Watcher) -> Result<Outcome> {
        let console_path = self.console_path();
        let events_path = self.events_path();
        for path in [&console_path, &events_path] {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let files = self.files_path();
        fs::create_dir_all(&files).with_context(|| format!("cannot make {}", files.display()))?;
        let processor;
        let (mut command, program) = match self.machine {
            Machine::Qemu(accelerator) => (qemu::command(self, accelerator), "QEMU"),
            Machine::Uml => {
                processor = uml::Processor::least_used();
                (uml::command(self, &processor), "User-Mode Linux")
            }
        };
        let stderr = File::create(self.run.join("stderr"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let mut child = Killed(
            command
                .spawn()
                .with_context(|| format!("cannot start {program}"))?,
        );
        let mut console = Tail::open(&console_path)?;
        let mut events = Tail::open(&events_path)?;
        let mut reader = Reader::default();
        let mut outcome = Outcome::default();
        let began = Instant::now();
        let mut alive = began;
        let (mut panic, mut done) = (None, None);
        loop {
            // Asked before the files are read: what was written before the end is read after it.
            let ended = child.0.try_wait()?;
            let lines = console.lines()?;
            for line in &lines {
                if reader.complaint(line).is_some() {
                    watcher.complaint(line);
                }
                if is_panic(line) {
                    panic.get_or_insert((Instant::now(), line.clone()));
                }
            }
            let news = events.lines()?;
            if !(lines.is_empty() && news.is_empty()) {
                alive = Instant::now();
            }
            for line in news {
                match Event::parse(&line) {
                    Ok(Some(event)) => {
                        if matches!(event, Event::Done { .. }) {
                            done = Some(Instant::now());
                        }
                        watcher.event(event);
                    }
                    Ok(None) => {}
                    Err(why) => outcome.garbled.push(why),
                }
            }
            if let Some(status) = ended {
                if let Some((_, line)) = panic {
                    outcome.died = Some(format!("its kernel stopped: {}", line.trim()));
                } else if !status.success() {
                    let why = fs::read_to_string(self.run.join("stderr")).unwrap_or_default();
                    outcome.died = Some(format!("{program} failed ({status}): {}", why.trim()));
                } else if done.is_none() {
                    outcome.died = Some("it switched off before it was done".into());
                }
                return Ok(outcome);
            }
            let why = if let Some((_, line)) =
                panic.as_ref().filter(|(at, _)| at.elapsed() > LAST_WORDS)
            {
                format!("its kernel stopped: {}", line.trim())
            } else if done.is_some_and(|at| at.elapsed() > POWER_OFF) {
                format!("it did not switch off within {} s", POWER_OFF.as_secs())
            } else if began.elapsed() > limits.overall {
                format!("it was not done within {} s", limits.overall.as_secs())
            } else if alive.elapsed() > limits.silence {
                format!("it was silent for {} s", limits.silence.as_secs())
            } else {
                watcher.tick();
                std::thread::sleep(POLL);
                continue;
            };
            outcome.died = Some(why);
            return Ok(outcome);
        }
    }

    /// Boots it with its console on this terminal; returns when it is off.
    ///
    /// # Errors
    /// QEMU cannot be started, or the guest is not run by it.
    pub(crate) fn interact(&self) -> Result<()> {
        let Machine::Qemu(accelerator) = self.machine else {
            bail!("a guest in virtual time has no terminal: it would wait for you without end");
        };
        let status = qemu::interactive(self, accelerator)
            .status()
            .context("cannot start QEMU");
        // QEMU that was killed leaves the terminal raw.
        let _ = Command::new("stty")
            .arg("sane")
            .stderr(Stdio::null())
            .status();
        status.map(drop)
    }
}

/// A child that is killed when it is no longer watched; all that it started goes with it.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A text file that grows.
#[derive(Debug)]
struct Tail {
    file: File,
    lines: Lines,
}

impl Tail {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            file,
            lines: Lines::default(),
        })
    }

    fn lines(&mut self) -> Result<Vec<String>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(self.lines.push(&bytes))
    }
}
