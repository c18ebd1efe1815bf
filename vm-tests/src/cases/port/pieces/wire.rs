// SPDX-License-Identifier: GPL-2.0
//! Super-packets made by hand, and what their frames on the wire have to be.

use anyhow::{ensure, Result};

use crate::traffic::VirtioNetHeader;

/// Bytes of payload in each segment but the last.
const MSS: usize = 1000;
/// Bytes of payload.
const PAYLOAD: usize = 25 * MSS + 7;
const VLAN: [u8; 4] = [0x81, 0, 0, 5];
const SOURCE: u8 = 77;
/// The identification of the first segment: so that it overflows on the way.
const ID: u16 = 0xfff5;
const SEQUENCE: u32 = 0xffff_f000;
/// CWR, ACK, PSH and FIN.
const FLAGS: u8 = 0x80 | 0x10 | 0x08 | 0x01;

/// A super-packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Super {
    v6: bool,
    udp: bool,
    vlan: bool,
    /// Its checksum is left to be made.
    partial: bool,
}

impl Super {
    /// TCP and UDP, over IPv4 and IPv6, with a VLAN tag and without.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for vlan in [false, true] {
            for udp in [false, true] {
                for v6 in [false, true] {
                    all.push(Self {
                        v6,
                        udp,
                        vlan,
                        partial: true,
                    });
                }
            }
        }
        all
    }

    /// The same with its sum made, if the kernel takes such ones from programs.
    pub(super) fn summed(self) -> Option<Self> {
        let summed = Self {
            partial: false,
            ..self
        };
        (!self.udp && !self.vlan).then_some(summed)
    }

    pub(super) fn segments(&self) -> usize {
        PAYLOAD.div_ceil(MSS)
    }

    fn link_header(self) -> usize {
        14 + if self.vlan { VLAN.len() } else { 0 }
    }

    fn ip_header(self) -> usize {
        if self.v6 {
            40
        } else {
            20
        }
    }

    fn transport_header(self) -> usize {
        if self.udp {
            8
        } else {
            20
        }
    }

    fn headers(self) -> usize {
        self.link_header() + self.ip_header() + self.transport_header()
    }

    /// Bytes of a full segment on the wire.
    pub(super) fn wire(self) -> u64 {
        (self.headers() + MSS + 24) as u64
    }

    /// Bytes of all segments, as tc counts them.
    pub(super) fn bytes(self) -> u64 {
        (self.segments() * self.headers() + PAYLOAD) as u64
    }

    pub(super) fn header(self) -> VirtioNetHeader {
        const NEEDS_SUM: u8 = 1;
        const ECN: u8 = 0x80;
        let gso_type = match (self.udp, self.v6) {
            (true, _) => 5,
            (false, false) => 1 | ECN,
            (false, true) => 4 | ECN,
        };
        let start = (self.link_header() + self.ip_header()) as u16;
        VirtioNetHeader {
            flags: if self.partial { NEEDS_SUM } else { 0 },
            gso_type,
            header_len: self.headers() as u16,
            gso_size: MSS as u16,
            sum_start: if self.partial { start } else { 0 },
            sum_offset: match (self.partial, self.udp) {
                (false, _) => 0,
                (true, true) => 6,
                (true, false) => 16,
            },
        }
    }

    fn addresses(self) -> Vec<u8> {
        if self.v6 {
            let mut one = [0; 16];
            one[0] = 0xfd;
            one[15] = SOURCE;
            let mut other = one;
            other[15] = 99;
            [one, other].concat()
        } else {
            vec![10, 0, 9, SOURCE, 10, 0, 9, 99]
        }
    }

    fn protocol(self) -> u8 {
        if self.udp {
            17
        } else {
            6
        }
    }

    /// The sum of the pseudo-header of `len` bytes.
    fn pseudo(self, len: usize) -> u64 {
        sum(&self.addresses()) + u64::from(self.protocol()) + len as u64
    }

    pub(super) fn frame(self) -> Vec<u8> {
        let len = self.transport_header() + PAYLOAD;
        let mut transport = vec![0xc3, 0x50, 0, 9];
        let sum_at = if self.udp {
            transport.extend((len as u16).to_be_bytes());
            transport.extend([0; 2]);
            6
        } else {
            transport.extend(SEQUENCE.to_be_bytes());
            transport.extend(7_u32.to_be_bytes());
            transport.extend([0x50, FLAGS, 16, 0, 0, 0, 0, 0]);
            16
        };
        transport.extend((0..PAYLOAD).map(content));
        // What is still to be added, or all of it.
        let check = if self.partial {
            fold(self.pseudo(len))
        } else {
            !fold(self.pseudo(len) + sum(&transport))
        };
        transport[sum_at..sum_at + 2].copy_from_slice(&check.to_be_bytes());
        [self.before(&transport), transport].concat()
    }

    /// The headers before this.
    fn before(self, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 0x98, 2, 0, 0, 0, 0, SOURCE];
        if self.vlan {
            frame.extend(VLAN);
        }
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([self.protocol(), 64]);
            frame.extend(self.addresses());
        } else {
            let mut ip = vec![0x45, 0];
            ip.extend((20 + transport.len() as u16).to_be_bytes());
            ip.extend(ID.to_be_bytes());
            ip.extend([0, 0, 64, self.protocol(), 0, 0]);
            ip.extend(self.addresses());
            let check = !fold(sum(&ip));
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        frame
    }

    /// What came as it was on the wire: a receiver takes the tag off.
    pub(super) fn retagged(self, frame: Vec<u8>) -> Vec<u8> {
        if !self.vlan || frame[12..16] == VLAN {
            return frame;
        }
        [&frame[..12], &VLAN, &frame[12..]].concat()
    }

    /// The frame with another protocol than the super-packet claims to be of.
    pub(super) fn spoilt(self) -> Vec<Vec<u8>> {
        let ip = self.link_header();
        let mut all = Vec::new();
        let protocol = ip + if self.v6 { 6 } else { 9 };
        for other in [6, 17, 132, 47] {
            if other != self.protocol() {
                let mut frame = self.frame();
                frame[protocol] = other;
                all.push(frame);
            }
        }
        all
    }

    /// Whether it is from the sender of these.
    pub(super) fn is_mine(self, frame: &[u8]) -> bool {
        frame.len() > 12 && frame[..12] == self.frame()[..12]
    }
}

