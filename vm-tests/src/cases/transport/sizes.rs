// SPDX-License-Identifier: GPL-2.0
//! Messages of all lengths, over both versions of IP, with each policy.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket, MAX_LENGTH};

use super::content::{self, Ledger};
use super::support::{
    addresses, as_v6, configure_all, delivered, nothing_more, pair, receive_all, receiver, sender,
    MSS, POLICIES,
};
use crate::harness::{Case, Ctx, Need};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/sizes/edges", edges),
    Case::new("transport/sizes/together", together),
    Case::new("transport/sizes/64-mib", large)
        .needs(&[Need::Speed])
        .timeout_s(120),
    Case::new("transport/sizes/64-mib-other-policies", large_each)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(240),
    Case::new("transport/sizes/longest", longest)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(600),
];

/// Lengths around those at which something changes, for packets of `mss` bytes of payload.
fn lengths(mss: usize) -> Vec<usize> {
    vec![
        1,
        2,
        7,
        8,
        mss - 1,
        mss,
        mss + 1,
        2 * mss,
        16 * mss,
        16 * mss + 1,
        (64 << 10) - 1,
        64 << 10,
        (64 << 10) + 1,
        1 << 20,
    ]
}

/// One after the other: the shortest have no room for a number.
fn edges(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for policy in POLICIES {
        configure_all(&net, &format!("policy {policy}"))?;
        for (address, mss) in addresses(&net.hosts[1]).into_iter().zip(MSS) {
            let from = sender(&net.hosts[0].ns)?;
            let mut count = 0;
            for len in lengths(mss) {
                let what = || format!("{policy}, {address}, {len} bytes");
                let number = ctx.rng.range(1..=u64::MAX);
                let sent = content::content(number, len);
                from.send_to(&sent, address, &SendOptions::default())
                    .with_context(what)?;
                count += 1;
                let came = to.recv_message(len).with_context(what)?;
                content::check(number, 0, &came.data).with_context(what)?;
                ensure!(
                    came.data.len() == len,
                    "{}: {} came",
                    what(),
                    came.data.len()
                );
                let info = came.info.context("no TURNSTILE_INFO")?;
                ensure!(
                    info.length == Some(len as u64),
                    "{}: the length is said to be {:?}",
                    what(),
                    info.length
                );
                let source = SocketAddr::new(
                    as_v6(addresses(&net.hosts[0])[usize::from(address.is_ipv6())]).ip(),
                    from.local_addr()?.port(),
                );
                ensure!(
                    came.from == source,
                    "{}: from {}, not {source}",
                    what(),
                    came.from
                );
            }
            delivered(&from, count)?;
            nothing_more(&to)?;
        }
    }
    Ok(())
}

/// All of them at once, both versions of IP in one socket, both ways.
fn together(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ends = [receiver(&net.hosts[0].ns)?, receiver(&net.hosts[1].ns)?];
    for policy in POLICIES {
        configure_all(&net, &format!("policy {policy}"))?;
        let senders = [sender(&net.hosts[0].ns)?, sender(&net.hosts[1].ns)?];
        std::thread::scope(|scope| -> Result<()> {
            let mut threads = Vec::new();
            for side in 0..2 {
                let (from, to) = (&senders[side], &ends[1 - side]);
                let target = &net.hosts[1 - side];
                let list = numbered(side as u64 * 1000);
                let mut ledger = Ledger::of(list.clone());
                threads.push(scope.spawn(move || {
                    receive_all(to, &mut ledger).with_context(|| format!("{policy}, side {side}"))
                }));
                threads.push(scope.spawn(move || {
                    let count = list.len() as u32;
                    for (number, len) in list {
                        let address = addresses(target)[(number % 2) as usize];
                        let bytes = content::content(number, len);
                        from.send_to(&bytes, address, &SendOptions::default())?;
                    }
                    delivered(from, count)
                }));
            }
            for thread in threads {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(())
        })?;
        ends.iter().try_for_each(nothing_more)?;
    }
    Ok(())
}

/// The lengths of [`lengths`] for both versions of IP that have room for a number, with numbers
/// from `first` on.
fn numbered(first: u64) -> Vec<(u64, usize)> {
    let all = MSS.into_iter().flat_map(lengths);
    let long = all.filter(|&len| len as u64 >= content::MIN);
    (first..).zip(long).collect()
}

/// 64 MiB, many times what the buffers hold.
fn large(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let address = addresses(&net.hosts[1])[0];
    stream(ctx, &from, &to, address, 64 << 20)?;
    delivered(&from, 1)
}

/// The same with the other policies, of which one over IPv6.
fn large_each(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let [v4, v6] = addresses(&net.hosts[1]);
    let others = [
        ("expresspass", v4),
        ("ren", v6),
        ("dcqcn", v4),
        ("timely", v6),
    ];
    for (policy, address) in others {
        configure_all(&net, &format!("policy {policy}"))?;
        let from = sender(&net.hosts[0].ns)?;
        stream(ctx, &from, &to, address, 64 << 20)
            .with_context(|| format!("{policy}, {address}"))?;
        delivered(&from, 1)?;
    }
    nothing_more(&to)
}

/// 2^30 - 1 bytes.
fn longest(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    stream(ctx, &from, &to, addresses(&net.hosts[1])[0], MAX_LENGTH)?;
    delivered(&from, 1)?;
    nothing_more(&to)
}

/// Sends a message of `len` bytes in pieces and reads it in others, without ever having all of it.
fn stream(ctx: &mut Ctx, from: &Socket, to: &Socket, address: SocketAddr, len: u64) -> Result<()> {
    const WRITTEN: usize = 1 << 18;
    const READ: usize = 300_001;
    let number = ctx.rng.range(1..=u64::MAX);
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(move || -> Result<()> {
            let options = SendOptions {
                length: Some(len),
                ..SendOptions::default()
            };
            let mut writer = from.begin(address, &options)?;
            let mut piece = vec![0; WRITTEN];
            while writer.written() < len {
                let left = usize::try_from(len - writer.written())?.min(WRITTEN);
                content::fill(number, writer.written(), &mut piece[..left]);
                writer
                    .write_all(&piece[..left])
                    .with_context(|| format!("at {}", writer.written()))?;
            }
            writer.finish()?;
            Ok(())
        });
        read_stream(to, number, len, READ)?;
        writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Reads one message in pieces of at most `piece` bytes, and checks each.
fn read_stream(to: &Socket, number: u64, len: u64, piece: usize) -> Result<()> {
    let mut buffer = vec![0; piece];
    let mut at = 0;
    loop {
        let read = to
            .recv(&mut buffer)
            .with_context(|| format!("after {at} of {len} bytes"))?;
        let info = read.info.context("no TURNSTILE_INFO")?;
        ensure!(
            (info.offset, info.length) == (at, Some(len)),
            "{info:?} at {at} of {len} bytes"
        );
        content::check(number, at, &buffer[..read.len])?;
        at += read.len as u64;
        if read.end_of_message {
            break;
        }
    }
    ensure!(at == len, "{at} of {len} bytes came");
    Ok(())
}
