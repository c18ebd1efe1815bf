// SPDX-License-Identifier: GPL-2.0
//! A receive buffer that nobody has set is as large as what is under way needs it, within limits.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{addresses, configure, delivered, pair, receiver, same, sender, socket, PORT};
use crate::harness::{Case, Ctx, MUCH_WORK};
use crate::topology::Net;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/growing/on-demand", on_demand).timeout_s(120),
    Case::new("transport/growing/not-if-set", not_if_set),
    Case::new("transport/growing/smaller-than-what-waits", smaller),
    Case::new(
        "transport/growing/smaller-than-what-comes",
        smaller_while_it_comes,
    ),
    Case::new("transport/growing/larger-for-what-waits", larger),
    Case::new("transport/growing/all-together", all_together).timeout_s(120),
    Case::new("transport/growing/what-is-kept-counts", kept).timeout_s(120),
    Case::new(
        "transport/growing/set-while-unread-counts",
        set_while_unread,
    )
    .needs(MUCH_WORK)
    .timeout_s(120),
    Case::new("transport/growing/closed-and-still-sending", closed).timeout_s(120),
];

/// The size at first, as `getsockopt` tells it.
const FIRST: usize = 8 << 20;

fn size(socket: &Socket) -> Result<usize> {
    socket.recv_buffer_size().context("SO_RCVBUF")
}

/// Sends messages of so many bytes that nobody reads; they are delivered all the same.
fn deliver(net: &Net, ipv6: bool, lengths: &[usize]) -> Result<()> {
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[usize::from(ipv6)];
    for (number, len) in (0..).zip(lengths) {
        let bytes = content::content(number, *len);
        from.send_to(&bytes, there, &SendOptions::default())?;
    }
    delivered(&from, lengths.len() as u32)
}

/// Messages longer than the buffer come whole, one beside the other, with nobody reading; and the
/// buffer is small again when they were read.
fn on_demand(ctx: &mut Ctx) -> Result<()> {
    const LENGTHS: [usize; 4] = [5_000_000, 100, 2_000_000, 3_000_000];
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for ipv6 in [false, true] {
        ensure!(size(&to)? == FIRST, "{} at first", size(&to)?);
        deliver(&net, ipv6, &LENGTHS)?;
        let grown = size(&to)?;
        ctx.note(format!("grown to {grown}"));
        let needed = 2 * LENGTHS.iter().sum::<usize>();
        ensure!(
            (needed..4 * needed).contains(&grown),
            "{grown} for {needed} bytes"
        );
        let mut left: Vec<_> = (0..).zip(LENGTHS).collect();
        while !left.is_empty() {
            let came = to.recv_message(1 << 24)?.data;
            let at = left.iter().position(|(_, len)| *len == came.len());
            let (number, len) = left.remove(at.context("a message of another length")?);
            same("the message", &came, &content::content(number, len))?;
        }
        ensure!(size(&to)? == FIRST, "{} when all was read", size(&to)?);
    }
    Ok(())
}

/// What the program sets stays, also if it sets it while the buffer is large.
fn not_if_set(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    deliver(&net, false, &[7_000_000])?;
    to.set_recv_buffer_size(150_000)?;
    ensure!(size(&to)? == 300_000, "{} was set", size(&to)?);
    let bytes = to.recv_message(1 << 24)?.data;
    ensure!(bytes.len() == 7_000_000, "{} bytes", bytes.len());
    ensure!(size(&to)? == 300_000, "{} when it was read", size(&to)?);
    deliver(&net, false, &[40_000, 40_000])?;
    ensure!(size(&to)? == 300_000, "{} later", size(&to)?);
    Ok(())
}

/// A message waits for room, and the program makes the buffer so small that it never finds it: it
/// streams.
fn smaller(_: &mut Ctx) -> Result<()> {
    const LENGTHS: [usize; 3] = [100_000, 80_000, 120_000];
    let net = pair()?;
    for ipv6 in [false, true] {
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(256 << 10)?;
        let from = sender(&net.hosts[0].ns)?;
        let there = addresses(&net.hosts[1])[usize::from(ipv6)];
        for (number, len) in (0..).zip(LENGTHS) {
            let bytes = content::content(number, len);
            from.send_to(&bytes, there, &SendOptions::default())?;
        }
        delivered(&from, 2)?;
        to.set_recv_buffer_size(64 << 10)?;
        ensure!(from.completion()?.is_none(), "there was room for the third");
        for _ in LENGTHS {
            let came = to.recv_message(1 << 20)?.data;
            let at = LENGTHS.iter().position(|len| *len == came.len());
            let number = at.context("a message of another length")?;
            same(
                "a message",
                &came,
                &content::content(number as u64, came.len()),
            )?;
        }
        told(&from)?;
    }
    Ok(())
}

