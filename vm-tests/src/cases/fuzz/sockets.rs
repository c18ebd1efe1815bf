// SPDX-License-Identifier: GPL-2.0
//! Calls on sockets of the transport.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use turnstile_core::transport::uapi::{IPPROTO_TURNSTILE, SOL_TURNSTILE};

use crate::rng::Rng;

/// Sockets at once, for each thread.
const MOST: usize = 24;
/// Ports that are bound and sent to: few, so that they meet.
const PORTS: u64 = 6;
const FIRST_PORT: u64 = 4000;

/// A thread's sockets.
#[derive(Default)]
pub(super) struct Sockets(Vec<OwnedFd>);

/// An address in any form, right or not.
fn address(rng: &mut Rng) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let port = (FIRST_PORT + rng.range(0..=PORTS)) as u16;
    let port = if rng.one_in(10) { 0 } else { port };
    let v4: [u8; 4] = match rng.index(6) {
        0 => [127, 0, 0, 1],
        1 => [10, 0, 0, 1],
        2 => [10, 0, 0, 2],
        3 => [0, 0, 0, 0],
        4 => [255, 255, 255, 255],
        _ => [10, 0, 0, rng.range(0..=255) as u8],
    };
    let len = if rng.one_in(2) {
        let sin = (&raw mut storage).cast::<libc::sockaddr_in>();
        // SAFETY: a sockaddr_storage has room for any address.
        let sin = unsafe { &mut *sin };
        sin.sin_family = libc::AF_INET as libc::sa_family_t;
        sin.sin_port = port.to_be();
        sin.sin_addr.s_addr = u32::from_ne_bytes(v4);
        size_of::<libc::sockaddr_in>()
    } else {
        let sin6 = (&raw mut storage).cast::<libc::sockaddr_in6>();
        // SAFETY: as above.
        let sin6 = unsafe { &mut *sin6 };
        sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        sin6.sin6_port = port.to_be();
        sin6.sin6_scope_id = rng.range(0..=3) as u32;
        let ip = &mut sin6.sin6_addr.s6_addr;
        match rng.index(5) {
            0 => ip[15] = 1,
            1 => {
                (ip[10], ip[11]) = (0xff, 0xff);
                ip[12..].copy_from_slice(&v4);
            }
            2 => (ip[0], ip[1], ip[15]) = (0xfe, 0x80, rng.range(0..=3) as u8),
            3 => (ip[0], ip[1], ip[15]) = (0xff, 0x02, 1),
            _ => {}
        }
        size_of::<libc::sockaddr_in6>()
    };
    if rng.one_in(12) {
        storage.ss_family = rng.range(0..=45) as libc::sa_family_t;
    }
    let len = if rng.one_in(12) {
        rng.index(size_of::<libc::sockaddr_storage>() + 1)
    } else {
        len
    };
    (storage, len as libc::socklen_t)
}

/// A number of the kind that code forgets.
fn number(rng: &mut Rng) -> u64 {
    match rng.index(6) {
        0 => 0,
        1 => 1 << rng.range(0..=63),
        2 => (1_u64 << rng.range(0..=63)).wrapping_sub(1),
        3 => u64::MAX,
        _ => rng.range(0..=300),
    }
}

/// Ancillary data: some items, right or not.
fn control(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..rng.index(4) {
        let content = number(rng).to_ne_bytes();
        let len = *rng.pick(&[0, 4, 4, 8, 8, 8]);
        let header = 16 + len as u64;
        let header = if rng.one_in(20) { number(rng) } else { header };
        all.extend_from_slice(&header.to_ne_bytes());
        let level = match rng.index(8) {
            0 => libc::SOL_IP,
            1 => libc::SOL_IPV6,
            2 => libc::SOL_SOCKET,
            _ => SOL_TURNSTILE as i32,
        };
        all.extend_from_slice(&level.to_ne_bytes());
        all.extend_from_slice(&(rng.range(0..=10) as i32).to_ne_bytes());
        all.extend_from_slice(&content[..len]);
        all.resize(all.len().next_multiple_of(8), 0);
    }
    all
}

