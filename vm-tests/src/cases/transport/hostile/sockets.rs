// SPDX-License-Identifier: GPL-2.0
//! Socket options and ancillary data of all levels, names and lengths.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use socket2::{Domain, MsgHdr, Protocol, SockAddr, SockRef, Type};
use turnstile_core::transport::uapi::{ancillary, sockopt, IPPROTO_TURNSTILE, SOL_TURNSTILE};
use turnstile_socket::{SendOptions, Socket};

use crate::harness::Ctx;
use crate::netns::Netns;
use crate::rng::Rng;

/// How many calls.
const CALLS: u32 = 20_000;
const PORT: u16 = 4000;

/// `setsockopt` with any option and any bytes.
fn set(socket: &socket2::Socket, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, and that is how many it has.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    Errno::result(done).map(drop)
}

/// `getsockopt` of any option, into a buffer of that length.
fn get(socket: &socket2::Socket, level: i32, name: i32, len: usize) -> Result<(), Errno> {
    let mut value = [0_u8; 300];
    let mut len = len.min(value.len()) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, and there are as many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    Errno::result(done).map(drop)
}

const LEVELS: &[i32] = &[
    libc::SOL_SOCKET,
    libc::SOL_IP,
    libc::SOL_IPV6,
    libc::SOL_UDP,
    libc::SOL_TCP,
    libc::SOL_RAW,
    libc::IPPROTO_ICMPV6,
    SOL_TURNSTILE as i32,
    SOL_TURNSTILE as i32,
    SOL_TURNSTILE as i32,
];

fn sockets(ns: &Netns) -> Result<[socket2::Socket; 2]> {
    let protocol = Protocol::from(i32::from(IPPROTO_TURNSTILE));
    let kind = Type::from(libc::SOCK_RDM);
    ns.enter(|| {
        let open = |domain| socket2::Socket::new(domain, kind, Some(protocol));
        Ok([open(Domain::IPV4)?, open(Domain::IPV6)?])
    })
}

/// That messages cross all the same, in the same namespace.
fn works(ns: &Netns) -> Result<()> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT + 1));
    let (receiver, sender) = ns.enter(|| Ok((Socket::bind(to)?, Socket::bind("127.0.0.1:0")?)))?;
    receiver.set_read_timeout(Some(Duration::from_secs(20)))?;
    sender.send_to(b"still here", to, &SendOptions::default())?;
    let got = receiver.recv_message(100).context("a message afterwards")?;
    ensure!(got.data == b"still here", "{:?} came", got.data);
    Ok(())
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let mut value = vec![0; *rng.pick(&[0, 1, 2, 3, 4, 4, 4, 4, 5, 8, 12, 16, 20, 64, 300])];
    if rng.one_in(2) {
        rng.fill(&mut value);
    } else if let Some(first) = value.first_mut() {
        *first = rng.range(0..=9) as u8;
    }
    value
}

/// `setsockopt` and `getsockopt`.
pub(super) fn options(ctx: &mut Ctx) -> Result<()> {
    let ns = Netns::create("a")?;
    let mut pair = sockets(&ns)?;
    let mut answers = BTreeMap::<Option<i32>, u32>::new();
    let rng = &mut ctx.rng;
    for call in 0..CALLS {
        if call % 500 == 0 {
            // What was set may be a filter, a mark, a device.
            pair = sockets(&ns)?;
        }
        let socket = &pair[rng.index(2)];
        let level = match rng.range(0..=9) {
            0 => rng.range(0..=u64::from(u32::MAX)) as u32 as i32,
            _ => *rng.pick(LEVELS),
        };
        let name = match rng.range(0..=9) {
            0 => rng.range(0..=u64::from(u32::MAX)) as u32 as i32,
            _ => rng.range(0..=90) as i32,
        };
        // Not an option of these sockets but a program for the kernel.
        let filter = [
            libc::SO_ATTACH_FILTER,
            libc::SO_ATTACH_BPF,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            libc::SO_ATTACH_REUSEPORT_EBPF,
        ];
        if level == libc::SOL_SOCKET && filter.contains(&name) {
            continue;
        }
        let value = value(rng);
        let answer = if rng.one_in(3) {
            get(socket, level, name, value.len())
        } else {
            set(socket, level, name, &value)
        };
        *answers
            .entry(answer.err().map(|errno| errno as i32))
            .or_default() += 1;
        if level == SOL_TURNSTILE as i32 && !(1..=sockopt::OPEN as i32).contains(&name) {
            ensure!(
                answer == Err(Errno::ENOPROTOOPT) || answer == Err(Errno::EINVAL),
                "option {name}: {answer:?}"
            );
        }
    }
    ctx.note(format!("{answers:?}"));
    ensure!(
        answers.get(&None).is_some_and(|done| *done > 100) && answers.len() > 3,
        "too tame or too wild: {answers:?}"
    );
    drop(pair);
    works(&ns)
}

