// SPDX-License-Identifier: GPL-2.0
//! Boots the guest and follows it until it switches off, or is past help.
//!
//! The guest has two serial ports: the console, and a line of events. Both go to files, which are read as they grow;
//! so nothing is lost when QEMU has to be killed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cache::write_whole;
use crate::chroot::Chroot;
use crate::env::{Env, OUT};
use crate::events::{parse, Event, Lines};
use crate::kernel::{KernelTree, IN_CHROOT};
use crate::log_scan::{complaint, is_panic};

/// Memory of the guest, MiB.
const MEMORY_MIB: u32 = 2048;
/// CPUs of the guest, at most; at least two, for races to show.
const MAX_CPUS: usize = 4;
/// How long the kernel may take to its first line under KVM before software emulation is used.
const KVM_PROBE: Duration = Duration::from_secs(15);
/// How long a guest may take to switch off after its last event.
const POWER_OFF: Duration = Duration::from_secs(20);
/// How long a panicking kernel may go on printing.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How often the serial ports are read.
const POLL: Duration = Duration::from_millis(50);

/// What QEMU runs the guest's processor with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The machine's own processor.
    Kvm,
    /// Software emulation.
    Tcg,
}

impl Accelerator {
    /// A word for the user.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "software emulation",
        }
    }

    fn args(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
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
    /// The programs that run it.
    pub chroot: &'a Chroot,
    /// Its kernel.
    pub tree: &'a KernelTree,
    /// The folder of this run: holds `initrd`, gets the serial ports' files.
    pub run: &'a Path,
    /// What it runs on.
    pub accelerator: Accelerator,
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
struct Nobody;

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

    /// Boots it and tells `watcher` of it until it ends.
    ///
    /// # Errors
    /// QEMU cannot be started, or the serial ports' files cannot be read.
    pub(crate) fn run(&self, limits: Limits, watcher: &mut dyn Watcher) -> Result<Outcome> {
        let console_path = self.console_path();
        let events_path = self.events_path();
        for path in [&console_path, &events_path] {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let console = format!("file:{OUT}/console.log");
        let events = format!("file:{OUT}/events.jsonl");
        let mut command = self.command(&["-serial", &console, "-serial", &events], "");
        let stderr = File::create(self.run.join("qemu.err"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let mut child = Killed(command.spawn().context("cannot start QEMU")?);
        let mut console = Tail::open(&console_path)?;
        let mut events = Tail::open(&events_path)?;
        let mut outcome = Outcome::default();
        let began = Instant::now();
        let mut alive = began;
        let (mut panic, mut done) = (None, None);
        loop {
            // Asked before the files are read: what was written before the end is read after it.
            let ended = child.0.try_wait()?;
            let lines = console.lines()?;
            for line in &lines {
                if complaint(line).is_some() {
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
                match parse(&line) {
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
                    let why = fs::read_to_string(self.run.join("qemu.err")).unwrap_or_default();
                    outcome.died = Some(format!("QEMU failed ({status}): {}", why.trim()));
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
    /// QEMU cannot be started.
    pub(crate) fn interact(&self) -> Result<()> {
        let events = format!("file:{OUT}/events.jsonl");
        let mut command = self.command(&["-serial", "mon:stdio", "-serial", &events], "quiet");
        let status = command.status().context("cannot start QEMU");
        // QEMU that was killed leaves the terminal raw.
        let _ = Command::new("stty")
            .arg("sane")
            .stderr(Stdio::null())
            .status();
        status.map(drop)
    }

    fn command(&self, serial: &[&str], append: &str) -> Command {
        let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
        let cpus = cpus.clamp(2, MAX_CPUS).to_string();
        let memory = MEMORY_MIB.to_string();
        let kernel = format!("{IN_CHROOT}/vmlinux");
        let initrd = format!("{OUT}/initrd");
        // A panic reboots at once and -no-reboot makes that an end.
        // On a busy host, emulation misses the ticks with which the kernel tests its timer, and it would give up.
        let append = format!("console=ttyS0 panic=-1 oops=panic no_timer_check {append}");
        let mut args = vec!["-machine", "q35", "-smp", &cpus, "-m", &memory];
        args.extend(self.accelerator.args());
        args.extend(["-kernel", &kernel, "-append", &append]);
        if self.run.join("initrd").exists() {
            args.extend(["-initrd", &initrd]);
        }
        args.extend([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        args.extend(serial);
        self.chroot
            .enter()
            .bind(&self.tree.path, IN_CHROOT)
            .bind_rw(self.run, OUT)
            .command("qemu-system-x86_64", args)
    }
}

/// What guests can be run with here. `/dev/kvm` may be there and not work, so the kernel is really booted with it, once
/// per boot of this machine.
///
/// # Errors
/// The cache cannot be written to.
pub(crate) fn accelerator(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<Accelerator> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(Accelerator::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let memo = env.cache.root().join("kvm");
    let known = fs::read_to_string(&memo).unwrap_or_default();
    if let Some(answer) = known.strip_prefix(boot.trim()).filter(|_| !boot.is_empty()) {
        return Ok(if answer.trim() == "works" {
            Accelerator::Kvm
        } else {
            Accelerator::Tcg
        });
    }
    let step = env.ui.step("kvm", "trying KVM")?;
    let works = boots(env, chroot, tree)?;
    step.done();
    let answer = if works { "works" } else { "does not" };
    write_whole(&memo, format!("{} {answer}\n", boot.trim()).as_bytes())?;
    Ok(if works {
        Accelerator::Kvm
    } else {
        Accelerator::Tcg
    })
}

/// Whether the kernel gets as far as looking for its file system, which it is not given.
fn boots(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<bool> {
    let run = env.built(&format!("kvm-{}", std::process::id()))?;
    let guest = Guest {
        chroot,
        tree,
        run: &run,
        accelerator: Accelerator::Kvm,
    };
    let limits = Limits {
        overall: KVM_PROBE,
        silence: KVM_PROBE,
    };
    guest.run(limits, &mut Nobody)?;
    let console = fs::read(guest.console_path()).unwrap_or_default();
    crate::cache::remove_tree(&run)?;
    Ok(String::from_utf8_lossy(&console).contains("VFS: Unable to mount root fs"))
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
