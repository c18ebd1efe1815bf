// SPDX-License-Identifier: GPL-2.0
//! What is sent without tokens by default: the first bytes of each message, up to what the receiver
//! allows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use turnstile_core::header::FLAG_UNASKED;
use turnstile_core::transport::wire::{self, Packet};
use turnstile_socket::{SendOptions, Socket};

use super::content::{content, Ledger};
use super::support::{
    addresses, configure_all, counters, hosts, pair, receive_all, receiver, sender, PATIENCE,
};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::topology::{Builder, Net};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/unasked/first-bytes-ipv4", |_| first_bytes(0)),
    Case::new("transport/unasked/first-bytes-ipv6", |_| first_bytes(1)),
    Case::new("transport/unasked/live", live),
    Case::new("transport/unasked/before-what-is-asked", together),
];

/// Sends a message of so many bytes, waits until it has been read, and returns how many packets
/// went without a token and how many tokens were answered.
fn sent(
    net: &Net,
    from: &Socket,
    to: &Socket,
    there: SocketAddr,
    len: usize,
) -> Result<(u64, u64)> {
    let seen = |ns: &Netns| -> Result<(u64, u64)> {
        let all = counters(ns)?;
        let of = |name: &str| all.get(name).copied().unwrap_or(0);
        Ok((of("unscheduled-sent"), of("token-valid")))
    };
    let before = seen(&net.hosts[1].ns)?;
    let mut ledger = Ledger::of([(1, len)]);
    from.send_to(&content(1, len), there, &SendOptions::default())?;
    receive_all(to, &mut ledger)?;
    let end = from.wait_completion(Some(PATIENCE))?;
    ensure!(end.is_some(), "a message of {len} bytes has no end");
    let after = seen(&net.hosts[1].ns)?;
    Ok((after.0 - before.0, after.1 - before.1))
}

/// Else virtual devices' rate has to be known, and a slow machine's packets would be late.
const LINK: &str = "link 100mbit base-rtt 5ms";

/// Longer than a sender has no more than a quarter.
const YOUNG: Duration = Duration::from_millis(200);

/// To a host that has said nothing goes one short packet. Then a message of a few packets goes
/// whole and a long one with its first packets; with `unscheduled off` all wait for tokens.
fn first_bytes(family: usize) -> Result<()> {
    let net = pair()?;
    configure_all(&net, LINK)?;
    let there = addresses(&net.hosts[0])[family];
    let to = receiver(&net.hosts[0].ns)?;
    let from = sender(&net.hosts[1].ns)?;
    let began = Instant::now();
    let short = sent(&net, &from, &to, there, 100)?;
    ensure!(short.0 == 1, "the first message: {short:?}");
    let whole = sent(&net, &from, &to, there, 20_000)?;
    ensure!(whole == (14, 0), "20 000 bytes: {whole:?}");
    // At first nobody has more than a quarter of all, which are 125 kB.
    let long = sent(&net, &from, &to, there, 200_000)?;
    // A slow machine may take longer until here.
    let most = match began.elapsed() > YOUNG / 2 {
        true => 40,
        false => 20,
    };
    ensure!(
        (20..=most).contains(&long.0),
        "200 000 bytes at first: {long:?}"
    );
    // 62.5 kB on the wire are what a link of 100 Mbit/s carries in 5 ms.
    std::thread::sleep(YOUNG);
    sent(&net, &from, &to, there, 1000)?;
    let long = sent(&net, &from, &to, there, 200_000)?;
    ensure!(long.0 == 40, "200 000 bytes: {long:?}");
    ensure!(long.1 >= 98, "200 000 bytes: {long:?}");
    configure_all(&net, "unscheduled off")?;
    let off = sent(&net, &from, &to, there, 20_000)?;
    ensure!(off.0 == 0 && off.1 >= 14, "off: {off:?}");
    Ok(())
}

/// Of a message to a receiver on the same machine, which would answer its first packet before the
/// second one is sent, all that goes without tokens leaves before anything that is asked for, and
/// nothing is asked for that was sent.
fn together(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 65_536;
    // Each packet is seen by itself.
    let net = hosts(&Builder::pair().without_offloads())?;
    let there = addresses(&net.hosts[0])[0];
    let to = receiver(&net.hosts[0].ns)?;
    let from = sender(&net.hosts[1].ns)?;
    sent(&net, &from, &to, there, 100)?;
    let capture = RawSocket::open(&net.hosts[0].ns, "eth0")?;
    let (unasked, _) = sent(&net, &from, &to, there, LEN)?;
    ensure!(unasked >= 5, "{unasked} packets without tokens");
    let mut order = Vec::new();
    while let Some(frame) = capture.receive(100)? {
        let payload = frame.bytes.get(14 + 20 + 8..).unwrap_or_default();
        let head = &payload[..payload.len().min(wire::MAX_HEADER)];
        if let (false, Ok(Packet::Data(data))) = (frame.outgoing, wire::parse(head, payload.len()))
        {
            order.push(data.flags & FLAG_UNASKED != 0);
        }
    }
    let first = order.iter().take_while(|unasked| **unasked).count();
    ensure!(
        first as u64 == unasked,
        "the first {first} of {unasked} packets come before the others"
    );
    // Where time goes by itself a machine that stands still may ask for some of it once more.
    let all = LEN.div_ceil(1450);
    ensure!(
        order.len() == all || !clock::is_simulated(),
        "{} packets for {all}",
        order.len()
    );
    Ok(())
}

/// The option is changed at the receiver alone: it allows nothing from its next ACK on, and again
/// from the one after it was changed back.
fn live(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, LINK)?;
    let there = addresses(&net.hosts[0])[0];
    let to = receiver(&net.hosts[0].ns)?;
    let from = sender(&net.hosts[1].ns)?;
    sent(&net, &from, &to, there, 100)?;
    ensure!(sent(&net, &from, &to, there, 20_000)?.0 == 14);
    let set = |words: &str| {
        net.hosts[0]
            .ns
            .run(&format!("turnstile transport set {words}"))
    };
    set("unscheduled off")?;
    sent(&net, &from, &to, there, 1000)?;
    let none = sent(&net, &from, &to, there, 20_000)?;
    ensure!(none.0 == 0, "{none:?}");
    set("unscheduled auto unscheduled-buffer 8kb")?;
    sent(&net, &from, &to, there, 100_000)?;
    std::thread::sleep(YOUNG);
    sent(&net, &from, &to, there, 100_000)?;
    let few = sent(&net, &from, &to, there, 100_000)?;
    ensure!(few.0 == 5, "{few:?}");
    let text = net.hosts[0].ns.run("turnstile transport show")?;
    ensure!(text.contains("unscheduled auto"), "{text}");
    ensure!(text.contains("unscheduled-buffer 8kb"), "{text}");
    Ok(())
}
