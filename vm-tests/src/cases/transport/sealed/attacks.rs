// SPDX-License-Identifier: GPL-2.0
//! Who sees all packets of sealed messages and can send any: nothing that he sends does anything
//! but count.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::header::{self, FLAGS};
use turnstile_core::transport::seal::SEAL_LEN;
use turnstile_core::transport::wire;
use turnstile_socket::{Security, SendOptions};

use super::{datagrams, exchange, psk, seal_all};
use crate::cases::transport::content;
use crate::cases::transport::forged::sum;
use crate::cases::transport::support::{
    addresses, configure_all, counters, delivered, nothing_more, pair, read_once, receiver,
    refused, same, sender,
};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::pcap::{Capture, Captured};
use crate::topology::{Host, Net};
use crate::traffic::RawSocket;

/// Where UDP's header is in a frame of the transport's.
fn udp_at(frame: &[u8]) -> Option<usize> {
    match frame.get(12..14)? {
        [0x08, 0x00] if frame.get(23) == Some(&17) => Some(34),
        [0x86, 0xdd] if frame.get(20) == Some(&17) => Some(54),
        _ => None,
    }
}

fn payload(frame: &[u8]) -> Option<&[u8]> {
    let udp = udp_at(frame)?;
    let len = frame.get(udp + 4..udp + 6)?;
    frame.get(udp + 8..udp + usize::from(u16::from_be_bytes([len[0], len[1]])))
}

/// A frame with another payload: lengths and checksums are right. It comes from the one UDP port
/// that fits every cookie.
fn with_payload(frame: &[u8], payload: &[u8]) -> Vec<u8> {
    let udp = udp_at(frame).expect("it is the transport's");
    let mut all = frame[..udp + 8].to_vec();
    all.extend(payload);
    all[udp..udp + 2].copy_from_slice(&header::PORT.to_be_bytes());
    let len = (payload.len() + 8) as u16;
    all[udp + 4..udp + 6].copy_from_slice(&len.to_be_bytes());
    let addresses = if udp == 34 {
        all[16..18].copy_from_slice(&(len + 20).to_be_bytes());
        all[24..26].fill(0);
        let of_header = sum(&all[14..34]);
        all[24..26].copy_from_slice(&of_header.to_be_bytes());
        26..34
    } else {
        all[18..20].copy_from_slice(&len.to_be_bytes());
        22..54
    };
    all[udp + 6..udp + 8].fill(0);
    let mut summed = all[addresses].to_vec();
    summed.extend([0, 17]);
    summed.extend(len.to_be_bytes());
    summed.extend(&all[udp..]);
    let of_all = match sum(&summed) {
        0 => 0xffff,
        other => other,
    };
    all[udp + 6..udp + 8].copy_from_slice(&of_all.to_be_bytes());
    all
}

/// The frames that a device sent, of this version of IP.
fn sent(captured: &Captured, v6: bool) -> Result<Vec<Vec<u8>>> {
    let wanted = if v6 { 54 } else { 34 };
    Ok(captured
        .of("eth0")?
        .filter(|packet| packet.sent && udp_at(&packet.bytes) == Some(wanted))
        .map(|packet| packet.bytes.clone())
        .collect())
}

/// Counters of what was refused, together, and all others.
fn numbers(ns: &Netns) -> Result<(u64, BTreeMap<String, u64>)> {
    let mut all = counters(ns)?;
    let is_refusal = |name: &str| name.starts_with("seal-") || name.starts_with("malformed");
    let refused = all.iter().filter(|(name, _)| is_refusal(name));
    let refused = refused.map(|(_, count)| count).sum();
    all.retain(|name, _| !is_refusal(name));
    Ok((refused, all))
}

/// Somebody on the path, who sends to one host as if he were the other.
struct Attacker<'a> {
    raw: RawSocket,
    victim: &'a Host,
}

impl<'a> Attacker<'a> {
    fn new(at: &Host, victim: &'a Host) -> Result<Self> {
        let raw = RawSocket::open(&at.ns, "eth0")?;
        Ok(Self { raw, victim })
    }

