// SPDX-License-Identifier: GPL-2.0
//! What is on the wire: ports, lengths, checksums, DSCP, and paths that take smaller packets than
//! the first link.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::header::{FLAG_UNSCHEDULED, PORT as UDP_PORT};
use turnstile_core::transport::wire::{self, Packet};
use turnstile_socket::SendOptions;

use super::content;
use super::support::{
    addresses, configure_all, delivered, hosts, is_paced, nothing_more, read_once, receiver,
    sender, MSS, POLICIES,
};
use crate::harness::{Case, Ctx, Need};
use crate::pcap::{Capture, Captured};
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/packets/headers", headers),
    Case::new("transport/packets/mtu", mtu),
    Case::new("transport/packets/mtu-falls", mtu_falls),
    Case::new("transport/packets/narrow-path", narrow_path),
    Case::new("transport/packets/short", short).needs(&[Need::VirtualTime]),
];

/// A packet of the transport as it was on the wire.
#[derive(Debug)]
struct Seen {
    packet: Packet,
    v6: bool,
    dscp: u8,
    /// Bytes of the frame, from the Ethernet header on, without padding.
    frame: usize,
}

/// Reads a frame; `None` if it is none of the transport's. Checks all that is the same for all of
/// them.
fn read(frame: &[u8]) -> Result<Option<Seen>> {
    const UDP: u8 = 17;
    let word = |at: usize| -> Result<u16> {
        let bytes = frame.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u16::from_be_bytes(*bytes.context("a short frame")?))
    };
    let (v6, header) = match word(12)? {
        0x0800 => (false, usize::from(frame[14] & 15) * 4),
        0x86dd => (true, 40),
        _ => return Ok(None),
    };
    let ip = frame.get(14..).context("a short frame")?;
    if ip.get(if v6 { 6 } else { 9 }) != Some(&UDP) {
        return Ok(None);
    }
    let udp = 14 + header;
    let (source, destination) = (word(udp)?, word(udp + 2)?);
    if source != UDP_PORT && destination != UDP_PORT {
        return Ok(None);
    }
    let own = wire::source_port(frame.get(udp + 8..).context("a short frame")?);
    ensure!(
        source == own && destination == UDP_PORT,
        "from port {source}, its message's is {own}, to port {destination}"
    );
    if !v6 {
        ensure!(word(20)? & 0x3fff == 0, "a fragment");
        ensure!(
            sum(0, &ip[..header]) == 0xffff,
            "the IPv4 header's checksum is wrong"
        );
    }
    let length = usize::from(word(udp + 4)?);
    let datagram = frame
        .get(udp..udp + length)
        .context("a datagram longer than its frame")?;
    let total = if v6 {
        usize::from(word(18)?)
    } else {
        usize::from(word(16)?) - header
    };
    ensure!(total == length, "{total} bytes in IP, {length} in UDP");
    ensure!(word(udp + 6)? != 0, "no checksum");
    let addresses = if v6 { &ip[8..40] } else { &ip[12..20] };
    let pseudo = sum(u32::from(UDP) + length as u32, addresses);
    ensure!(
        sum(pseudo.into(), datagram) == 0xffff,
        "the UDP checksum is wrong: {frame:02x?}"
    );
    let payload = &datagram[8..];
    let packet = wire::parse(payload, payload.len())
        .map_err(|malformed| anyhow::anyhow!("malformed ({malformed:?}): {payload:02x?}"))?;
    let class = if v6 {
        (word(14)? >> 4) as u8
    } else {
        frame[15]
    };
    Ok(Some(Seen {
        packet,
        v6,
        dscp: class >> 2,
        frame: udp + length,
    }))
}

