// SPDX-License-Identifier: GPL-2.0
//! Namespaces that come and go with sockets in them, with a user namespace or without; files that
//! show what there is; modules that somebody wants to unload.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sched::{unshare, CloneFlags};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, ForkResult};

use super::hand::{Hand, Shelved};
use super::sockets;
use super::values::loopback;

/// Does something with namespaces, files or modules.
pub(super) fn call(hand: &mut Hand<'_>) {
    match hand.rng.index(16) {
        0..2 => network(hand),
        2 => user(hand),
        3 if hand.rng.one_in(4) => unload(hand),
        _ => files(hand),
    }
}

const FILES: &[&str] = &[
    "/proc/thread-self/net/protocols",
    "/proc/thread-self/net/sockstat",
    "/proc/thread-self/net/sockstat6",
    "/proc/thread-self/net/udp",
    "/proc/thread-self/net/udp6",
    "/proc/thread-self/net/raw",
    "/proc/thread-self/net/packet",
    "/proc/thread-self/net/netlink",
    "/proc/thread-self/net/ptype",
    "/proc/thread-self/net/psched",
    "/proc/thread-self/net/snmp",
    "/proc/thread-self/net/dev",
    "/proc/modules",
    "/proc/slabinfo",
    "/sys/module/turnstile/refcnt",
    "/sys/module/sch_turnstile/refcnt",
    "/sys/class/net/eth0/speed",
];

fn files(hand: &mut Hand<'_>) {
    let path = *hand.rng.pick(FILES);
    let mut room = vec![0; hand.rng.range(1..=10_000) as usize];
    hand.about_to(format!("read {path}"));
    let done = File::open(path).is_ok_and(|mut file| file.read(&mut room).is_ok());
    hand.tally.count("a file of the kernel's", done);
}

/// A namespace that ends with messages under way, and may live on as a socket's.
fn network(hand: &mut Hand<'_>) {
    let (stays, domain) = (
        hand.rng.one_in(2),
        *hand.rng.pick(&[libc::AF_INET, libc::AF_INET6]),
    );
    hand.about_to(format!("a namespace, its socket stays: {stays}"));
    let made = std::thread::spawn(move || -> Option<OwnedFd> {
        unshare(CloneFlags::CLONE_NEWNET).ok()?;
        super::devices::switch("lo", true);
        let kind = libc::SOCK_RDM | libc::SOCK_CLOEXEC;
        let (from, to) = (sockets::new(domain, kind)?, sockets::new(domain, kind)?);
        let at = sockets::own_place(&to, domain)?;
        for len in [100, 5000, 200_000] {
            let data = vec![0x11_u8; len];
            // SAFETY: data and address are there.
            unsafe {
                libc::sendto(
                    from.as_raw_fd(),
                    data.as_ptr().cast(),
                    len,
                    libc::MSG_DONTWAIT,
                    (&raw const at.storage).cast(),
                    at.len,
                )
            };
        }
        Some(if stays { from } else { to })
    })
    .join();
    let Ok(made) = made else {
        panic!("a thread panicked");
    };
    hand.tally.count("a namespace that ends", made.is_some());
    if let Some(fd) = made.filter(|_| stays) {
        hand.shared.shelve(&mut hand.rng, Shelved { fd, domain });
    }
}

/// A process that is root of a user namespace and of a network namespace in it, and dies with
/// messages under way.
fn user(hand: &mut Hand<'_>) {
    let unprivileged = hand.rng.one_in(2);
    hand.about_to(format!("a user namespace, made by a user: {unprivileged}"));
    let at = loopback(libc::AF_INET);
    let data = vec![0x22_u8; 100_000];
    // SAFETY: the child makes system calls only, none of which needs memory that is not there
    // already or a lock that another thread may have, and does not return.
    let child = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let code = i32::from(in_user_namespace(unprivileged, &at, &data).is_none());
            // SAFETY: nothing of the parent is to be run at the child's end.
            unsafe { libc::_exit(code) }
        }
        Ok(ForkResult::Parent { child }) => child,
        Err(_) => return hand.tally.count("a user namespace", false),
    };
    let ended = waitpid(child, None);
    let done = matches!(ended, Ok(WaitStatus::Exited(_, 0)));
    hand.tally.count("a user namespace", done);
}

fn in_user_namespace(unprivileged: bool, at: &super::values::Address, data: &[u8]) -> Option<()> {
    let kind = libc::SOCK_RDM | libc::SOCK_CLOEXEC;
    // SAFETY: all of these read what is there, as long as is said.
    unsafe {
        if unprivileged {
            libc::setresgid(1000, 1000, 1000);
            libc::setresuid(1000, 1000, 1000);
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
        if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) != 0 {
            return None;
        }
        let map: &[u8] = if unprivileged { b"0 1000 1" } else { b"0 0 1" };
        let file = libc::open(c"/proc/self/uid_map".as_ptr(), libc::O_WRONLY);
        if libc::write(file, map.as_ptr().cast(), map.len()) < 0 {
            return None;
        }
        let control = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        // struct ifreq of lo: up.
        let mut request = [0_u8; 40];
        request[..2].copy_from_slice(b"lo");
        request[16] = libc::IFF_UP as u8;
        if libc::ioctl(control, 0x8914, request.as_mut_ptr()) != 0 {
            return None;
        }
        let from = libc::socket(libc::AF_INET, kind, 259);
        let to = libc::socket(libc::AF_INET, kind, 259);
        let mut at = super::values::Address {
            storage: at.storage,
            len: at.len,
        };
        if libc::bind(to, (&raw const at.storage).cast(), at.len) != 0 {
            return None;
        }
        libc::getsockname(to, (&raw mut at.storage).cast(), &raw mut at.len);
        let much = 1_i32 << 30;
        let name = libc::SO_SNDBUF;
        libc::setsockopt(from, libc::SOL_SOCKET, name, (&raw const much).cast(), 4);
        for _ in 0..20 {
            libc::sendto(
                from,
                data.as_ptr().cast(),
                data.len(),
                libc::MSG_DONTWAIT,
                (&raw const at.storage).cast(),
                at.len,
            );
        }
    }
    Some(())
}

/// Unloads a module if nobody has it.
fn unload(hand: &mut Hand<'_>) {
    let module = *hand.rng.pick(&[c"turnstile", c"sch_turnstile"]);
    hand.about_to(format!("unload {module:?}"));
    // SAFETY: the name is there.
    let result =
        unsafe { libc::syscall(libc::SYS_delete_module, module.as_ptr(), libc::O_NONBLOCK) };
    hand.tally.count("a module unloaded", result == 0);
}
