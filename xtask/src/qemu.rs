// SPDX-License-Identifier: GPL-2.0
//! The guest in QEMU: how it is started, and what it can be run with here.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::bed::Bed;
use crate::cache::write_whole;
use crate::chroot::Chroot;
use crate::env::{Env, OUT};
use crate::guest::{Guest, Limits, Machine, Nobody};
use crate::image::IMAGE;
use crate::kernel::{KernelTree, IN_CHROOT};

/// Memory of the guest, MiB.
const MEMORY_MIB: u32 = 2048;
/// CPUs of the guest, at most; at least two, for races to show.
const MAX_CPUS: usize = 4;
/// How long the kernel may take to its first line under KVM before software emulation is used.
const KVM_PROBE: Duration = Duration::from_secs(15);
/// A panic reboots at once and -no-reboot makes that an end. On a busy host, emulation misses the
/// ticks with which the kernel tests its timer, and it would give up. Caches of equal size stay
/// apart, so that their objects can be counted.
const APPEND: &str = "console=ttyS0 panic=-1 oops=panic no_timer_check slab_nomerge";
/// For a kernel with detectors: WARN and lockdep's reports are below `quiet`; KASAN reports more
/// than once; on a busy host the watchdog would exchange the TSC for the HPET, which is read
/// through emulated I/O.
const APPEND_DETECTORS: &str = "loglevel=5 kasan_multi_shot tsc=reliable";

/// Nothing that differs from run to run reaches the guest: no random numbers, and a clock that only
/// its instructions move.
const COUNTED: &[&str] = &[
    "-accel",
    "tcg",
    "-cpu",
    // Copies in loops, as on a processor without fast string instructions: each round of those
    // would count as an instruction, and mostly each byte.
    "max,-rdrand,-rdseed,-erms,-fsrm,-fsrs,-fzrm",
    "-icount",
    "shift=0,sleep=off",
    "-rtc",
    "base=2026-01-01,clock=vm",
    "-seed",
    "1",
];
/// And all that it executes between two marks is written to [`COUNTS`] by the plugin [`PLUGIN`].
const PROFILED: &[&str] = &["-plugin", "/out/count.so,out=/out/counts"];
/// The plugin's file in the folder of the run, and what it writes.
pub(crate) const PLUGIN: &str = "count.so";
pub(crate) const COUNTS: &str = "counts";
/// Fixed addresses, too; and on the console no more than the scan of the log wants, since each
/// character costs instructions.
const APPEND_COUNTED: &str = "nokaslr loglevel=5";

/// What QEMU runs the guest's processor with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The machine's own processor.
    Kvm,
    /// Software emulation.
    Tcg,
    /// Software emulation of one processor whose clock advances by 1 ns with each instruction: what
    /// a program costs can be read off the clock, and does not depend on the machine. The same
    /// image boots to the same figures.
    Counted,
    /// The same with a plugin that counts how often each piece of code is executed.
    Profiled,
}

impl Accelerator {
    fn counts(self) -> bool {
        matches!(self, Self::Counted | Self::Profiled)
    }

    fn args(self, bed: Bed) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            // KASAN's shadow of a 57-bit address space takes long to set up.
            Self::Tcg if bed.has_detectors() => {
                &["-accel", "tcg,thread=multi", "-cpu", "max,-la57"]
            }
            Self::Tcg => &["-accel", "tcg,thread=multi", "-cpu", "max"],
            Self::Counted | Self::Profiled => COUNTED,
        }
    }
}

/// Starts the guest with its serial ports in files.
pub(crate) fn command(guest: &Guest<'_>, accelerator: Accelerator) -> Command {
    let console = format!("file:{OUT}/console.log");
    let events = format!("file:{OUT}/events.jsonl");
    start(
        guest,
        accelerator,
        &["-serial", &console, "-serial", &events],
        "",
    )
}

/// Starts the guest with its console on this terminal.
pub(crate) fn interactive(guest: &Guest<'_>, accelerator: Accelerator) -> Command {
    let events = format!("file:{OUT}/events.jsonl");
    start(
        guest,
        accelerator,
        &["-serial", "mon:stdio", "-serial", &events],
        "quiet",
    )
}

fn start(guest: &Guest<'_>, accelerator: Accelerator, serial: &[&str], more: &str) -> Command {
    let bed = guest.tree.bed;
    let counted = accelerator.counts();
    let most = if bed.has_detectors() { 2 } else { MAX_CPUS };
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
    let cpus = if counted { 1 } else { cpus.clamp(2, most) };
    let cpus = cpus.to_string();
    let memory = MEMORY_MIB.to_string();
    let kernel = format!("{IN_CHROOT}/vmlinux");
    let initrd = format!("{OUT}/{IMAGE}");
    let detectors = if bed.has_detectors() {
        APPEND_DETECTORS
    } else {
        ""
    };
    let counted = if counted { APPEND_COUNTED } else { "" };
    let append = format!("{APPEND} {detectors} {counted} {more}");
    let mut args = vec!["-machine", "q35", "-smp", &cpus, "-m", &memory];
    args.extend(accelerator.args(bed));
    if accelerator == Accelerator::Profiled {
        args.extend(PROFILED);
    }
    args.extend(["-kernel", &kernel, "-append", append.trim_end()]);
    if guest.run.join(IMAGE).exists() {
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
    guest
        .tree
        .bind(guest.chroot.enter())
        .bind_rw(guest.run, OUT)
        .command("qemu-system-x86_64", args)
}

/// What guests can be run with here. `/dev/kvm` may be there and not work, so the kernel is really
/// booted with it, once per boot of this machine.
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
        machine: Machine::Qemu(Accelerator::Kvm),
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
