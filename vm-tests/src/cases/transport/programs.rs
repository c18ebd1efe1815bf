// SPDX-License-Identifier: GPL-2.0
//! Programs as applications are written: a server with one socket and clients that do not read, a
//! reader whose own message fails meanwhile, calls that time out.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rustix::event::PollFlags;
use socket2::{Domain, Socket};
use turnstile_socket::SendOptions;

use super::content::content;
use super::support::{
    addresses, configure_all, hosts, pair, read_once, ready, receiver, refused, same, send_once,
    socket, unbound, wait_for, PORT,
};
use crate::harness::{Case, Ctx, Need, MUCH_WORK};
use crate::netns::Netns;
use crate::topology::{Builder, Host, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/programs/clients-that-do-not-read", do_not_read).timeout_s(300),
    Case::new("transport/programs/a-network-that-does-not-read", network)
        .needs(MUCH_WORK)
        .timeout_s(300),
    Case::new("transport/programs/edges-beside-them", edges).timeout_s(120),
    Case::new("transport/programs/a-call-that-times-out", timed_out).timeout_s(120),
    Case::new("transport/programs/no-place-is-no-news", no_place)
        .needs(&[Need::VirtualTime])
        .timeout_s(120),
    Case::new("transport/programs/shut-down-while-full", shut_down).timeout_s(120),
    Case::new("transport/programs/another-fails-meanwhile", another_fails).timeout_s(120),
    Case::new(
        "transport/programs/another-fails-while-one-is-open",
        open_while,
    )
    .timeout_s(120),
];

/// A call that may not wait.
const D: i32 = libc::MSG_DONTWAIT;

fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

fn bound(ns: &Netns, port: u16) -> Result<Socket> {
    let socket = unbound(ns, Domain::IPV4)?;
    socket.bind(&at(Ipv4Addr::UNSPECIFIED, port).into())?;
    Ok(socket)
}

/// A server, so many clients that read nothing and for which it has sent what it may, and one more.
struct Serving {
    net: Net,
    server: Socket,
    clients: Vec<Socket>,
    good: SocketAddr,
}