/// Of `SOL_SOCKET`: not what makes calls wait for ever, or what reaches other sockets.
const LEFT_ALONE: &[i32] = &[libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, 66, 67];

impl Sockets {
    /// One of them.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<RawFd> {
        match self.0.len() {
            0 => None,
            len => Some(self.0[rng.index(len)].as_raw_fd()),
        }
    }

    /// Makes a call.
    pub(super) fn call(&mut self, rng: &mut Rng) {
        let Some(fd) = self.pick(rng).filter(|_| !rng.one_in(20)) else {
            return self.open(rng);
        };
        match rng.index(40) {
            0..3 => {
                let (to, len) = address(rng);
                // SAFETY: `len` is at most what `to` has.
                unsafe { libc::bind(fd, (&raw const to).cast(), len) };
            }
            3..5 => {
                let (to, len) = address(rng);
                // SAFETY: as above.
                unsafe { libc::connect(fd, (&raw const to).cast(), len) };
            }
            5..18 => send(fd, rng),
            18..26 => receive(fd, rng),
            26..31 => set(fd, rng),
            31..33 => get(fd, rng),
            33 => {
                let mut value = [0_u8; 64];
                let request = *rng.pick(&[0x541b, 0x5411, 0x8906, 0x8907, 0x8905, 0x8902, 0x8904]);
                // SAFETY: none of these writes more than the buffer has.
                unsafe { libc::ioctl(fd, request, value.as_mut_ptr()) };
            }
            34 => {
                let mut poll = libc::pollfd {
                    fd,
                    events: rng.range(0..=0xffff) as i16,
                    revents: 0,
                };
                let wait = rng.range(0..=20) as i32;
                // SAFETY: it is one pollfd.
                unsafe { libc::poll(&raw mut poll, 1, wait) };
            }
            35 => {
                // SAFETY: no memory is involved.
                unsafe { libc::shutdown(fd, rng.range(0..=3) as i32) };
            }
            36 => {
                let mut name = [0_u8; 128];
                let mut len = rng.range(0..=128) as libc::socklen_t;
                let (place, peer) = (name.as_mut_ptr().cast(), rng.one_in(2));
                // SAFETY: the buffer has at least `len` bytes.
                unsafe {
                    if peer {
                        libc::getpeername(fd, place, &raw mut len);
                    } else {
                        libc::getsockname(fd, place, &raw mut len);
                    }
                }
            }
            37 => odd(fd, rng),
            _ => {
                let at = rng.index(self.0.len());
                drop(self.0.swap_remove(at));
            }
        }
    }

    fn open(&mut self, rng: &mut Rng) {
        if self.0.len() >= MOST {
            self.0.swap_remove(rng.index(MOST));
        }
        let domain = *rng.pick(&[libc::AF_INET, libc::AF_INET6]);
        let kind = if rng.one_in(20) {
            rng.range(0..=6) as i32
        } else {
            libc::SOCK_RDM
        };
        let flags = *rng.pick(&[0, libc::SOCK_NONBLOCK]) | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::socket(domain, kind | flags, i32::from(IPPROTO_TURNSTILE)) };
        if fd < 0 {
            return;
        }
        let short = libc::timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            let len = size_of::<libc::timeval>() as libc::socklen_t;
            // SAFETY: the value has that length.
            unsafe {
                libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const short).cast(), len)
            };
        }
        // SAFETY: it is new, and nobody else's.
        self.0.push(unsafe { OwnedFd::from_raw_fd(fd) });
    }
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
    libc::MSG_NOSIGNAL,
    libc::MSG_ZEROCOPY,
    libc::MSG_EOR,
];

fn flags(rng: &mut Rng) -> i32 {
    *rng.pick(FLAGS) | *rng.pick(FLAGS) | libc::MSG_NOSIGNAL
}

