// SPDX-License-Identifier: GPL-2.0
//! Builds Ethernet frames by hand: VLAN tags, extension headers, and the malformed ones.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The destination and source of all frames made here, unless set.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

const ETH_IPV4: u16 = 0x0800;
const ETH_IPV6: u16 = 0x86dd;
/// A customer VLAN tag (802.1Q).
pub const TPID_C: u16 = 0x8100;
/// A service VLAN tag (802.1ad), the outer one of QinQ.
pub const TPID_S: u16 = 0x88a8;

/// What is inside the Ethernet header.
#[derive(Clone, Debug)]
pub struct Frame {
    destination: [u8; 6],
    source: [u8; 6],
    tags: Vec<(u16, u16)>,
    ethertype: u16,
    body: Vec<u8>,
}

impl Frame {
    /// A frame of any type.
    pub fn new(ethertype: u16, body: &[u8]) -> Self {
        Self {
            destination: MAC,
            source: MAC,
            tags: Vec::new(),
            ethertype,
            body: body.to_vec(),
        }
    }

    /// An IPv4 UDP datagram from port 1 to `port`, without UDP checksum.
    pub fn udp4(to: Ipv4Addr, dscp: u8, port: u16, payload: &[u8]) -> Self {
        let udp = udp(port, payload);
        let mut ip = vec![
            0x45,
            dscp << 2,
            0,
            0,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            99,
        ];
        ip.extend_from_slice(&to.octets());
        ip.extend_from_slice(&udp);
        let length = u16::try_from(ip.len()).unwrap_or(u16::MAX);
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let sum = internet_checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        Self::new(ETH_IPV4, &ip)
    }

    /// An IPv6 UDP datagram from port 1 to `port`. Its checksum is left 0, which receivers refuse
    /// and a port ignores.
    pub fn udp6(to: Ipv6Addr, dscp: u8, port: u16, payload: &[u8]) -> Self {
        Self::ipv6(to, dscp, 17, &udp(port, payload))
    }

    /// An IPv6 packet with this next header.
    pub fn ipv6(to: Ipv6Addr, dscp: u8, next: u8, body: &[u8]) -> Self {
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
        let mut ip = vec![
            0x60 | (dscp >> 2),
            dscp << 6,
            0,
            0,
            length[0],
            length[1],
            next,
            64,
        ];
        ip.extend_from_slice(&Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 99).octets());
        ip.extend_from_slice(&to.octets());
        ip.extend_from_slice(body);
        Self::new(ETH_IPV6, &ip)
    }

    /// An ARP request.
    pub fn arp() -> Self {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend_from_slice(&[0; 20]);
        Self::new(0x0806, &arp)
    }

    /// With another VLAN tag outside of those it has: type and tag control information.
    pub fn tagged(mut self, tpid: u16, tci: u16) -> Self {
        self.tags.insert(0, (tpid, tci));
        self
    }

    /// To this address.
    pub fn to_mac(self, destination: [u8; 6]) -> Self {
        Self {
            destination,
            ..self
        }
    }

    /// With the body cut to `len` bytes.
    pub fn truncated(mut self, len: usize) -> Self {
        self.body.truncate(len);
        self
    }

    /// With a byte of the body, counted behind Ethernet header and tags, replaced.
    pub fn with_byte(mut self, at: usize, value: u8) -> Self {
        self.body[at] = value;
        self
    }

    /// The bytes, padded to 60 as hardware would.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.unpadded();
        bytes.resize(bytes.len().max(60), 0);
        bytes
    }

    /// The bytes as they are, however short.
    pub fn unpadded(&self) -> Vec<u8> {
        let mut bytes = [self.destination, self.source].concat();
        for (tpid, tci) in &self.tags {
            bytes.extend_from_slice(&tpid.to_be_bytes());
            bytes.extend_from_slice(&tci.to_be_bytes());
        }
        bytes.extend_from_slice(&self.ethertype.to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A UDP header from port 1, without checksum, and its payload.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
    let mut udp = vec![0, 1];
    udp.extend_from_slice(&port.to_be_bytes());
    udp.extend_from_slice(&length.to_be_bytes());
    udp.extend_from_slice(&[0, 0]);
    udp.extend_from_slice(payload);
    udp
}

/// RFC 1071's checksum.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| {
            u32::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]))
        })
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_header_sums_to_zero() {
        let frame = Frame::udp4(Ipv4Addr::new(10, 0, 0, 2), 46, 29813, &[0x12, 0, 0, 0]).unpadded();
        assert_eq!(internet_checksum(&frame[14..34]), 0);
        assert_eq!(frame[12..14], [8, 0]);
        assert_eq!(frame[15], 46 << 2);
    }

    #[test]
    fn tags_nest_outwards() {
        let frame = Frame::arp().tagged(TPID_C, 5).tagged(TPID_S, 7).bytes();
        assert_eq!(frame[12..22], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 5, 8, 6]);
        assert_eq!(frame.len(), 60);
    }
}
