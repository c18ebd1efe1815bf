// SPDX-License-Identifier: GPL-2.0
//! Receivers that take nothing, for ever: what their senders are told and when, and what sockets
//! that were closed meanwhile may hold.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::sys::socket::{setsockopt, sockopt::SndBufForce};
use rustix::event::PollFlags;
use socket2::Domain;
use turnstile_core::transport::uapi::ancillary;
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, as_v6, configure, configure_all, counters, delivered, hosts, item, nothing_more,
    pair, read_once, ready, receiver, refused, send_once, sender, socket, unbound, wait_for,
    PATIENCE, PORT,
};
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    // Ten thousand sockets take minutes under software emulation.
    Case::new("transport/dead/orphans", orphans)
        .timeout_s(300)
        .needs(&[Need::VirtualTime]),
    // KASAN keeps what is freed for a while, and so much of it.
    Case::new("transport/dead/memory-given-back", given_back)
        .timeout_s(300)
        .needs(&[Need::VirtualTime, Need::Speed]),
    Case::new("transport/dead/long", long).timeout_s(120),
    // These two, as some elsewhere, do nothing but wait for most of a minute.
    Case::new("transport/dead/window-0", window_0)
        .needs(&[Need::VirtualTime])
        .timeout_s(120),
    Case::new("transport/dead/no-tokens", no_tokens)
        .needs(&[Need::VirtualTime])
        .timeout_s(120),
    Case::new("transport/dead/no-data", no_data).timeout_s(120),
];

/// Sockets that are closed in all.
const SOCKETS: u64 = 10_000;
/// Bytes that each has to send, most of its buffer.
const BUFFER: usize = 30_000;
/// The receive buffer of who does not read, bytes.
const RECEIVE: usize = 64 << 10;
/// What is configured as `orphan-buffer`, bytes.
const BOUND: u64 = 4 << 20;
/// To one honest receiver goes a message each time so many were closed.
const EACH: u64 = 50;

/// Long messages that end otherwise than by being delivered: aborted, ended from elsewhere, or
/// given up. The module complains, on kernels that look for such things, if it frees many pages
/// with the namespace's lock.
fn long(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 8 << 20;
    let net = pair()?;
    let [here, there] = [&net.hosts[0].ns, &net.hosts[1].ns];
    configure(here, "timeout 2s")?;
    there.run_with("nft -f -", "add table inet t\n")?;
    let data = vec![3; LEN];
    let begin = |to: SocketAddr, len: usize| -> Result<socket2::Socket> {
        let from = unbound(here, Domain::for_address(to))?;
        setsockopt(&from, SndBufForce, &(4 * LEN))?;
        let control = item(ancillary::LENGTH, &(LEN as u64).to_ne_bytes());
        let sent = send_once(&from, &data[..len], Some(to), &control, libc::MSG_DONTWAIT)?;
        ensure!(sent == len, "{sent} of {len} bytes were taken");
        Ok(from)
    };
    for (to, family) in addresses(&net.hosts[1])
        .into_iter()
        .zip(["--ipv4", "--ipv6"])
    {
        let stuck = receiver(there)?;
        stuck.set_recv_buffer_size(RECEIVE)?;
        // Whole, and open: its last byte is missing.
        for len in [LEN, LEN - 1] {
            let from = begin(to, len)?;
            from.set_linger(Some(Duration::ZERO))?;
            drop(from);
            let _ended = begin(to, len)?;
            here.run(&format!("turnstile sockets --kill {family}"))?;
        }
        let given_up = [begin(to, LEN)?, begin(to, LEN - 1)?];
        there.run_with(
            "nft -f -",
            "add chain inet t in { type filter hook input priority 0; }\n\
             add rule inet t in udp dport 29813 drop\n",
        )?;
        for socket in &given_up {
            wait_for(socket, PollFlags::ERR)?;
        }
        there.run_with("nft -f -", "flush chain inet t in\n")?;
        drop(given_up);
        ensure!(flows(here)? == 0, "messages are left");
    }
    Ok(())
}

/// Messages under way in a host.
fn flows(ns: &Netns) -> Result<u64> {
    Ok(ns.run("turnstile flows")?.lines().count() as u64)
}

/// KiB of memory that could be had.
fn available() -> Result<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    table
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("no MemAvailable")
}

