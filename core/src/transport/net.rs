// SPDX-License-Identifier: GPL-2.0
//! The network that an address belongs to, so that no network has more than its share of anything.

use super::host::{is_ipv4, Address};
use super::siphash::Key;

/// What the keyed hash is used for, see `endpoint::purpose`.
const PURPOSE: u8 = 16;

/// A network: the address of which all bits beyond its prefix are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net(u128);

impl Net {
    /// The network of a peer, whose prefix has so many bits, of 32 or of 128.
    #[inline]
    pub(crate) fn of(peer: &Address, ipv4: u8, ipv6: u8) -> Self {
        Self::of_ip(peer.ip, ipv4, ipv6)
    }

    /// The network of an address; one of IPv4 is mapped.
    #[inline]
    pub fn of_ip(ip: [u8; 16], ipv4: u8, ipv6: u8) -> Self {
        // Each worked out apart: they are constants.
        let host = |bits: u8| u128::MAX.checked_shr(bits.into()).unwrap_or(0);
        let host = match is_ipv4(ip) {
            true => host(ipv4.saturating_add(96)),
            false => host(ipv6),
        };
        Self(u128::from_be_bytes(ip) & !host)
    }

    /// Its address as a number, the first byte first.
    #[inline]
    pub fn number(self) -> u128 {
        self.0
    }

    pub(crate) fn hash(self, key: &Key) -> u32 {
        (key.hash([(self.0 >> 64) as u64, self.0 as u64], PURPOSE, 0) >> 32) as u32
    }
}