fn serving(slow: usize) -> Result<Serving> {
    let net = hosts(&Builder::bridged(slow + 2))?;
    let server = bound(&net.hosts[0].ns, PORT)?;
    let mut clients = Vec::new();
    for host in &net.hosts[1..] {
        clients.push(bound(&host.ns, PORT)?);
    }
    for (client, host) in clients.iter().zip(&net.hosts[1..=slow]) {
        client.set_recv_buffer_size(64 << 10)?;
        let to = Some(at(host.v4, PORT));
        for _ in 0..20 {
            while send_once(&server, &[1; 20_000], to, &[], D).is_ok() {}
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let good = at(net.hosts[slow + 1].v4, PORT);
    Ok(Serving {
        net,
        server,
        clients,
        good,
    })
}

/// However many clients do not read, as long as there is room for another one `poll` says so.
fn do_not_read(ctx: &mut Ctx) -> Result<()> {
    for slow in [1, 5, 8] {
        let it = serving(slow)?;
        wait_for(&it.server, PollFlags::OUT).with_context(|| format!("{slow} that do not read"))?;
        send_once(&it.server, &[2; 1000], Some(it.good), &[], D)?;
        let came = read_once(&it.clients[slow], 2000, 0)?.data.len();
        ensure!(came == 1000, "{slow} that do not read: {came} bytes came");
        ctx.note(format!("{slow} of {} do not read", it.net.hosts.len() - 1));
    }
    Ok(())
}

/// However many addresses of one network do not read, there is room for other networks, and `poll`
/// says so. Each client asks once a second for more.
fn network(ctx: &mut Ctx) -> Result<()> {
    const MANY: u16 = 24;
    for ipv6 in [false, true] {
        let net = hosts(&Builder::bridged(3))?;
        let ip = |n: u16| -> IpAddr {
            match ipv6 {
                true => Ipv6Addr::new(0xfd99, 1, 2, n % 3, 0, 0, 0, n).into(),
                false => Ipv4Addr::new(10, 99, 1, n as u8).into(),
            }
        };
        // The IPv6 ones are of one /48 and several /64.
        let prefix = if ipv6 { 48 } else { 24 };
        let add = |host: &Host, n| {
            let ip = ip(n);
            let nodad = if ipv6 { " nodad" } else { "" };
            let command = format!("addr add {ip}/{prefix} dev eth0{nodad}");
            host.ns.ip(&command).map(|_| SocketAddr::from((ip, PORT)))
        };
        let [at, bad, other] = [0, 1, 2].map(|n: usize| &net.hosts[n]);
        add(at, 200)?;
        let any = |host: &Host| -> Result<Socket> {
            let socket = unbound(&host.ns, Domain::IPV6)?;
            socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)).into())?;
            Ok(socket)
        };
        let (server, client) = (any(at)?, any(other)?);
        let good = addresses(other)[usize::from(ipv6)];
        let mut silent = Vec::new();
        for n in 1..=MANY {
            let to = add(bad, n)?;
            let socket = socket(&bad.ns, to)?;
            socket.set_recv_buffer_size(16 << 10)?;
            silent.push((socket, to));
        }
        send_once(&server, &[2; 1000], Some(good), &[], D)?;
        ensure!(read_once(&client, 4000, 0)?.data.len() == 1000, "before");
        for _ in 0..20 {
            for (_, to) in &silent {
                for len in [20_000_usize, 2000, 100, 1] {
                    while send_once(&server, &vec![1; len], Some(*to), &[], D).is_ok() {}
                }
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        wait_for(&server, PollFlags::OUT)?;
        let mut left = 0;
        while send_once(&server, &[2; 20_000], Some(good), &[], D).is_ok() {
            left += 20_000;
            ensure!(read_once(&client, 40_000, 0)?.data.len() == 20_000, "then");
            if left >= 1_000_000 {
                break;
            }
        }
        ctx.note(format!("{left} bytes went to another network"));
        ensure!(left >= 1_000_000, "{left} bytes");
    }
    Ok(())
}

/// The same for who asks for edges: `EAGAIN` for one of them is followed by one.
fn edges(_: &mut Ctx) -> Result<()> {
    let it = serving(6)?;
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let wanted = EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    epoll.add(&it.server, EpollEvent::new(wanted, 1))?;
    let mut events = [EpollEvent::empty(); 4];
    epoll.wait(&mut events, EpollTimeout::from(0_u16))?;
    let to = Some(at(it.net.hosts[1].v4, PORT));
    let again = send_once(&it.server, &[1; 20_000], to, &[], D);
    refused("to one that does not read", again, libc::EAGAIN)?;
    let edges = epoll.wait(&mut events, EpollTimeout::from(1000_u16))?;
    ensure!(edges == 1, "{edges} edges within a second");
    send_once(&it.server, &[2; 1000], Some(it.good), &[], D)?;
    Ok(())
}

/// A blocking call with `SO_SNDTIMEO`: if its time is over before all of the message was taken,
/// nothing of it is sent, and the socket is good for others.
fn timed_out(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 1_500_000;
    let net = hosts(&Builder::bridged(3))?;
    let server = bound(&net.hosts[0].ns, PORT)?;
    let [slow, good] = [1, 2].map(|at: usize| bound(&net.hosts[at].ns, PORT));
    let (slow, good) = (slow?, good?);
    slow.set_recv_buffer_size(64 << 10)?;
    server.set_send_buffer_size(4 << 20)?;
    server.set_write_timeout(Some(Duration::from_millis(200)))?;
    let to = Some(at(net.hosts[1].v4, PORT));
    let mut sent = 0;
    let refusal = loop {
        match send_once(&server, &vec![1; LEN], to, &[], 0) {
            Ok(len) => ensure!(len == LEN, "a part was taken: {len} B"),
            Err(error) => break error,
        }
        sent += 1;
        ensure!(sent < 10, "the buffer has no end");
    };
    ctx.note(format!("{sent} messages, then {refusal}"));
    ensure!(refusal.raw_os_error() == Some(libc::EAGAIN), "{refusal}");
    let there = Some(at(net.hosts[2].v4, PORT));
    send_once(&server, b"good", there, &[], 0).context("to the other one")?;
    ensure!(read_once(&good, 9, 0)?.data == b"good", "another one came");
    // Nor does anything of it come: those that were taken come whole, and then another one.
    send_once(&server, b"last", to, &[], 0).context("to the slow one")?;
    let mut ends = Vec::new();
    let mut bytes = 0;
    while ends.len() < sent + 1 {
        let read = read_once(&slow, 1 << 20, 0)?;
        bytes += read.data.len();
        if read.end {
            ends.push(std::mem::take(&mut bytes));
        }
    }
    ends.sort_unstable();
    let mut wanted = vec![4];
    wanted.resize(sent + 1, LEN);
    ensure!(ends == wanted, "messages of {ends:?} bytes");
    Ok(())
}

/// All places for one peer are taken, and the socket has no peer: whether others have some poll
/// does not know, so it says so now and then, and not all the time.
fn no_place(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 60s")?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let own = unbound(&net.hosts[0].ns, Domain::IPV4)?;
    own.set_linger(Some(Duration::ZERO))?;
    let to = Some(at(net.hosts[1].v4, PORT));
    while send_once(&own, &[1; 100], to, &[], D).is_ok() {}
    let began = Instant::now();
    let mut rounds = 0;
    while began.elapsed() < Duration::from_secs(2) && rounds < 1000 {
        if ready(&own)?.contains(PollFlags::OUT) {
            rounds += 1;
            let again = send_once(&own, &[1; 100], to, &[], D);
            refused("without a place", again, libc::EAGAIN)?;
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    ctx.note(format!("POLLOUT {rounds} times in {:?}", began.elapsed()));
    ensure!((5..=25).contains(&rounds), "POLLOUT {rounds} times in 2 s");
    Ok(())
}

/// Who waits for room in `poll` learns that the socket was shut down.
fn shut_down(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 60s")?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let own = unbound(&net.hosts[0].ns, Domain::IPV4)?;
    own.set_linger(Some(Duration::ZERO))?;
    own.connect(&at(net.hosts[1].v4, PORT).into())?;
    while send_once(&own, &[1; 50_000], None, &[], D).is_ok() {}
    ensure!(!ready(&own)?.contains(PollFlags::OUT), "there is room");
    own.shutdown(Shutdown::Write)?;
    wait_for(&own, PollFlags::OUT)?;
    let sent = send_once(&own, b"more", None, &[], D);
    refused("after it was shut down", sent, libc::EPIPE)
}

/// A long message is read while it comes, and meanwhile one fails that was sent to the same peer:
/// that is told after it, and nothing of what comes is lost.
fn another_fails(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 40_000_000;
    let bytes = content(1, LEN);
    for (info, ipv6) in [(true, 0), (false, 1)] {
        let net = pair()?;
        let there = addresses(&net.hosts[1])[ipv6];
        let home = addresses(&net.hosts[0])[ipv6];
        let peer = receiver(&net.hosts[1].ns)?;
        peer.set_completions(true)?;
        peer.set_recv_buffer_size(32 << 10)?;
        let own = socket(&net.hosts[0].ns, ("::", PORT))?;
        own.connect(there)?;
        // The message is read while it comes: half of this buffer has no room for it.
        own.set_recv_buffer_size(4 << 20)?;
        own.set_receive_info(info)?;
        // Nobody reads it, and the peer throws it away later.
        own.send(&[7; 100_000], &SendOptions::default())?;
        std::thread::sleep(Duration::from_millis(100));
        let (began, begun) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let (first, second) = std::thread::scope(|scope| -> Result<_> {
            let (peer, own, bytes) = (&peer, &own, &bytes);
            let writer = scope.spawn(move || -> Result<()> {
                let options = SendOptions {
                    length: Some(LEN as u64),
                    ..SendOptions::default()
                };
                let mut writer = peer.begin(home, &options)?;
                writer.write_all(&bytes[..LEN / 2])?;
                began.send(())?;
                told.recv()?;
                writer.write_all(&bytes[LEN / 2..])?;
                Ok(writer.finish().map(drop)?)
            });
            let reader =
                scope.spawn(move || (own.recv_message(1 << 30), own.recv_message(1 << 30)));
            begun.recv()?;
            std::thread::sleep(Duration::from_millis(500));
            peer.discard(0)?;
            std::thread::sleep(Duration::from_millis(500));
            tell.send(())?;
            writer.join().map_err(|_| anyhow!("the writer"))??;
            let read = reader.join().map_err(|_| anyhow!("the reader"))?;
            Ok(read)
        })?;
        same("the message", &first?.data, &bytes)?;
        let errno = second.err().and_then(|error| error.errno());
        ensure!(errno == Some(libc::ECONNRESET), "then {errno:?}");
    }
    Ok(())
}

/// A message is open on a connected socket, and another one fails: the call that would go on is
/// told of that. What is sent later is no part of the open one, which goes on if its writer likes.
fn open_while(_: &mut Ctx) -> Result<()> {
    for goes_on in [false, true] {
        let net = pair()?;
        let peer = receiver(&net.hosts[1].ns)?;
        peer.set_recv_buffer_size(32 << 10)?;
        let own = socket(&net.hosts[0].ns, ("::", PORT))?;
        own.connect(addresses(&net.hosts[1])[0])?;
        own.send(&[7; 100_000], &SendOptions::default())?;
        let options = SendOptions {
            length: Some(2000),
            ..SendOptions::default()
        };
        let mut writer = own.begin_connected(&options)?;
        writer.write_all(&[1; 1000])?;
        std::thread::sleep(Duration::from_millis(100));
        peer.discard(0)?;
        std::thread::sleep(Duration::from_millis(100));
        let told = writer.write(&[1; 1000]);
        let errno = told.err().and_then(|error| error.raw_os_error());
        ensure!(errno == Some(libc::ECONNRESET), "told {errno:?}");
        if goes_on {
            writer.write_all(&[1; 1000])?;
            writer.finish()?;
            drop(writer);
            own.send(b"next", &SendOptions::default())?;
            let mut came = [peer.recv_message(9999)?, peer.recv_message(9999)?];
            came.sort_by_key(|message| message.data.len());
            ensure!(
                came[0].data == b"next" && came[1].data == [1; 2000],
                "others came"
            );
        } else {
            drop(writer);
            let sent = own.send(b"next", &SendOptions::default());
            let text = sent.err().map(|error| error.to_string());
            let left = "a message was left unfinished on this socket; close it";
            ensure!(text.as_deref() == Some(left), "{text:?}");
        }
    }
    Ok(())
}
