// SPDX-License-Identifier: GPL-2.0
//! Which device messages go by: the socket's device, mark, user, priority and VRF, both ways.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use socket2::{Domain, Socket};

use super::{any, comes, next, open, open_in, outcome, receiver, send, set, Kind, BOTH};
use crate::cases::transport::support::{addresses, load, pair, PATIENCE, PORT};
use crate::harness::Ctx;
use crate::netns::Netns;

const SELF: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SELF6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// A host `h` with eth0 to host `n0` and eth1 to host `n1`, which have the same address. Without
/// more words packets go by eth0.
struct Twins {
    host: Netns,
    peers: [Netns; 2],
}

impl Twins {
    fn new() -> Result<Self> {
        load()?;
        let host = Netns::create("h")?;
        let peers = [Netns::create("n0")?, Netns::create("n1")?];
        for (number, peer) in peers.iter().enumerate() {
            host.ip(&format!(
                "link add eth{number} type veth peer name eth0 netns {}",
                peer.name()
            ))?;
            host.ip(&format!("link set eth{number} up"))?;
            host.ip(&format!(
                "addr add {SELF}/24 dev eth{number} metric {}",
                number + 1
            ))?;
            peer.ip("link set eth0 up")?;
            peer.ip(&format!("addr add {PEER}/24 dev eth0"))?;
        }
        Ok(Self { host, peers })
    }

    /// Gives all of them an address of IPv6, too.
    fn with_ipv6(self) -> Result<Self> {
        for (number, peer) in self.peers.iter().enumerate() {
            self.host.ip(&format!(
                "addr add {SELF6}/64 dev eth{number} nodad metric {}",
                number + 1
            ))?;
            peer.ip(&format!("addr add {PEER6}/64 dev eth0 nodad"))?;
        }
        Ok(self)
    }

    /// That messages of a socket reach that peer and not the other, and are answered.
    fn reaches(&self, what: &str, kind: Kind, from: &Socket, number: usize) -> Result<()> {
        self.reaches_at(what, kind, from, number, PEER.into())
    }

    /// The same by the peers' address.
    fn reaches_at(
        &self,
        what: &str,
        kind: Kind,
        from: &Socket,
        number: usize,
        to: IpAddr,
    ) -> Result<()> {
        let to = SocketAddr::from((to, PORT));
        let domain = Domain::for_address(to);
        let receivers = [0, 1].map(|peer: usize| receiver(&self.peers[peer], kind, domain));
        let [first, second] = receivers;
        let receivers = [first?, second?];
        let bytes = vec![number as u8; 1200];
        ensure!(send(from, &bytes, to) == 0, "{what}: sending by {kind:?}");
        receivers[number].set_read_timeout(Some(PATIENCE))?;
        comes(what, &receivers[number], Some(&bytes))?;
        comes(what, &receivers[1 - number], None)
    }
}

fn bind_device(socket: &Socket, device: &str) -> Result<()> {
    socket
        .bind_device(Some(device.as_bytes()))
        .with_context(|| format!("SO_BINDTODEVICE {device}"))
}

/// Two networks with the same addresses: a socket that is bound to a device goes by it both ways.
pub(super) fn two_networks(_: &mut Ctx) -> Result<()> {
    let twins = Twins::new()?;
    for kind in BOTH {
        let plain = open_in(&twins.host, kind, Domain::IPV4)?;
        twins.reaches("not bound", kind, &plain, 0)?;
        for (number, device) in [(1, "eth1"), (0, "eth0")] {
            let bound = open_in(&twins.host, kind, Domain::IPV4)?;
            bind_device(&bound, device)?;
            twins.reaches(device, kind, &bound, number)?;
        }
        // And as receivers: each has what comes by its device, all with the same addresses.
        let mut receivers = Vec::new();
        for device in ["eth0", "eth1"] {
            let socket = open_in(&twins.host, kind, Domain::IPV4)?;
            bind_device(&socket, device)?;
            socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
            socket.set_read_timeout(Some(PATIENCE))?;
            receivers.push(socket);
        }
        for number in [1, 0, 1] {
            let from = open_in(&twins.peers[number], kind, Domain::IPV4)?;
            let bytes = vec![number as u8; 1200];
            let to = SocketAddr::from((SELF, PORT));
            ensure!(send(&from, &bytes, to) == 0, "sending to eth{number}");
            comes("by a bound socket", &receivers[number], Some(&bytes))?;
        }
        for socket in &receivers {
            socket.set_read_timeout(Some(super::LONG))?;
            ensure!(next(socket)?.is_none(), "more than was sent");
        }
    }
    Ok(())
}

