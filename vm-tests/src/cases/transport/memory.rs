// SPDX-License-Identifier: GPL-2.0
//! Whom the transport's memory counts to, and what a user may take who is root of a namespace of
//! his own.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::fcntl::{fcntl, FcntlArg};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, pipe, setgroups, setresgid, setresuid, ForkResult, Gid, Pid, Uid};
use rustix::event::PollFlags;
use turnstile_core::options::Table;
use turnstile_core::transport::config::{Config, CAPS};
use turnstile_socket::{SendOptions, Socket};

use super::support::{load, ready, send_once, wait_for, PATIENCE, PORT};
use crate::cmd::run_here;
use crate::harness::{Case, Ctx};

// The first memory cgroup makes the kernel keep some objects for good.
pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/memory/unprivileged", unprivileged)
        .timeout_s(120)
        .crowded(),
    Case::new("transport/memory/full-group", full_group)
        .timeout_s(120)
        .crowded(),
    Case::new("transport/memory/scarce-for-a-while", scarce_for_a_while)
        .timeout_s(120)
        .crowded(),
];

/// Where the control groups are shown.
const GROUPS: &str = "/run/turnstile-cgroups";
/// The group of the one who takes what he can get.
pub(super) const GROUP: &str = "/run/turnstile-cgroups/greedy";

/// The control groups' file system, while the case runs.
pub(super) struct Groups;

