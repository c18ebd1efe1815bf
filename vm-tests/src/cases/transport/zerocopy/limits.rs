// SPDX-License-Identifier: GPL-2.0
//! The end of who lends pages, and how many he may lend.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::sched::{unshare, CloneFlags};
use nix::sys::resource::{setrlimit, Resource};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, setresuid, ForkResult, Pid, Uid};
use turnstile_socket::Socket;

use super::super::content::{check, content};
use super::super::memory::{number, say, Child, Groups, GROUP, MOST};
use super::super::support::{
    addresses, load, nothing_more, pair, receiver, send_once, PATIENCE, PORT,
};
use super::calls::{all_returned, lend, lender, set};
use crate::cmd::run_here;
use crate::harness::Ctx;

/// Memory that is a program's own for as long as it wants.
pub(super) struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    pub(super) fn new(content: &[u8]) -> Result<Self> {
        let len = content.len();
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel finds a place for it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
        ensure!(at != libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let at = at.cast::<u8>();
        // SAFETY: so many bytes are there.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), at, len) };
        Ok(Self { at, len })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: they are there as long as the value.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is the value's own.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// A closed socket's message keeps its pages until it is delivered, though the program has them no
/// more.
pub(super) fn closed(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1 << 20;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(128 << 10)?;
    for number in 0..3 {
        let from = lender(&net.hosts[0].ns, addresses(&net.hosts[1])[0])?;
        let data = Mapping::new(&content(number, LEN))?;
        lend(&from, data.bytes(), 0)?;
        drop(from);
        drop(data);
        let came = to.recv_message(LEN)?;
        ensure!(came.data.len() == LEN, "{} bytes", came.data.len());
        check(number, 0, &came.data)?;
    }
    nothing_more(&to)
}

/// What a process does that is not this one, whose threads are not there.
fn child(act: impl FnOnce() -> i32) -> Result<Pid> {
    // SAFETY: the child does what it has to do, with one thread, and does not return from here.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let code = act();
            // SAFETY: nothing of the parent is to be run at the child's end.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => Ok(child),
    }
}

/// A process that is killed in the midst of it leaves messages as if it had closed its socket.
pub(super) fn killed(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1 << 20;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(128 << 10)?;
    let there = addresses(&net.hosts[1])[1];
    let from = lender(&net.hosts[0].ns, there)?;
    let data = content(7, LEN);
    // More than the send buffer takes: it is killed in a call.
    let pid = child(|| loop {
        if lend(&from, &data, 0).is_err() {
            return 1;
        }
    })?;
    std::thread::sleep(Duration::from_millis(500));
    kill(pid, Signal::SIGKILL)?;
    let status = waitpid(pid, None)?;
    ensure!(
        status == WaitStatus::Signaled(pid, Signal::SIGKILL, false),
        "{status:?}"
    );
    drop(from);
    let came = to.recv_message(LEN)?;
    check(7, 0, &came.data)
}

/// Who may have no more pages that stay in memory (RLIMIT_MEMLOCK) gets ENOBUFS, until he has some
/// back; what is copied anyway needs none.
pub(super) fn locked_memory(_: &mut Ctx) -> Result<()> {
    const LIMIT: u64 = 512 << 10;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = addresses(&net.hosts[1])[0];
    let from = lender(&net.hosts[0].ns, there)?;
    let pid = child(|| {
        let result = lend_within(&from, LIMIT);
        if let Err(error) = &result {
            eprintln!("{error:#}");
        }
        i32::from(result.is_err())
    })?;
    // As many as it sends.
    for _ in 0..13 {
        to.recv_message(1 << 20)?;
    }
    let status = waitpid(pid, None)?;
    ensure!(status == WaitStatus::Exited(pid, 0), "{status:?}");
    nothing_more(&to)
}

fn lend_within(from: &Socket, limit: u64) -> Result<()> {
    setrlimit(Resource::RLIMIT_MEMLOCK, limit, limit)?;
    // Nobody else has this user.
    let user = Uid::from_raw(54_321);
    setresuid(user, user, user)?;
    let data = content(1, 1 << 20);
    let errno = |result: io::Result<usize>| result.err().and_then(|error| error.raw_os_error());
    let mut number = 0;
    for _ in 0..4 {
        let refused = errno(lend(from, &data, 0));
        ensure!(refused == Some(libc::ENOBUFS), "{refused:?}");
        for len in [1, 60 << 10, 400 << 10] {
            lend(from, &data[..len], 0).with_context(|| format!("{len} bytes"))?;
            number += 1;
        }
        all_returned(from, number - 3, number)?;
    }
    lend(from, &data[..256 << 10], 0)?;
    all_returned(from, number, number + 1)?;
    Ok(())
}

/// What is lent takes nothing of its group's memory a second time: twice as much is under way as
/// the group may have.
pub(super) fn full_group(ctx: &mut Ctx) -> Result<()> {
    load()?;
    let _groups = Groups::new()?;
    fs::write(Path::new(GROUP).join("memory.max"), MOST.to_string()).context("memory.max")?;
    let mut child = Child::new(lend_twice)?;
    let taken = child.told()?;
    let peak: u64 = fs::read_to_string(Path::new(GROUP).join("memory.peak"))?
        .trim()
        .parse()?;
    let ended = child.told()?;
    child.end()?;
    let events = Path::new(GROUP).join("memory.events");
    let killed = number(&events.to_string_lossy(), "oom_kill ")?;
    ctx.note(format!("{taken}; the group had {peak} of {MOST}; {ended}"));
    ensure!(killed == 0, "{killed} processes were killed");
    ensure!(taken == "all was taken", "{taken}");
    ensure!(peak < MOST / 2, "{peak} bytes of {MOST}");
    ensure!(ended == "all came", "{ended}");
    Ok(())
}

fn lend_twice(to: &mut UnixStream) -> Result<()> {
    const LEN: usize = 1 << 20;
    const COUNT: u64 = 2 * (MOST >> 20);
    fs::write(Path::new(GROUP).join("cgroup.procs"), "0").context("cgroup.procs")?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    run_here("ip link set lo up", "")?.success()?;
    let receiver = Socket::bind(("::1", PORT))?;
    receiver.set_recv_buffer_size(64 << 10)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, PORT));
    let message = content(1, LEN);
    let mut sockets = Vec::new();
    for _ in 0..COUNT {
        let socket = Socket::bind("[::1]:0")?;
        set(&socket, 1)?;
        send_once(&socket, &message, Some(address), &[], libc::MSG_ZEROCOPY)?;
        sockets.push(socket);
    }
    say(to, "all was taken")?;
    for so_far in 0..COUNT {
        let came = receiver.recv_message(LEN);
        let came = came.with_context(|| format!("{so_far} messages came"))?;
        check(1, 0, &came.data)?;
    }
    for socket in &sockets {
        all_returned(socket, 0, 1)?;
    }
    say(to, "all came")
}
