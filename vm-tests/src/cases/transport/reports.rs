// SPDX-License-Identifier: GPL-2.0
//! What a socket tells by itself: reports on its error queue, epoll's edges; and sockets that
//! several processes have.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, configure_all, delivered, hosts, nothing_more, pair, read_once, receiver, refused,
    send_once, sender, socket, unbound, PATIENCE,
};
use crate::harness::{Case, Ctx};
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/reports/completions", completions),
    Case::new(
        "transport/reports/only-failures-unless-asked",
        only_failures,
    ),
    Case::new("transport/reports/ipv4-socket", ipv4_socket),
    Case::new(
        "transport/reports/numbers-after-failures",
        numbers_after_failures,
    ),
    Case::new("transport/reports/epoll-edges", epoll_edges),
    Case::new("transport/reports/shared-by-processes", shared),
];

/// Each message's delivery is reported once, by its number, with the time that it took and where it
/// went.
fn completions(_: &mut Ctx) -> Result<()> {
    const COUNT: u32 = 20;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1]);
    let mut seen = vec![false; COUNT as usize];
    let began = std::time::Instant::now();
    for number in 0..COUNT {
        let sent = from.send_to(
            &content::content(number.into(), 8 + 700 * number as usize),
            there[number as usize % 2],
            &SendOptions::default(),
        )?;
        ensure!(sent == number, "message {number} got number {sent}");
    }
    for _ in 0..COUNT {
        let done = from
            .wait_completion(Some(PATIENCE))?
            .context("nothing was reported")?;
        let whole = began.elapsed();
        let place = seen
            .get_mut(done.number as usize)
            .context("a number that no message has")?;
        ensure!(!*place, "message {} was reported twice", done.number);
        *place = true;
        let want = super::support::as_v6(there[done.number as usize % 2]);
        ensure!(
            done.outcome.is_ok() && done.to == Some(want),
            "{done:?}, sent to {want}"
        );
        let took = done.elapsed.context("no time")?;
        ensure!(took <= whole, "{took:?} of {whole:?}");
    }
    let mut ledger = content::Ledger::of(
        (0..COUNT).map(|number| (u64::from(number), 8 + 700 * number as usize)),
    );
    super::support::receive_all(&to, &mut ledger)?;
    ensure!(from.completion()?.is_none(), "more reports than messages");
    nothing_more(&to)
}

/// Without TURNSTILE_COMPLETIONS a delivery says nothing; a failure does.
fn only_failures(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    let there = addresses(&net.hosts[1])[0];
    for number in 0..3 {
        from.send_to(
            &content::content(number, 3000),
            there,
            &SendOptions::default(),
        )?;
        to.recv_message(3000)?;
    }
    while from.outgoing_queued()? > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut nobody = there;
    nobody.set_port(1);
    from.send_to(b"x", nobody, &SendOptions::default())?;
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    ensure!(
        done.number == 3 && done.outcome.is_err() && done.elapsed.is_none(),
        "{done:?}"
    );
    ensure!(from.completion()?.is_none(), "more than the failure");
    Ok(())
}

/// AF_INET sockets have them in IP_RECVERR, with an IPv4 address.
fn ipv4_socket(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = socket(&net.hosts[0].ns, "0.0.0.0:0")?;
    from.set_completions(true)?;
    let there = addresses(&net.hosts[1])[0];
    from.send_to(b"x", there, &SendOptions::default())?;
    to.recv_message(1)?;
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    ensure!(
        done.number == 0 && done.outcome.is_ok() && done.to == Some(there),
        "{done:?}"
    );
    Ok(())
}