/// The byte at this place of the payload.
fn content(at: usize) -> u8 {
    (at * 11 / 3 % 253) as u8
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

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// The frames are those of the super-packet's segments: each with its number, length, flags, sums
/// and bytes.
pub(super) fn check_frames(one: &Super, frames: &[Vec<u8>]) -> Result<()> {
    let last = one.segments() - 1;
    for (number, frame) in frames.iter().enumerate() {
        let what = format!(
            "{one:?}, frame {number}: {:02x?}",
            &frame[..frame.len().min(60)]
        );
        let payload = if number == last {
            PAYLOAD - last * MSS
        } else {
            MSS
        };
        let transport = one.transport_header() + payload;
        let len = one.link_header() + one.ip_header() + transport;
        ensure!(
            frame.len() == len,
            "{} bytes, not {len}: {what}",
            frame.len()
        );
        let ip = one.link_header();
        if one.v6 {
            ensure!(
                usize::from(word(frame, ip + 4)) == transport,
                "length: {what}"
            );
        } else {
            ensure!(
                usize::from(word(frame, ip + 2)) == 20 + transport,
                "length: {what}"
            );
            let id = ID.wrapping_add(number as u16);
            ensure!(word(frame, ip + 4) == id, "identification: {what}");
            ensure!(fold(sum(&frame[ip..ip + 20])) == 0xffff, "IP's sum: {what}");
        }
        let at = ip + one.ip_header();
        let all = one.pseudo(transport) + sum(&frame[at..]);
        ensure!(fold(all) == 0xffff, "the sum: {what}");
        if one.udp {
            ensure!(
                usize::from(word(frame, at + 4)) == transport,
                "length: {what}"
            );
        } else {
            let sequence = SEQUENCE.wrapping_add((number * MSS) as u32);
            ensure!(
                frame[at + 4..at + 8] == sequence.to_be_bytes(),
                "sequence: {what}"
            );
            // CWR at the beginning, FIN and PSH at the end.
            let flags = match number {
                0 => 0x90,
                _ if number == last => 0x19,
                _ => 0x10,
            };
            ensure!(frame[at + 13] == flags, "flags: {what}");
        }
        let begins = number * MSS;
        let right = frame[at + one.transport_header()..]
            .iter()
            .zip(begins..)
            .all(|(byte, at)| *byte == content(at));
        ensure!(right, "contents: {what}");
    }
    Ok(())
}
