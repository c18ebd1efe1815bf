// SPDX-License-Identifier: GPL-2.0
//! Calls on sockets of the transport.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use turnstile_core::transport::uapi::{ancillary, sockopt, IPPROTO_TURNSTILE, SOL_TURNSTILE};

use crate::rng::Rng;

use super::hand::{Hand, Shelved};
use super::values::{address, control, length, loopback, number, own_address, Address};

/// Makes a call.
pub(super) fn call(hand: &mut Hand<'_>) {
    let picked = hand.shared.pick(&mut hand.rng);
    let Some(socket) = picked.filter(|_| !hand.rng.one_in(16)) else {
        return open(hand);
    };
    match hand.rng.index(80) {
        0..2 => bind(hand, &socket),
        2..5 => connect(hand, &socket),
        5..32 => send(hand, &socket),
        32..50 => receive(hand, &socket),
        50..60 => set(hand, &socket),
        60..63 => get(hand, &socket),
        63..65 => name(hand, &socket),
        65..67 => poll(hand, &socket),
        67 => shut_down(hand, &socket),
        68 => control_device(hand, &socket),
        69 => pass(hand, &socket),
        70..72 => splice(hand, &socket),
        72 => odd(hand, &socket),
        73..75 => stream(hand),
        _ => {
            hand.about_to("close".into());
            let done = hand.shared.unshelve(&mut hand.rng);
            hand.tally.count("close", done);
        }
    }
}

/// A new socket of the calling thread's namespace, on the shelf.
pub(super) fn open(hand: &mut Hand<'_>) {
    let rng = &mut hand.rng;
    let domain = *rng.pick(&[libc::AF_INET, libc::AF_INET6]);
    let kind = if rng.one_in(20) {
        rng.range(0..=6) as i32
    } else {
        libc::SOCK_RDM
    };
    let flags = *rng.pick(&[0, libc::SOCK_NONBLOCK]) | libc::SOCK_CLOEXEC;
    hand.about_to(format!("socket {domain} {:#x}", kind | flags));
    let fd = new(domain, kind | flags);
    hand.tally.count("socket", fd.is_some());
    let Some(fd) = fd else {
        return;
    };
    if hand.rng.one_in(3) {
        // Asked for before the first bind.
        let one = 1_i32.to_ne_bytes();
        set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &one);
    }
    let socket = Shelved { fd, domain };
    // Receivers must be bound; later it is too late for most.
    if hand.rng.one_in(2) {
        bind(hand, &socket);
    }
    hand.shared.shelve(&mut hand.rng, socket);
}

/// A new socket whose calls do not wait for long.
pub(super) fn new(domain: i32, kind: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(domain, kind, i32::from(IPPROTO_TURNSTILE)) };
    if fd < 0 {
        return None;
    }
    // SAFETY: it is new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // struct timeval.
    let short = [0_i64.to_ne_bytes(), 20_000_i64.to_ne_bytes()].concat();
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        set_option(&fd, libc::SOL_SOCKET, option, &short);
    }
    Some(fd)
}

/// Sets an option; whether the kernel did.
pub(super) fn set_option(fd: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> bool {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the value has that length.
    unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) == 0 }
}

fn bind(hand: &mut Hand<'_>, socket: &Shelved) {
    let to = own_address(&mut hand.rng, &hand.shared.places, socket.domain);
    hand.about_to(format!("bind {}", socket.raw()));
    // SAFETY: `len` is at most what `storage` has.
    let result = unsafe { libc::bind(socket.raw(), (&raw const to.storage).cast(), to.len) };
    hand.tally.count("bind", result == 0);
}

fn connect(hand: &mut Hand<'_>, socket: &Shelved) {
    let to = address(&mut hand.rng, &hand.shared.places, socket.domain);
    hand.about_to(format!("connect {}", socket.raw()));
    // SAFETY: `len` is at most what `storage` has.
    let result = unsafe { libc::connect(socket.raw(), (&raw const to.storage).cast(), to.len) };
    hand.tally.count("connect", result == 0);
}

const FLAGS: &[i32] = &[
    0,
    0,
    libc::MSG_DONTWAIT,
    libc::MSG_DONTWAIT,
    libc::MSG_MORE,
    libc::MSG_PEEK,
    libc::MSG_WAITALL,
    libc::MSG_TRUNC,
    libc::MSG_ERRQUEUE,
    libc::MSG_OOB,
    libc::MSG_ZEROCOPY,
    libc::MSG_EOR,
    libc::MSG_CMSG_CLOEXEC,
];