/// The Internet checksum's sum over `bytes`, begun with `first`; 0xffff over what holds its own
/// checksum.
fn sum(first: u32, bytes: &[u8]) -> u16 {
    let mut sum = first;
    for pair in bytes.chunks(2) {
        sum += (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// All that a device saw of the transport.
fn all(captured: &Captured) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for packet in captured.of("eth0")? {
        seen.extend(read(&packet.bytes)?);
    }
    Ok(seen)
}

/// Sends messages of `len` bytes over both versions of IP, and gives what host 2's device saw.
fn watched(net: &Net, lengths: &[usize]) -> Result<Vec<Seen>> {
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
    let mut sent = 0;
    for there in addresses(&net.hosts[1]) {
        for len in lengths {
            let number = sent.into();
            from.send_to(
                &content::content(number, *len),
                there,
                &SendOptions::default(),
            )?;
            sent += 1;
            let came = to.recv_message(*len)?;
            content::check(number, 0, &came.data)?;
        }
    }
    delivered(&from, sent)?;
    nothing_more(&to)?;
    all(&capture.finish()?)
}

/// Packets go from their message's port to the transport's, checksums are right, lengths are as
/// documented, and each class has its DSCP.
fn headers(ctx: &mut Ctx) -> Result<()> {
    // Signal, token, data, unscheduled.
    let classes = [[48, 46, 0, 1], [8, 16, 24, 32]];
    let net = hosts(&Builder::pair().without_offloads())?;
    for (policy, dscp) in POLICIES
        .into_iter()
        .flat_map(|policy| classes.map(|dscp| (policy, dscp)))
    {
        let [signal, token, data, unscheduled] = dscp;
        configure_all(
            &net,
            &format!(
                "policy {policy} unscheduled 4 dscp-signal {signal} dscp-token {token} \
                 dscp-data {data} dscp-unscheduled {unscheduled}"
            ),
        )?;
        // Of one packet, of few, which are sent at once, and of many, which wait for tokens.
        let seen = watched(&net, &[1, 4000, 40_000])?;
        let mut counts = [[0; 4]; 2];
        for one in &seen {
            let (class, length) = match &one.packet {
                Packet::Token(_) => (1, Some(if one.v6 { 80 } else { 60 })),
                Packet::Data(packet) => {
                    let unscheduled = packet.flags & FLAG_UNSCHEDULED != 0;
                    (if unscheduled { 3 } else { 2 }, None)
                }
                Packet::First(_) => (2, None),
                _ => (0, None),
            };
            counts[usize::from(one.v6)][class] += 1;
            ensure!(
                one.dscp == dscp[class],
                "{policy}: DSCP {} instead of {}: {one:?}",
                one.dscp,
                dscp[class]
            );
            ensure!(
                length.is_none_or(|length| length == one.frame),
                "{policy}: {} bytes: {one:?}",
                one.frame
            );
        }
        ctx.note(format!("{policy}: {counts:?}"));
        for version in counts {
            ensure!(
                version[0] > 0 && version[2] > 0 && (version[1] > 0) != is_paced(policy),
                "{policy}: not all kinds were seen, or tokens of a message that wants none: \
                 {counts:?}"
            );
            ensure!(
                (version[3] > 0) == (policy == "top"),
                "{policy}: {counts:?} with unscheduled packets on"
            );
        }
    }
    Ok(())
}

/// On a quiet line a request of one packet takes one, and so does its answer: SYNC and data are
/// one, which takes along that what it answers has come, unless that is an eighth of a millisecond
/// ago; and ends are confirmed together: each by itself only where an exchange takes a
/// millisecond.
fn short(ctx: &mut Ctx) -> Result<()> {
    const EXCHANGES: usize = 50;
    let net = hosts(&Builder::pair().without_offloads())?;
    let mut ends = Vec::new();
    for host in 0..2 {
        let ns = &net.hosts[host].ns;
        ends.push(receiver(ns)?);
    }
    for version in 0..2 {
        for len in [1, 100, 1300] {
            let exchange = |number: usize| -> Result<()> {
                for from in 0..2 {
                    let number = (2 * number + from) as u64;
                    let there = addresses(&net.hosts[1 - from])[version];
                    let (data, options) = (content::content(number, len), SendOptions::default());
                    ends[from].send_to(&data, there, &options)?;
                    let came = ends[1 - from].recv_message(len)?;
                    content::check(number, 0, &came.data)?;
                }
                Ok(())
            };
            // They know each other by then.
            (0..2).try_for_each(exchange)?;
            std::thread::sleep(Duration::from_millis(5));
            let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
            (0..EXCHANGES).try_for_each(exchange)?;
            std::thread::sleep(Duration::from_millis(20));
            let seen = all(&capture.finish()?)?;
            let of = |is: fn(&Packet) -> bool| seen.iter().filter(|one| is(&one.packet)).count();
            let whole = of(|packet| matches!(packet, Packet::First(_)));
            let confirm = of(|packet| matches!(packet, Packet::Confirm(_)));
            let alone = of(|packet| matches!(packet, Packet::Delivered(_)));
            let ends = seen.iter().map(|one| match &one.packet {
                Packet::First(first) => first.delivered.len(),
                Packet::Delivered(delivered) => delivered.len(),
                _ => 0,
            });
            let ends: usize = ends.sum();
            ctx.note(format!(
                "{len} bytes: {} packets of {} messages, {alone} acknowledge some, {confirm} \
                 confirm some",
                seen.len(),
                2 * EXCHANGES
            ));
            ensure!(
                whole == 2 * EXCHANGES && seen.len() == whole + alone + confirm,
                "{len} bytes: {} packets, {whole} are messages, {alone} acknowledge and {confirm} \
                 confirm some: {seen:?}",
                seen.len()
            );
            ensure!(
                ends == whole,
                "{len} bytes: {ends} of {whole} messages are acknowledged: {seen:?}"
            );
            ensure!(
                alone <= 2,
                "{len} bytes: {alone} ACKs of their own, though answers come at once"
            );
            ensure!(
                (2..=2 * EXCHANGES).contains(&confirm),
                "{confirm} confirm some"
            );
        }
    }
    Ok(())
}

/// Full packets fill the link's MTU, and none is longer or in fragments.
fn mtu(_: &mut Ctx) -> Result<()> {
    for mtu in [1280, 1500, 9000] {
        let net = hosts(&Builder::pair().mtu(mtu).without_offloads())?;
        let seen = watched(&net, &[100_000])?;
        for v6 in [false, true] {
            let data = seen.iter().filter(|one| one.v6 == v6);
            let longest = data.map(|one| one.frame).max();
            ensure!(
                longest == Some(14 + mtu as usize),
                "MTU {mtu}, IPv6 {v6}: the longest frame is {longest:?}"
            );
        }
    }
    Ok(())
}

/// A message that a slow reader holds back halfway, so that something can happen to the path. Gives
/// what it did.
fn halfway(net: &Net, version: usize, happens: &dyn Fn() -> Result<()>) -> Result<()> {
    const LEN: u64 = 1_000_000;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[version];
    from.send_to(
        &content::content(1, LEN as usize),
        there,
        &SendOptions::default(),
    )?;
    let mut at = 0;
    let mut happened = false;
    while at < LEN {
        let read = read_once(&to, 30_000, 0).with_context(|| format!("at {at}"))?;
        content::check(1, at, &read.data)?;
        at += read.data.len() as u64;
        if at > 200_000 && !happened {
            happened = true;
            happens()?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // And another one, which knows from the start.
    from.send_to(&content::content(2, 50_000), there, &SendOptions::default())?;
    let came = to.recv_message(50_000)?;
    content::check(2, 0, &came.data)?;
    delivered(&from, 2)?;
    nothing_more(&to)
}

/// The link's MTU changes in the middle of a message, down and up again.
fn mtu_falls(_: &mut Ctx) -> Result<()> {
    for (version, mss) in MSS.into_iter().enumerate() {
        for (before, after) in [(1500, 1280), (9000, 1500), (1280, 9000)] {
            let net = hosts(&Builder::pair().mtu(before))?;
            halfway(&net, version, &|| {
                net.hosts.iter().try_for_each(|host| {
                    host.ns.ip(&format!("link set eth0 mtu {after}")).map(drop)
                })
            })
            .with_context(|| {
                format!("packets of {mss} bytes (at 1500), MTU {before} to {after}")
            })?;
        }
    }
    Ok(())
}

/// A router whose next link takes less than the sender's: from the start, and from the middle of a
/// message on.
fn narrow_path(_: &mut Ctx) -> Result<()> {
    for version in 0..2 {
        for from_start in [true, false] {
            let net = hosts(&Builder::routed(2))?;
            let narrow = || -> Result<()> {
                let (switch, dev) = net.port_to(1);
                switch.ip(&format!("link set {dev} mtu 1280"))?;
                net.hosts[1].ns.ip("link set eth0 mtu 1280").map(drop)
            };
            if from_start {
                narrow()?;
            }
            halfway(&net, version, &|| {
                if from_start {
                    return Ok(());
                }
                narrow()
            })
            .with_context(|| format!("IPv6 {version}, narrow from the start: {from_start}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::traffic::frame::Frame;

    #[test]
    fn sums_are_those_of_the_rfc() {
        // RFC 1071 section 3.
        assert_eq!(sum(0, &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(0, &[1]), 0x100);
    }

    #[test]
    fn faults_are_found() {
        let ack = Packet::Ack(wire::Ack {
            cookie: wire::Cookie(1),
            received: 2,
            window: 3,
            allowance: 0,
            last: false,
            mark: turnstile_core::transport::rate::Mark::None,
            notify: false,
        });
        let mut bytes = [0; wire::MAX_HEADER];
        let len = ack.write(&mut bytes);
        // A frame of the transport, but with another source port, and without a checksum.
        let frame = Frame::udp4(Ipv4Addr::new(10, 0, 0, 1), 48, UDP_PORT, &bytes[..len]).unpadded();
        assert!(read(&frame)
            .unwrap_err()
            .to_string()
            .contains("from port 1"));
        let mut frame = frame;
        frame[34..36].copy_from_slice(&wire::Cookie(1).source_port().to_be_bytes());
        assert!(read(&frame)
            .unwrap_err()
            .to_string()
            .contains("no checksum"));
        frame[40..42].copy_from_slice(&[1, 1]);
        let error = read(&frame).unwrap_err().to_string();
        assert!(error.contains("checksum is wrong"), "{error}");
        frame[40..42].copy_from_slice(&[0, 0]);
        let length = (frame.len() - 34) as u32;
        let right = !sum(sum(17 + length, &frame[26..34]).into(), &frame[34..]);
        frame[40..42].copy_from_slice(&right.to_be_bytes());
        let seen = read(&frame).unwrap().unwrap();
        assert_eq!((seen.packet, seen.dscp, seen.v6), (ack, 48, false));
        assert_eq!(seen.frame, frame.len());
    }
}
