// SPDX-License-Identifier: GPL-2.0
//! Which device messages go by: the socket's device, mark, user, priority and VRF, both ways.

use std::net::{Ipv4Addr, SocketAddr};
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

    /// That messages of a socket reach that peer and not the other, and are answered.
    fn reaches(&self, what: &str, kind: Kind, from: &Socket, number: usize) -> Result<()> {
        let to = SocketAddr::from((PEER, PORT));
        let receivers = [0, 1].map(|peer: usize| receiver(&self.peers[peer], kind, Domain::IPV4));
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

/// Connects a socket for the so manieth time, and disconnects it.
fn reconnect(socket: &Socket, there: SocketAddr, time: u32) -> Result<()> {
    socket.connect(&there.into()).context("connecting")?;
    std::thread::sleep(Duration::from_micros(u64::from(time % 50)));
    // AF_UNSPEC
    let nobody = [0_u8; 16];
    // SAFETY: the kernel reads 16 bytes, which is how many there are.
    let result = unsafe { libc::connect(socket.as_raw_fd(), nobody.as_ptr().cast(), 16) };
    ensure!(result == 0, "disconnecting");
    Ok(())
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