/// Those that a call may have, and at times any.
fn flags(rng: &mut Rng, may: &[i32]) -> i32 {
    let mut flags = *rng.pick(may) | *rng.pick(may);
    if rng.one_in(8) {
        flags |= *rng.pick(FLAGS);
    }
    flags | libc::MSG_NOSIGNAL
}

/// Buffers that hold `data` in pieces, one of which may be nowhere.
fn pieces(rng: &mut Rng, data: &mut [u8]) -> Vec<libc::iovec> {
    let mut rest = data;
    let mut all = Vec::new();
    for _ in 0..rng.index(5) {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(rng.index(rest.len() + 1));
        all.push(part);
        rest = after;
    }
    all.push(rest);
    let mut all: Vec<libc::iovec> = all
        .into_iter()
        .map(|part| libc::iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        })
        .collect();
    if rng.one_in(30) {
        let last = all.len() - 1;
        all[last].iov_base = std::ptr::without_provenance_mut(4096);
    }
    if rng.one_in(60) {
        let first = all[0];
        all.resize(
            rng.range(1..=1030) as usize,
            libc::iovec {
                iov_len: 0,
                ..first
            },
        );
    }
    all
}

fn send(hand: &mut Hand<'_>, socket: &Shelved) {
    let rng = &mut hand.rng;
    let mut data = vec![0x55_u8; length(rng)];
    let len = data.len();
    let mut iov = pieces(rng, &mut data);
    let mut to = address(rng, &hand.shared.places, socket.domain);
    let mut items = if rng.one_in(3) {
        control(rng, len, &hand.shared.places, socket.raw())
    } else {
        Vec::new()
    };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if !rng.one_in(3) {
        (message.msg_name, message.msg_namelen) = ((&raw mut to.storage).cast(), to.len);
    }
    (message.msg_iov, message.msg_iovlen) = (iov.as_mut_ptr(), iov.len() as _);
    if !items.is_empty() {
        message.msg_control = items.as_mut_ptr().cast();
        message.msg_controllen = items.len() as _;
    }
    let may = [0, 0, libc::MSG_DONTWAIT, libc::MSG_DONTWAIT, libc::MSG_MORE];
    let flags = flags(rng, &may);
    hand.about_to(format!(
        "sendmsg {} of {len} bytes, flags {flags:#x}, items {items:x?}",
        socket.raw()
    ));
    // SAFETY: everything that the message names is there; where a piece is nowhere, the kernel
    // finds that out.
    let result = unsafe { libc::sendmsg(socket.raw(), &raw const message, flags) };
    hand.tally.count("sendmsg", result >= 0);
    if !items.is_empty() {
        hand.tally.count("sendmsg with ancillary data", result >= 0);
    }
    if flags & libc::MSG_MORE != 0 {
        hand.tally.count("sendmsg with more to come", result >= 0);
    }
}

fn receive(hand: &mut Hand<'_>, socket: &Shelved) {
    let rng = &mut hand.rng;
    let mut data = vec![0_u8; length(rng)];
    let mut iov = pieces(rng, &mut data);
    let mut from = [0_u8; 128];
    let mut items = [0_u64; 32];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = (from.as_mut_ptr().cast(), rng.range(0..=128) as u32);
    (message.msg_iov, message.msg_iovlen) = (iov.as_mut_ptr(), iov.len() as _);
    message.msg_control = items.as_mut_ptr().cast();
    let room = if rng.one_in(2) { 256 } else { rng.index(256) };
    message.msg_controllen = room as _;
    let may = [
        0,
        libc::MSG_DONTWAIT,
        libc::MSG_DONTWAIT,
        libc::MSG_WAITALL,
        libc::MSG_PEEK,
        libc::MSG_TRUNC,
        libc::MSG_ERRQUEUE,
    ];
    let flags = flags(rng, &may);
    hand.about_to(format!("recvmsg {}, flags {flags:#x}", socket.raw()));
    // SAFETY: everything that the message names is there, and has as many bytes as it says; where a
    // piece is nowhere, the kernel finds that out.
    let result = unsafe { libc::recvmsg(socket.raw(), &raw mut message, flags) };
    if flags & libc::MSG_ERRQUEUE != 0 {
        hand.tally.count("recvmsg of reports", result >= 0);
        return;
    }
    hand.tally.count("recvmsg", result > 0);
    if result > 0 {
        let ended = message.msg_flags & libc::MSG_EOR != 0;
        hand.tally.count("recvmsg to a message's end", ended);
        // struct cmsghdr: length, level and type.
        let kind = u64::from(SOL_TURNSTILE) | (u64::from(ancillary::INFO) << 32);
        if message.msg_controllen >= 48 && items[1] == kind {
            hand.tally.count("recvmsg with a message's number", true);
            hand.shared.came(items[2]);
        }
    }
}