/// Rules by mark and by user choose the way, and netfilter sees mark and priority.
pub(super) fn mark_user_priority(_: &mut Ctx) -> Result<()> {
    const USER: u32 = 1000;
    let twins = Twins::new()?;
    twins.host.ip("route add 10.0.0.0/24 dev eth1 table 100")?;
    twins.host.ip("rule add fwmark 7 lookup 100")?;
    twins
        .host
        .ip(&format!("rule add uidrange {USER}-{USER} lookup 100"))?;
    for kind in BOTH {
        let socket = open_in(&twins.host, kind, Domain::IPV4)?;
        twins.reaches("without a mark", kind, &socket, 0)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_MARK, 7)?;
        twins.reaches("with a mark", kind, &socket, 1)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_MARK, 0)?;
        twins.reaches("without it again", kind, &socket, 0)?;
        let theirs = twins.host.enter(|| {
            // SAFETY: it only changes what this thread's files are made as, and the thread ends.
            unsafe { libc::setfsuid(USER) };
            open(kind, Domain::IPV4)
        })?;
        twins.reaches("of another user", kind, &theirs, 1)?;
    }
    twins.host.run("nft add table inet t")?;
    twins.host.run_with(
        "nft -f -",
        "add chain inet t out { type filter hook output priority 0; }\n\
         add rule inet t out meta mark 9 drop\n\
         add rule inet t out meta priority 0:5 drop\n",
    )?;
    for kind in BOTH {
        for (name, value) in [(libc::SO_MARK, 9), (libc::SO_PRIORITY, 5)] {
            let socket = open_in(&twins.host, kind, Domain::IPV4)?;
            set(&socket, libc::SOL_SOCKET, name, value)?;
            let sent = send(&socket, b"dropped", SocketAddr::from((PEER, PORT)));
            ensure!(sent == libc::EPERM, "{kind:?}, option {name}: {sent}");
            set(&socket, libc::SOL_SOCKET, name, 0)?;
            twins.reaches("without it", kind, &socket, 0)?;
        }
    }
    Ok(())
}

/// A VRF: sockets that are bound to it, or to a device in it, talk with its network alone.
pub(super) fn vrf(_: &mut Ctx) -> Result<()> {
    let twins = Twins::new()?;
    twins.host.ip("link add red type vrf table 10")?;
    twins.host.ip("link set red up")?;
    twins.host.ip("link set eth1 master red")?;
    twins.host.sysctl("net/ipv4/udp_l3mdev_accept", "1")?;
    for kind in BOTH {
        let plain = open_in(&twins.host, kind, Domain::IPV4)?;
        twins.reaches("not bound", kind, &plain, 0)?;
        for device in ["red", "eth1"] {
            let bound = open_in(&twins.host, kind, Domain::IPV4)?;
            bind_device(&bound, device)?;
            twins.reaches(device, kind, &bound, 1)?;
            let receiver = open_in(&twins.host, kind, Domain::IPV4)?;
            bind_device(&receiver, device)?;
            receiver.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
            receiver.set_read_timeout(Some(PATIENCE))?;
            let from = open_in(&twins.peers[1], kind, Domain::IPV4)?;
            let bytes = vec![1; 1200];
            let to = SocketAddr::from((SELF, PORT));
            ensure!(send(&from, &bytes, to) == 0, "sending to {device}");
            comes(device, &receiver, Some(&bytes))?;
        }
        // Nobody is bound in the VRF: one that is not bound answers in it.
        let receiver = receiver(&twins.host, kind, Domain::IPV4)?;
        receiver.set_read_timeout(Some(PATIENCE))?;
        for number in [1, 0] {
            let from = open_in(&twins.peers[number], kind, Domain::IPV4)?;
            let bytes = vec![number as u8; 1200];
            let to = SocketAddr::from((SELF, PORT));
            ensure!(send(&from, &bytes, to) == 0, "sending to {number}");
            comes("from both", &receiver, Some(&bytes))?;
        }
    }
    Ok(())
}

