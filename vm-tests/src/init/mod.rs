// SPDX-License-Identifier: GPL-2.0
//! PID 1: makes a bare kernel and an initramfs into a place to run programs in, does what
//! `run.json` says, reaps what is left behind and switches the machine off.

mod mounts;
mod shell;

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use nix::sys::reboot::{reboot, RebootMode};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::Pid;
use turnstile_test_protocol::run::{self, Mode, RunConfig};

use crate::events::{self, Event, Events};
use crate::run_config;

/// The program that runs the cases and the demonstration.
const VM_TESTS: &str = "/usr/bin/vm-tests";

/// Longer than a kernel's tick.
const FIRST_TICK: Duration = Duration::from_millis(100);

/// Never returns: the machine is off afterwards.
pub fn main() -> ! {
    if std::env::args().nth(1).as_deref() == Some(shell::SESSION_ARGUMENT) {
        shell::session();
    }
    // Set before anything can fail, so that a failure is told to the host.
    std::env::set_var(events::ENV, "/dev/ttyS1");
    std::env::set_var("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    std::env::set_var("HOME", "/root");
    std::env::set_var("TERM", "vt100");
    std::panic::set_hook(Box::new(|info| {
        eprintln!("init: {info}");
        give_up(&format!("init panicked: {info}"));
    }));
    if let Err(error) = run() {
        eprintln!("init: {error:#}");
        give_up(&format!("init: {error:#}"));
    }
    power_off()
}

fn run() -> Result<()> {
    mounts::mount_all()?;
    nix::unistd::sethostname("turnstile").context("setting the host name")?;
    power_off_on_signal()?;
    let config = run_config::load(Path::new(run::PATH))?;
    std::env::set_var(events::ENV, &config.events);
    Events::prepare(Path::new(&config.events));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .context("reading the kernel's release")?;
    Events::from_env().send(&Event::Boot {
        kernel: kernel.trim().into(),
    });
    // Emulated hosts forward in software on few CPUs: a burst may wait, but must not be lost on the
    // way to the port.
    let _ = std::fs::write("/proc/sys/net/core/netdev_max_backlog", "10000");
    if let Err(error) = bring_loopback_up() {
        eprintln!("init: {error:#}");
    }
    // High-resolution timers begin with the first tick; nothing exact before it.
    std::thread::sleep(FIRST_TICK);
    match config.mode {
        Mode::Test => program(&config, &[]),
        Mode::Planted => program(&config, &["--planted"]),
        Mode::Demo => program(&config, &["--demo"]),
        Mode::Bench => program(&config, &["--bench"]),
        Mode::Profile => program(&config, &["--bench-profile"]),
        Mode::Lab => program(&config, &["--lab"]),
        Mode::Shell => shell::run(),
    }
}

/// Runs `vm-tests`, which reports by itself; only its sudden death is left to tell.
fn program(config: &RunConfig, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(VM_TESTS);
    command.args(arguments);
    command.args([
        "--seed",
        &config.seed.to_string(),
        "--timeout-scale",
        &config.timeout_scale.to_string(),
    ]);
    if config.mode == Mode::Test {
        command.args(["--take", config.take.word()]);
    }
    command.args(
        config
            .filter
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty()),
    );
    match wait_for(&mut command)? {
        0 | 1 => Ok(()),
        code => bail!("{VM_TESTS} ended with code {code}"),
    }
}

fn bring_loopback_up() -> Result<()> {
    let status: ExitStatus = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()
        .context("starting ip")?;
    anyhow::ensure!(status.success(), "ip link set lo up: {status}");
    Ok(())
}

/// Starts a child and reaps every process that ends until that child does; gives its exit code.
fn wait_for(command: &mut Command) -> Result<i32> {
    let child = command
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let wanted = Pid::from_raw(i32::try_from(child.id()).context("process id")?);
    loop {
        match waitpid(None, None).context("waiting for processes to end")? {
            WaitStatus::Exited(pid, code) if pid == wanted => return Ok(code),
            WaitStatus::Signaled(pid, signal, _) if pid == wanted => {
                bail!("{command:?} was killed by {signal}")
            }
            _ => {}
        }
    }
}

/// `poweroff`, `halt` and `reboot` of the guest's busybox send a signal to PID 1.
fn power_off_on_signal() -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGTERM,
        Signal::SIGINT,
    ] {
        signals.add(signal);
    }
    signals.thread_block().context("blocking signals")?;
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            power_off();
        }
    });
    Ok(())
}

/// Tells the host that the run is lost, and ends.
fn give_up(why: &str) -> ! {
    let events = Events::from_env();
    events.send(&Event::Fail {
        case: "init".into(),
        ms: 0,
        why: why.into(),
    });
    events.send(&Event::Done {
        passed: 0,
        failed: 1,
    });
    power_off()
}

/// Switches the machine off; if that cannot be done, waits for the host to do it.
fn power_off() -> ! {
    Events::from_env().drain();
    nix::unistd::sync();
    let error = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("init: power off: {error:?}");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
