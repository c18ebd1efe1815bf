// SPDX-License-Identifier: GPL-2.0
//! What is sent: sets of frames, one for each band or flow, as lines for the measuring module.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use turnstile_core::header::PORT;

use crate::traffic::frame::{Frame, TPID_C};
use crate::traffic::Packet;

/// Bands of a port with six token priorities and no unscheduled one, and of the stock qdiscs beside
/// it.
pub(super) const BANDS: usize = 8;
/// The first UDP port of those that filters look for and flows are told apart by.
pub(super) const FIRST_PORT: u16 = 1001;
/// DSCPs that a port is told to map to its bands.
pub(super) const DSCPS: [u8; BANDS] = [48, 10, 12, 14, 18, 20, 22, 26];
/// Payload of a super-packet's segments, bytes: TCP over IPv4 with time stamps and a MTU of 1500.
const MSS: usize = 1448;
/// Segments of a super-packet.
const SEGMENTS: usize = 10;

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// A set of packets.
#[derive(Clone, Debug)]
pub(super) struct PacketSet {
    /// For people.
    pub(super) what: &'static str,
    /// Whether each stands for many.
    pub(super) are_super: bool,
    /// `PRIORITY HEX [LENGTH [MSS]]` for each.
    pub(super) lines: Vec<String>,
}

impl PacketSet {
    fn new(what: &'static str, frames: impl Iterator<Item = (u32, Frame)>) -> Self {
        let lines = frames.map(|(priority, frame)| line(priority, &frame.bytes()));
        Self {
            what,
            are_super: false,
            lines: lines.collect(),
        }
    }
}

fn line(priority: u32, bytes: &[u8]) -> String {
    let mut line = format!("{priority} ");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(line, "{byte:02x}");
    }
    line
}

/// What a port's bands hold, in the order of [`BANDS`]: signal, tokens, data.
pub(super) fn kinds() -> [Packet; BANDS] {
    [
        Packet::Signal,
        Packet::Token(0),
        Packet::Token(1),
        Packet::Token(2),
        Packet::Token(3),
        Packet::Token(4),
        Packet::Token(5),
        Packet::Data,
    ]
}

fn plain(number: usize) -> Frame {
    let port = FIRST_PORT + u16::try_from(number).unwrap_or(0);
    Frame::udp4(V4, 0, port, &[0; 18])
}

/// Packets whose `skb->priority` names the classes `handle:minor`.
pub(super) fn class_ids(handle: u32, minors: [u32; BANDS]) -> PacketSet {
    let frames = minors.iter().enumerate();
    PacketSet::new(
        "class id in skb->priority",
        frames.map(|(n, minor)| ((handle << 16) | minor, plain(n))),
    )
}

/// Packets of eight flows, told apart by their UDP ports.
pub(super) fn flows() -> PacketSet {
    PacketSet::new("UDP, 8 flows", (0..BANDS).map(|n| (0, plain(n))))
}

/// Payload that begins with Turnstile's header.
fn turnstile(packet: Packet) -> Vec<u8> {
    [&packet.header()[..], &[0; 14]].concat()
}

/// Turnstile's packets for all bands, over IPv4.
pub(super) fn headers() -> PacketSet {
    let frames = kinds().map(|kind| (0, Frame::udp4(V4, 0, PORT, &turnstile(kind))));
    PacketSet::new("Turnstile header over IPv4", frames.into_iter())
}

/// As [`headers`], over IPv6.
pub(super) fn headers_v6() -> PacketSet {
    let frames = kinds().map(|kind| (0, Frame::udp6(V6, 0, PORT, &turnstile(kind))));
    PacketSet::new("Turnstile header over IPv6", frames.into_iter())
}

/// As [`headers`], with a VLAN tag in the frame.
pub(super) fn headers_tagged() -> PacketSet {
    let frames = kinds().map(|kind| {
        let frame = Frame::udp4(V4, 0, PORT, &turnstile(kind));
        (0, frame.tagged(TPID_C, 5))
    });
    PacketSet::new("the same with a VLAN tag in the frame", frames.into_iter())
}

/// Ordinary datagrams with the DSCPs of [`DSCPS`].
pub(super) fn dscps() -> PacketSet {
    let frames = DSCPS.map(|dscp| (0, Frame::udp4(V4, dscp, FIRST_PORT, &[0; 18])));
    PacketSet::new("8 DSCPs", frames.into_iter())
}

/// A super-packet of TCP over IPv4.
pub(super) fn super_packet() -> PacketSet {
    const ETHERNET: usize = 14;
    const IP: usize = 20;
    // 20 bytes and the option for time stamps.
    const TCP: usize = 32;
    let length = ETHERNET + IP + TCP + SEGMENTS * MSS;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 99];
    ip.extend_from_slice(&V4.octets());
    let ip_length = u16::try_from(length - ETHERNET).unwrap_or(u16::MAX);
    ip[2..4].copy_from_slice(&ip_length.to_be_bytes());
    let mut tcp = vec![0; TCP];
    tcp[..4].copy_from_slice(&[0x30, 0x39, 0x17, 0x70]);
    // The header's length in words, and ACK.
    (tcp[12], tcp[13]) = (((TCP / 4) << 4) as u8, 0x10);
    // No operation twice, then time stamps of 10 bytes.
    tcp[20..24].copy_from_slice(&[1, 1, 8, 10]);
    ip.extend_from_slice(&tcp);
    let frame = Frame::new(0x0800, &ip).unpadded();
    PacketSet {
        what: "TCP super-packets of 10 segments; figures are per segment",
        are_super: true,
        lines: vec![format!("{} {length} {MSS}", line(0, &frame))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_the_module_reads() {
        let set = class_ids(2, [1, 2, 3, 4, 5, 6, 7, 0x11]);
        assert_eq!(set.lines.len(), BANDS);
        let words: Vec<&str> = set.lines[7].split(' ').collect();
        assert_eq!((words[0], words[1].len()), ("131089", 2 * 60));
        // Destination port 1008, behind Ethernet, IPv4 and the source port.
        assert_eq!(words[1][2 * 36..2 * 38], *"03f0");
    }

    #[test]
    fn a_super_packet_says_how_long_it_is() {
        let set = super_packet();
        let words: Vec<&str> = set.lines[0].split(' ').collect();
        assert_eq!(words[1].len(), 2 * 66);
        assert_eq!(words[2..], ["14546", "1448"]);
        // IPv4's total length.
        assert_eq!(words[1][2 * 16..2 * 18], *"38c4");
    }
}
