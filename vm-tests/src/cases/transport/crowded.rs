// SPDX-License-Identifier: GPL-2.0
//! One socket for many peers, some of which are dead or do not read: programs that may not wait.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::event::PollFlags;
use socket2::{Domain, Socket};

use super::support::{
    configure_all, hosts, item, pair, read_once, ready, refused, send_once, unbound, wait_for,
    PATIENCE, PORT,
};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/crowded/open-message-that-failed", open_failed).timeout_s(120),
    Case::new("transport/crowded/open-message-that-was-reset", open_reset).timeout_s(120),
    Case::new("transport/crowded/failed-under-a-call", failed_under_a_call).timeout_s(120),
    Case::new("transport/crowded/one-who-does-not-read", does_not_read).timeout_s(120),
    Case::new("transport/crowded/one-of-a-host-does-not-read", of_a_host).timeout_s(120),
    Case::new("transport/crowded/whole-or-nothing", whole_or_nothing).timeout_s(120),
    Case::new("transport/crowded/room-of-one-peer", room_of_one_peer).timeout_s(120),
    Case::new("transport/crowded/an-edge-is-news", an_edge_is_news).timeout_s(120),
    Case::new("transport/crowded/edges-for-others", edges_for_others).timeout_s(120),
    // Sanitizers make other objects of those that are counted.
    Case::new("transport/crowded/closed-unread", closed_unread)
        .needs(&[Need::Speed])
        .timeout_s(120),
];

/// A call that may not wait.
const D: i32 = libc::MSG_DONTWAIT;

fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

fn own(ns: &Netns) -> Result<Socket> {
    unbound(ns, Domain::IPV4)
}

/// A socket that is bound to a port of any address.
fn bound(ns: &Netns, port: u16) -> Result<Socket> {
    let socket = own(ns)?;
    socket.bind(&at(Ipv4Addr::UNSPECIFIED, port).into())?;
    Ok(socket)
}

/// A host that sends, and two more; nobody waits long for one that is silent.
fn three() -> Result<Net> {
    let net = hosts(&Builder::bridged(3))?;
    configure_all(&net, "timeout 1s")?;
    Ok(net)
}

/// What begins a message in these ways, of which more is to come.
fn begin(own: &Socket, to: SocketAddr, way: &str) -> Result<()> {
    let (len, control, flags) = match way {
        "a part" => (24_000_000, vec![], D),
        "MSG_MORE" => (1000, vec![], libc::MSG_MORE),
        _ => (1000, item(1, &5000u64.to_ne_bytes()), 0),
    };
    let sent = send_once(own, &vec![1; len], Some(to), &control, flags)?;
    ensure!(sent == 1000 || sent < len, "{way}: all was taken");
    Ok(())
}

/// The peer dies when a part of a message was taken. After that was reported, what goes elsewhere
/// is a new message; what would have gone on with it fails once.
fn open_failed(_: &mut Ctx) -> Result<()> {
    let net = three()?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let (dead, live) = (at(net.hosts[1].v4, PORT), at(net.hosts[2].v4, PORT));
    let to = bound(&net.hosts[2].ns, PORT)?;
    for way in ["a part", "MSG_MORE", "TURNSTILE_LENGTH"] {
        for goes_on in [false, true] {
            let own = own(&net.hosts[0].ns)?;
            begin(&own, dead, way)?;
            let elsewhere = send_once(&own, b"live", Some(live), &[], D);
            refused("while it is open", elsewhere, libc::EINVAL)?;
            wait_for(&own, PollFlags::ERR)?;
            let report = read_once(&own, 0, libc::MSG_ERRQUEUE | D)?;
            ensure!(report.data.is_empty(), "data with a report");
            if goes_on {
                let more = send_once(&own, b"more", None, &[], D | libc::MSG_MORE);
                refused("the rest of it", more, libc::ETIMEDOUT)?;
            }
            let sent = send_once(&own, b"live", Some(live), &[], D);
            ensure!(matches!(sent, Ok(4)), "{way}, {goes_on}: {sent:?}");
            ensure!(read_once(&to, 9, 0)?.data == b"live", "{way}: not it");
        }
    }
    Ok(())
}

