// SPDX-License-Identifier: GPL-2.0
//! What the kernel and its tools see of the transport: datagrams that are none of its own, sockets
//! that are open, and a message that is.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use turnstile_core::header::PORT as UDP_PORT;

use super::content;
use super::support::{
    addresses, as_v6, delivered, explained, nothing_more, pair, receiver, send_once, sender,
    socket, PATIENCE,
};
use crate::harness::{Case, Ctx};
use crate::netns::Netns;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/kernel/not-taken", not_taken),
    Case::new("transport/kernel/held-open", held_open),
    Case::new("transport/kernel/protocols", protocols),
];

type Counters = BTreeMap<String, u64>;

fn counters(ns: &Netns) -> Result<Counters> {
    let text = ns.run("turnstile -j stats")?;
    let all: BTreeMap<String, Value> = serde_json::from_str(&text).context(text)?;
    let numbers = all.into_iter();
    Ok(numbers
        .filter_map(|(name, value)| Some((name, value.as_u64()?)))
        .collect())
}

/// The counters that are others now.
fn since(before: &Counters, now: &Counters) -> Counters {
    let more = |(name, value): (&String, &u64)| {
        let old = before.get(name).copied().unwrap_or(0);
        (*value != old).then(|| (name.clone(), value - old))
    };
    now.iter().filter_map(more).collect()
}

fn hex(text: &str) -> Result<Vec<u8>> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).context("no hex"))
        .collect()
}

const SYNC: &str =
    "11030400 0123456789abcdef 9c400007 000f4240 000000fa 00000009 00000b54 05aa0064 \
     0000000000000000";
const DATA: &str = "13000000 0123456789abcdef 0001 00000000 00000000 5555";
const RESEND: &str = "14000000 0123456789abcdef 0001 0000 00000000 000005aa";
const ACK: &str = "16000000 0123456789abcdef 00000b54 00010000 0000";
const RESET: &str = "17000000 0123456789abcdef 0001 0000";
const CHALLENGE: &str = "18000000 0123456789abcdef 1122334455667788";

/// One thing that is wrong with a packet: what the counter of malformed ones is called, the packet,
/// and which bytes become what.
const WRONG: &[(&str, &str, usize, &[u8])] = &[
    ("version", SYNC, 0, &[0x21]),
    ("type", SYNC, 0, &[0x19]),
    ("priority", SYNC, 1, &[9]),
    ("flags", SYNC, 2, &[0x05]),
    ("reserved", SYNC, 3, &[1]),
    ("port", SYNC, 14, &[0, 0]),
    ("length", SYNC, 16, &[0, 0, 0, 0]),
    ("unscheduled", SYNC, 28, &[0, 0x7f]),
    ("mss", SYNC, 32, &[0, 1]),
    ("token", DATA, 2, &[1]),
    ("offset", DATA, 18, &[0x3f, 0xff, 0xff, 0xff]),
    ("count", RESEND, 12, &[0, 0]),
    ("span", RESEND, 20, &[0, 0, 0, 0]),
    ("received", ACK, 12, &[0xff]),
    ("window", ACK, 16, &[0xff]),
    ("code", RESET, 12, &[0, 9]),
    ("patience", SYNC, 34, &[0, 0]),
    ("echo", CHALLENGE, 12, &[0; 8]),
];