const LEVELS: &[i32] = &[
    libc::SOL_SOCKET,
    libc::SOL_IP,
    libc::SOL_IPV6,
    libc::SOL_UDP,
    SOL_TURNSTILE as i32,
];

/// Of `SOL_SOCKET`, not with any value: what makes calls wait for ever (the timeouts, in both
/// forms, and `SO_LINGER`), and what polls without a pause.
const LEFT_ALONE: &[i32] = &[
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    66,
    67,
    libc::SO_LINGER,
    libc::SO_BUSY_POLL,
];

fn set(hand: &mut Hand<'_>, socket: &Shelved) {
    let own = hand.rng.one_in(3);
    if hand.rng.one_in(5) {
        return set_anything(hand, socket);
    }
    let (level, name, value) = if own {
        own_option(hand)
    } else {
        stock_option(&mut hand.rng, socket)
    };
    hand.about_to(format!(
        "setsockopt {} {level} {name} {value:x?}",
        socket.raw()
    ));
    let done = set_option(&socket.fd, level, name, &value);
    let what = if own {
        "setsockopt of the transport's"
    } else {
        "setsockopt of sockets and IP"
    };
    hand.tally.count(what, done);
}

/// An option of the transport's own.
fn own_option(hand: &mut Hand<'_>) -> (i32, i32, Vec<u8>) {
    let message = hand.shared.message(&mut hand.rng);
    let rng = &mut hand.rng;
    let small = |value: u64| (value as i32).to_ne_bytes().to_vec();
    let (name, value) = match rng.index(9) {
        0 | 1 => (sockopt::RECVINFO, small(rng.range(0..=2))),
        2 | 3 => (sockopt::COMPLETIONS, small(rng.range(0..=1))),
        4 => {
            let priority = rng.range(0..=8);
            (sockopt::DEFAULT_PRIORITY, small(priority.wrapping_sub(1)))
        }
        5 => {
            // No seal, the namespace's, a number that is no key's, and keys.
            let [one, two] = hand.shared.keys;
            let all = [u64::MAX, 0, 1, one.into(), two.into()];
            let name = rng.pick(&[sockopt::KEY, sockopt::KEY, sockopt::ACCEPT_KEY]);
            (*name, small(*rng.pick(&all)))
        }
        // Only to be read.
        8 => (
            *rng.pick(&[sockopt::NUMBER, sockopt::OPEN]),
            rng.range(0..=9).to_ne_bytes().to_vec(),
        ),
        place => {
            let which = message.filter(|_| !rng.one_in(3)).unwrap_or(u64::MAX);
            let name = if place == 6 {
                sockopt::READ
            } else {
                sockopt::DISCARD
            };
            (name, which.to_ne_bytes().to_vec())
        }
    };
    (SOL_TURNSTILE as i32, name as i32, value)
}