/// `sendmsg` with ancillary data: the message is sent, or refused with `EINVAL`, and then nothing
/// of it is.
pub(super) fn ancillary(ctx: &mut Ctx) -> Result<()> {
    let ns = Netns::create("a")?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let receiver = ns.enter(|| Ok(Socket::bind(to)?))?;
    receiver.set_nonblocking(true)?;
    let mut answers = BTreeMap::<Option<i32>, u32>::new();
    let mut pair = sockets(&ns)?;
    let rng = &mut ctx.rng;
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..CALLS {
        let mut control = Vec::new();
        for _ in 0..rng.range(1..=3) {
            item(rng, &mut control);
        }
        if rng.one_in(8) {
            control.truncate(rng.index(control.len() + 1));
        }
        let flags = libc::MSG_DONTWAIT
            | libc::MSG_NOSIGNAL
            | *rng.pick(&[0, 0, 0, libc::MSG_MORE, libc::MSG_OOB, libc::MSG_CONFIRM]);
        let which = rng.index(2);
        let data = vec![1; rng.index(3000)];
        let buffers = [IoSlice::new(&data)];
        let address = SockAddr::from(match which {
            0 => to,
            _ => SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), PORT)),
        });
        let mut message = MsgHdr::new().with_buffers(&buffers);
        if !rng.one_in(8) {
            message = message.with_addr(&address);
        }
        if !control.is_empty() {
            message = message.with_control(&control);
        }
        let answer = SockRef::from(&pair[which]).sendmsg(&message, flags);
        let errno = answer.err().and_then(|error| error.raw_os_error());
        *answers.entry(errno).or_default() += 1;
        let clear = [
            libc::EINVAL,
            libc::EAGAIN,
            libc::EMSGSIZE,
            libc::EDESTADDRREQ,
            libc::EOPNOTSUPP,
            libc::ENOBUFS,
            libc::EPERM,
            // IP_PKTINFO: no such address here, no such device.
            libc::ENETUNREACH,
            libc::ENODEV,
        ];
        ensure!(
            errno.is_none_or(|errno| clear.contains(&errno)),
            "{errno:?} to {} bytes with {control:02x?}, flags {flags:x}",
            data.len()
        );
        // A message that stays open would refuse all that follow.
        if rng.one_in(20) {
            pair = sockets(&ns)?;
        }
        while receiver.recv(&mut buffer).is_ok() {}
    }
    ctx.note(format!("{answers:?}"));
    ensure!(
        answers.get(&None).is_some_and(|sent| *sent > CALLS / 100)
            && answers
                .get(&Some(libc::EINVAL))
                .is_some_and(|refused| *refused > CALLS / 10),
        "too tame or too wild: {answers:?}"
    );
    drop((pair, receiver));
    works(&ns)
}

/// Adds a `struct cmsghdr` and what follows it, most often one that could be.
fn item(rng: &mut Rng, control: &mut Vec<u8>) {
    let level = if rng.one_in(8) {
        *rng.pick(LEVELS) as u32
    } else {
        SOL_TURNSTILE
    };
    let kind = rng.range(0..=u64::from(ancillary::INFO) + 2) as u32;
    let payload = match (rng.range(0..=3), kind) {
        (0, _) => value(rng),
        (_, ancillary::LENGTH) => rng.range(0..=5000).to_ne_bytes().to_vec(),
        (_, ancillary::DEADLINE) => rng.range(0..=1 << 40).to_ne_bytes().to_vec(),
        _ => (rng.range(0..=9) as u32).to_ne_bytes().to_vec(),
    };
    let length = match rng.range(0..=9) {
        0 => rng.range(0..=40) as usize,
        1 => rng.range(0..=u64::MAX) as usize,
        _ => 16 + payload.len(),
    };
    control.extend(length.to_ne_bytes());
    control.extend(level.to_ne_bytes());
    control.extend(kind.to_ne_bytes());
    control.extend(payload);
    control.resize(control.len().next_multiple_of(8), 0);
}