    /// Sends these, each of which is counted once as refused, and changes nothing else.
    fn refused(&self, what: &str, frames: &[Vec<u8>]) -> Result<()> {
        let ns = &self.victim.ns;
        let (mut count, others) = numbers(ns)?;
        let capture = Capture::keeping(ns, Some("eth0"), 10_000)?;
        // No more at once than wait at a device.
        for frames in frames.chunks(200) {
            for frame in frames {
                ensure!(self.raw.send(frame)?, "a queue is full");
            }
            count += frames.len() as u64;
            let mut tries = 0;
            while numbers(ns)?.0 < count && tries < 100 {
                std::thread::sleep(Duration::from_millis(10));
                tries += 1;
            }
            let counted = numbers(ns)?.0;
            ensure!(counted == count, "{what}: {counted} of {count} are counted");
        }
        let drawn = datagrams(&capture.finish()?)?;
        let drawn = drawn.iter().filter(|(sent, _)| *sent).count();
        ensure!(drawn == 0, "{what}: {drawn} packets were drawn");
        let after = numbers(ns)?.1;
        for (name, count) in &others {
            let now = after.get(name);
            ensure!(
                now == Some(count),
                "{what}: {name} was {count} and is {now:?}"
            );
        }
        Ok(())
    }
}

/// What can be made of a sealed packet without the key.
fn variants(payload: &[u8], all: bool) -> Result<Vec<Vec<u8>>> {
    let mut made = Vec::new();
    let near = |at: usize| all || at < 40 || at + 40 >= payload.len() || at % 37 == 0;
    for at in (0..payload.len()).filter(|at| near(*at)) {
        for bit in 0..8 {
            let mut other = payload.to_vec();
            other[at] ^= 1 << bit;
            made.push(other);
        }
        // An empty one is UDP's.
        if at != 0 {
            made.push(payload[..at].to_vec());
        }
    }
    // Where the link has room for it.
    if payload.len() < 1000 {
        made.push([payload, &[0]].concat());
    }
    // Another message, which nobody knows; and what it would be without a seal, of both.
    let mut other = payload.to_vec();
    other[4..12].iter_mut().for_each(|byte| *byte ^= 0x5a);
    for sealed in [payload, &other[..]] {
        let kind = header::parse(sealed).context("no header")?.kind;
        let mut plain = sealed[..sealed.len() - SEAL_LEN].to_vec();
        plain[FLAGS] &= !kind.sealed();
        ensure!(
            wire::parse(&plain, plain.len()).is_ok(),
            "not a packet: {plain:02x?}"
        );
        made.push(plain);
    }
    made.push(other);
    Ok(made)
}

/// Some of each type.
fn of_each_type(frames: &[Vec<u8>], count: usize) -> Result<BTreeMap<String, Vec<Vec<u8>>>> {
    let mut types: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for frame in frames {
        let kind = header::parse(payload(frame).context("no payload")?).context("no header")?;
        let some = types.entry(format!("{:?}", kind.kind)).or_default();
        if some.len() < count {
            some.push(frame.clone());
        }
    }
    Ok(types)
}

/// Messages both ways, and some to a port that nobody has: all types of packets. Returns the frames
/// of each host.
fn witnessed(net: &Net, v6: bool) -> Result<[Vec<Vec<u8>>; 2]> {
    let [one, two] = [&net.hosts[0], &net.hosts[1]];
    let captures = [
        Capture::keeping(&one.ns, Some("eth0"), 10_000)?,
        Capture::keeping(&two.ns, Some("eth0"), 10_000)?,
    ];
    for (from, to) in [(one, two), (two, one)] {
        let there = addresses(to)[usize::from(v6)];
        let (socket, listener) = (sender(&from.ns)?, receiver(&to.ns)?);
        for (number, len) in [100, 5000, 60_000].into_iter().enumerate() {
            let data = content::content(number as u64, len);
            socket.send_to(&data, there, &SendOptions::default())?;
            let came = listener.recv_message(len)?;
            content::check(number as u64, 0, &came.data)?;
        }
        // Its end is told by a packet of its own.
        let mut stream = socket.begin(there, &SendOptions::default())?;
        stream.write_all(&[3; 100_000])?;
        std::thread::sleep(Duration::from_millis(20));
        stream.finish()?;
        drop(stream);
        listener.recv_message(100_000)?;
        delivered(&socket, 4)?;
        drop(listener);
        socket.send_to(&[1; 100], there, &SendOptions::default())?;
        let done = socket.wait_completion(Some(Duration::from_secs(10)))?;
        let why = done.context("no report")?.outcome.err();
        let why = why.context("nobody was there, and it arrived")?;
        refused("a port of nobody", Err::<(), _>(why), libc::ECONNREFUSED)?;
    }
    let [one, two] = captures.map(Capture::finish);
    Ok([sent(&one?, v6)?, sent(&two?, v6)?])
}

