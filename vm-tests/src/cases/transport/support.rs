// SPDX-License-Identifier: GPL-2.0
//! What the transport's cases share: hosts with the module, sockets in them, and the calls that a
//! test wants to make exactly.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use nix::sys::socket::{recvmsg, MsgFlags, SockaddrStorage};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::Value;
use socket2::{Domain, MsgHdr, Protocol, SockAddr, SockRef, Type};
use turnstile_core::transport::uapi::{IPPROTO_TURNSTILE, SOL_TURNSTILE};
use turnstile_socket::{Message, Socket};

use super::content::Ledger;
use crate::cmd::run_here;
use crate::netns::Netns;
use crate::topology::{Builder, Host, Net};

/// The port that receivers have.
pub(super) const PORT: u16 = 5000;
/// Longer than anything takes that is going to happen. A case that waits for nothing fails with a
/// word instead of being killed.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);
/// The policies.
pub(super) const POLICIES: [&str; 5] = ["expresspass", "top", "ren", "dcqcn", "timely"];
/// Whether there are no tokens.
pub(super) fn is_paced(policy: &str) -> bool {
    matches!(policy, "dcqcn" | "timely")
}
/// Bytes of a message in a full-length packet of 1500 bytes: IPv4, IPv6.
pub(super) const MSS: [usize; 2] = [1450, 1430];

/// Loads the module. Namespaces made from now on have the transport.
pub(super) fn load() -> Result<()> {
    run_here("modprobe turnstile", "")?.success().map(drop)
}

/// Two hosts on one link, with the transport.
pub(super) fn pair() -> Result<Net> {
    hosts(&Builder::pair())
}

/// Two hosts on one link, and which of them sends. Nobody has loaded the module: the first socket
/// does, as on a user's machine.
pub(super) struct Pair {
    pub(super) net: Net,
}

impl Pair {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            net: Builder::pair().build()?,
        })
    }

    /// Where the messages come from.
    pub(super) fn sender(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    /// Where they go.
    pub(super) fn receiver(&self) -> &Netns {
        &self.net.hosts[1].ns
    }

    /// The receiver's address.
    pub(super) fn to(&self, ipv6: bool) -> SocketAddr {
        addresses(&self.net.hosts[1])[usize::from(ipv6)]
    }
}

/// Hosts as the builder says, with the transport.
pub(super) fn hosts(builder: &Builder) -> Result<Net> {
    load()?;
    builder.build()
}

/// `turnstile transport set …` in a namespace.
pub(super) fn configure(ns: &Netns, words: &str) -> Result<()> {
    ns.run(&format!("turnstile transport set {words}"))
        .map(drop)
}

/// The same in all hosts.
pub(super) fn configure_all(net: &Net, words: &str) -> Result<()> {
    net.hosts
        .iter()
        .try_for_each(|host| configure(&host.ns, words))
}

/// Where a host is reached: IPv4, IPv6.
pub(super) fn addresses(host: &Host) -> [SocketAddr; 2] {
    [
        SocketAddr::from((host.v4, PORT)),
        SocketAddr::from((host.v6, PORT)),
    ]
}