/// An option that sockets of any kind have, or those of IP.
fn stock_option(rng: &mut Rng, socket: &Shelved) -> (i32, i32, Vec<u8>) {
    const IP_TTL: i32 = 2;
    const IP_PKTINFO: i32 = 8;
    const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
    const IPV6_UNICAST_HOPS: i32 = 16;
    const IPV6_V6ONLY: i32 = 26;
    const IPV6_RECVPKTINFO: i32 = 49;
    let small = |value: u64| (value as i32).to_ne_bytes().to_vec();
    if rng.one_in(2) {
        let flag = rng.range(0..=1);
        return if socket.domain == libc::AF_INET6 && rng.one_in(2) {
            match rng.index(3) {
                0 => (libc::SOL_IPV6, IPV6_V6ONLY, small(flag)),
                1 => (libc::SOL_IPV6, IPV6_RECVPKTINFO, small(flag)),
                _ => {
                    let hops = rng.range(0..=255);
                    (libc::SOL_IPV6, IPV6_UNICAST_HOPS, small(hops))
                }
            }
        } else {
            match rng.index(3) {
                0 => (libc::SOL_IP, IP_TTL, small(rng.range(1..=255))),
                1 => (libc::SOL_IP, IP_PKTINFO, small(flag)),
                _ => (libc::SOL_IP, IP_BIND_ADDRESS_NO_PORT, small(flag)),
            }
        };
    }
    let (name, value) = match rng.index(8) {
        0 => (libc::SO_SNDBUF, small(1 << rng.range(0..=24))),
        1 => (libc::SO_RCVBUF, small(1 << rng.range(0..=24))),
        2 => {
            // struct linger.
            let seconds = small(rng.range(0..=1));
            (libc::SO_LINGER, [small(rng.range(0..=1)), seconds].concat())
        }
        3 => (libc::SO_REUSEPORT, small(rng.range(0..=1))),
        4 => {
            let devices: [&[u8]; 5] = [b"", b"", b"lo\0", b"eth0\0", b"dev1\0"];
            (libc::SO_BINDTODEVICE, rng.pick(&devices).to_vec())
        }
        5 => (libc::SO_MARK, small(rng.range(0..=3))),
        6 => (libc::SO_PRIORITY, small(rng.range(0..=15))),
        _ => (libc::SO_ZEROCOPY, small(rng.range(0..=1))),
    };
    (libc::SOL_SOCKET, name, value)
}

fn set_anything(hand: &mut Hand<'_>, socket: &Shelved) {
    let rng = &mut hand.rng;
    let (level, name) = (*rng.pick(LEVELS), rng.range(0..=90) as i32);
    if level == libc::SOL_SOCKET && LEFT_ALONE.contains(&name) {
        return;
    }
    let mut value = [0_u8; 40];
    value[..8].copy_from_slice(&number(rng).to_ne_bytes());
    let value = &value[..*rng.pick(&[0, 1, 4, 4, 4, 8, 8, 16, 40])];
    hand.about_to(format!(
        "setsockopt {} {level} {name} {value:x?}",
        socket.raw()
    ));
    let done = set_option(&socket.fd, level, name, value);
    hand.tally.count("setsockopt of anything", done);
}

fn get(hand: &mut Hand<'_>, socket: &Shelved) {
    let rng = &mut hand.rng;
    let mut value = [0_u8; 300];
    let mut len = rng.range(0..=300) as libc::socklen_t;
    let (level, name) = (*rng.pick(LEVELS), rng.range(0..=90) as i32);
    hand.about_to(format!("getsockopt {} {level} {name}", socket.raw()));
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes, and there are as many.
    let result = unsafe { libc::getsockopt(socket.raw(), level, name, place, &raw mut len) };
    hand.tally.count("getsockopt", result == 0);
}

fn name(hand: &mut Hand<'_>, socket: &Shelved) {
    let mut name = [0_u8; 128];
    let mut len = hand.rng.range(0..=128) as libc::socklen_t;
    let (place, peer) = (name.as_mut_ptr().cast(), hand.rng.one_in(2));
    hand.about_to(format!("a name of {}", socket.raw()));
    // SAFETY: the buffer has at least `len` bytes.
    let result = unsafe {
        if peer {
            libc::getpeername(socket.raw(), place, &raw mut len)
        } else {
            libc::getsockname(socket.raw(), place, &raw mut len)
        }
    };
    hand.tally.count("getsockname and getpeername", result == 0);
}