/// Two devices in a VRF; a receiver that is bound to the second one, as UDP's.
pub(super) fn vrf_slaves(_: &mut Ctx) -> Result<()> {
    let twins = Twins::new()?;
    twins.host.ip("link add red type vrf table 10")?;
    twins.host.ip("link set red up")?;
    twins.host.ip("link set eth0 master red")?;
    twins.host.ip("link set eth1 master red")?;
    twins.host.sysctl("net/ipv4/udp_l3mdev_accept", "1")?;
    // As a sender.
    for kind in BOTH {
        let bound = open_in(&twins.host, kind, Domain::IPV4)?;
        bind_device(&bound, "eth1")?;
        twins.reaches("bound to eth1", kind, &bound, 1)?;
    }
    // UDP: the answer.
    let here = open_in(&twins.host, Kind::Udp, Domain::IPV4)?;
    bind_device(&here, "eth1")?;
    here.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
    here.set_read_timeout(Some(PATIENCE))?;
    let from = open_in(&twins.peers[1], Kind::Udp, Domain::IPV4)?;
    let to = SocketAddr::from((SELF, PORT));
    ensure!(send(&from, &[1; 1200], to) == 0, "sending");
    let (_, back) = next(&here)?.context("UDP: nothing came")?;
    ensure!(send(&here, &[2; 1200], back) == 0, "answering");
    let udp = next(&from)?.is_some();
    // A message that needs tokens.
    let here = open_in(&twins.host, Kind::Turnstile, Domain::IPV4)?;
    bind_device(&here, "eth1")?;
    here.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
    here.set_read_timeout(Some(Duration::from_secs(20)))?;
    let from = open_in(&twins.peers[1], Kind::Turnstile, Domain::IPV4)?;
    ensure!(send(&from, &[1; 20_000], to) == 0, "sending");
    let came = next(&here)?.map(|(bytes, _)| bytes.len());
    ensure!(udp, "UDP's answer did not come");
    ensure!(
        came == Some(20_000),
        "a receiver bound to eth1: {came:?} came"
    );
    Ok(())
}

/// Rules by UDP's source port, and IPsec's policies by ports, are about the ports that packets
/// have: each message goes where the rule for its port says, from the address that is said there,
/// and nothing is refused by a policy for a port that no packet has.
pub(super) fn ports(_: &mut Ctx) -> Result<()> {
    let twins = Twins::new()?.with_ipv6()?;
    for (to, family, local, own) in [
        (
            IpAddr::from(PEER),
            "-4",
            "10.0.0.0/24",
            [IpAddr::from(SELF), Ipv4Addr::new(10, 0, 0, 11).into()],
        ),
        (
            PEER6.into(),
            "-6",
            "fd00::/64",
            [SELF6.into(), "fd00::11".parse()?],
        ),
    ] {
        let host = &twins.host;
        let other = own[1];
        host.ip(&format!("{family} addr add {other} dev eth1 noprefixroute"))?;
        host.ip(&format!(
            "{family} route add {local} dev eth1 src {other} table 100"
        ))?;
        // Half of the messages' ports; and the one that none has.
        host.ip(&format!(
            "{family} rule add ipproto 17 sport 57344-65534 lookup 100"
        ))?;
        for (peer, wrong) in [(0, "57344-65534"), (1, "49152-57343")] {
            let ns = &twins.peers[peer];
            ns.run_with(
                "nft -f -",
                &format!(
                    "add table inet t\n\
                     add chain inet t in {{ type filter hook input priority 0; }}\n\
                     flush chain inet t in\n\
                     add rule inet t in udp sport {wrong} udp dport 29813 drop\n"
                ),
            )?;
        }
        let to = SocketAddr::from((to, PORT));
        let domain = Domain::for_address(to);
        let receivers =
            [0, 1].map(|peer: usize| receiver(&twins.peers[peer], Kind::Turnstile, domain));
        let [first, second] = receivers;
        let receivers = [first?, second?];
        let from = open_in(host, Kind::Turnstile, domain)?;
        const MESSAGES: u8 = 24;
        for number in 0..MESSAGES {
            let sent = send(&from, &[number; 20_000], to);
            ensure!(sent == 0, "{family}: sending: {sent}");
        }
        let mut came = [0, 0];
        for ((came, receiver), own) in came.iter_mut().zip(&receivers).zip(own) {
            while let Some((bytes, from)) = next(receiver)? {
                ensure!(from.ip() == own, "{family}: from {from} instead of {own}");
                ensure!(bytes.len() == 20_000, "{family}: {} bytes", bytes.len());
                *came += 1;
            }
        }
        ensure!(
            came[0] > 0 && came[1] > 0 && came[0] + came[1] == MESSAGES,
            "{family}: of {MESSAGES} messages {came:?} came by each way"
        );
        drop(receivers);
        host.ip(&format!("{family} rule del lookup 100"))?;
        for peer in &twins.peers {
            peer.run("nft flush ruleset")?;
        }
        let policy = format!("src {} dst {} proto 17", own[0], to.ip());
        host.ip(&format!(
            "xfrm policy add {policy} sport 29813 dir out action block"
        ))?;
        twins.reaches_at(
            "a policy for another port",
            Kind::Turnstile,
            &from,
            0,
            to.ip(),
        )?;
        host.ip(&format!(
            "xfrm policy add {policy} dport 29813 dir out action block"
        ))?;
        let sent = send(&from, b"blocked", to);
        ensure!(sent == libc::EPERM, "{family}: a policy to block: {sent}");
    }
    Ok(())
}

