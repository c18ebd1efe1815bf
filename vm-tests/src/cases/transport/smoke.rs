// SPDX-License-Identifier: GPL-2.0
//! One of everything: whether messages arrive at all, and as they were sent.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use anyhow::bail;

use std::net::SocketAddr;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::content::content;
use super::support::{any, joined, receive, same, socket, Pair, PATIENCE};
use crate::harness::Ctx;
use crate::netns::Netns;

/// Around what a packet holds, a page, a block of pages, and the send and receive buffers.
const SIZES: &[usize] = &[
    1,
    2,
    100,
    1429,
    1430,
    1431,
    1450,
    1451,
    2048,
    2049,
    4096,
    4097,
    32_768,
    100_000,
    1 << 20,
    10_000_000,
];

/// Messages of all sizes, one after the other.
pub(super) fn sizes(ctx: &mut Ctx, ipv6: bool) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(ipv6);
    let receiver = receive(socket(pair.receiver(), to)?, SIZES.len());
    let sender = socket(pair.sender(), any(to))?;
    sender.set_completions(true)?;
    for (i, size) in SIZES.iter().enumerate() {
        let data = content(ctx.seed ^ i as u64, *size);
        let number = sender
            .send_to(&data, to, &SendOptions::default())
            .with_context(|| format!("sending {size} bytes"))?;
        let Some(end) = sender.wait_completion(Some(PATIENCE))? else {
            bail!("the message of {size} bytes was not delivered in time");
        };
        ensure!(end.number == number, "{end:?} is not of message {number}");
        if let Err(error) = end.outcome {
            bail!("the message of {size} bytes failed: {error}");
        }
        ctx.note(format!("{size} bytes: {:?}", end.elapsed));
    }
    let (_, messages) = joined(receiver)?;
    for (i, (message, size)) in messages.iter().zip(SIZES).enumerate() {
        same(
            &format!("{size} bytes"),
            &message.data,
            &content(ctx.seed ^ i as u64, *size),
        )?;
    }
    Ok(())
}

/// Both ends in one namespace.
pub(super) fn loopback(ctx: &mut Ctx) -> Result<()> {
    let ns = Netns::create("alone")?;
    for to in ["127.0.0.1:4000", "[::1]:4000"] {
        let to: SocketAddr = to.parse()?;
        let receiver = receive(socket(&ns, to)?, 2);
        let sender = socket(&ns, any(to))?;
        let sizes = [1, 3_000_000];
        for size in sizes {
            sender.send_to(&content(ctx.seed, size), to, &SendOptions::default())?;
        }
        let (_, mut messages) = joined(receiver)?;
        // In the order in which they were complete.
        messages.sort_by_key(|message| message.data.len());
        for (message, size) in messages.iter().zip(sizes) {
            same("message", &message.data, &content(ctx.seed, size))?;
        }
    }
    Ok(())
}

/// Messages that are written in pieces: of a length that is told, of one that is not, and of one
/// that is kept back.
pub(super) fn pieces(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 3_000_001;
    const PIECE: usize = 70_001;
    let pair = Pair::new()?;
    let to = pair.to(false);
    let ways = [
        SendOptions {
            length: Some(LEN as u64),
            ..SendOptions::default()
        },
        SendOptions::default(),
        SendOptions {
            length: Some(LEN as u64),
            unknown_size: true,
            ..SendOptions::default()
        },
    ];
    let receiver = receive(socket(pair.receiver(), to)?, ways.len());
    let sender = socket(pair.sender(), any(to))?;
    let data = content(ctx.seed, LEN);
    for way in &ways {
        let mut writer = sender.begin(to, way)?;
        for piece in data.chunks(PIECE) {
            writer
                .write_all(piece)
                .with_context(|| format!("{way:?}"))?;
        }
        writer.finish()?;
    }
    let (_, messages) = joined(receiver)?;
    for (message, way) in messages.iter().zip(&ways) {
        same(&format!("{way:?}"), &message.data, &data)?;
    }
    Ok(())
}

/// Many messages at once, more than the receive buffer holds, each exactly once.
pub(super) fn many(ctx: &mut Ctx) -> Result<()> {
    const COUNT: usize = 300;
    let pair = Pair::new()?;
    let to = pair.to(true);
    let server = socket(pair.receiver(), to)?;
    server.set_recv_buffer_size(100_000)?;
    let receiver = receive(server, COUNT);
    let sender = socket(pair.sender(), any(to))?;
    let len = |i: usize| 8 + (i * 7919) % 60_000;
    for i in 0..COUNT {
        let mut data = content(i as u64, len(i));
        data[..8].copy_from_slice(&(i as u64).to_le_bytes());
        sender.send_to(&data, to, &SendOptions::default())?;
    }
    let (_, messages) = joined(receiver)?;
    let mut seen = [false; COUNT];
    for message in messages {
        let number = message.data.first_chunk().map(|b| u64::from_le_bytes(*b));
        let i = number.map_or(COUNT, |n| n as usize);
        ensure!(
            i < COUNT && !seen[i],
            "message {i} came twice, or never was"
        );
        seen[i] = true;
        same(
            &format!("message {i}"),
            &message.data[8..],
            &content(i as u64, len(i))[8..],
        )?;
    }
    ctx.note(format!("{COUNT} messages"));
    Ok(())
}

/// What a sender is told that sends to nobody, or wrongly.
pub(super) fn errors(_: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(false);
    let sender = socket(pair.sender(), any(to))?;
    // Nobody listens. The namespace of the receiver must have a socket for there to be anybody who
    // could say so.
    let _other = socket(pair.receiver(), any(to))?;
    let number = sender.send_to(b"anybody?", to, &SendOptions::default())?;
    let Some(end) = sender.wait_completion(Some(PATIENCE))? else {
        bail!("nobody listens, and nobody says so");
    };
    ensure!(end.number == number, "{end:?} is not of message {number}");
    let errno = end.outcome.err().and_then(|error| error.raw_os_error());
    ensure!(errno == Some(libc::ECONNREFUSED), "errno {errno:?}");
    ensure!(end.to == Some(to), "the offender is {:?}", end.to);

    let taken = pair.sender().enter(|| {
        let bound = Socket::bind(any(to))?;
        Ok(Socket::bind(bound.local_addr()?)
            .err()
            .and_then(|e| e.errno()))
    })?;
    ensure!(taken == Some(libc::EADDRINUSE), "a port twice: {taken:?}");

    sender.shutdown(Shutdown::Write)?;
    let late = sender.send_to(b"late", to, &SendOptions::default());
    let errno = late.err().and_then(|error| error.errno());
    ensure!(errno == Some(libc::EPIPE), "after shutdown: {errno:?}");
    Ok(())
}

/// A socket that is closed delivers what it had to send, and the module is free afterwards.
pub(super) fn close(ctx: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(false);
    let receiver = receive(socket(pair.receiver(), to)?, 1);
    let data = content(ctx.seed, 1_000_000);
    let sender = socket(pair.sender(), any(to))?;
    sender.send_to(&data, to, &SendOptions::default())?;
    drop(sender);
    let (server, messages) = joined(receiver)?;
    same("message", &messages[0].data, &data)?;
    drop(server);
    drop(pair);
    let began = std::time::Instant::now();
    loop {
        let unloaded = crate::cmd::run_here("rmmod turnstile", "")?;
        if unloaded.success().is_ok() {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "the module stays in use");
        std::thread::sleep(Duration::from_millis(50));
    }
}
