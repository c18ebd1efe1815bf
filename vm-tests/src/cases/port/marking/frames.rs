// SPDX-License-Identifier: GPL-2.0
//! Frames with an ECN field, and what a mark makes of them, worked out byte by byte from the frame
//! alone.

use std::net::{Ipv4Addr, Ipv6Addr};

use turnstile_core::header::{FLAG_REN, PORT};

use crate::rng::Rng;
use crate::traffic::frame::{udp, Frame, TPID_C, TPID_S};
use crate::traffic::Packet;

pub(super) const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Where the IP header begins in a frame with `tags` VLAN tags.
pub(super) fn ip_at(tags: usize) -> usize {
    14 + 4 * tags
}

/// A frame whose IP header has this ECN field, and whose IPv4 checksum is right.
pub(super) fn with_ecn(mut frame: Vec<u8>, tags: usize, ecn: u8) -> Vec<u8> {
    let at = ip_at(tags);
    if frame[at] >> 4 == 4 {
        frame[at + 1] = frame[at + 1] & !3 | ecn;
        let end = at + 4 * usize::from(frame[at] & 0xf);
        frame[at + 10..at + 12].copy_from_slice(&[0, 0]);
        let sum = checksum(&frame[at..end]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[at + 1] = (frame[at + 1] & !0x30) | (ecn << 4);
    }
    frame
}

/// The ECN field.
pub(in crate::cases) fn ecn(frame: &[u8], tags: usize) -> u8 {
    let at = ip_at(tags);
    match frame[at] >> 4 {
        4 => frame[at + 1] & 3,
        _ => (frame[at + 1] >> 4) & 3,
    }
}

/// RFC 1071's checksum, in the plainest way: with the carry folded at each step.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for (at, byte) in bytes.iter().enumerate() {
        sum += u32::from(*byte) << if at % 2 == 0 { 8 } else { 0 };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Router solicitations, multicast listener reports and the like.
pub(super) fn is_of_the_kernel(frame: &[u8]) -> bool {
    frame.len() > 54
        && frame[12..14] == [0x86, 0xdd]
        && (frame[20] == ICMPV6 || frame[20] == 0 && frame[54] == ICMPV6)
}

/// A frame with a VLAN tag in it or two.
pub(super) fn tagged(frame: Frame, tags: usize) -> Frame {
    match tags {
        0 => frame,
        1 => frame.tagged(TPID_C, 0x2005),
        _ => frame.tagged(TPID_C, 5).tagged(TPID_S, 7),
    }
}

/// A datagram to a port, over IPv4 or IPv6.
pub(in crate::cases) fn datagram(
    v6: bool,
    tags: usize,
    ecn: u8,
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let frame = if v6 {
        Frame::udp6(V6, 10, port, payload)
    } else {
        Frame::udp4(V4, 10, port, payload)
    };
    with_ecn(tagged(frame, tags).bytes(), tags, ecn)
}

/// A frame of any kind.
pub(super) struct Sample {
    pub(super) frame: Vec<u8>,
    pub(super) tags: usize,
    /// It has an ECN field: a marker may write to it.
    pub(super) ip: bool,
    /// It is of a REN flow.
    pub(super) ren: bool,
}

/// What follows the UDP header of data of a REN flow.
pub(super) fn ren_payload(len: usize) -> Vec<u8> {
    let mut payload = Packet::Data.header().to_vec();
    payload.resize(payload.len().max(len), 7);
    payload[2] |= FLAG_REN;
    payload
}

/// Data of a REN flow that comes with this mark.
pub(super) fn ren_datagram(v6: bool, tags: usize, mark: u8, len: usize) -> Vec<u8> {
    datagram(v6, tags, mark, PORT, &ren_payload(len))
}

/// A random one: IPv4 with and without options and fragments, IPv6 with and without extension
/// headers, behind up to three tags, whole or cut short, or something else.
pub(super) fn any(rng: &mut Rng) -> Sample {
    let tags = *rng.pick(&[0, 0, 0, 1, 1, 2]);
    let dscp = rng.range(0..=47) as u8;
    let mut payload = vec![0; rng.index(1400)];
    rng.fill(&mut payload);
    let port = rng.range(1000..=20_000) as u16;
    if rng.one_in(5) {
        let v6 = rng.one_in(2);
        let frame = ren_datagram(v6, tags, rng.range(0..=3) as u8, payload.len());
        return Sample {
            frame,
            tags,
            ip: true,
            ren: true,
        };
    }
    let (frame, ip) = match rng.range(0..=9) {
        0..=2 => (Frame::udp4(V4, dscp, port, &payload), true),
        3 => {
            // As it would be for another protocol.
            let frame = Frame::udp4(V4, dscp, port, &payload);
            (frame.with_byte(9, TCP), true)
        }
        4 => {
            // 8 bytes of options: they take from what was the datagram.
            let frame = Frame::udp4(V4, dscp, port, &[payload, vec![1; 40]].concat());
            (frame.with_byte(0, 0x47), true)
        }
        5 => {
            // A later fragment.
            let frame = Frame::udp4(V4, dscp, port, &payload);
            (frame.with_byte(7, rng.range(1..=255) as u8), true)
        }
        6 | 7 => (Frame::udp6(V6, dscp, port, &payload), true),
        8 => {
            let options = [vec![UDP, 0, 1, 4, 0, 0, 0, 0], udp(port, &payload)].concat();
            (Frame::ipv6(V6, dscp, 60, &options), true)
        }
        _ => match rng.range(0..=3) {
            // IPX, a third tag, an IPv4 header that is too short, IPv6 that ends before its header
            // does.
            0 => (Frame::new(0x8137, &payload), false),
            1 => (
                tagged(Frame::udp4(V4, dscp, port, &payload), 1).tagged(TPID_C, 9),
                tags == 0,
            ),
            2 => (
                Frame::udp4(V4, dscp, port, &payload).with_byte(0, 0x44),
                false,
            ),
            _ => (Frame::udp6(V6, dscp, port, &payload).truncated(30), false),
        },
    };
    let inner = frame.unpadded()[12..14] == [0x81, 0];
    let frame = tagged(frame, tags).bytes();
    let tags = if inner { tags + 2 } else { tags };
    let frame = match ip {
        true => with_ecn(frame, tags, rng.range(0..=3) as u8),
        false => frame,
    };
    Sample {
        frame,
        tags,
        ip,
        ren: false,
    }
}