/// A socket in `ns`, bound to `local`. Calls that never come back fail after [`PATIENCE`].
pub(super) fn socket(
    ns: &Netns,
    local: impl ToSocketAddrs + Debug + Copy + Sync,
) -> Result<Socket> {
    let socket =
        ns.enter(|| Socket::bind(local).with_context(|| format!("binding to {local:?}")))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Any address of the family of `like`, and a port that the kernel chooses.
pub(super) fn any(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// A receiver in `ns`: any address, IPv4 and IPv6, port [`PORT`].
pub(super) fn receiver(ns: &Netns) -> Result<Socket> {
    socket(ns, ("::", PORT))
}

/// A sender in `ns`: any address, IPv4 and IPv6, any port; it is told what becomes of its messages.
pub(super) fn sender(ns: &Netns) -> Result<Socket> {
    let socket = socket(ns, "[::]:0")?;
    socket.set_completions(true)?;
    Ok(socket)
}

/// A socket in `ns` that is bound to nothing.
pub(super) fn unbound(ns: &Netns, domain: Domain) -> Result<socket2::Socket> {
    let protocol = Protocol::from(i32::from(IPPROTO_TURNSTILE));
    let kind = Type::from(libc::SOCK_RDM);
    let socket = ns
        .enter(|| socket2::Socket::new(domain, kind, Some(protocol)).context("opening a socket"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Adds to an error what the transport of each host has to say.
pub(super) fn explained<T>(net: &Net, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let mut said = String::new();
        for host in &net.hosts {
            for command in [
                "turnstile stats",
                "turnstile flows --peers",
                "turnstile flows",
            ] {
                let text = host
                    .ns
                    .run(command)
                    .unwrap_or_else(|error| error.to_string());
                let lines: Vec<&str> = text.lines().take(60).collect();
                said += &format!("\n{}: {command}: {}", host.ns.name(), lines.join("; "));
            }
        }
        error.context(said)
    })
}

/// All of the transport's counters in a namespace.
pub(super) fn counters(ns: &Netns) -> Result<BTreeMap<String, u64>> {
    let text = ns.run("turnstile -j stats --all")?;
    let all: BTreeMap<String, Value> = serde_json::from_str(&text).context(text)?;
    let numbers = all.into_iter();
    Ok(numbers
        .filter_map(|(name, value)| Some((name, value.as_u64()?)))
        .collect())
}

/// Receives whole messages until the ledger has all.
pub(super) fn receive_all(socket: &Socket, ledger: &mut Ledger) -> Result<()> {
    while ledger.missing() > 0 {
        let left = ledger.missing();
        let message = socket
            .recv_message(1 << 30)
            .with_context(|| format!("{left} messages have not come"))?;
        ledger.arrived(&message.data)?;
    }
    ledger.complete()
}

/// Receives messages in a thread of its own.
pub(super) fn receive(socket: Socket, count: usize) -> JoinHandle<Result<(Socket, Vec<Message>)>> {
    std::thread::spawn(move || {
        let mut messages = Vec::new();
        for i in 0..count {
            let message = socket
                .recv_message(1 << 30)
                .with_context(|| format!("receiving message {i}"))?;
            messages.push(message);
        }
        Ok((socket, messages))
    })
}

/// What a thread gave.
pub(super) fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Fails if two messages differ, and says where.
pub(super) fn same(what: &str, got: &[u8], sent: &[u8]) -> Result<()> {
    ensure!(
        got.len() == sent.len(),
        "{what}: {} of {} bytes came",
        got.len(),
        sent.len()
    );
    let differs = got.iter().zip(sent).position(|(got, sent)| got != sent);
    ensure!(
        differs.is_none(),
        "{what}: differs from byte {}",
        differs.unwrap_or(0)
    );
    Ok(())
}

/// That nothing is there to be read.
pub(super) fn nothing_more(socket: &impl AsFd) -> Result<()> {
    match read_once(socket, 64, libc::MSG_DONTWAIT) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error).context("looking for more"),
        Ok(read) => anyhow::bail!(
            "{} bytes more came, and nobody sent them: {:x?}",
            read.data.len(),
            read.data
        ),
    }
}

/// Waits until so many messages of the socket, from number 0 on, were delivered: each is reported
/// once.
pub(super) fn delivered(socket: &Socket, count: u32) -> Result<()> {
    let mut reported = vec![false; count as usize];
    for so_far in 0..count {
        let done = socket
            .wait_completion(Some(PATIENCE))?
            .with_context(|| format!("{so_far} of {count} messages were reported"))?;
        let number = done.number;
        done.outcome
            .with_context(|| format!("message {number} to {:?}", done.to))?;
        let before = reported
            .get_mut(number as usize)
            .with_context(|| format!("message {number} was reported, which was not sent"))?;
        ensure!(!*before, "message {number} was reported twice");
        *before = true;
    }
    ensure!(socket.completion()?.is_none(), "more reports than messages");
    Ok(())
}

/// What a `recvmsg` gave.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) data: Vec<u8>,
    pub(super) from: Option<SocketAddr>,
    /// MSG_EOR.
    pub(super) end: bool,
}

