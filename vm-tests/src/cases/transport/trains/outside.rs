// SPDX-License-Identifier: GPL-2.0
//! Super-packets that others made: whatever their pages are like, what comes is what was sent.

use anyhow::{ensure, Context, Result};
use turnstile_core::header::{FLAG_UNASKED, PORT as UDP_PORT};
use turnstile_core::transport::wire::{Cookie, Data, Packet, Sync, DATA_LEN, MAX_HEADER};

use super::super::content::{check, content};
use super::super::peer::{sync, Peer};
use super::super::support::{addresses, counters, hosts, receiver, PORT};
use crate::harness::Ctx;
use crate::topology::{Builder, Host};
use crate::traffic::{RawSocket, VirtioNetHeader};

/// Bytes of payload in each packet but the last.
const EACH: u32 = 1400;
/// Packets in a super-packet.
const PACKETS: u32 = 8;
const LEN: u32 = (PACKETS - 1) * EACH + 333;

/// A message whose data comes as one super-packet: all of it in the buffer's own bytes, headers
/// alone there, some headers there and others in pages, and with the ends of pages amid headers.
pub(super) fn made_by_others(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::pair())?;
    let [here, there] = &net.hosts[..] else {
        anyhow::bail!("not a pair")
    };
    let raw = RawSocket::open_gso(&there.ns, "eth0")?;
    let to = receiver(&here.ns)?;
    let mut cookie = 100;
    for v6 in [false, true] {
        let peer = Peer::new(there, v6, addresses(here)[usize::from(v6)])?;
        let ticket = peer.ticket(cookie, PORT)?;
        to.recv_message(1 << 20)?;
        let headers = 14 + if v6 { 40 } else { 20 } + 8;
        let whole = (PACKETS * DATA_LEN as u32 + LEN) as u16 + headers;
        // In order as a row is, and with what says how much follows amiss, which is taken apart.
        for in_a_row in [true, false] {
            for in_buffer in [headers, headers + 11, headers + 1500, whole - 20, whole] {
                cookie += 1;
                let before = counters(&here.ns)?;
                let sync = Sync {
                    length: Some(LEN),
                    unscheduled: LEN,
                    mss: EACH as u16,
                    ..sync(cookie, PORT, ticket)
                };
                peer.push(&Packet::Sync(sync), 0)?;
                let (header, frame) = super_packet(here, there, v6, cookie, in_a_row, in_buffer);
                ensure!(raw.send_gso(header, &frame)?, "the device dropped it");
                let message = to.recv_message(1 << 20).with_context(|| {
                    format!("v6 {v6}, row {in_a_row}, {in_buffer} of {whole} bytes in the buffer")
                })?;
                check(cookie, 0, &message.data)?;
                ensure!(
                    message.data.len() == LEN as usize,
                    "{} bytes",
                    message.data.len()
                );
                let after = counters(&here.ns)?;
                let grown = |name: &str| after[name] - before[name];
                let came = grown("unscheduled-received");
                let twice = grown("data-duplicate");
                ensure!(
                    (came, twice) == (PACKETS.into(), 0),
                    "{came} packets, {twice} twice: v6 {v6}, row {in_a_row}, {in_buffer}"
                );
            }
        }
    }
    ctx.note(format!("{} messages", cookie - 100));
    Ok(())
}

/// One of a message, with so many bytes of the frame in the buffer itself.
fn super_packet(
    to: &Host,
    from: &Host,
    v6: bool,
    cookie: u64,
    in_a_row: bool,
    in_buffer: u16,
) -> (VirtioNetHeader, Vec<u8>) {
    let mut udp: Vec<u8> = Vec::new();
    let message = content(cookie, LEN as usize);
    for n in 0..PACKETS {
        let offset = n * EACH;
        let len = EACH.min(LEN - offset);
        let follow = (PACKETS - n) as u8;
        let data = Data {
            cookie: Cookie(cookie),
            token: 0,
            timestamp: 0,
            offset,
            len,
            flags: FLAG_UNASKED,
            more: if in_a_row { follow } else { 0 },
        };
        let mut head = [0; MAX_HEADER];
        let head_len = Packet::Data(data).write(&mut head);
        udp.extend(&head[..head_len]);
        udp.extend(&message[offset as usize..(offset + len) as usize]);
    }
    let len = 8 + udp.len() as u16;
    let mut addresses = Vec::new();
    for host in [from, to] {
        match v6 {
            true => addresses.extend(host.v6.octets()),
            false => addresses.extend(host.v4.octets()),
        }
    }
    // The sum is left to be made, but for what is not in the packet.
    let pseudo = fold(sum(&addresses) + 17 + u64::from(len));
    let mut transport = Vec::new();
    for word in [Cookie(cookie).source_port(), UDP_PORT, len, pseudo] {
        transport.extend(word.to_be_bytes());
    }
    transport.extend(udp);
    let mut frame = Vec::new();
    for host in [to, from] {
        let byte = |text| u8::from_str_radix(text, 16).unwrap_or(0);
        frame.extend(host.mac.split(':').map(byte));
    }
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend(addresses);
    } else {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + len).to_be_bytes());
        ip.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        ip.extend(addresses);
        let check = !fold(sum(&ip));
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        frame.extend([8, 0]);
        frame.extend(ip);
    }
    let start = frame.len() as u16;
    frame.extend(transport);
    let header = VirtioNetHeader {
        flags: 1,
        gso_type: 5,
        header_len: in_buffer,
        gso_size: (EACH as usize + DATA_LEN) as u16,
        sum_start: start,
        sum_offset: 6,
    };
    (header, frame)
}

fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| (u64::from(pair[0]) << 8) | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
