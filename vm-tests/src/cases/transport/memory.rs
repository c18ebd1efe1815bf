// SPDX-License-Identifier: GPL-2.0
//! Whom the transport's memory counts to, and what a user may take who is root of a namespace of
//! his own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, setgroups, setresgid, setresuid, ForkResult, Gid, Uid};
use turnstile_core::options::Table;
use turnstile_core::transport::config::{Config, CAPS};
use turnstile_socket::{SendOptions, Socket};

use super::support::{load, ready, PORT};
use crate::cmd::run_here;
use crate::harness::{Case, Ctx};

// The first memory cgroup makes the kernel keep some objects for good.
pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("transport/memory/unprivileged", unprivileged)
        .timeout_s(120)
        .crowded()];

/// Where the control groups are shown.
const GROUPS: &str = "/run/turnstile-cgroups";
/// The group of the one who takes what he can get.
const GROUP: &str = "/run/turnstile-cgroups/greedy";

/// The control groups' file system, while the case runs.
struct Groups;

impl Groups {
    fn new() -> Result<Self> {
        fs::create_dir_all(GROUPS)?;
        const NONE: Option<&str> = None;
        mount(NONE, GROUPS, Some("cgroup2"), MsFlags::empty(), NONE).context("cgroup2")?;
        let groups = Self;
        let control = Path::new(GROUPS).join("cgroup.subtree_control");
        fs::write(control, "+memory").context("no memory controller")?;
        fs::create_dir(GROUP)?;
        Ok(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = fs::remove_dir(GROUP);
        let _ = umount2(GROUPS, MntFlags::MNT_DETACH);
    }
}

/// The number behind a name in a file of names and numbers.
fn number(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    line.with_context(|| format!("{file}: no {name}"))?
        .parse()
        .with_context(|| format!("{file}: {name}"))
}

/// What the kernel took for itself, in bytes: of the machine, and of the group.
fn taken() -> Result<(u64, u64)> {
    let machine = number("/proc/meminfo", "SUnreclaim:")? * 1024;
    let stat = format!("{GROUP}/memory.stat");
    Ok((machine, number(&stat, "kernel ")? + number(&stat, "sock ")?))
}

/// A user without any right, root of a user namespace and of a network namespace in it, raises all
/// limits and opens as many messages as he can: the limits have caps, and the memory counts to his
/// group.
fn unprivileged(ctx: &mut Ctx) -> Result<()> {
    load()?;
    let _groups = Groups::new()?;
    let (mut here, there) = UnixStream::pair()?;
    // SAFETY: the child is this process with one thread, which does not return from here.
    let child = match unsafe { fork() }? {
        ForkResult::Child => {
            drop(here);
            let code = i32::from(greedy(there).is_err());
            // SAFETY: nothing of the parent is to be run at the child's end.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => child,
    };
    drop(there);
    let mut told = || -> Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while here.read(&mut byte)? == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        here.write_all(b"\n")?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    };
    let began = told()?;
    ensure!(began == "ready", "{began}");
    let before = taken()?;
    let opened = told()?;
    let after = taken()?;
    drop(here);
    waitpid(child, None)?;
    let (machine, group) = (
        after.0.saturating_sub(before.0),
        after.1.saturating_sub(before.1),
    );
    ctx.note(format!(
        "{opened}: the kernel took {machine} bytes, the group has {group} more"
    ));
    let count: u64 = opened
        .strip_suffix(" messages")
        .and_then(|count| count.parse().ok())
        .with_context(|| opened.clone())?;
    ensure!(count >= 1000, "only {opened}");
    // Packets under way count to nobody.
    ensure!(
        machine <= group + group / 2 + (1 << 20),
        "of {machine} bytes only {group} count to the group"
    );
    Ok(())
}

/// What that user does. He waits for a line after each that he says.
fn greedy(mut to: UnixStream) -> Result<()> {
    let result = take_all(&mut to);
    if let Err(error) = &result {
        let _ = say(&mut to, &format!("{error:#}").replace('\n', " "));
    }
    result
}

fn say(to: &mut UnixStream, what: &str) -> Result<()> {
    to.write_all(what.as_bytes())?;
    to.write_all(b"\n")?;
    let mut byte = [0];
    let _ = to.read(&mut byte)?;
    Ok(())
}

fn take_all(to: &mut UnixStream) -> Result<()> {
    const USER: u32 = 1000;
    fs::write(Path::new(GROUP).join("cgroup.procs"), "0").context("cgroup.procs")?;
    setgroups(&[])?;
    let group = Gid::from_raw(USER);
    setresgid(group, group, group)?;
    let user = Uid::from_raw(USER);
    setresuid(user, user, user)?;
    nix::sys::prctl::set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .context("making namespaces as a user")?;
    fs::write("/proc/self/setgroups", "deny").context("setgroups")?;
    fs::write("/proc/self/uid_map", format!("0 {USER} 1")).context("uid_map")?;
    fs::write("/proc/self/gid_map", format!("0 {USER} 1")).context("gid_map")?;
    run_here("ip link set lo up", "")?.success()?;
    limits()?;
    let receiver = Socket::bind(("::1", PORT))?;
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, PORT));
    say(to, "ready")?;
    let mut sockets = Vec::new();
    let mut opened = 0;
    'all: for _ in 0..128 {
        let socket = Socket::bind("[::1]:0")?;
        socket.set_nonblocking(true)?;
        for _ in 0..32 {
            // Longer than there is room for, so that it stays.
            if socket
                .send_to(&[7; 3000], address, &SendOptions::default())
                .is_err()
            {
                break 'all;
            }
            opened += 1;
            ready(&receiver)?;
        }
        sockets.push(socket);
    }
    say(to, &format!("{opened} messages"))
}

/// Root of a user namespace may lower the limits, and raise them to their caps.
fn limits() -> Result<()> {
    for (number, cap) in CAPS {
        let name = Config::option(*number).context("no such option")?.name;
        let above = run_here(&format!("turnstile transport set {name} {}", cap + 1), "")?;
        let said = above.failure()?;
        ensure!(
            said.contains(&format!("{} is above {cap}", cap + 1)),
            "{name}: {said}"
        );
        run_here(&format!("turnstile transport set {name} {cap}"), "")?.success()?;
    }
    Ok(())
}
