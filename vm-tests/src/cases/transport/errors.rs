// SPDX-License-Identifier: GPL-2.0
//! Every error that docs/sockets.md names, and what is as it was afterwards.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use anyhow::{ensure, Context, Result};
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, SockAddr, Type};
use turnstile_core::transport::uapi::{ancillary, IPPROTO_TURNSTILE, SOL_TURNSTILE};
use turnstile_socket::SendOptions;

use super::content;
use super::support::{
    addresses, as_v6, configure, delivered, item, item_of, nothing_more, pair, read_once, ready,
    receiver, refused, send_once, sender, socket, unbound, wait_for, PATIENCE, PORT,
};
use crate::harness::{Case, Ctx};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/errors/sending", sending),
    Case::new("transport/errors/ancillary-data", ancillary_data),
    Case::new("transport/errors/open-message", open_message),
    Case::new("transport/errors/binding", binding),
    Case::new("transport/errors/other-calls", other_calls),
    Case::new("transport/errors/max-outgoing", max_outgoing),
    Case::new("transport/errors/nobody-there", nobody_there),
];

/// Both families, with an address of the other host for each.
fn families(there: [SocketAddr; 2]) -> [(Domain, SocketAddr); 2] {
    [(Domain::IPV4, there[0]), (Domain::IPV6, there[1])]
}

fn sending(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for (domain, there) in families(addresses(&net.hosts[1])) {
        let from = unbound(&net.hosts[0].ns, domain)?;
        let send = |data: &[u8], to, flags| send_once(&from, data, to, &[], flags);
        refused(
            "without a destination",
            send(b"x", None, 0),
            libc::EDESTADDRREQ,
        )?;
        refused("of no bytes", send(b"", Some(there), 0), libc::EINVAL)?;
        let mut zero = there;
        zero.set_port(0);
        refused("to port 0", send(b"x", Some(zero), 0), libc::EINVAL)?;
        refused(
            "out of band",
            send(b"x", Some(there), libc::MSG_OOB),
            libc::EOPNOTSUPP,
        )?;
        if domain == Domain::IPV4 {
            let v6 = Some(addresses(&net.hosts[1])[1]);
            refused(
                "to IPv6 from AF_INET",
                send(b"x", v6, 0),
                libc::EAFNOSUPPORT,
            )?;
        }
        // Nothing of it was sent, and the socket is as good as before.
        ensure!(send(b"whole", Some(there), 0)? == 5, "not all of 5 bytes");
        let came = read_once(&to, 100, 0)?;
        ensure!(came.data == b"whole" && came.end, "{came:?}");
        from.shutdown(std::net::Shutdown::Write)?;
        refused("after shutdown", send(b"x", Some(there), 0), libc::EPIPE)?;
        nothing_more(&to)?;
    }
    Ok(())
}