/// The next message is delivered.
fn told(from: &Socket) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let done = from.wait_completion(Some(PATIENCE))?;
    Ok(done.context("no message was reported")?.outcome?)
}

/// All buffers of a namespace together grow by no more than `receive-memory`; what a socket gives
/// back, or leaves behind, another one may have.
fn all_together(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 6_500_000;
    let net = pair()?;
    // Each of them grows from 4 to 8 MiB, if it may: to half of what it may have a message is
    // whole, and it may grow by as much as it leaves.
    configure(&net.hosts[1].ns, "receive-memory 20mb")?;
    configure(&net.hosts[0].ns, "send-buffer 32mb")?;
    let open = |n: u16| socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + n));
    let (one, two) = (open(0)?, open(1)?);
    let from = sender(&net.hosts[0].ns)?;
    let send = |to: u16| {
        let mut there = addresses(&net.hosts[1])[0];
        there.set_port(PORT + to);
        from.send_to(&content::content(1, LEN), there, &SendOptions::default())
    };
    send(0)?;
    told(&from)?;
    ensure!(size(&one)? == 2 * FIRST, "{} for one", size(&one)?);
    // For this one there is not as much: it comes while it is read.
    send(1)?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(size(&two)? < 2 * FIRST, "{} for the second", size(&two)?);
    ensure!(from.completion()?.is_none(), "it came whole");
    ensure!(two.recv_message(1 << 24)?.data.len() == LEN, "the second");
    told(&from)?;
    // What is closed gives back.
    drop(one);
    std::thread::sleep(Duration::from_secs(1));
    send(1)?;
    told(&from)?;
    ensure!(size(&two)? == 2 * FIRST, "{} at last", size(&two)?);
    ensure!(two.recv_message(1 << 24)?.data.len() == LEN, "the last");
    Ok(())
}

/// A program makes the buffer smaller while a message comes that was given room in the larger one:
/// it comes all the same, and then there is room for others again.
fn smaller_while_it_comes(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 2_000_000;
    for ipv6 in [0, 1] {
        let net = pair()?;
        let to = receiver(&net.hosts[1].ns)?;
        let (from, other) = (sender(&net.hosts[0].ns)?, sender(&net.hosts[0].ns)?);
        let there = addresses(&net.hosts[1])[ipv6];
        let bytes = content::content(1, LEN);
        let options = SendOptions {
            length: Some(LEN as u64),
            ..SendOptions::default()
        };
        let mut writer = from.begin(there, &options)?;
        writer.write_all(&bytes[..LEN / 2])?;
        std::thread::sleep(Duration::from_secs(1));
        to.set_recv_buffer_size(64 << 10)?;
        writer.write_all(&bytes[LEN / 2..])?;
        writer.finish()?;
        told(&from)?;
        let short = content::content(2, 100);
        other.send_to(&short, there, &SendOptions::default())?;
        ensure!(other.completion()?.is_none(), "there is room already");
        same("the long one", &to.recv_message(1 << 24)?.data, &bytes)?;
        told(&other)?;
        same("the short one", &to.recv_message(1 << 24)?.data, &short)?;
    }
    Ok(())
}

/// A buffer that the program makes larger has room for what waits, at once.
fn larger(_: &mut Ctx) -> Result<()> {
    const COUNT: u32 = 8;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    for number in 0..COUNT {
        let bytes = content::content(number.into(), 15_000);
        from.send_to(&bytes, there, &SendOptions::default())?;
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut came = 0;
    while from.completion()?.is_some() {
        came += 1;
    }
    ensure!((1..COUNT).contains(&came), "{came} of {COUNT} at first");
    to.set_recv_buffer_size(200_000)?;
    for _ in came..COUNT {
        told(&from)?;
    }
    Ok(())
}

/// `SO_BUF_LOCK`: 2 keeps the size of the receive buffer as it is, 0 gives it back.
fn lock(socket: &Socket, value: i32) -> Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let from = (&raw const value).cast();
    // SAFETY: the value is read during the call.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BUF_LOCK, from, 4) };
    ensure!(done == 0, "{}", std::io::Error::last_os_error());
    Ok(())
}

