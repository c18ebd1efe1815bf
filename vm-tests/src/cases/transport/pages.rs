// SPDX-License-Identifier: GPL-2.0
//! Packets of which only a few bytes are where the kernel reads headers; the rest is in pages, as
//! some network cards leave it.

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_core::transport::wire::Sync;

use super::peer::{bytes, first, sync, Peer};
use super::support::{addresses, hosts, receiver, same, PORT};
use crate::harness::{Case, Ctx};
use crate::topology::{Builder, Host};
use crate::traffic::frame::Frame;
use crate::traffic::{RawSocket, VirtioNetHeader};

pub(in crate::cases) const CASES: &[Case] = &[Case::new("transport/pages/first", in_one)];

/// Bytes of a message: a packet socket puts one into pages that is longer than a page.
const LEN: u32 = 6000;
const UDP_LEN: usize = 8;
/// The version, DSCP and so on, of no interest here.
const HOPS: u8 = 64;
const UDP: u8 = 17;

/// A UDP datagram from the transport's port, whose checksum the kernel is to make; and where UDP's
/// header begins.
fn frame(from: &Host, to: &Host, v6: bool, payload: &[u8]) -> (Vec<u8>, usize) {
    let len = u16::try_from(UDP_LEN + payload.len()).expect("a datagram");
    let (kind, mut ip, pseudo) = if v6 {
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend(len.to_be_bytes());
        ip.extend([UDP, HOPS]);
        ip.extend(from.v6.octets());
        ip.extend(to.v6.octets());
        let pseudo = sum(&ip[8..40]);
        (0x86dd, ip, pseudo)
    } else {
        let mut ip = vec![0x45, 0];
        ip.extend((len + 20).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
        ip.extend(from.v4.octets());
        ip.extend(to.v4.octets());
        let whole = !folded(sum(&ip));
        ip[10..12].copy_from_slice(&whole.to_be_bytes());
        let pseudo = sum(&ip[12..20]);
        (0x0800, ip, pseudo)
    };
    let pseudo = folded(pseudo + u32::from(UDP) + u32::from(len));
    let udp = 14 + ip.len();
    for word in [UDP_PORT, UDP_PORT, len, pseudo] {
        ip.extend(word.to_be_bytes());
    }
    ip.extend(payload);
    let frame = Frame::new(kind, &ip).to_mac([2, 0, 0, 0, 0, 2]);
    (frame.bytes(), udp)
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    words
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A message in one packet, with more and more of its header before the pages.
fn in_one(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair().mtu(9000))?;
    let [from, to] = [&net.hosts[0], &net.hosts[1]];
    let raw = RawSocket::open_gso(&from.ns, "eth0")?;
    let sent = vec![0x5a; LEN as usize];
    let mut cookie = 0;
    for v6 in [false, true] {
        let there = addresses(to)[usize::from(v6)];
        let socket = receiver(&to.ns)?;
        let peer = Peer::new(from, v6, there)?;
        cookie += 1;
        let ticket = peer.ticket(cookie, PORT)?;
        socket.recv_message(1 << 16).context("the first one")?;
        let mut count = 0;
        for header in [0, 1, 3, 4, 12, 21, 22, 40, 55, 56, 57, 200] {
            cookie += 1;
            let sync = Sync {
                length: Some(LEN),
                unscheduled: LEN,
                mss: 8900,
                ..sync(cookie, PORT, ticket)
            };
            let (frame, udp) = frame(from, to, v6, &bytes(&first(sync), LEN));
            let offload = VirtioNetHeader {
                flags: 1,
                header_len: (udp + UDP_LEN + header) as u16,
                sum_start: udp as u16,
                sum_offset: 6,
                ..VirtioNetHeader::default()
            };
            ensure!(raw.send_gso(offload, &frame)?, "it was dropped");
            let got = socket.recv_message(1 << 16);
            let got = got.with_context(|| format!("IPv6 {v6}: {header} bytes of the header"))?;
            same("the message", &got.data, &sent)?;
            count += 1;
        }
        ctx.note(format!("IPv6 {v6}: {count} messages"));
    }
    Ok(())
}