fn ancillary_data(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = as_v6(addresses(&net.hosts[1])[0]);
    let longest = (1u64 << 30) - 1;
    let u32_of = |kind, value: u32| item(kind, &value.to_ne_bytes());
    let u64_of = |kind, value: u64| item(kind, &value.to_ne_bytes());
    let table = [
        ("a length of 0", u64_of(ancillary::LENGTH, 0), libc::EINVAL),
        (
            "a length of 2^30",
            u64_of(ancillary::LENGTH, longest + 1),
            libc::EMSGSIZE,
        ),
        (
            "a length of 2^64 - 1",
            u64_of(ancillary::LENGTH, u64::MAX),
            libc::EMSGSIZE,
        ),
        (
            "a length less than the data",
            u64_of(ancillary::LENGTH, 4),
            libc::EMSGSIZE,
        ),
        (
            "a length in 4 bytes",
            u32_of(ancillary::LENGTH, 10),
            libc::EINVAL,
        ),
        (
            "a length in no bytes",
            item(ancillary::LENGTH, &[]),
            libc::EINVAL,
        ),
        (
            "a deadline in 4 bytes",
            u32_of(ancillary::DEADLINE, 10),
            libc::EINVAL,
        ),
        ("coflow 0", u32_of(ancillary::COFLOW, 0), libc::EINVAL),
        (
            "a coflow in 8 bytes",
            u64_of(ancillary::COFLOW, 1),
            libc::EINVAL,
        ),
        ("priority 8", u32_of(ancillary::PRIORITY, 8), libc::EINVAL),
        (
            "priority 2^32 - 1",
            u32_of(ancillary::PRIORITY, u32::MAX),
            libc::EINVAL,
        ),
        (
            "a priority in 1 byte",
            item(ancillary::PRIORITY, &[1]),
            libc::EINVAL,
        ),
        (
            "unknown size 2",
            u32_of(ancillary::UNKNOWN_SIZE, 2),
            libc::EINVAL,
        ),
        (
            "what only receivers are given",
            item(ancillary::INFO, &[0; 32]),
            libc::EINVAL,
        ),
        (
            "a number that means nothing",
            item(99, &[0; 8]),
            libc::EINVAL,
        ),
        (
            "a good one and a bad one",
            [u32_of(ancillary::COFLOW, 1), u32_of(ancillary::PRIORITY, 9)].concat(),
            libc::EINVAL,
        ),
        // Its header says more than there is.
        (
            "a length that lies",
            [60u64.to_ne_bytes().to_vec(), item(1, &[0; 8])[8..].to_vec()].concat(),
            libc::EINVAL,
        ),
    ];
    for (what, control, errno) in table {
        for flags in [0, libc::MSG_MORE] {
            refused(
                what,
                send_once(&from, b"12345", Some(there), &control, flags),
                errno,
            )?;
        }
    }
    // What is meant for others is none of the transport's business.
    let others = item_of(SOL_TURNSTILE + 1, 1, &[0; 3]);
    send_once(&from, b"12345", Some(there), &others, 0).context("another level's")?;
    let all = [
        u64_of(ancillary::LENGTH, 5),
        u64_of(ancillary::DEADLINE, 1_000_000),
        u32_of(ancillary::COFLOW, u32::MAX),
        u32_of(ancillary::PRIORITY, 7),
        u32_of(ancillary::UNKNOWN_SIZE, 0),
    ];
    send_once(&from, b"12345", Some(there), &all.concat(), 0).context("all that are good")?;
    for _ in 0..2 {
        let came = read_once(&to, 100, 0)?;
        ensure!(came.data == b"12345" && came.end, "{came:?}");
    }
    nothing_more(&to)
}

/// What does not belong to an open message is refused, and the message goes on.
fn open_message(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1]).map(as_v6);
    let mut other_port = there[0];
    other_port.set_port(PORT + 1);
    let send = |data: &[u8], to, control: &[u8], flags| send_once(&from, data, to, control, flags);
    send(b"abc", Some(there[0]), &[], libc::MSG_MORE)?;
    for (what, to) in [("another address", there[1]), ("another port", other_port)] {
        refused(what, send(b"x", Some(to), &[], 0), libc::EINVAL)?;
    }
    let coflow = item(ancillary::COFLOW, &1u32.to_ne_bytes());
    refused(
        "ancillary data in the middle",
        send(b"x", Some(there[0]), &coflow, 0),
        libc::EINVAL,
    )?;
    send(b"def", Some(there[0]), &[], libc::MSG_MORE)?;
    send(b"ghi", Some(there[0]), &[], 0)?;
    // Its length is not known before the end, so it is handed out while it comes.
    let came = to.recv_message(100)?;
    ensure!(came.data == b"abcdefghi", "{came:?}");

    let length = item(ancillary::LENGTH, &6u64.to_ne_bytes());
    send(b"abc", Some(there[0]), &length, 0)?;
    refused(
        "more than was announced",
        send(b"defg", Some(there[0]), &[], 0),
        libc::EMSGSIZE,
    )?;
    send(b"def", Some(there[0]), &[], 0).context("the rest of what was announced")?;
    let came = read_once(&to, 100, 0)?;
    ensure!(came.data == b"abcdef" && came.end, "{came:?}");
    nothing_more(&to)
}

fn bind_to(socket: &socket2::Socket, to: SocketAddr) -> std::io::Result<()> {
    socket.bind(&SockAddr::from(to))
}