/// Calls return the numbers that reports have, also after calls that failed: after their message
/// began, before, and when there was none.
fn numbers_after_failures(_: &mut Ctx) -> Result<()> {
    // More than the send buffer.
    const LONG: usize = 36_000_000;
    let net = hosts(&Builder::bridged(3))?;
    configure_all(&net, "timeout 1s")?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let ns = &net.hosts[0].ns;
    let to = receiver(&net.hosts[2].ns)?;
    let none = SendOptions::default();
    for ipv6 in [false, true] {
        let [dead, live] = [1, 2].map(|host| addresses(&net.hosts[host])[usize::from(ipv6)]);
        let from = sender(ns)?;
        let goes = |number: u32| -> Result<()> {
            let sent = from.send_to(&number.to_ne_bytes(), live, &none)?;
            ensure!(sent == number, "message {number} got number {sent}");
            ensure!(
                to.recv_message(4)?.data == number.to_ne_bytes(),
                "another came"
            );
            let done = from
                .wait_completion(Some(PATIENCE))?
                .context("nothing was reported")?;
            ensure!(
                done.number == number && done.outcome.is_ok(),
                "message {number}: {done:?}"
            );
            Ok(())
        };
        goes(0)?;

        let failed = from.send_to(&vec![1; LONG], dead, &none);
        refused("a long one to nobody", failed, libc::ETIMEDOUT)?;
        let done = from
            .wait_completion(Some(PATIENCE))?
            .context("no failure was reported")?;
        ensure!(done.number == 1 && done.outcome.is_err(), "{done:?}");
        goes(2)?;

        // No message, no report, no number.
        ns.run("nft add table inet t")?;
        ns.run_with(
            "nft -f -",
            "add chain inet t out { type filter hook output priority 0; }\n\
             add rule inet t out udp dport 29813 drop\n",
        )?;
        for len in [1, LONG] {
            let failed = from.send_to(&vec![1; len], live, &none);
            refused("one that may not leave", failed, libc::EPERM)?;
        }
        ns.run("nft delete table inet t")?;
        goes(3)?;

        // It had begun, and is given up: a number without a report.
        from.set_write_timeout(Some(Duration::from_millis(100)))?;
        let failed = from.send_to(&vec![1; LONG], dead, &none);
        refused("one whose time is over", failed, libc::EAGAIN)?;
        from.set_write_timeout(Some(PATIENCE))?;
        goes(5)?;

        let mut nobody = live;
        nobody.set_port(0);
        refused("port 0", from.send_to(b"x", nobody, &none), libc::EINVAL)?;
        goes(6)?;

        // Of one that is written in pieces, nothing is left but its report.
        let mut writer = from.begin(dead, &none)?;
        ensure!(writer.number() == 7, "number {}", writer.number());
        let failed = writer.write_all(&vec![1; LONG]);
        ensure!(
            failed.is_err() && writer.number() == 7,
            "{failed:?}, number {}",
            writer.number()
        );
        drop(writer);
        let done = from
            .wait_completion(Some(PATIENCE))?
            .context("no failure was reported")?;
        ensure!(done.number == 7 && done.outcome.is_err(), "{done:?}");
        goes(8)?;
        ensure!(from.completion()?.is_none(), "more reports than messages");
    }
    nothing_more(&to)
}

/// What epoll tells at once, with its number.
fn events(epoll: &Epoll, wait_ms: u16) -> Result<Vec<EpollFlags>> {
    let mut events = [EpollEvent::empty(); 4];
    let count = epoll
        .wait(&mut events, EpollTimeout::from(wait_ms))
        .context("epoll_wait")?;
    Ok(events[..count].iter().map(EpollEvent::events).collect())
}