/// The same when the receiver says no, on sockets with and without a peer, and what follows is for
/// the same one.
fn open_reset(_: &mut Ctx) -> Result<()> {
    let net = three()?;
    let there = at(net.hosts[1].v4, PORT);
    for connected in [false, true] {
        let to = bound(&net.hosts[1].ns, PORT)?;
        let own = own(&net.hosts[0].ns)?;
        let name = (!connected).then_some(there);
        if connected {
            own.connect(&there.into())?;
        }
        send_once(&own, &[1; 50_000], name, &[], libc::MSG_MORE)?;
        std::thread::sleep(Duration::from_millis(100));
        drop(to);
        wait_for(&own, PollFlags::ERR)?;
        // Of a socket with a peer it is the pending error; of another, of the message.
        let more = send_once(&own, b"rest", name, &[], 0);
        refused("the rest of it", more, libc::ECONNRESET)?;
        let to = bound(&net.hosts[1].ns, PORT)?;
        let sent = send_once(&own, b"next", name, &[], 0);
        ensure!(matches!(sent, Ok(4)), "connected {connected}: {sent:?}");
        ensure!(read_once(&to, 9, 0)?.data == b"next", "{connected}: not it");
    }
    Ok(())
}

/// A call that waits for room in the midst of a message that fails is told that, and not how much
/// was taken of what goes nowhere.
fn failed_under_a_call(_: &mut Ctx) -> Result<()> {
    let net = three()?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let own = own(&net.hosts[0].ns)?;
    let dead = Some(at(net.hosts[1].v4, PORT));
    let sent = send_once(&own, &vec![1; 36_000_000], dead, &[], 0);
    refused("36 MB to the dead", sent, libc::ETIMEDOUT)?;
    let to = bound(&net.hosts[2].ns, PORT)?;
    let live = Some(at(net.hosts[2].v4, PORT));
    send_once(&own, b"live", live, &[], 0)?;
    ensure!(read_once(&to, 9, 0)?.data == b"live", "not it");
    Ok(())
}

/// A server with one socket answers requests with 100 kB; `bad` asks 120 times and reads nothing.
/// `good` gets its answer.
fn serves(server: &Socket, there: SocketAddr, bad: &Socket, good: &Socket) -> Result<()> {
    let serve = || {
        std::thread::sleep(Duration::from_millis(2));
        let mut answers = Vec::new();
        while let Ok(request) = read_once(server, 64, D) {
            answers.push(send_once(server, &[1; 100_000], request.from, &[], D));
        }
        answers
    };
    let mut others = Vec::new();
    for _ in 0..120 {
        send_once(bad, b"give", Some(there), &[], 0)?;
        others.extend(serve());
    }
    let whole = |answer: &std::io::Result<usize>| match answer {
        Ok(100_000) => true,
        Err(error) => error.raw_os_error() != Some(libc::EAGAIN),
        _ => true,
    };
    let refusals = others.iter().filter(|it| !whole(it)).count();
    ensure!(refusals != 0, "nobody was refused: {others:?}");
    ensure!(
        others
            .iter()
            .all(|it| !matches!(it, Ok(len) if *len != 100_000)),
        "a part was taken: {others:?}"
    );
    ensure!(
        ready(server)?.contains(PollFlags::OUT) || wait_for(server, PollFlags::OUT).is_ok(),
        "poll knows of no room for others"
    );
    for i in 0..20 {
        send_once(good, b"give", Some(there), &[], 0)?;
        let answers = serve();
        ensure!(matches!(answers[..], [Ok(100_000)]), "{i}: {answers:?}");
        let mut bytes = 0;
        while bytes < 100_000 {
            bytes += read_once(good, 1 << 20, 0)?.data.len();
        }
    }
    Ok(())
}