/// As for UDP: who may have a port besides whom.
fn binding(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (ns, me) = (&net.hosts[0].ns, &net.hosts[0]);
    let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let [one4, one6] = addresses(me);
    let local4 = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let open = |address: SocketAddr| unbound(ns, Domain::for_address(address));
    for (first, second, together) in [
        (any4, any4, false),
        (any4, one4, false),
        (one4, any4, false),
        (one4, one4, false),
        (one4, local4, true),
        (any6, any4, false),
        (any4, any6, false),
        (any6, one4, false),
        (any6, one6, false),
        (one6, one6, false),
        (one6, any4, true),
        (one6, one4, true),
    ] {
        let what = format!("{second} besides {first}");
        let (a, b) = (open(first)?, open(second)?);
        bind_to(&a, first).with_context(|| first.to_string())?;
        if together {
            bind_to(&b, second).context(what)?;
            continue;
        }
        refused(&what, bind_to(&b, second), libc::EADDRINUSE)?;
        drop(a);
        bind_to(&b, second).with_context(|| format!("{second} when {first} is gone"))?;
    }
    // An AF_INET6 socket that is for IPv6 only leaves the port to IPv4.
    let (a, b) = (open(any6)?, open(any4)?);
    a.set_only_v6(true)?;
    bind_to(&a, any6)?;
    bind_to(&b, any4).context("IPv4 besides IPv6 only")?;
    drop((a, b));

    let a = open(any4)?;
    let elsewhere = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 1), PORT));
    refused(
        "an address of nobody here",
        bind_to(&a, elsewhere),
        libc::EADDRNOTAVAIL,
    )?;
    refused("AF_INET6 on AF_INET", bind_to(&a, one6), libc::EAFNOSUPPORT)?;
    bind_to(&a, one4)?;
    refused("a second time", bind_to(&a, one4), libc::EINVAL)?;
    let b = open(any4)?;
    bind_to(&b, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let chosen = b.local_addr()?.as_socket().context("no address")?.port();
    ensure!(
        chosen != 0 && chosen != PORT,
        "the kernel chose port {chosen}"
    );
    Ok(())
}

/// What these sockets are not for, and other kinds of sockets of this protocol.
fn other_calls(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    for (domain, _) in families(addresses(&net.hosts[1])) {
        let socket = unbound(ns, domain)?;
        refused("listen", socket.listen(1), libc::EOPNOTSUPP)?;
        refused("accept", socket.accept(), libc::EOPNOTSUPP)?;
        refused("the peer of nobody", socket.peer_addr(), libc::ENOTCONN)?;
        let nothing = read_once(&socket, 10, libc::MSG_DONTWAIT);
        refused("nothing to be read", nothing, libc::EAGAIN)?;
        // Of the last type there are no sockets at all.
        for (kind, errno) in [
            (libc::SOCK_DGRAM, libc::EPROTONOSUPPORT),
            (libc::SOCK_STREAM, libc::EPROTONOSUPPORT),
            (libc::SOCK_SEQPACKET, libc::ESOCKTNOSUPPORT),
        ] {
            let protocol = Some(Protocol::from(i32::from(IPPROTO_TURNSTILE)));
            let made = ns.enter(|| Ok(socket2::Socket::new(domain, Type::from(kind), protocol)))?;
            refused(&format!("a socket of type {kind}"), made, errno)?;
        }
        let protocol = Some(Protocol::from(libc::IPPROTO_UDP));
        let made = ns.enter(|| {
            Ok(socket2::Socket::new(
                domain,
                Type::from(libc::SOCK_RDM),
                protocol,
            ))
        })?;
        refused("a SOCK_RDM of UDP", made, libc::EPROTONOSUPPORT)?;
    }
    Ok(())
}

