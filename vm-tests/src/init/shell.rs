// SPDX-License-Identifier: GPL-2.0
//! A shell on the console, with job control.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::wait_for;

/// First argument of the process that becomes the shell's session leader.
pub(super) const SESSION_ARGUMENT: &str = "--shell-session";

const HELLO: &str = "
Turnstile guest: tc, ip, bridge, jq, tcpdump, iperf3 and turnstile are here.

  vm-tests --list                 the test cases
  vm-tests NAME                   runs those whose names contain NAME
  vm-tests --demo                 the demonstration
  ls /tc-configs                  ready configurations
  ip link add veth0 type veth peer name veth1
  tc qdisc add dev veth0 root handle 1: turnstile link 1gbit
  tc -s class show dev veth0

`exit` switches the machine off.
";

/// Runs the shell until it is left.
pub(super) fn run() -> Result<()> {
    let loaded = Command::new("modprobe").arg("sch_turnstile").status();
    println!("{HELLO}");
    if loaded.is_ok_and(|status| status.success()) {
        println!("sch_turnstile is loaded.");
    } else {
        println!(
            "modprobe sch_turnstile failed: the module is not there or does not fit this kernel."
        );
    }
    wait_for(Command::new("/proc/self/exe").arg(SESSION_ARGUMENT))?;
    Ok(())
}

/// Becomes a session leader, takes the console as its terminal, and turns into the shell.
///
/// A terminal becomes the controlling one when a session leader without any opens it; that is what
/// ^C, ^Z and `fg` need. /dev/console itself cannot be one, so its device is opened by name.
pub(super) fn session() -> ! {
    let error = match become_shell() {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("init: no shell on the console: {error:#}");
    std::process::exit(1)
}

fn become_shell() -> Result<std::convert::Infallible> {
    nix::unistd::setsid()?;
    let active = std::fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    // The last one named is what /dev/console stands for.
    let name = active
        .split_whitespace()
        .last()
        .unwrap_or("ttyS0")
        .to_owned();
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/dev/{name}"))?;
    let error = Command::new("/bin/sh")
        .arg("-i")
        .env("PS1", "turnstile# ")
        .current_dir("/root")
        .stdin(Stdio::from(terminal.try_clone()?))
        .stdout(Stdio::from(terminal.try_clone()?))
        .stderr(Stdio::from(terminal))
        .exec();
    Err(error.into())
}
