// SPDX-License-Identifier: GPL-2.0
//! Where a packet's ECN field is, what it says, and whether it is a REN flow's.

use crate::header::{Type, FLAG_REN};
use crate::port::classify::{ethertype, ipv4_carried, ipv6_carried, MAX_TAGS};

/// The code points of RFC 3168 (section 5).
pub mod ecn {
    /// The two bits of the field.
    pub const MASK: u8 = 3;
    /// The transport does not know ECN.
    pub const NOT_ECT: u8 = 0;
    /// The transport knows ECN.
    pub const ECT_1: u8 = 1;
    /// The transport knows ECN.
    pub const ECT_0: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 3;

    /// Whether a packet with this field may be marked.
    #[inline]
    pub const fn is_capable(ecn: u8) -> bool {
        matches!(ecn, ECT_0 | ECT_1)
    }
}

/// Which IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// IPv4: the field is in the second byte, and the header has a checksum.
    #[default]
    V4,
    /// IPv6: the field is in the second byte's upper half.
    V6,
}

/// Where the ECN field is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from where [`find`]'s `network` begins to the IP header.
    pub at: u8,
    /// Which IP header it is.
    pub version: Version,
}

/// What a marker wants to know of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Where the ECN field is.
    pub place: Place,
    /// The field's two bits.
    pub ecn: u8,
    /// The packet belongs to a REN flow: the field has the meaning of
    /// [REN](crate::header::FLAG_REN), not of RFC 3168.
    pub ren: bool,
}

/// Finds the ECN field of the outermost IP header, behind up to two VLAN tags. The arguments are
/// those of [`classify`](crate::port::classify::classify).
///
/// `None`: neither IPv4 nor IPv6, or malformed, as far as `network` tells.
#[inline]
pub fn find(protocol: u16, network: &[u8]) -> Option<Label> {
    let (mut protocol, mut network) = (protocol, network);
    let mut at = 0_u8;
    let mut tags = 0..MAX_TAGS;
    let (version, carried) = loop {
        match protocol {
            ethertype::IPV4 => break (Version::V4, ipv4_carried(network)?),
            ethertype::IPV6 => break (Version::V6, ipv6_carried(network)?),
            ethertype::VLAN | ethertype::SERVICE_VLAN => {
                tags.next()?;
                let ([_, _, high, low], rest) = network.split_first_chunk()?;
                protocol = u16::from_be_bytes([*high, *low]);
                network = rest;
                // At most twice.
                at = at.wrapping_add(4);
            }
            _ => return None,
        }
    };
    let ren = carried.turnstile().is_some_and(|header| {
        matches!(header.kind, Type::Data | Type::Sync) && header.flags & FLAG_REN != 0
    });
    Some(Label {
        place: Place { at, version },
        ecn: carried.tos() & ecn::MASK,
        ren,
    })
}

#[cfg(test)]
mod tests;