/// What a socket keeps of what its buffer has grown to counts: who locks the size of one after the
/// other has no more of `receive-memory` than others.
fn kept(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 6_500_000;
    const MOST: usize = 40 << 20;
    let net = pair()?;
    configure(&net.hosts[1].ns, "receive-memory 20mb")?;
    configure(&net.hosts[0].ns, "send-buffer 64mb")?;
    let from = sender(&net.hosts[0].ns)?;
    let mut all = Vec::new();
    for number in 0..4 {
        let port = PORT + number;
        let to = socket(&net.hosts[1].ns, &format!("[::]:{port}"))?;
        let mut there = addresses(&net.hosts[1])[0];
        there.set_port(port);
        from.send_to(&content::content(1, LEN), there, &SendOptions::default())?;
        std::thread::sleep(Duration::from_secs(1));
        lock(&to, 2)?;
        from.send_to(&content::content(2, 100), there, &SendOptions::default())?;
        std::thread::sleep(Duration::from_secs(1));
        all.push(to);
        let mut grown = 0;
        for to in &all {
            grown += size(to)? - FIRST;
        }
        ensure!(
            grown > 0 && grown <= MOST,
            "{grown} by {} of them",
            number + 1
        );
    }
    // And is others' when it is given back.
    let (last, others) = all.split_last().context("none")?;
    for to in others {
        lock(to, 0)?;
        to.set_recv_buffer_size(100_000)?;
        ensure!(size(to)? == 200_000, "{} was set", size(to)?);
    }
    lock(last, 0)?;
    ensure!(!last.recv_message(1 << 24)?.data.is_empty(), "nothing came");
    ensure!(!last.recv_message(1 << 24)?.data.is_empty(), "one came");
    let from = sender(&net.hosts[0].ns)?;
    let mut there = addresses(&net.hosts[1])[0];
    there.set_port(PORT + 3);
    from.send_to(&content::content(1, LEN), there, &SendOptions::default())?;
    told(&from)
}

/// Who sets a small buffer on one that has grown keeps what was promised to messages that he has
/// not read, and others have no more than the rest of `receive-memory`.
fn set_while_unread(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 6_500_000;
    const COUNT: u16 = 12;
    let net = pair()?;
    configure(&net.hosts[1].ns, "receive-memory 32mb")?;
    configure(&net.hosts[0].ns, "send-buffer 64mb")?;
    let from = sender(&net.hosts[0].ns)?;
    let mut all = Vec::new();
    let mut whole = 0;
    for number in 0..COUNT {
        let port = PORT + number;
        let to = socket(&net.hosts[1].ns, &format!("[::]:{port}"))?;
        let mut there = addresses(&net.hosts[1])[0];
        there.set_port(port);
        from.send_to(&content::content(1, LEN), there, &SendOptions::default())?;
        let done = from.wait_completion(Some(Duration::from_secs(2)))?;
        if let Some(done) = done {
            done.outcome?;
            whole += 1;
        }
        to.set_recv_buffer_size(16 << 10)?;
        all.push(to);
    }
    ctx.note(format!("{whole} of {COUNT} are whole"));
    // Each keeps 2.3 MB beyond its first 4 MiB, and needs twice as much in the beginning.
    ensure!((4..=8).contains(&whole), "{whole} of {COUNT} are whole");
    // What was read counts no more. Those that came while nobody read stream now.
    for to in &all {
        let came = to.recv_message(1 << 24)?.data;
        same("a message", &came, &content::content(1, LEN))?;
        ensure!(size(to)? == 32 << 10, "{} was set", size(to)?);
    }
    let last = socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + COUNT))?;
    let mut there = addresses(&net.hosts[1])[0];
    there.set_port(PORT + COUNT);
    let again = sender(&net.hosts[0].ns)?;
    again.send_to(&content::content(1, LEN), there, &SendOptions::default())?;
    told(&again)?;
    ensure!(last.recv_message(1 << 24)?.data.len() == LEN, "the last");
    Ok(())
}

/// A closed socket that still sends keeps nothing of `receive-memory`.
fn closed(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 6_500_000;
    let net = pair()?;
    configure(&net.hosts[1].ns, "receive-memory 20mb")?;
    configure(&net.hosts[0].ns, "send-buffer 32mb")?;
    let open = |n: u16| socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + n));
    let (one, two) = (open(0)?, open(1)?);
    let from = sender(&net.hosts[0].ns)?;
    let lazy = socket(&net.hosts[0].ns, ("::", PORT))?;
    lazy.set_recv_buffer_size(64 << 10)?;
    let send = |to: u16| {
        let mut there = addresses(&net.hosts[1])[0];
        there.set_port(PORT + to);
        from.send_to(&content::content(1, LEN), there, &SendOptions::default())
    };
    send(0)?;
    told(&from)?;
    ensure!(size(&one)? == 2 * FIRST, "{} for one", size(&one)?);
    // Nobody takes it.
    let back = addresses(&net.hosts[0])[0];
    one.send_to(
        &content::content(3, 1_000_000),
        back,
        &SendOptions::default(),
    )?;
    drop(one);
    std::thread::sleep(Duration::from_secs(1));
    send(1)?;
    told(&from)?;
    ensure!(size(&two)? == 2 * FIRST, "{} for the other", size(&two)?);
    Ok(())
}