/// `connect` with `AF_UNSPEC`, which also takes the device away.
fn unconnect(socket: &Socket) -> Result<()> {
    let nobody = [0_u8; 16];
    // SAFETY: the kernel reads 16 bytes, which is how many there are.
    let result = unsafe { libc::connect(socket.as_raw_fd(), nobody.as_ptr().cast(), 16) };
    ensure!(result == 0, "disconnecting");
    Ok(())
}

/// How a socket is told which of two networks is its own.
#[derive(Clone, Copy, Debug)]
enum Tie {
    Device,
    Connected,
    Mark,
}

impl Tie {
    const ALL: [Self; 3] = [Self::Device, Self::Connected, Self::Mark];

    /// To the second one.
    fn tie(self, socket: &Socket) -> Result<()> {
        match self {
            Self::Device | Self::Connected => bind_device(socket, "eth1"),
            Self::Mark => Ok(set(socket, libc::SOL_SOCKET, libc::SO_MARK, 7)?),
        }
    }

    /// To the first one.
    fn change(self, socket: &Socket) -> Result<()> {
        match self {
            Self::Device => bind_device(socket, "eth0"),
            Self::Connected => unconnect(socket),
            Self::Mark => Ok(set(socket, libc::SOL_SOCKET, libc::SO_MARK, 0)?),
        }
    }
}

/// A message that was begun goes on by the network that it began with, whatever its socket is bound
/// to meanwhile; the next one by what holds then.
pub(super) fn under_way(_: &mut Ctx) -> Result<()> {
    let twins = Twins::new()?.with_ipv6()?;
    for (family, net) in [("-4", "10.0.0.0/24"), ("-6", "fd00::/64")] {
        let host = &twins.host;
        host.ip(&format!("{family} route add {net} dev eth1 table 100"))?;
        host.ip(&format!("{family} rule add fwmark 7 lookup 100"))?;
    }
    for tie in Tie::ALL {
        goes_on(&twins, tie, [SELF.into(), PEER.into()])?;
        goes_on(&twins, tie, [SELF6.into(), PEER6.into()])?;
    }
    Ok(())
}