/// By `poll(2)` and by `epoll(7)`.
fn poll(hand: &mut Hand<'_>, socket: &Shelved) {
    let rng = &mut hand.rng;
    let wait = rng.range(0..=20) as i32;
    let events = rng.range(0..=0xffff);
    hand.about_to(format!("poll {} for {events:#x}", socket.raw()));
    if hand.rng.one_in(2) {
        let mut poll = libc::pollfd {
            fd: socket.raw(),
            events: events as i16,
            revents: 0,
        };
        // SAFETY: it is one pollfd.
        let result = unsafe { libc::poll(&raw mut poll, 1, wait) };
        hand.tally.count("poll", result >= 0);
        return;
    }
    let mut event = libc::epoll_event {
        events: events as u32,
        u64: 0,
    };
    // SAFETY: the event is there, and the descriptor is closed once.
    let result = unsafe {
        let all = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        if all < 0 {
            return;
        }
        libc::epoll_ctl(all, libc::EPOLL_CTL_ADD, socket.raw(), &raw mut event);
        let result = libc::epoll_wait(all, &raw mut event, 1, wait);
        libc::close(all);
        result
    };
    hand.tally.count("epoll", result >= 0);
}

fn shut_down(hand: &mut Hand<'_>, socket: &Shelved) {
    let how = hand.rng.range(0..=3) as i32;
    hand.about_to(format!("shutdown {} {how}", socket.raw()));
    // SAFETY: no memory is involved.
    let result = unsafe { libc::shutdown(socket.raw(), how) };
    hand.tally.count("shutdown", result == 0);
}

fn control_device(hand: &mut Hand<'_>, socket: &Shelved) {
    /// FIONBIO, FIOASYNC, FIOGETOWN, SIOCATMARK, SIOCGSTAMP, SIOCINQ, SIOCOUTQ.
    const REQUESTS: &[u64] = &[
        0x5421, 0x5452, 0x8903, 0x8905, 0x8906, 0x541b, 0x541b, 0x5411, 0x5411,
    ];
    let request = *hand.rng.pick(REQUESTS);
    let mut value = [0_u8; 64];
    hand.about_to(format!("ioctl {} {request:#x}", socket.raw()));
    // SAFETY: none of these writes more than the buffer has.
    let result = unsafe { libc::ioctl(socket.raw(), request as _, value.as_mut_ptr()) };
    hand.tally.count("ioctl", result >= 0);
}

/// Sends the socket over another one, where it is for a while, and lets it be taken out there or
/// go with it.
fn pass(hand: &mut Hand<'_>, socket: &Shelved) {
    hand.about_to(format!("SCM_RIGHTS {}", socket.raw()));
    let done = pass_over(socket, hand.rng.one_in(2)).is_ok();
    hand.tally.count("a socket sent over another", done);
}