fn does_not_read(_: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    let server = bound(&net.hosts[0].ns, PORT)?;
    server.set_send_buffer_size(4 << 20)?;
    let (bad, good) = (own(&net.hosts[1].ns)?, own(&net.hosts[2].ns)?);
    bad.set_recv_buffer_size(200_000)?;
    serves(&server, at(net.hosts[0].v4, PORT), &bad, &good)
}

/// Both are of one host.
fn of_a_host(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let server = bound(&net.hosts[0].ns, PORT)?;
    server.set_send_buffer_size(4 << 20)?;
    let (bad, good) = (own(&net.hosts[1].ns)?, own(&net.hosts[1].ns)?);
    bad.set_recv_buffer_size(200_000)?;
    serves(&server, at(net.hosts[0].v4, PORT), &bad, &good)
}

/// What a call that may not wait does with a message that could have room and has none now; poll
/// says when it has.
fn whole_or_nothing(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 150_000;
    let net = pair()?;
    let there = at(net.hosts[1].v4, PORT);
    let to = bound(&net.hosts[1].ns, PORT)?;
    to.set_recv_buffer_size(64 << 10)?;
    let own = own(&net.hosts[0].ns)?;
    own.set_send_buffer_size(200_000)?;
    own.connect(&there.into())?;
    for name in [None, Some(there)] {
        let first = send_once(&own, &[1; LEN], name, &[], D);
        ensure!(matches!(first, Ok(LEN)), "the first: {first:?}");
        let second = send_once(&own, &[2; LEN], name, &[], D);
        refused("the second", second, libc::EAGAIN)?;
        ensure!(
            !ready(&own)?.contains(PollFlags::OUT),
            "poll says that it has room"
        );
        // A shorter one has.
        let short = send_once(&own, b"short", name, &[], D);
        ensure!(matches!(short, Ok(5)), "{short:?}");
        let again = send_once(&own, &[2; LEN], name, &[], D);
        refused("the second again", again, libc::EAGAIN)?;
        let mut got = 0;
        let mut messages = 0;
        while messages < 2 {
            let read = read_once(&to, LEN, 0)?;
            got += read.data.len();
            messages += u32::from(read.end);
        }
        ensure!(got == LEN + 5, "{got} bytes");
        wait_for(&own, PollFlags::OUT)?;
        // A stream is taken in parts: it is open then.
        let part = send_once(&own, &[3; 3 * LEN], name, &[], D | libc::MSG_MORE)?;
        ensure!(part < 2 * LEN, "{part} bytes of a buffer of 200 kB");
        let rest = std::thread::spawn({
            let own = own.try_clone()?;
            move || send_once(&own, b"end", None, &[], 0)
        });
        let mut got = 0;
        loop {
            let read = read_once(&to, LEN, 0)?;
            got += read.data.len();
            if read.end {
                break;
            }
        }
        ensure!(got == part + 3, "{got} of {part} bytes");
        rest.join().map_err(|_| anyhow::anyhow!("it panicked"))??;
        // What could never have room whole is taken in parts, too.
        let part = send_once(&own, &[4; 3 * LEN], name, &[], D)?;
        ensure!(part < 2 * LEN, "{part} bytes of a buffer of 200 kB");
        let end = std::thread::spawn({
            let own = own.try_clone()?;
            move || send_once(&own, &vec![4; 3 * LEN - part], None, &[], 0)
        });
        let mut got = 0;
        while got < 3 * LEN {
            got += read_once(&to, LEN, 0)?.data.len();
        }
        end.join().map_err(|_| anyhow::anyhow!("it panicked"))??;
        // Nothing is under way any more.
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

/// How much of a buffer a peer may fill: all of it, and if the socket is not connected, each who is
/// left has some beside that.
fn room_of_one_peer(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    net.hosts[2].ns.ip("link set eth0 down")?;
    let fill = |own: &Socket, to: SocketAddr, len: usize| -> Result<usize> {
        let mut all = 0;
        loop {
            match send_once(own, &vec![1; len], Some(to), &[], D) {
                Ok(sent) if sent == len => all += len + 1024,
                Ok(sent) => anyhow::bail!("{sent} of {len} bytes were taken"),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Ok(all),
                Err(error) => return Err(error.into()),
            }
        }
    };
    const SIZE: usize = 1_000_000;
    // Those of more than a 32nd of it have a quarter beside, and shorter ones another one.
    const LONG: usize = 32_200;
    const WITH_BESIDE: usize = SIZE / 4 * 5;
    let spare = SIZE / 4 - 30_000..=SIZE / 4;
    for connected in [false, true] {
        let own = own(&net.hosts[0].ns)?;
        own.set_send_buffer_size(SIZE)?;
        let [a, b] = [1, 2].map(|host: usize| net.hosts[host].v4);
        if connected {
            own.connect(&at(a, PORT).into())?;
            let first = fill(&own, at(a, PORT), LONG)?;
            ctx.note(format!("connected: {first} of {WITH_BESIDE}"));
            ensure!(
                first > WITH_BESIDE * 95 / 100 && first <= WITH_BESIDE,
                "{first} of {WITH_BESIDE}"
            );
            ensure!(!ready(&own)?.contains(PollFlags::OUT), "poll says room");
            let short = fill(&own, at(a, PORT), 10_000)?;
            let all = WITH_BESIDE - first;
            ensure!(
                (*spare.start()..=spare.end() + all).contains(&short),
                "{short} of short ones"
            );
            continue;
        }
        let parts = [at(a, PORT), at(a, PORT + 1), at(a, PORT + 2), at(b, PORT)]
            .map(|to| fill(&own, to, LONG));
        let parts: Vec<usize> = parts.into_iter().collect::<Result<_>>()?;
        ctx.note(format!("not connected: {parts:?} of {WITH_BESIDE}"));
        // All have twice the size, of which a third is left by then. The network may have four
        // times what it leaves, a fifth of (4 - 2) thirds more, and its second address half of it.
        let least =
            [1.0, 1.0 / 3.0, 0.0, 2.0 / 15.0].map(|part| (WITH_BESIDE as f64 * part) as usize);
        for (part, least) in parts.iter().zip(least) {
            let range = least.saturating_sub(30_000)..=least + 30_000;
            ensure!(range.contains(part), "{parts:?}: not {least}");
        }
        wait_for(&own, PollFlags::OUT)?;
        let short = fill(&own, at(a, PORT), 10_000)?;
        ensure!(spare.contains(&short), "{short} of short ones");
        // All have twice as much of that, too.
        let short = fill(&own, at(b, PORT), 10_000)?;
        ensure!(
            short > 0 && short < SIZE / 4,
            "{short} of short ones elsewhere"
        );
    }
    Ok(())
}

fn edges(epoll: &Epoll, ms: u16) -> Result<usize> {
    let mut events = [EpollEvent::empty(); 4];
    Ok(epoll.wait(&mut events, EpollTimeout::from(ms))?)
}

fn edge_triggered(own: &Socket) -> Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let wanted = EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    epoll.add(own, EpollEvent::new(wanted, 1))?;
    edges(&epoll, 0)?;
    Ok(epoll)
}

/// An edge-triggered program that gets EAGAIN for one peer, of places or of room, sleeps; it is
/// told ten times a second that another peer could have some, and not each time that it asks.
fn an_edge_is_news(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 60s")?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let to = Some(at(net.hosts[1].v4, PORT));
    for len in [100, 100_000] {
        let own = own(&net.hosts[0].ns)?;
        // Its messages end with it.
        own.set_linger(Some(Duration::ZERO))?;
        let epoll = edge_triggered(&own)?;
        while send_once(&own, &vec![1; len], to, &[], D).is_ok() {}
        let (mut told, mut ready_at) = (0, 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            told += edges(&epoll, 1000)?;
            let sent = send_once(&own, &vec![1; len], to, &[], D);
            refused("no room came", sent, libc::EAGAIN)?;
            ready_at += u32::from(ready(&own)?.contains(PollFlags::OUT));
        }
        ctx.note(format!(
            "messages of {len}: {told} edges in 5 s, poll {ready_at}"
        ));
        ensure!(told <= 55, "{told} edges in 5 s, and no room came");
        ensure!(told >= 5, "{told} edges in 5 s: others would starve");
    }
    Ok(())
}

/// One task waits for room for a peer that has none; another, of the same socket, finds its own.
fn edges_for_others(_: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let (dead, live) = (at(net.hosts[1].v4, PORT), at(net.hosts[2].v4, PORT));
    let to = bound(&net.hosts[2].ns, PORT)?;
    for len in [100, 100_000] {
        let own = own(&net.hosts[0].ns)?;
        let epoll = edge_triggered(&own)?;
        for _ in 0..10 {
            while send_once(&own, &vec![1; len], Some(dead), &[], D).is_ok() {}
            ensure!(edges(&epoll, 1000)? == 1, "no edge for the other");
            let sent = send_once(&own, &vec![2; len], Some(live), &[], D);
            ensure!(matches!(sent, Ok(it) if it == len), "{sent:?}");
            let mut bytes = 0;
            while bytes < len {
                bytes += read_once(&to, len, 0)?.data.len();
            }
        }
    }
    Ok(())
}

/// A socket is closed that has not read many messages, while one of its own is under way: what was
/// known of those is not kept until that ends.
fn closed_unread(ctx: &mut Ctx) -> Result<()> {
    const MANY: usize = 20_000;
    // Objects of 64 bytes, as the entry of a message is.
    let objects = || -> Result<i64> {
        let text = std::fs::read_to_string("/proc/slabinfo").context("/proc/slabinfo")?;
        let mut all = 0;
        for line in text.lines().filter(|line| line.starts_with("kmalloc-")) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if words.get(3) == Some(&"64") {
                all += words[1].parse::<i64>()?;
            }
        }
        Ok(all)
    };
    let net = hosts(&Builder::bridged(3))?;
    configure_all(&net, "timeout 60s")?;
    net.hosts[2].ns.ip("link set eth0 down")?;
    let to = bound(&net.hosts[1].ns, PORT)?;
    configure_all(&net, &format!("max-incoming {}", 2 * MANY))?;
    setsockopt(&to, sockopt::RcvBufForce, &(64 << 20)).context("setting SO_RCVBUFFORCE")?;
    let own = own(&net.hosts[0].ns)?;
    own.connect(&at(net.hosts[1].v4, PORT).into())?;
    own.set_write_timeout(Some(PATIENCE))?;
    for i in 0..MANY {
        let sent = send_once(&own, b"x", None, &[], 0);
        ensure!(matches!(sent, Ok(1)), "message {i}: {sent:?}");
    }
    std::thread::sleep(Duration::from_secs(1));
    send_once(&to, b"y", Some(at(net.hosts[2].v4, PORT)), &[], 0)?;
    let before = objects()?;
    drop(to);
    std::thread::sleep(Duration::from_secs(1));
    let after = objects()?;
    ctx.note(format!("{before} objects with the socket, {after} without"));
    let queues = net.hosts[1].ns.run("turnstile sockets")?;
    net.hosts[1].ns.run("turnstile sockets --kill --ipv4")?;
    ensure!(
        queues.starts_with("closing"),
        "nothing is under way: {queues}"
    );
    ensure!(
        before - after > MANY as i64 * 3 / 4,
        "{before} objects before {MANY} messages were freed, {after} afterwards"
    );
    Ok(())
}