/// Every datagram that comes to the port and is no packet is counted, and its counter says why.
fn not_taken(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [there, there6] = addresses(&net.hosts[1]).map(|address| {
        let mut address = address;
        address.set_port(UDP_PORT);
        address
    });
    // The other host has no Turnstile socket, so that the port is free there.
    let listening = receiver(&net.hosts[1].ns)?;
    let ns = &net.hosts[0].ns;
    let own = ns.enter(|| Ok(UdpSocket::bind((Ipv6Addr::UNSPECIFIED, UDP_PORT))?))?;
    let own4 = ns.enter(|| {
        let socket = socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )?;
        socket.bind_device(Some(b"eth0"))?;
        socket.set_broadcast(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
        Ok(UdpSocket::from(socket))
    })?;
    let before = counters(&net.hosts[1].ns)?;
    let mut expected = Counters::new();
    let mut expect = |name: &str, count: u64| {
        *expected.entry(name.to_owned()).or_default() += count;
    };

    let sync = hex(SYNC)?;
    let link = ns.run("ip -o link show dev eth0")?;
    let (index, _) = link.split_once(':').context("no index of eth0")?;
    let index = index.parse()?;
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for to in [
        SocketAddr::from((Ipv4Addr::BROADCAST, UDP_PORT)),
        SocketAddr::from((Ipv4Addr::new(224, 0, 0, 1), UDP_PORT)),
    ] {
        own4.send_to(&sync, to).with_context(|| to.to_string())?;
        expect("refused-address", 1);
    }
    own.send_to(&sync, SocketAddrV6::new(all_nodes, UDP_PORT, 0, index))?;
    expect("refused-address", 1);

    own4.send_to(&sync, there)?;
    let other = ns.enter(|| Ok(UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?))?;
    other.send_to(&sync, there6)?;
    expect("refused-port", 2);

    for datagram in [&[][..], &sync[..35]] {
        own.send_to(datagram, there6)?;
        expect("malformed-size", 1);
    }
    for (name, packet, at, bytes) in WRONG {
        let mut packet = hex(packet)?;
        packet[*at..at + bytes.len()].copy_from_slice(bytes);
        for to in [as_v6(there), there6] {
            own.send_to(&packet, to).with_context(|| name.to_string())?;
            expect(&format!("malformed-{name}"), 1);
        }
    }

    let began = Instant::now();
    loop {
        let counted = since(&before, &counters(&net.hosts[1].ns)?);
        if counted == expected {
            break;
        }
        if began.elapsed() > PATIENCE {
            bail!("{counted:?}\n  instead of {expected:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    nothing_more(&listening)
}

/// The most tokens that a message may draw in three seconds in which nothing is written.
const IDLE: u64 = 200;

/// A message that is held open with MSG_MORE draws few tokens; and goes on when it goes on.
fn held_open(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let bytes = content::content(3, 90_000);
    let (first, rest) = bytes.split_at(30_000);
    let address = as_v6(addresses(&net.hosts[1])[0]);
    let sent = send_once(&from, first, Some(address), &[], libc::MSG_MORE)?;
    ensure!(sent == first.len(), "{sent} bytes were sent");
    std::thread::sleep(Duration::from_secs(3));
    let idle = counters(&net.hosts[0].ns)?["token-idle"];
    ctx.note(format!("{idle} tokens found nothing to send"));
    ensure!(idle <= IDLE, "{idle} tokens found nothing to send");
    send_once(&from, rest, Some(address), &[], 0)?;
    let came = explained(&net, Ok(to.recv_message(bytes.len())?))?;
    content::check(3, 0, &came.data)?;
    delivered(&from, 1)?;
    nothing_more(&to)
}

/// What `/proc/net/protocols` says of open sockets: over IPv4, and over IPv6.
fn open_sockets(ns: &Netns) -> Result<[u64; 2]> {
    let text = ns.run("cat /proc/net/protocols")?;
    let count = |name: &str| -> Result<u64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let words = line.with_context(|| format!("no {name} in:\n{text}"))?;
        let sockets = words.split_whitespace().nth(2).context("no sockets")?;
        Ok(sockets.parse()?)
    };
    Ok([count("TURNSTILE ")?, count("TURNSTILEv6 ")?])
}

/// Open sockets are counted, each in its own namespace.
fn protocols(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let [here, there] = [&net.hosts[0].ns, &net.hosts[1].ns];
    ensure!(open_sockets(here)? == [0, 0], "before any is open");
    let first = socket(here, "[::]:0")?;
    let second = socket(here, "0.0.0.0:0")?;
    let third = socket(here, "[::]:0")?;
    let open = open_sockets(here)?;
    ensure!(open == [1, 2], "{open:?} sockets of one and two");
    let elsewhere = open_sockets(there)?;
    ensure!(elsewhere == [0, 0], "{elsewhere:?} in the other namespace");
    drop((first, second, third));
    let left = open_sockets(here)?;
    ensure!(left == [0, 0], "{left:?} when all are closed");
    Ok(())
}