/// A namespace has only so many messages under way, of which one user has a quarter for one peer.
/// Then poll does not say that a message can be sent, who will not wait gets EAGAIN, and who waits
/// comes to his turn when some have ended.
fn max_outgoing(_: &mut Ctx) -> Result<()> {
    const MOST: u32 = 4;
    let net = pair()?;
    configure(&net.hosts[0].ns, &format!("max-outgoing {}", 4 * MOST))?;
    let to = receiver(&net.hosts[1].ns)?;
    let froms = [sender(&net.hosts[0].ns)?, sender(&net.hosts[0].ns)?];
    let there = addresses(&net.hosts[1])[0];
    // None of them can end.
    net.hosts[1].ns.ip("link set eth0 down")?;
    for number in 0..MOST {
        let from = &froms[number as usize % 2];
        from.send_to(
            &content::content(number.into(), 100),
            there,
            &SendOptions::default(),
        )
        .with_context(|| format!("message {number}"))?;
    }
    let connected = socket(&net.hosts[0].ns, "[::]:0")?;
    connected.connect(there)?;
    for from in froms.iter().chain([&connected]) {
        let to = Some(as_v6(there)).filter(|_| from.peer_addr().is_err());
        let one_more = send_once(from, b"x", to, &[], libc::MSG_DONTWAIT);
        refused("one more", one_more, libc::EAGAIN)?;
    }
    ensure!(
        !ready(&connected)?.contains(PollFlags::OUT),
        "poll says that a message can be sent to the peer"
    );
    // A message to another peer can be sent. Poll says so a while later, lest a loop spins.
    wait_for(&froms[0], PollFlags::OUT)?;
    // Who waits no longer than a time is told, too.
    froms[0].set_write_timeout(Some(std::time::Duration::from_millis(50)))?;
    let late = send_once(&froms[0], b"x", Some(as_v6(there)), &[], 0);
    refused("one more, in 50 ms", late, libc::EAGAIN)?;
    froms[0].set_write_timeout(Some(PATIENCE))?;
    let waits = std::thread::spawn({
        let from = froms[1].as_fd().try_clone_to_owned()?;
        move || send_once(&from, &[9; 100], Some(as_v6(there)), &[], 0)
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    ensure!(!waits.is_finished(), "a call did not wait for a place");
    net.hosts[1].ns.ip("link set eth0 up")?;
    wait_for(&connected, PollFlags::OUT)?;
    let sent = waits.join().map_err(|_| anyhow::anyhow!("it panicked"))??;
    ensure!(sent == 100, "{sent} of 100 bytes");
    for _ in 0..MOST + 1 {
        let came = to.recv_message(100)?;
        ensure!(came.data.len() == 100, "{} of 100 bytes", came.data.len());
    }
    for (from, more) in froms.iter().zip([0, 1]) {
        delivered(from, MOST / 2 + more)?;
        from.send_to(b"x", there, &SendOptions::default())
            .context("when all have ended")?;
    }
    for _ in &froms {
        ensure!(to.recv_message(1)?.data == b"x", "something else came");
    }
    nothing_more(&to)
}

/// No socket has the port: connected sockets hear of it by the next call, others by the error
/// queue.
fn nobody_there(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    // The transport is there, but not on that port.
    let other = socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + 1))?;
    for there in addresses(&net.hosts[1]) {
        let from = socket(&net.hosts[0].ns, "[::]:0")?;
        for number in 0..3 {
            from.send_to(&content::content(7, 20_000), there, &SendOptions::default())?;
            let report = from
                .wait_completion(Some(PATIENCE))?
                .context("nothing was reported")?;
            ensure!(
                report.number == number && report.to == Some(as_v6(there)),
                "{report:?} of message {number} to {there}"
            );
            refused("a message to nobody", report.outcome, libc::ECONNREFUSED)?;
        }
        // A socket without a peer can be used as before.
        ensure!(from.take_error()?.is_none(), "an error is pending");
        let mut good = there;
        good.set_port(PORT + 1);
        from.send_to(b"good", good, &SendOptions::default())?;
        ensure!(
            other.recv_message(4)?.data == b"good",
            "something else came"
        );

        let from = socket(&net.hosts[0].ns, "[::]:0")?;
        from.connect(there)?;
        from.send(b"x", &SendOptions::default())?;
        wait_for(&from, PollFlags::ERR)?;
        let next = send_once(&from, b"y", None, &[], 0);
        refused("the next call", next, libc::ECONNREFUSED)?;
        // The call took the error.
        ensure!(from.take_error()?.is_none(), "the error is still pending");
        from.send(b"z", &SendOptions::default())?;
        wait_for(&from, PollFlags::ERR)?;
        let mut error = None;
        for _ in 0..200 {
            error = from.take_error()?;
            if error.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let got = error.map_or(Ok(()), Err);
        refused("SO_ERROR", got, libc::ECONNREFUSED)?;
    }
    nothing_more(&other)
}