/// A receiver's application does not read, and ten thousand sockets that sent to it are closed with
/// full buffers: memory is bounded, others are served, and the counters tell.
fn orphans(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    let here = &net.hosts[0].ns;
    configure(here, &format!("orphan-buffer {BOUND}b timeout 2s"))?;
    let stuck = receiver(&net.hosts[1].ns)?;
    stuck.set_recv_buffer_size(RECEIVE)?;
    let good = receiver(&net.hosts[2].ns)?;
    let data = content::content(1, BUFFER);
    let before = available()?;
    let mut least = before;
    for number in 0..SOCKETS {
        let from = socket(here, "[::]:0")?;
        from.set_send_buffer_size(BUFFER + 4096)?;
        let to = as_v6(addresses(&net.hosts[1])[(number % 2) as usize]);
        send_once(&from, &data, Some(to), &[], libc::MSG_DONTWAIT)
            .with_context(|| format!("message {number} to who takes nothing"))?;
        drop(from);
        if number % EACH == 0 {
            let from = socket(here, "[::]:0")?;
            let to = addresses(&net.hosts[2])[(number / EACH % 2) as usize];
            from.send_to(&content::content(number, 5000), to, &SendOptions::default())?;
            drop(from);
        }
        if number % 500 == 499 {
            least = least.min(available()?);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    for number in (0..SOCKETS).step_by(EACH as usize) {
        let came = good
            .recv_message(1 << 20)
            .with_context(|| format!("message {number} to the honest receiver"))?;
        ensure!(came.data.len() == 5000, "{} bytes", came.data.len());
    }
    nothing_more(&good)?;
    let under_way = flows(here)?;
    let all = counters(here)?;
    let [closed, dropped] = ["out-orphaned", "orphan-limit"].map(|name| all[name]);
    let taken = before.saturating_sub(least);
    ctx.note(format!(
        "{under_way} messages are left, {dropped} of {closed} were given up, {taken} KiB"
    ));
    // The receiver's buffer takes the first ones whole.
    let whole = RECEIVE as u64 / BUFFER as u64;
    ensure!(closed + whole >= SOCKETS, "{closed} are counted as closed");
    let most = BOUND / BUFFER as u64 + 1;
    ensure!(under_way <= most, "{under_way} messages are under way");
    ensure!(
        dropped + most + whole >= SOCKETS,
        "only {dropped} were given up for others"
    );
    // All of them would be 300 MB; what is kept takes whole pages, and closed sockets and the
    // receiver's side some more.
    ensure!(taken < 48 << 10, "{taken} KiB are taken");
    // The rest is given up by itself, after 6 times `timeout`.
    let began = Instant::now();
    while flows(here)? != 0 {
        ensure!(
            began.elapsed() < Duration::from_secs(20),
            "closed sockets still send"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = began.elapsed();
    ctx.note(format!("the rest went after {took:?}"));
    drop(stuck);
    Ok(())
}

/// KiB that the kernel took for itself.
fn taken() -> Result<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    table
        .lines()
        .find_map(|line| line.strip_prefix("SUnreclaim:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("no SUnreclaim")
}

/// Sixty thousand messages come in and are remembered, and as many as there are places wait for a
/// peer that is dead: when they have ended, the namespaces' tables give their memory back.
fn given_back(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: u64 = 60_000;
    let net = hosts(&Builder::bridged(3))?;
    configure_all(
        &net,
        "timeout 4s max-outgoing 65536 max-incoming 65536 max-remembered 1048576",
    )?;
    let here = &net.hosts[0].ns;
    let to = receiver(&net.hosts[2].ns)?;
    let from = sender(here)?;
    from.set_completions(false)?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    // What the first message makes, and the sockets, is not given back.
    let there = addresses(&net.hosts[2]).map(as_v6);
    send_once(&from, &[1; 100], Some(there[0]), &[], 0)?;
    to.recv_message(100)?;
    let before = taken()?;
    let mut dead = Vec::new();
    let mut waiting = 0_u64;
    for _ in 0..32 {
        let from = socket(here, "[::]:0")?;
        for number in 0..1000 {
            let to = as_v6(addresses(&net.hosts[1])[number % 2]);
            let sent = send_once(&from, &[1; 100], Some(to), &[], libc::MSG_DONTWAIT);
            waiting += u64::from(sent.is_ok());
        }
        dead.push(from);
    }
    let mut most = taken()?;
    for number in 0..MESSAGES {
        let there = there[(number % 2) as usize];
        send_once(&from, &number.to_le_bytes(), Some(there), &[], 0)?;
        to.recv_message(100)?;
        if number % 5000 == 0 {
            most = most.max(taken()?);
        }
    }
    most = most.max(taken()?);
    drop(dead);
    std::thread::sleep(Duration::from_secs(30));
    let after = taken()?;
    ctx.note(format!(
        "{waiting} messages wait; {before} KiB, at most {most}, then {after}"
    ));
    ensure!(waiting > 10_000, "only {waiting} messages wait");
    let grown = most.saturating_sub(before);
    ensure!(grown > 8 << 10, "only {grown} KiB were taken");
    let left = after.saturating_sub(before);
    ensure!(left < grown / 4, "{left} of {grown} KiB are not given back");
    Ok(())
}

/// The application reads nothing for a hundred times `timeout`: the message waits, and the sender
/// sees that by its buffer. Then the application reads, and all is well.
fn window_0(ctx: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = pair()?;
        configure_all(&net, "timeout 200ms")?;
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(64 << 10)?;
        let from = sender(&net.hosts[0].ns)?;
        from.set_send_buffer_size(200_000)?;
        let there = as_v6(addresses(&net.hosts[1])[v6]);
        let data = content::content(1, 1_000_000);
        let mut sent = 0;
        let write = |sent: &mut usize, flags| -> std::io::Result<usize> {
            let taken = send_once(&from, &data[*sent..], Some(there), &[], flags)?;
            *sent += taken;
            Ok(taken)
        };
        let began = Instant::now();
        // Until both buffers are full: a full one of the sender's may be under way to the other.
        let mut full = 0;
        while full < 2 {
            match write(&mut sent, libc::MSG_DONTWAIT) {
                Ok(_) => full = 0,
                Err(_) => {
                    full += 1;
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
        ensure!((200_000..1_000_000).contains(&sent), "{sent} were taken");
        std::thread::sleep(Duration::from_secs(20));
        ensure!(from.completion()?.is_none(), "the message was given up");
        let said = ready(&from)?;
        ensure!(!said.contains(PollFlags::OUT), "poll says {said:?}");
        let again = write(&mut sent, libc::MSG_DONTWAIT);
        refused("a full buffer", again, libc::EAGAIN)?;
        from.set_write_timeout(Some(Duration::from_secs(1)))?;
        let before = Instant::now();
        let again = write(&mut sent, 0);
        refused("a full buffer, with time", again, libc::EAGAIN)?;
        let waited = before.elapsed();
        ensure!(waited >= Duration::from_secs(1), "only {waited:?}");
        let mut came = Vec::new();
        while came.len() < data.len() {
            if sent < data.len() {
                // There may be no room yet.
                let _ = write(&mut sent, libc::MSG_DONTWAIT);
            }
            match read_once(&to, 100_000, libc::MSG_DONTWAIT) {
                Ok(read) => came.extend(read.data),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error).context("reading what waited"),
            }
        }
        super::support::same("the message", &came, &data)?;
        delivered(&from, 1)?;
        nothing_more(&to)?;
        ctx.note(format!("IPv6 {v6}: {:?}", began.elapsed()));
    }
    Ok(())
}

/// What is configured as `timeout` where packets vanish.
const TIMEOUT: Duration = Duration::from_millis(600);

/// A rule by which a host does not take some of what comes.
fn drop_some(ns: &Netns, what: &[&str]) -> Result<()> {
    ns.run("nft add table inet hole")?;
    ns.run("nft add chain inet hole in { type filter hook input priority 0 ; }")?;
    for what in what {
        ns.run(&format!("nft add rule inet hole in {what} drop"))?;
    }
    Ok(())
}

/// The errno by which the message fails, and when.
fn failure(from: &Socket, began: Instant) -> Result<(std::io::Error, Duration)> {
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    let took = began.elapsed();
    let error = done.outcome.err().context("it is reported as delivered")?;
    Ok((error, took))
}

/// The peer answers, but its tokens get lost on the way: that may be as it is busy, so the sender
/// learns of it after 30 times `timeout`.
fn no_tokens(ctx: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = pair()?;
        configure_all(&net, "timeout 600ms")?;
        drop_some(&net.hosts[0].ns, &["ip dscp 46", "ip6 dscp 46"])?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        let there = addresses(&net.hosts[1])[v6];
        let began = Instant::now();
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let (error, took) = failure(&from, began)?;
        refused("no tokens", Err::<(), _>(error), libc::ETIMEDOUT)?;
        ctx.note(format!("IPv6 {v6}: {took:?}"));
        ensure!(took >= TIMEOUT * 30, "after {took:?}");
        ensure!(
            !clock::is_simulated() || took < TIMEOUT * 32,
            "only after {took:?}"
        );
        nothing_more(&to)?;
    }
    Ok(())
}

/// No packet with data gets there, however short, though the peer answers: the sender learns of it
/// after `timeout`, and the time that it took to try shorter packets.
fn no_data(ctx: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = hosts(&Builder::pair().without_offloads())?;
        configure_all(&net, "timeout 600ms")?;
        drop_some(&net.hosts[1].ns, &["udp length > 300"])?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        let there = addresses(&net.hosts[1])[v6];
        ensure!(there.port() == PORT, "{there}");
        let began = Instant::now();
        from.send_to(&content::content(1, 50_000), there, &SendOptions::default())?;
        let (error, took) = failure(&from, began)?;
        refused("no data", Err::<(), _>(error), libc::ETIMEDOUT)?;
        ctx.note(format!("IPv6 {v6}: {took:?}"));
        ensure!(took >= TIMEOUT, "after {took:?}");
        ensure!(
            !clock::is_simulated() || took < TIMEOUT * 3,
            "only after {took:?}"
        );
        nothing_more(&to)?;
    }
    Ok(())
}