/// Every bit of packets of every type turned over, each alone; shorter and longer ones; made-up
/// messages; and without a seal. Nothing is drawn, and only refusals count. Then what has a right
/// seal comes again while its message is under way, between changed ones.
pub(super) fn on_path(ctx: &mut Ctx) -> Result<()> {
    for v6 in [false, true] {
        let net = pair()?;
        seal_all(&net, psk("one", 1)?)?;
        let frames = witnessed(&net, v6)?;
        let mut count = 0;
        let mut seen = BTreeMap::new();
        for (at, frames) in frames.iter().enumerate() {
            let attacker = Attacker::new(&net.hosts[at], &net.hosts[1 - at])?;
            for (kind, frames) in of_each_type(frames, 2)? {
                for frame in &frames {
                    let payload = payload(frame).context("no payload")?;
                    let made = variants(payload, kind != "Data")?;
                    let made: Vec<_> = made.iter().map(|it| with_payload(frame, it)).collect();
                    attacker.refused(&kind, &made)?;
                    count += made.len();
                }
                *seen.entry(kind).or_insert(0) += frames.len();
            }
        }
        for kind in ["Sync", "Data", "Token", "Ack", "Fin", "Reset"] {
            ensure!(seen.contains_key(kind), "no {kind} was sent: {seen:?}");
        }
        exchange(&net, &[100, 10_000])?;
        let (changed, again) = under_way(&net, v6)?;
        ctx.note(format!(
            "IPv6 {v6}: {count} packets, of {seen:?}; under way {changed} changed, {again} again"
        ));
    }
    Ok(())
}

/// The same while a message is under way, whose receiver waits.
fn under_way(net: &Net, v6: bool) -> Result<(usize, usize)> {
    let [one, two] = [&net.hosts[0], &net.hosts[1]];
    let to = receiver(&two.ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&one.ns)?;
    let captures = [
        Capture::keeping(&one.ns, Some("eth0"), 10_000)?,
        Capture::keeping(&two.ns, Some("eth0"), 10_000)?,
    ];
    let data = content::content(7, 400_000);
    let there = addresses(two)[usize::from(v6)];
    from.send_to(&data, there, &SendOptions::default())?;
    let mut came = read_once(&to, 20_000, 0)?.data;
    std::thread::sleep(Duration::from_millis(20));
    let [first, second] = captures.map(Capture::finish);
    let (mut changed, mut again) = (0, 0);
    for (at, captured) in [first?, second?].iter().enumerate() {
        let attacker = Attacker::new(&net.hosts[at], &net.hosts[1 - at])?;
        let frames = sent(captured, v6)?;
        for frames in of_each_type(&frames, 20)?.into_values() {
            for frame in frames {
                let payload = payload(&frame).context("no payload")?;
                for at in [2, 8, payload.len() / 2, payload.len() - 1] {
                    let mut other = payload.to_vec();
                    other[at] ^= 1;
                    attacker.raw.send(&with_payload(&frame, &other))?;
                    attacker.raw.send(&with_payload(&frame, payload))?;
                    changed += 1;
                    again += 1;
                }
            }
        }
    }
    ensure!(again > 50, "only {again} packets");
    while came.len() < data.len() {
        came.extend(read_once(&to, 50_000, 0)?.data);
    }
    same("the message", &came, &data)?;
    delivered(&from, 1)?;
    nothing_more(&to)?;
    Ok((changed, again))
}

/// A socket that has a key in a namespace that does not seal: what comes unsealed draws nothing,
/// not even that somebody is there; other sockets are as they were.
pub(super) fn downgrade(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 500ms rto 1ms")?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_security(Security::Psk(psk("one", 1)?))?;
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let done = from.wait_completion(Some(Duration::from_secs(10)))?;
        match done.context("no report")?.outcome {
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {}
            other => bail!("{other:?} instead of ETIMEDOUT"),
        }
        let seen = datagrams(&capture.finish()?)?;
        ensure!(!seen.is_empty(), "nothing was sent");
        let drawn = seen.iter().filter(|(sent, _)| *sent).count();
        ensure!(drawn == 0, "{drawn} packets were drawn");
        nothing_more(&to)?;
        // A port that nobody has answers as ever.
        let mut nobody = there;
        nobody.set_port(4999);
        from.send_to(&[1; 100], nobody, &SendOptions::default())?;
        let done = from.wait_completion(Some(Duration::from_secs(10)))?;
        let why = done.context("no report")?.outcome.err();
        let why = why.context("nobody was there, and it arrived")?;
        refused("a port of nobody", Err::<(), _>(why), libc::ECONNREFUSED)?;
    }
    Ok(())
}
