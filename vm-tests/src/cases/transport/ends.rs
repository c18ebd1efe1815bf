// SPDX-License-Identifier: GPL-2.0
//! Sockets that are shut down or closed while messages are under way.

use std::net::{Shutdown, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use rustix::event::PollFlags;
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, as_v6, configure, delivered, nothing_more, pair, read_once, ready, receiver,
    refused, send_once, sender, socket, wait_for, PATIENCE,
};
use crate::harness::{Case, Ctx, Need};
use crate::raw_netlink::Tc;
use crate::tool::Tool;
use crate::topology::Host;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/ends/close-delivers", close_delivers),
    Case::new("transport/ends/close-aborts-what-is-open", close_aborts),
    Case::new("transport/ends/receiver-closes", receiver_closes),
    Case::new("transport/ends/linger-0", linger_zero),
    Case::new("transport/ends/linger", linger),
    Case::new("transport/ends/shutdown-write", shutdown_write),
    Case::new("transport/ends/shutdown-read", shutdown_read),
    Case::new("transport/ends/close-under-a-call", close_under_a_call),
    // Its queue takes minutes.
    Case::new("transport/ends/queued-packets", queued_packets)
        .needs(&[Need::VirtualTime])
        .timeout_s(900),
];

/// The reason for which message `number` failed.
fn failure(from: &Socket, number: u32) -> Result<std::io::Error> {
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    ensure!(done.number == number, "{done:?}, not message {number}");
    done.outcome
        .err()
        .with_context(|| format!("message {number} is reported as delivered"))
}

/// What is in the buffer is delivered after its socket is gone; the port is free at once.
fn close_delivers(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for (number, there) in (1..).zip(addresses(&net.hosts[1])) {
        let from = socket(&net.hosts[0].ns, "[::]:6000")?;
        let len = 1_000_000;
        from.send_to(
            &content::content(number, len),
            there,
            &SendOptions::default(),
        )?;
        from.send_to(
            &content::content(number + 10, 9),
            there,
            &SendOptions::default(),
        )?;
        drop(from);
        let messages = [(number, len), (number + 10, 9)];
        super::support::receive_all(&to, &mut content::Ledger::of(messages))?;
    }
    nothing_more(&to)
}

/// A message without an end is taken back; who has read of it is told, others never hear of it.
fn close_aborts(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = as_v6(addresses(&net.hosts[1])[0]);
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    send_once(
        &from,
        &content::content(1, 5000),
        Some(there),
        &[],
        libc::MSG_MORE,
    )?;
    drop(from);
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    from.send_to(b"whole", there, &SendOptions::default())?;
    let came = read_once(&to, 100, 0)?;
    ensure!(came.data == b"whole" && came.end, "{came:?}");
    nothing_more(&to)?;

    // It is longer than half of the buffer, so that its beginning can be read.
    to.set_recv_buffer_size(64 << 10)?;
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    let begun = content::content(2, 400_000);
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| send_once(&from, &begun, Some(there), &[], libc::MSG_MORE));
        let mut at = 0;
        while at < 300_000 {
            let read = read_once(&to, 50_000, 0)?;
            content::check(2, at, &read.data)?;
            ensure!(!read.end, "the end of what has none");
            at += read.data.len() as u64;
        }
        writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(())
    })?;
    drop(from);
    // What has come may still be read; then the reader is told.
    let error = loop {
        match read_once(&to, 50_000, 0) {
            Ok(read) => ensure!(
                !read.end && !read.data.is_empty(),
                "an end of what has none: {} bytes",
                read.data.len()
            ),
            Err(error) => break error,
        }
    };
    refused("an aborted message", Err::<(), _>(error), libc::ECONNRESET)?;
    // The socket goes on.
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    from.send_to(b"whole", there, &SendOptions::default())?;
    let came = read_once(&to, 100, 0)?;
    ensure!(came.data == b"whole" && came.end, "{came:?}");
    nothing_more(&to)
}