fn pass_over(socket: &Shelved, take: bool) -> io::Result<()> {
    let (here, there) = std::os::unix::net::UnixStream::pair()?;
    let mut items = [0_u64; 3];
    items[0] = 20;
    items[1] = libc::SOL_SOCKET as u64 | ((libc::SCM_RIGHTS as u64) << 32);
    items[2] = socket.raw() as u64;
    let mut byte = [7_u8];
    let mut iov = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut iov, 1);
    (message.msg_control, message.msg_controllen) = (items.as_mut_ptr().cast(), 24);
    // SAFETY: everything that the message names is there.
    if unsafe { libc::sendmsg(here.as_raw_fd(), &raw const message, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if take {
        // SAFETY: as above.
        if unsafe { libc::recvmsg(there.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if message.msg_controllen >= 20 {
            // SAFETY: the kernel has just made this descriptor for this process.
            drop(unsafe { OwnedFd::from_raw_fd(items[2] as u32 as i32) });
        }
    }
    Ok(())
}

/// Pages from a pipe into the socket, or bytes of the socket's into a pipe.
fn splice(hand: &mut Hand<'_>, socket: &Shelved) {
    let len = length(&mut hand.rng).min(60_000);
    let inwards = !hand.rng.one_in(4);
    let nothing = std::ptr::null_mut();
    hand.about_to(format!("splice {} of {len} bytes, {inwards}", socket.raw()));
    let Ok((out, into)) = nix::unistd::pipe() else {
        return;
    };
    let data = vec![0x33_u8; len];
    let flags = libc::SPLICE_F_NONBLOCK;
    // SAFETY: the pipe's ends and the socket are there; the data is there for as long as the call.
    let result = unsafe {
        if inwards {
            libc::write(into.as_raw_fd(), data.as_ptr().cast(), len);
            let out = out.as_raw_fd();
            libc::splice(out, nothing, socket.raw(), nothing, len, flags)
        } else {
            let into = into.as_raw_fd();
            libc::splice(socket.raw(), nothing, into, nothing, len, flags)
        }
    };
    hand.tally.count("splice", result >= 0);
}

/// What is for files and other sockets.
fn odd(hand: &mut Hand<'_>, socket: &Shelved) {
    let mut byte = [0_u8; 16];
    let which = hand.rng.index(7);
    let fd = socket.raw();
    hand.about_to(format!("call {which} for files on {fd}"));
    // SAFETY: the buffers are there, what is mapped is not used, and the copy is closed once.
    let result = unsafe {
        match which {
            0 => libc::listen(fd, 1) as isize,
            1 => libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), 0) as isize,
            2 => libc::read(fd, byte.as_mut_ptr().cast(), byte.len()),
            3 => libc::write(fd, byte.as_ptr().cast(), byte.len()),
            4 => {
                let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
                let place = libc::mmap(std::ptr::null_mut(), 4096, read, shared, fd, 0);
                assert_eq!(place, libc::MAP_FAILED, "a socket was mapped");
                -1
            }
            5 => libc::close(libc::dup(fd)) as isize,
            _ => libc::lseek(fd, 0, libc::SEEK_SET) as isize,
        }
    };
    hand.tally.count("calls for files", result >= 0);
}

/// A message from one new socket to another, of any length, with all that takes: what single calls
/// seldom come to. Both stay on the shelf.
fn stream(hand: &mut Hand<'_>) {
    let rng = &mut hand.rng;
    let domain = *rng.pick(&[libc::AF_INET, libc::AF_INET6]);
    let len = *rng.pick(&[1, 1000, 1450, 10_000, 100_000, 3_000_000]);
    let recvinfo = rng.range(0..=2) as i32;
    hand.about_to(format!("a message of {len} bytes"));
    let done = streamed(hand, domain, len, recvinfo);
    hand.tally.count("a whole message", done.unwrap_or(false));
}

fn streamed(hand: &mut Hand<'_>, domain: i32, len: usize, recvinfo: i32) -> Option<bool> {
    let kind = libc::SOCK_RDM | libc::SOCK_CLOEXEC;
    let (from, to) = (new(domain, kind)?, new(domain, kind)?);
    let value = recvinfo.to_ne_bytes();
    let level = SOL_TURNSTILE as i32;
    set_option(&to, level, sockopt::RECVINFO as i32, &value);
    set_option(
        &from,
        level,
        sockopt::COMPLETIONS as i32,
        &1_i32.to_ne_bytes(),
    );
    let at = own_place(&to, domain)?;
    let data = vec![0x77_u8; len];
    let (mut sent, mut read) = (0, 0);
    let mut buffer = vec![0_u8; 100_000];
    // As many turns as it may take, and no more.
    for _ in 0..200 {
        if sent < len {
            let part = &data[sent..(sent + 40_000).min(len)];
            let more = if sent + part.len() < len {
                libc::MSG_MORE
            } else {
                0
            };
            // SAFETY: data and address are there.
            let took = unsafe {
                libc::sendto(
                    from.as_raw_fd(),
                    part.as_ptr().cast(),
                    part.len(),
                    more | libc::MSG_NOSIGNAL,
                    (&raw const at.storage).cast(),
                    at.len,
                )
            };
            sent += usize::try_from(took).unwrap_or(0);
        }
        let flags = if sent < len { libc::MSG_DONTWAIT } else { 0 };
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer has as many bytes.
        let got = unsafe { libc::recv(to.as_raw_fd(), place, buffer.len(), flags) };
        read += usize::try_from(got).unwrap_or(0);
        if read >= len {
            break;
        }
    }
    for fd in [from, to] {
        hand.shared.shelve(&mut hand.rng, Shelved { fd, domain });
    }
    Some(read >= len)
}

/// Binds to a port of the kernel's choice; where that is.
pub(super) fn own_place(fd: &OwnedFd, domain: i32) -> Option<Address> {
    let mut at = loopback(domain);
    // SAFETY: the address is there, and has room for any.
    unsafe {
        if libc::bind(fd.as_raw_fd(), (&raw const at.storage).cast(), at.len) != 0 {
            return None;
        }
        libc::getsockname(
            fd.as_raw_fd(),
            (&raw mut at.storage).cast(),
            &raw mut at.len,
        );
    }
    Some(at)
}