/// Edges: each new message is told once, whether or not what was there before has been read; and
/// room when there had been none.
fn epoll_edges(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1_000_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll")?;
    let wanted = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
    epoll.add(&to, EpollEvent::new(wanted, 0))?;
    ensure!(
        events(&epoll, 0)?.is_empty(),
        "an event before anything came"
    );
    for number in 0..3 {
        from.send_to(
            &content::content(number, 100),
            there,
            &SendOptions::default(),
        )?;
        delivered_next(&from)?;
        let told = events(&epoll, 5000)?;
        ensure!(
            told.iter().any(|event| event.contains(EpollFlags::EPOLLIN)),
            "message {number}: {told:?}"
        );
        ensure!(
            events(&epoll, 0)?.is_empty(),
            "told twice of message {number}"
        );
    }
    for number in 0..3 {
        content::check(number, 0, &to.recv_message(100)?.data)?;
    }
    epoll.delete(&to)?;

    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    from.set_send_buffer_size(64 << 10)?;
    from.set_nonblocking(true)?;
    let wanted = EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    epoll.add(&from, EpollEvent::new(wanted, 1))?;
    ensure!(
        events(&epoll, 0)?.len() == 1,
        "no event for an empty buffer"
    );
    let bytes = content::content(9, LEN);
    let length = super::support::item(1, &(LEN as u64).to_ne_bytes());
    let there = Some(super::support::as_v6(there));
    let (mut sent, mut at, mut waits) = (0, 0, 0);
    while at < LEN {
        while sent < LEN {
            let control = if sent == 0 { &length[..] } else { &[] };
            match send_once(&from, &bytes[sent..], there, control, 0) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        // Read until there is room for the sender: the edge must come.
        let mut told = Vec::new();
        while at < LEN && told.is_empty() {
            let read = read_once(&to, 50_000, 0)?;
            content::check(9, at as u64, &read.data)?;
            at += read.data.len();
            told = events(&epoll, 0)?;
            if told.is_empty() && sent < LEN && to.incoming_queued()? == 0 {
                waits += 1;
                told = events(&epoll, 20_000)?;
                ensure!(
                    !told.is_empty(),
                    "no edge, and all was read: {at} of {sent}"
                );
            }
        }
    }
    ensure!(sent == LEN && at == LEN, "{sent} sent, {at} read");
    ensure!(waits < LEN, "it never stops");
    Ok(())
}

fn delivered_next(from: &Socket) -> Result<()> {
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    done.outcome.context("a message failed")
}

/// Another process reads and writes the same socket with read(2) and write(2), and keeps it open.
fn shared(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0], &net.hosts[1]];
    let to = receiver(&there.ns)?;
    // A child that writes.
    let out = unbound(&here.ns, socket2::Domain::IPV4)?;
    out.connect(&addresses(there)[0].into())?;
    let copy = OwnedFd::from(out.try_clone()?);
    let mut child = here.ns.start(
        Command::new("echo")
            .arg("from a child")
            .stdout(Stdio::from(copy)),
    )?;
    ensure!(child.wait()?.success(), "the child failed");
    ensure!(
        read_once(&to, 100, 0)?.data == b"from a child\n",
        "another came"
    );
    // The parent's descriptor is as good as before.
    send_once(&out, b"from the parent", None, &[], 0)?;
    ensure!(
        read_once(&to, 100, 0)?.data == b"from the parent",
        "another came"
    );

    // A child that reads, and has the last descriptor.
    let back = out.local_addr()?.as_socket().context("no address")?;
    let mut child = here.ns.start(
        Command::new("head")
            .args(["-c", "20"])
            .stdin(Stdio::from(OwnedFd::from(out)))
            .stdout(Stdio::piped()),
    )?;
    let sending = sender(&there.ns)?;
    drop(to);
    let server = receiver(&there.ns)?;
    server.set_completions(true)?;
    server.send_to(b"0123456789", back, &SendOptions::default())?;
    server.send_to(b"abcdefghij", back, &SendOptions::default())?;
    let mut said = String::new();
    child
        .stdout
        .take()
        .context("no output")?
        .read_to_string(&mut said)?;
    ensure!(child.wait()?.success(), "the child failed");
    ensure!(
        said == "0123456789abcdefghij" || said == "abcdefghij0123456789",
        "the child read {said:?}"
    );
    delivered(&server, 2)?;
    drop(sending);
    Ok(())
}