/// One `recvmsg` with these flags, of at most `len` bytes.
pub(super) fn read_once(socket: &impl AsFd, len: usize, flags: i32) -> io::Result<Read> {
    let mut data = vec![0; len];
    let mut buffers = [IoSliceMut::new(&mut data)];
    let flags = MsgFlags::from_bits_retain(flags);
    let fd = socket.as_fd().as_raw_fd();
    let message = recvmsg::<SockaddrStorage>(fd, &mut buffers, None, flags)?;
    let (len, end) = (message.bytes, message.flags.contains(MsgFlags::MSG_EOR));
    let from = message.address.and_then(|from| {
        let v4 = from
            .as_sockaddr_in()
            .map(|v4| SocketAddrV4::from(*v4).into());
        v4.or_else(|| {
            from.as_sockaddr_in6()
                .map(|v6| SocketAddrV6::from(*v6).into())
        })
    });
    data.truncate(len);
    Ok(Read { data, from, end })
}

/// An item of ancillary data of the transport's level.
pub(super) fn item(kind: u32, payload: &[u8]) -> Vec<u8> {
    item_of(SOL_TURNSTILE, kind, payload)
}

/// An item of ancillary data (cmsg(3)): its length with the header, level, type, payload, and
/// padding.
pub(super) fn item_of(level: u32, kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + payload.len()).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// One `sendmsg`.
pub(super) fn send_once(
    socket: &impl AsFd,
    data: &[u8],
    to: Option<SocketAddr>,
    control: &[u8],
    flags: i32,
) -> io::Result<usize> {
    let to = to.map(SockAddr::from);
    let buffers = [IoSlice::new(data)];
    let mut message = MsgHdr::new().with_buffers(&buffers);
    if let Some(to) = &to {
        message = message.with_addr(to);
    }
    if !control.is_empty() {
        message = message.with_control(control);
    }
    SockRef::from(socket).sendmsg(&message, flags | libc::MSG_NOSIGNAL)
}

/// What `poll` says of a socket at once.
pub(super) fn ready(socket: &impl AsFd) -> Result<PollFlags> {
    let all = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
    polled(socket, all, Some(&Timespec::default()))
}

/// Waits until `poll` says one of `wanted` of a socket.
pub(super) fn wait_for(socket: &impl AsFd, wanted: PollFlags) -> Result<PollFlags> {
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs().try_into().context("a time to wait")?,
        tv_nsec: 0,
    };
    let said = polled(socket, wanted, Some(&limit))?;
    ensure!(
        said.intersects(wanted),
        "poll says {said:?}, never {wanted:?}"
    );
    Ok(said)
}

fn polled(socket: &impl AsFd, wanted: PollFlags, limit: Option<&Timespec>) -> Result<PollFlags> {
    let mut fds = [PollFd::new(socket, wanted)];
    poll(&mut fds, limit).context("poll")?;
    Ok(fds[0].revents())
}

/// That a call failed with this errno.
pub(super) fn refused<T: Debug>(
    what: &str,
    result: Result<T, impl Into<io::Error>>,
    errno: i32,
) -> Result<()> {
    let got = result.map_err(Into::into);
    match &got {
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        _ => anyhow::bail!(
            "{what}: {got:?}, where {:?} was expected",
            nix::errno::Errno::from_raw(errno)
        ),
    }
}

/// The address as an AF_INET6 socket shows it.
pub(super) fn as_v6(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
        IpAddr::V6(_) => address,
    }
}