fn goes_on(twins: &Twins, tie: Tie, [own, peer]: [IpAddr; 2]) -> Result<()> {
    let domain = Domain::for_address(SocketAddr::new(own, 0));
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    // What the host sends.
    let there = receiver(&twins.peers[1], Kind::Turnstile, domain)?;
    let from = open_in(&twins.host, Kind::Turnstile, domain)?;
    tie.tie(&from)?;
    from.connect(&SocketAddr::new(peer, PORT).into())?;
    half(&format!("{tie:?} to {peer}"), &there, &bytes, || {
        ensure!(outcome(from.send(&bytes)) == 0, "sending");
        Ok(())
    })?
    .then(&there, || tie.change(&from))?;
    drop(there);
    let what = format!("{tie:?}: the next one");
    twins.reaches_at(&what, Kind::Turnstile, &from, 0, peer)?;
    // What comes to it.
    let here = open_in(&twins.host, Kind::Turnstile, domain)?;
    tie.tie(&here)?;
    here.bind(&SocketAddr::new(any(domain), PORT).into())?;
    let from = open_in(&twins.peers[1], Kind::Turnstile, domain)?;
    half(&format!("{tie:?} to {own}"), &here, &bytes, || {
        let sent = send(&from, &bytes, SocketAddr::new(own, PORT));
        ensure!(sent == 0, "sending: {sent}");
        Ok(())
    })?
    .then(&here, || tie.change(&here))
}

/// A message of which a part was read.
struct Half<'a> {
    what: String,
    bytes: &'a [u8],
    came: Vec<u8>,
}

/// Begins to read a message that is longer than the receiver takes at once.
fn half<'a>(
    what: &str,
    receiver: &Socket,
    bytes: &'a [u8],
    send: impl FnOnce() -> Result<()>,
) -> Result<Half<'a>> {
    receiver.set_recv_buffer_size(64 << 10)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    send()?;
    let (came, _) = next(receiver)?.with_context(|| format!("{what}: nothing came"))?;
    Ok(Half {
        what: what.to_owned(),
        bytes,
        came,
    })
}

impl Half<'_> {
    /// Reads the rest after a change.
    fn then(mut self, receiver: &Socket, change: impl FnOnce() -> Result<()>) -> Result<()> {
        change()?;
        while self.came.len() < self.bytes.len() {
            let so_far = self.came.len();
            let more = next(receiver).with_context(|| format!("{}: {so_far}", self.what))?;
            let (more, _) =
                more.with_context(|| format!("{}: {so_far} bytes came, then none", self.what))?;
            self.came.extend(more);
        }
        ensure!(self.came == self.bytes, "{}: other bytes", self.what);
        Ok(())
    }
}

/// Connects a socket for the so manieth time, and disconnects it.
fn reconnect(socket: &Socket, there: SocketAddr, time: u32) -> Result<()> {
    socket.connect(&there.into()).context("connecting")?;
    std::thread::sleep(Duration::from_micros(u64::from(time % 50)));
    unconnect(socket)
}

/// Connecting, disconnecting, binding and sending at the same time: a socket has its lock in all.
pub(super) fn disconnect(_: &mut Ctx) -> Result<()> {
    const TIMES: u32 = 2000;
    let net = pair()?;
    for (v6, there) in addresses(&net.hosts[1]).into_iter().enumerate() {
        let domain = Domain::for_address(there);
        let to = receiver(&net.hosts[1].ns, Kind::Turnstile, domain)?;
        to.set_nonblocking(true)?;
        let socket = open_in(&net.hosts[0].ns, Kind::Turnstile, domain)?;
        socket.set_nonblocking(true)?;
        let (socket, done) = (&socket, &AtomicBool::new(false));
        std::thread::scope(|scope| -> Result<()> {
            let sending = scope.spawn(|| -> Result<u32> {
                let mut sent = 0;
                while !done.load(Ordering::Relaxed) {
                    let result = outcome(socket.send(b"connected"));
                    let fine = [0, libc::EDESTADDRREQ, libc::EAGAIN, libc::ENOBUFS];
                    ensure!(fine.contains(&result), "IPv6: {v6}: {result}");
                    sent += u32::from(result == 0);
                    while let Ok((_, _)) = to.recv_from(&mut [std::mem::MaybeUninit::uninit(); 64])
                    {
                    }
                    // No time passes in virtual time for who only yields.
                    std::thread::sleep(Duration::from_micros(20));
                }
                Ok(sent)
            });
            let connected = (0..TIMES).try_for_each(|time| reconnect(socket, there, time));
            done.store(true, Ordering::Relaxed);
            let sent = sending
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            connected?;
            ensure!(sent > 0, "nothing was sent in between");
            Ok(())
        })?;
        ensure!(
            outcome(socket.send(b"x")) == libc::EDESTADDRREQ,
            "still connected"
        );
        socket.bind(&SocketAddr::new(any(domain), 0).into())?;
    }
    Ok(())
}