impl Groups {
    pub(super) fn new() -> Result<Self> {
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
pub(super) fn number(file: &str, name: &str) -> Result<u64> {
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
    let mut child = Child::new(take_all)?;
    let began = child.told()?;
    ensure!(began == "ready", "{began}");
    let before = taken()?;
    let opened = child.told()?;
    let after = taken()?;
    child.end()?;
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

/// A process in the group.
pub(super) struct Child {
    pid: Pid,
    here: UnixStream,
}

impl Child {
    pub(super) fn new(act: fn(&mut UnixStream) -> Result<()>) -> Result<Self> {
        let (here, there) = UnixStream::pair()?;
        // SAFETY: the child is this process with one thread, which does not return from here.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(here);
                let code = i32::from(acts(there, act).is_err());
                // SAFETY: nothing of the parent is to be run at the child's end.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => Ok(Self { pid: child, here }),
        }
    }

    /// What it says next. It goes on.
    pub(super) fn told(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.here.read(&mut byte)? == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        self.here.write_all(b"\n").context("it has ended")?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    pub(super) fn end(self) -> Result<()> {
        drop(self.here);
        waitpid(self.pid, None)?;
        Ok(())
    }
}

/// What it does. It waits for a line after each that it says.
fn acts(mut to: UnixStream, act: fn(&mut UnixStream) -> Result<()>) -> Result<()> {
    let result = act(&mut to);
    if let Err(error) = &result {
        let _ = say(&mut to, &format!("{error:#}").replace('\n', " "));
    }
    result
}

pub(super) fn say(to: &mut UnixStream, what: &str) -> Result<()> {
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

/// What the group may have, bytes.
pub(super) const MOST: u64 = 32 << 20;

/// Who sends more than his group may have is refused, or waits, and goes on when what he has sent
/// is delivered. Nobody is killed for it.
fn full_group(ctx: &mut Ctx) -> Result<()> {
    load()?;
    let _groups = Groups::new()?;
    fs::write(Path::new(GROUP).join("memory.max"), MOST.to_string()).context("memory.max")?;
    let mut child = Child::new(fill)?;
    let filled = child.told()?;
    let peak: u64 = fs::read_to_string(Path::new(GROUP).join("memory.peak"))?
        .trim()
        .parse()?;
    let emptied = child.told()?;
    child.end()?;
    let events = Path::new(GROUP).join("memory.events");
    let killed = number(&events.to_string_lossy(), "oom_kill ")?;
    ctx.note(format!(
        "{filled}; the group had {peak} bytes of {MOST}; {emptied}; {killed} were killed"
    ));
    ensure!(killed == 0, "{killed} processes were killed");
    ensure!(filled.ends_with("refused"), "{filled}");
    // What the kernel keeps of each message cannot wait.
    ensure!(peak <= MOST + (1 << 20), "{peak} bytes of {MOST}");
    ensure!(peak >= MOST - (1 << 20), "only {peak} bytes of {MOST}");
    ensure!(emptied == "all came", "{emptied}");
    Ok(())
}

fn fill(to: &mut UnixStream) -> Result<()> {
    const LEN: usize = 1 << 20;
    fs::write(Path::new(GROUP).join("cgroup.procs"), "0").context("cgroup.procs")?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    run_here("ip link set lo up", "")?.success()?;
    let receiver = Socket::bind(("::1", PORT))?;
    receiver.set_recv_buffer_size(64 << 10)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, PORT));
    let message = vec![7; LEN];
    // Its pages are there from now on.
    let mut came = vec![1; LEN];
    // What the process takes besides, it must find: for that it would be killed. To give back what
    // a pipe holds takes nothing, other than unmapping.
    let (reserve, full) = pipe()?;
    fcntl(&full, FcntlArg::F_SETPIPE_SZ(LEN as i32))?;
    File::from(full).write_all(&message)?;
    let mut reserve = File::from(reserve);
    let mut sockets = Vec::new();
    for _ in 0..64 {
        let socket = Socket::bind("[::1]:0")?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    // Whole messages, and what there was room for of another, for each socket.
    let mut taken = Vec::with_capacity(sockets.len());
    let mut refused = 0;
    for socket in &sockets {
        let mut sent = 0;
        while sent < LEN {
            match send_once(
                socket,
                &message[sent..],
                (sent == 0).then_some(address),
                &[],
                0,
            ) {
                Ok(bytes) => sent += bytes,
                Err(error) => {
                    let errno = error.raw_os_error();
                    let told = [libc::EAGAIN, libc::ENOBUFS].map(Some);
                    ensure!(told.contains(&errno), "sending: {error}");
                    refused += 1;
                    break;
                }
            }
        }
        taken.push(sent);
    }
    reserve.read_exact(&mut came)?;
    say(
        to,
        match refused {
            0 => "all was taken",
            _ => "some was refused",
        },
    )?;
    // Those that were begun are ended by their sockets' ends.
    let whole = taken.iter().filter(|sent| **sent == LEN).count();
    for (socket, _) in sockets
        .drain(..)
        .zip(&taken)
        .filter(|(_, sent)| **sent != LEN)
    {
        drop(socket);
    }
    for so_far in 0..whole {
        let mut at = 0;
        while at < LEN {
            let read = receiver.recv(&mut came[at..]);
            let read = read.with_context(|| format!("{so_far} of {whole} messages came"))?;
            at += read.len;
        }
    }
    // There is room again.
    let socket = Socket::bind("[::1]:0")?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket
        .send_to(&message, address, &SendOptions::default())
        .context("sending again")?;
    say(to, "all came")
}

/// A call on an open message finds no memory, when all of the message is delivered: nothing of it
/// frees any. When there is some, the socket is told, and goes on.
fn scarce_for_a_while(ctx: &mut Ctx) -> Result<()> {
    load()?;
    let _groups = Groups::new()?;
    fs::write(Path::new(GROUP).join("memory.max"), MOST.to_string()).context("memory.max")?;
    let mut child = Child::new(refused_once)?;
    let said = child.told()?;
    child.end()?;
    ctx.note(said);
    Ok(())
}

fn refused_once(to: &mut UnixStream) -> Result<()> {
    const LEN: usize = 1 << 20;
    /// Of the open message.
    const FIRST: usize = 200 << 10;
    fs::write(Path::new(GROUP).join("cgroup.procs"), "0").context("cgroup.procs")?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    run_here("ip link set lo up", "")?.success()?;
    let reader = Socket::bind(("::1", PORT))?;
    reader.set_read_timeout(Some(Duration::from_secs(2)))?;
    // Nobody reads from this one.
    let lazy = Socket::bind(("::1", PORT + 1))?;
    lazy.set_recv_buffer_size(64 << 10)?;
    let local = std::net::Ipv6Addr::LOCALHOST;
    let here = SocketAddr::from((local, PORT));
    let elsewhere = SocketAddr::from((local, PORT + 1));
    let message = vec![7_u8; LEN];
    let mut came = vec![0_u8; LEN];
    let socket = Socket::bind("[::1]:0")?;
    socket.set_nonblocking(true)?;
    let begin = &message[..FIRST];
    let sent = send_once(&socket, begin, Some(here), &[], libc::MSG_MORE)?;
    let mut at = 0;
    // The last byte may wait for more.
    while at + 1 < sent {
        at += reader.recv(&mut came[at..]).context("the beginning")?.len;
    }
    // All else is for others. What a socket itself takes would not be refused, in a full group: so
    // they are all there before.
    let mut others = Vec::new();
    for _ in 0..64 {
        let other = Socket::bind("[::1]:0")?;
        other.set_nonblocking(true)?;
        others.push(other);
    }
    let mut refused = 0;
    for other in &others {
        let mut done = 0;
        while done < LEN {
            let to = (done == 0).then_some(elsewhere);
            match send_once(other, &message[done..], to, &[], 0) {
                Ok(bytes) => done += bytes,
                Err(_) => break,
            }
        }
        refused += u32::from(done < LEN);
    }
    ensure!(refused != 0, "the group is not full");
    let more = || send_once(&socket, &message[..4096], None, &[], libc::MSG_MORE);
    // What is left of a page may take some.
    let last = (0..8).find_map(|_| more().err());
    let last = last.context("nothing was refused")?;
    ensure!(last.raw_os_error() == Some(libc::EAGAIN), "{last}");
    for other in &others {
        socket2::SockRef::from(other).set_linger(Some(Duration::ZERO))?;
    }
    drop(others);
    wait_for(&socket, PollFlags::OUT)?;
    let bytes = more().context("when there is room")?;
    say(
        to,
        &format!("{refused} others were refused; {bytes} bytes more"),
    )
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