/// The sender of a message that was not read to its end is told when the receiver closes.
fn receiver_closes(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    for there in addresses(&net.hosts[1]) {
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(64 << 10)?;
        let from = sender(&net.hosts[0].ns)?;
        from.send_to(
            &content::content(1, 1_000_000),
            there,
            &SendOptions::default(),
        )?;
        read_once(&to, 1000, 0)?;
        drop(to);
        refused(
            "a message whose receiver closed",
            Err::<(), _>(failure(&from, 0)?),
            libc::ECONNRESET,
        )?;
        ensure!(
            from.outgoing_queued()? == 0,
            "{} bytes wait for nobody",
            from.outgoing_queued()?
        );
    }
    Ok(())
}

/// Closing drops everything at once, and the receiver is told.
fn linger_zero(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let there = addresses(&net.hosts[1])[0];
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    from.set_linger(Some(Duration::ZERO))?;
    from.send_to(
        &content::content(3, 1_000_000),
        there,
        &SendOptions::default(),
    )?;
    let read = read_once(&to, 1000, 0)?;
    content::check(3, 0, &read.data)?;
    drop(from);
    let mut at = read.data.len();
    let error = loop {
        match read_once(&to, 50_000, 0) {
            Ok(read) => {
                content::check(3, at as u64, &read.data)?;
                at += read.data.len();
                ensure!(!read.end && at < 1_000_000, "all of it came");
            }
            Err(error) => break error,
        }
    };
    refused("a dropped message", Err::<(), _>(error), libc::ECONNRESET)?;
    nothing_more(&to)
}

/// Closing waits until all is delivered: then the receiver has it.
fn linger(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = socket(&net.hosts[0].ns, "[::]:0")?;
    from.set_linger(Some(PATIENCE))?;
    const LEN: usize = 1_000_000;
    from.send_to(
        &content::content(4, LEN),
        addresses(&net.hosts[1])[0],
        &SendOptions::default(),
    )?;
    drop(from);
    to.set_nonblocking(true)?;
    let came = to.recv_message(LEN).context("it is not there yet")?;
    content::check(4, 0, &came.data)?;
    ensure!(came.data.len() == LEN, "{} of {LEN} bytes", came.data.len());
    Ok(())
}

/// No more is sent, what was sent is delivered, and receiving goes on.
fn shutdown_write(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    from.send_to(
        &content::content(5, 300_000),
        there,
        &SendOptions::default(),
    )?;
    from.shutdown(Shutdown::Write)?;
    let more = send_once(&from, b"x", Some(as_v6(there)), &[], 0);
    refused("after shutdown", more, libc::EPIPE)?;
    ensure!(
        ready(&from)?.contains(PollFlags::OUT),
        "a call would not wait: poll says {:?}",
        ready(&from)?
    );
    let came = to.recv_message(300_000)?;
    content::check(5, 0, &came.data)?;
    delivered(&from, 1)?;
    let back = came.from;
    to.send_to(b"back", back, &SendOptions::default())?;
    ensure!(
        from.recv_message(4)?.data == b"back",
        "something else came back"
    );
    Ok(())
}

/// New messages are refused, and who waits for one is woken.
fn shutdown_read(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = addresses(&net.hosts[1])[0];
    std::thread::scope(|scope| -> Result<()> {
        let reader = scope.spawn(|| read_once(&to, 10, 0));
        std::thread::sleep(Duration::from_millis(10));
        to.shutdown(Shutdown::Read)?;
        let read = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ensure!(read.data.is_empty(), "{read:?}");
        Ok(())
    })?;
    ensure!(read_once(&to, 10, 0)?.data.is_empty(), "something came");
    let said = ready(&to)?;
    ensure!(
        said.contains(PollFlags::IN | PollFlags::RDHUP) && !said.contains(PollFlags::HUP),
        "poll says {said:?}"
    );
    let from = sender(&net.hosts[0].ns)?;
    from.send_to(&content::content(6, 50_000), there, &SendOptions::default())?;
    let error = failure(&from, 0)?;
    ensure!(
        [Some(libc::ECONNREFUSED), Some(libc::ECONNRESET)].contains(&error.raw_os_error()),
        "{error}"
    );
    // Sending goes on.
    let mut back = addresses(&net.hosts[0])[0];
    back.set_port(from.local_addr()?.port());
    to.send_to(b"back", back, &SendOptions::default())?;
    ensure!(
        from.recv_message(4)?.data == b"back",
        "something else came back"
    );
    to.shutdown(Shutdown::Both)?;
    wait_for(&to, PollFlags::HUP)?;
    Ok(())
}