/// A length of a buffer.
fn length(rng: &mut Rng) -> usize {
    match rng.index(8) {
        0 => 0,
        1 => 1,
        2 => 100_000,
        3 => 1450,
        _ => rng.range(1..=5000) as usize,
    }
}

fn send(fd: RawFd, rng: &mut Rng) {
    let mut data = vec![0x55_u8; length(rng)];
    let mut iov = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    let (mut to, len) = address(rng);
    let mut items = if rng.one_in(3) {
        control(rng)
    } else {
        Vec::new()
    };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if !rng.one_in(3) {
        (message.msg_name, message.msg_namelen) = ((&raw mut to).cast(), len);
    }
    (message.msg_iov, message.msg_iovlen) = (&raw mut iov, 1);
    if !items.is_empty() {
        message.msg_control = items.as_mut_ptr().cast();
        message.msg_controllen = items.len() as _;
    }
    // SAFETY: everything that the message names is there.
    unsafe { libc::sendmsg(fd, &raw const message, flags(rng)) };
}

fn receive(fd: RawFd, rng: &mut Rng) {
    let mut data = vec![0_u8; length(rng)];
    let mut iov = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    let mut from = [0_u8; 128];
    let mut items = [0_u8; 256];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = (from.as_mut_ptr().cast(), rng.range(0..=128) as u32);
    (message.msg_iov, message.msg_iovlen) = (&raw mut iov, 1);
    message.msg_control = items.as_mut_ptr().cast();
    message.msg_controllen = rng.index(items.len()) as _;
    // SAFETY: everything that the message names is there.
    unsafe { libc::recvmsg(fd, &raw mut message, flags(rng)) };
}

const LEVELS: &[i32] = &[
    libc::SOL_SOCKET,
    libc::SOL_IP,
    libc::SOL_IPV6,
    libc::SOL_UDP,
    SOL_TURNSTILE as i32,
    SOL_TURNSTILE as i32,
];

fn set(fd: RawFd, rng: &mut Rng) {
    let (level, name) = (*rng.pick(LEVELS), rng.range(0..=80) as i32);
    if level == libc::SOL_SOCKET && LEFT_ALONE.contains(&name) {
        return;
    }
    let mut value = [0_u8; 40];
    value[..8].copy_from_slice(&number(rng).to_ne_bytes());
    let len = *rng.pick(&[0, 1, 4, 4, 4, 8, 8, 16, 40]);
    // SAFETY: `len` is at most what `value` has.
    unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) };
}

fn get(fd: RawFd, rng: &mut Rng) {
    let mut value = [0_u8; 300];
    let mut len = rng.range(0..=300) as libc::socklen_t;
    let (level, name) = (*rng.pick(LEVELS), rng.range(0..=80) as i32);
    // SAFETY: the kernel writes at most `len` bytes, and there are as many.
    unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
}

/// What is for files and other sockets.
fn odd(fd: RawFd, rng: &mut Rng) {
    let mut byte = [0_u8; 16];
    // SAFETY: the buffers are there, and what is mapped is not used.
    unsafe {
        match rng.index(7) {
            0 => {
                libc::listen(fd, 1);
            }
            1 => {
                libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), 0);
            }
            2 => {
                libc::read(fd, byte.as_mut_ptr().cast(), byte.len());
            }
            3 => {
                libc::write(fd, byte.as_ptr().cast(), byte.len());
            }
            4 => {
                let place = libc::mmap(
                    std::ptr::null_mut(),
                    4096,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    fd,
                    0,
                );
                assert_eq!(place, libc::MAP_FAILED, "a socket was mapped");
            }
            5 => {
                let copy = libc::dup(fd);
                if copy >= 0 {
                    libc::close(copy);
                }
            }
            _ => {
                libc::lseek(fd, 0, libc::SEEK_SET);
            }
        }
    }
}
