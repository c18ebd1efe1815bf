// SPDX-License-Identifier: GPL-2.0
//! The TCP flow that a packet belongs to, and whether it carries an ECN-Echo.

/// A TCP flow in one direction: addresses and ports. An IPv4 address is in its mapped form,
/// `::ffff:a.b.c.d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
    pub(super) ports: [u8; 4],
}

/// The facts of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The flow it belongs to.
    pub flow: FlowKey,
    /// It is an acknowledgement with ECN-Echo: the packets that it acknowledges met congestion (RFC
    /// 3168 section 6.1.3).
    ///
    /// In a SYN the flag means something else (section 6.1.1), and so it does between two ends that
    /// have agreed on accurate ECN (RFC 9768), which cannot be seen from here: there it is a bit of
    /// a counter.
    pub echo: bool,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const TCP: u8 = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;
/// The most VLAN tags and IPv6 extension headers that are skipped.
const MAX_TAGS: u32 = 2;
const MAX_EXTENSIONS: u32 = 8;

/// Flags of TCP.
mod flag {
    pub(super) const SYN: u8 = 0x02;
    pub(super) const RST: u8 = 0x04;
    pub(super) const ACK: u8 = 0x10;
    pub(super) const ECE: u8 = 0x40;
}

impl FlowKey {
    /// The flow in the other direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let [a, b, c, d] = self.ports;
        Self {
            source: self.destination,
            destination: self.source,
            ports: [c, d, a, b],
        }
    }

    /// A keyed hash: without `seed` it cannot be predicted well enough to fill one chain of the
    /// table. The table's size bounds chains in any case.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u32 {
        let mut hash = seed;
        let mut mix = |word: u64| {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        };
        for address in [&self.source, &self.destination] {
            let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address;
            mix(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
            mix(u64::from_ne_bytes([i, j, k, l, m, n, o, p]));
        }
        mix(u32::from_ne_bytes(self.ports).into());
        (hash >> 32) as u32
    }
}

/// Parses a TCP packet. `None`: it is no TCP, malformed, or a later fragment.
///
/// - `protocol` is the ethertype in host order.
/// - `network` starts right after that ethertype, at a VLAN tag's two bytes of priority and id if
///   it is one. It may be cut short.
pub fn segment(mut protocol: u16, mut network: &[u8]) -> Option<Segment> {
    let mut tags = 0..MAX_TAGS;
    loop {
        match protocol {
            IPV4 => return ipv4(network),
            IPV6 => return ipv6(network),
            VLAN | SERVICE_VLAN => {
                tags.next()?;
                let ([_, _, high, low], rest) = network.split_first_chunk()?;
                protocol = u16::from_be_bytes([*high, *low]);
                network = rest;
            }
            _ => return None,
        }
    }
}

fn mapped(address: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = address;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

fn ipv4(packet: &[u8]) -> Option<Segment> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let &[first, _, _, _, _, _, high, low, _, next, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = header;
    let header_len = usize::from(first & 0xf) << 2;
    if first >> 4 != 4 || header_len < header.len() || next != TCP {
        return None;
    }
    // A later fragment has no ports. The first one would be paced alone, and overtaken.
    if u16::from_be_bytes([high, low]) & 0x3fff != 0 {
        return None;
    }
    tcp(
        packet.get(header_len..)?,
        mapped([s0, s1, s2, s3]),
        mapped([d0, d1, d2, d3]),
    )
}

fn ipv6(packet: &[u8]) -> Option<Segment> {
    let (header, mut payload) = packet.split_first_chunk::<40>()?;
    let &[first, _, _, _, _, _, mut next, ..] = header;
    if first >> 4 != 6 {
        return None;
    }
    let source = *header.get(8..)?.first_chunk()?;
    let destination = *header.get(24..)?.first_chunk()?;
    let mut extensions = 0..MAX_EXTENSIONS;
    while next != TCP {
        // Fragments and encrypted packets are not recognized as TCP.
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
            return None;
        }
        extensions.next()?;
        let &[following, len] = payload.first_chunk()?;
        next = following;
        payload = payload.get(usize::from(len).wrapping_add(1) << 3..)?;
    }
    tcp(payload, source, destination)
}

fn tcp(segment: &[u8], source: [u8; 16], destination: [u8; 16]) -> Option<Segment> {
    let &[s0, s1, d0, d1, _, _, _, _, _, _, _, _, offset, flags] = segment.first_chunk()?;
    if offset >> 4 < 5 {
        return None;
    }
    Some(Segment {
        flow: FlowKey {
            source,
            destination,
            ports: [s0, s1, d0, d1],
        },
        echo: flags & (flag::SYN | flag::RST | flag::ACK | flag::ECE) == flag::ACK | flag::ECE,
    })
}

#[cfg(test)]
mod tests;