/// A descriptor that is closed while a call waits on it: the call ends in its own time, and nothing
/// is lost.
fn close_under_a_call(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_read_timeout(Some(Duration::from_millis(30)))?;
    let copy = socket2::SockRef::from(&to).try_clone()?;
    std::thread::scope(|scope| -> Result<()> {
        let reader = scope.spawn(move || read_once(&copy, 10, 0));
        drop(to);
        let read = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        refused("a call on a closed descriptor", read, libc::EAGAIN)
    })?;
    // The port is free.
    receiver(&net.hosts[1].ns).map(drop)
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Udp,
    Turnstile,
}

/// Sends more than the host's link takes in a minute, and closes the sockets.
fn send_and_close(host: &Host, sender: Sender, peer: &Host) -> Result<()> {
    let to = addresses(peer)[0];
    if sender == Sender::Udp {
        let from = host.ns.enter(|| Ok(UdpSocket::bind("0.0.0.0:0")?))?;
        for _ in 0..100 {
            from.send_to(&[1; 60], to)?;
        }
        return Ok(());
    }
    let from: Vec<_> = (0..10)
        .map(|_| socket(&host.ns, "0.0.0.0:0"))
        .collect::<Result<_>>()?;
    for socket in &from {
        socket.send_to(b"begun again and again", to, &SendOptions::default())?;
    }
    Ok(())
}

/// Packets of closed sockets that wait in a queue hold the namespace, as those of UDP do, until the
/// last has left or was dropped, and no longer. Of the messages nothing is left by then.
fn queued_packets(ctx: &mut Ctx) -> Result<()> {
    for (sender, dropped) in [
        (Sender::Udp, false),
        (Sender::Turnstile, false),
        (Sender::Turnstile, true),
    ] {
        let mut net = pair()?;
        let (host, peer) = (net.hosts.remove(0), net.hosts.remove(0));
        configure(&host.ns, "timeout 1s")?;
        Tool::Tc.port(&host.ns, "add", "eth0", "link 1kbit")?;
        send_and_close(&host, sender, &peer)?;
        // More than 6 times `timeout`.
        std::thread::sleep(Duration::from_secs(10));
        for what in ["flows", "sockets"] {
            let left = host.ns.run(&format!("turnstile {what}"))?;
            ensure!(left.is_empty(), "{what} after 10 s: {left}");
        }
        let root = Tc::open(&host.ns, "eth0")?.get(0x1_0000)?.stats;
        let wire = u64::from(root.backlog) + 84 * u64::from(root.qlen);
        let [least, most] =
            [root.backlog.into(), wire].map(|bytes| Duration::from_millis(bytes * 8));
        ensure!(
            least > Duration::from_secs(40),
            "only {} packets of {sender:?} wait",
            root.qlen
        );
        if dropped {
            Tool::Tc.delete(&host.ns, "eth0")?;
        }
        let began = Instant::now();
        drop(host);
        // The other end of its link goes with it.
        while peer.ns.try_run("ip link show eth0")?.ok {
            ensure!(
                began.elapsed() < most + Duration::from_secs(10),
                "{sender:?}: the namespace stays, {} packets should be gone",
                root.qlen
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        let took = began.elapsed();
        ctx.note(format!(
            "{sender:?}: {} packets, dropped: {dropped}; the namespace ended after {took:?}",
            root.qlen
        ));
        if dropped {
            let soon = Duration::from_secs(5);
            ensure!(took < soon, "the namespace stayed for {took:?}");
        } else {
            ensure!(
                took + Duration::from_secs(10) > least,
                "gone after {took:?}"
            );
        }
    }
    Ok(())
}
