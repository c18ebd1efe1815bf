// SPDX-License-Identifier: GPL-2.0
//! Which band a packet belongs to, by what its headers say.
//!
//! In this order: link-layer and network control, the Turnstile header, the DSCP map, data. A
//! packet that is malformed or cut short is data, never a fault, and never something better by its
//! DSCP.
//!
//! Checksums are not looked at, and neither is whether a packet is as long as it claims: the caller
//! may have handed in only its beginning. Of what is handed in, bytes beyond the length that the
//! packet claims are padding.

use crate::header::{self, Type};
use crate::port::band::Band;
use crate::port::config::{Config, DscpMap};
use crate::port::uapi::class;
use crate::port::Slot;

/// Ethertypes, in host order.
pub(crate) mod ethertype {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const IPV6: u16 = 0x86dd;
    /// LACP, marker, OAM.
    pub(crate) const SLOW: u16 = 0x8809;
    pub(crate) const EAPOL: u16 = 0x888e;
    /// A service tag: the outer one of two.
    pub(crate) const SERVICE_VLAN: u16 = 0x88a8;
    pub(crate) const LLDP: u16 = 0x88cc;
    pub(crate) const PTP: u16 = 0x88f7;
}

/// Protocol numbers of IPv4 and IPv6.
mod protocol {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const IGMP: u8 = 2;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const OSPF: u8 = 89;
    pub(super) const PIM: u8 = 103;
    pub(super) const VRRP: u8 = 112;
}

/// How many VLAN tags and how many IPv6 extension headers are looked behind.
pub(crate) const MAX_TAGS: usize = 2;
const MAX_EXTENSIONS: usize = 8;

/// The bytes that are worth handing to [`classify`]: enough for two VLAN tags, the longest IPv4 or
/// a usual IPv6 header, UDP and the Turnstile header.
pub const USEFUL_LEN: usize = 128;

/// What there is to know of a configuration to read Turnstile's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    last_priority: u8,
    unscheduled: bool,
}

impl Reading {
    /// Of a port of one priority, and without an unscheduled band.
    pub const EMPTY: Self = Self {
        last_priority: 0,
        unscheduled: false,
    };

    /// Of this configuration.
    #[inline]
    pub fn of(config: &Config) -> Self {
        Self {
            last_priority: config.priorities.wrapping_sub(1),
            unscheduled: config.unscheduled != 0,
        }
    }
}

/// The band of a packet.
///
/// - `protocol` is the ethertype in host order: `skb->protocol`.
/// - `network` starts right after that ethertype. For a packet whose VLAN tag is in the data
///   (`protocol` is 0x8100 or 0x88a8) it starts at the tag's two bytes of priority and VLAN id,
///   followed by the next ethertype. It may be cut short: [`USEFUL_LEN`] bytes do.
/// - `dest_mac` is the destination address, if the device has one.
///
/// The band is one that the port has.
#[inline]
pub fn classify(protocol: u16, network: &[u8], dest_mac: Option<[u8; 6]>, config: &Config) -> Band {
    if dest_mac.is_some_and(bridges_keep) {
        return Band::Signal;
    }
    let band = match protocol {
        ethertype::IPV4 => ipv4(network, config),
        ethertype::IPV6 => ipv6(network, config),
        _ => other(protocol, network, config),
    };
    band.unwrap_or(Band::Data)
}

/// Whether a bridge does not forward frames to this address (IEEE 802.1Q table 8-1): STP, LACP,
/// pause, LLDP, …
#[inline]
pub fn bridges_keep(dest_mac: [u8; 6]) -> bool {
    matches!(dest_mac, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
}

/// The class's minor number for the usual packets: IPv4 without options and IPv6 without extension
/// headers, untagged, whole, with UDP or TCP, and not to an address that bridges keep to
/// themselves. `frame` is an Ethernet frame, of which the beginning is enough.
///
/// What it says is what [`classify`] says, in fewer steps, of data that does not go before other
/// data ([`data_slot`]). `None`: ask those. The DSCP map may name
/// a class that the port does not have; then it is data. `reading` is [`Reading::of`] the
/// configuration that has the map.
#[inline]
pub fn classify_fast(frame: &[u8], reading: Reading, dscp: &DscpMap) -> Option<u8> {
    /// With UDP and Turnstile headers.
    const IPV4_LEN: usize = 14 + 20 + 8 + header::LEN;
    const IPV6_LEN: usize = 14 + 40 + 8 + header::LEN;
    // Constants are turned around instead of what is read.
    const IPV4: u16 = ethertype::IPV4.to_be();
    const IPV6: u16 = ethertype::IPV6.to_be();
    const FRAGMENT: u16 = 0x1fff_u16.to_be();
    const PORT: u16 = header::PORT.to_be();

    let frame4: &[u8; IPV4_LEN] = frame.first_chunk()?;
    if let [0x01, 0x80, 0xc2, ..] = frame4 {
        return None;
    }
    // `len`: how much IP says it carries. Not 0, which it is for the longest super-packets (see
    // `ipv4`), or next to nothing.
    let (next, code, len, upper) = match u16::from_ne_bytes([frame4[12], frame4[13]]) {
        IPV4 => {
            let len = u16::from_be_bytes([frame4[16], frame4[17]]);
            let fragment = u16::from_ne_bytes([frame4[20], frame4[21]]) & FRAGMENT;
            if frame4[14] != 0x45 || fragment != 0 || len < 20 + 8 {
                return None;
            }
            let upper = frame4.last_chunk::<12>()?;
            (frame4[23], frame4[15] >> 2, len.wrapping_sub(20), upper)
        }
        IPV6 => {
            let frame6: &[u8; IPV6_LEN] = frame.first_chunk()?;
            let len = u16::from_be_bytes([frame6[18], frame6[19]]);
            if frame6[14] >> 4 != 6 || len < 8 {
                return None;
            }
            let dscp = ((frame6[14] & 0xf) << 2) | (frame6[15] >> 6);
            (frame6[20], dscp, len, frame6.last_chunk::<12>()?)
        }
        _ => return None,
    };
    match next {
        protocol::UDP if u16::from_ne_bytes([upper[2], upper[3]]) == PORT => {
            let udp_len = u16::from_be_bytes([upper[4], upper[5]]);
            if len < 8 + 4 || udp_len < 8 + 4 {
                return None;
            }
            turnstile_class(upper.last_chunk()?, reading)
        }
        protocol::UDP | protocol::TCP => Some(dscp.get(code)),
        _ => None,
    }
}

/// As [`turnstile`].
#[inline(always)]
fn turnstile_class(header: &[u8; header::LEN], reading: Reading) -> Option<u8> {
    const TOKEN: u8 = Type::Token.first_byte();
    const DATA: u8 = Type::Data.first_byte();
    const SYNC: u8 = Type::Sync.first_byte();
    const RESEND: u8 = Type::Resend.first_byte();
    const CHALLENGE: u8 = Type::Challenge.first_byte();
    const EARLY: u8 = header::FLAG_UNASKED | header::FLAG_SHORT;
    let &[first, priority, flags, reserved] = header;
    if reserved != 0 {
        // A token for several packets, if it is one.
        return match first {
            TOKEN => None,
            _ => Some(class::DATA),
        };
    }
    Some(match first {
        TOKEN => {
            // Below 8, as there are priorities.
            class::TOKENS | priority.min(reading.last_priority) & 7
        }
        // Most of it.
        DATA if flags & (header::FLAG_UNSCHEDULED | EARLY) == 0 => class::DATA,
        DATA if flags & header::FLAG_UNSCHEDULED != 0 && reading.unscheduled => class::UNSCHEDULED,
        DATA if flags & EARLY != 0 => return None,
        SYNC | RESEND..=CHALLENGE => class::SIGNAL,
        _ => class::DATA,
    })
}

/// Where a packet of the data band goes: if it is Turnstile's, it may be [`Slot::UNASKED`],
/// [`Slot::UNASKED_LONG`] or [`Slot::SHORT`]. The arguments are as for [`classify`].
pub fn data_slot(protocol: u16, network: &[u8]) -> Slot {
    match turnstile_header(protocol, network) {
        Some(header) => match (header.is_unasked(), header.is_short()) {
            (true, true) => Slot::UNASKED,
            (true, false) => Slot::UNASKED_LONG,
            (false, true) => Slot::SHORT,
            (false, false) => Slot::DATA,
        },
        None => Slot::DATA,
    }
}

/// How many tokens a packet of a token band stands for beyond one: 0 if it is none of Turnstile's.
/// The arguments are as for [`classify`].
pub fn beyond(protocol: u16, network: &[u8]) -> u8 {
    turnstile_header(protocol, network).map_or(0, |header| header.beyond)
}

fn turnstile_header(protocol: u16, network: &[u8]) -> Option<header::Header> {
    let carried = match untagged(protocol, network)? {
        (ethertype::IPV4, packet) => ipv4_carried(packet),
        (ethertype::IPV6, packet) => ipv6_carried(packet),
        _ => None,
    };
    carried?.turnstile()
}

/// What is behind up to two VLAN tags. `None`: malformed, or there are more.
#[inline(always)]
pub(crate) fn untagged(mut protocol: u16, mut network: &[u8]) -> Option<(u16, &[u8])> {
    let mut tags = 0..MAX_TAGS;
    while let ethertype::VLAN | ethertype::SERVICE_VLAN = protocol {
        tags.next()?;
        let ([_, _, high, low], rest) = network.split_first_chunk()?;
        protocol = u16::from_be_bytes([*high, *low]);
        network = rest;
    }
    Some((protocol, network))
}

/// Neither IPv4 nor IPv6, unless behind VLAN tags.
fn other(protocol: u16, network: &[u8], config: &Config) -> Option<Band> {
    let (protocol, network) = untagged(protocol, network)?;
    match protocol {
        ethertype::IPV4 => ipv4(network, config),
        ethertype::IPV6 => ipv6(network, config),
        ethertype::ARP | ethertype::SLOW | ethertype::EAPOL | ethertype::LLDP | ethertype::PTP => {
            Some(Band::Signal)
        }
        _ => None,
    }
}

/// `None`: malformed.
#[inline]
fn ipv4(packet: &[u8], config: &Config) -> Option<Band> {
    upper(&ipv4_carried(packet)?, config)
}

/// `None`: malformed.
#[inline]
fn ipv6(packet: &[u8], config: &Config) -> Option<Band> {
    upper(&ipv6_carried(packet)?, config)
}

/// What follows the IP headers.
pub(crate) struct Carried<'a> {
    /// The protocol.
    next: u8,
    /// `None`: it is in another fragment.
    payload: Option<&'a [u8]>,
    /// DSCP and ECN.
    tos: u8,
}

impl Carried<'_> {
    /// DSCP and ECN.
    #[inline]
    pub(crate) fn tos(&self) -> u8 {
        self.tos
    }

    /// The two ports of UDP and TCP. 0: there are none.
    pub(crate) fn ports(&self) -> u32 {
        match (self.next, self.payload) {
            (protocol::UDP | protocol::TCP, Some(payload)) => {
                payload.first_chunk().copied().map_or(0, u32::from_be_bytes)
            }
            _ => 0,
        }
    }

    /// The header of a Turnstile packet, if it is one and well formed.
    #[inline]
    pub(crate) fn turnstile(&self) -> Option<header::Header> {
        match (self.next, self.payload) {
            (protocol::UDP, Some(payload)) => header::parse(udp(payload)??),
            _ => None,
        }
    }
}

/// `None`: malformed.
#[inline]
pub(crate) fn ipv4_carried(packet: &[u8]) -> Option<Carried<'_>> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let &[first, tos, len_high, len_low, _, _, fragment_high, fragment_low, _, next, ..] = header;
    let header_len = usize::from(first & 0xf) << 2;
    if first >> 4 != 4 || header_len < header.len() {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    // 0: a super-packet beyond 64 KiB (BIG TCP).
    if len != 0 && len < header_len {
        return None;
    }
    let payload = claimed(packet, len).get(header_len..)?;
    let first_fragment = u16::from_be_bytes([fragment_high, fragment_low]) & 0x1fff == 0;
    Some(Carried {
        next,
        payload: first_fragment.then_some(payload),
        tos,
    })
}

/// `None`: malformed.
#[inline]
pub(crate) fn ipv6_carried(packet: &[u8]) -> Option<Carried<'_>> {
    let (header, payload) = packet.split_first_chunk::<40>()?;
    let &[first, second, _, _, len_high, len_low, mut next, ..] = header;
    if first >> 4 != 6 {
        return None;
    }
    let tos = ((first & 0xf) << 4) | (second >> 4);
    // 0: no payload, a jumbogram, or a super-packet beyond 64 KiB (BIG TCP).
    let mut payload = claimed(payload, u16::from_be_bytes([len_high, len_low]).into());
    let mut first_fragment = true;
    let mut extensions = 0..MAX_EXTENSIONS;
    loop {
        let len = match next {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {
                usize::from(*payload.get(1)?).wrapping_add(1) << 3
            }
            protocol::AUTHENTICATION => usize::from(*payload.get(1)?).wrapping_add(2) << 2,
            protocol::FRAGMENT => {
                let &[_, _, high, low] = payload.first_chunk()?;
                first_fragment = u16::from_be_bytes([high, low]) & 0xfff8 == 0;
                8
            }
            _ => {
                return Some(Carried {
                    next,
                    payload: first_fragment.then_some(payload),
                    tos,
                })
            }
        };
        extensions.next()?;
        next = *payload.first()?;
        payload = payload.get(len..)?;
        if !first_fragment {
            return Some(Carried {
                next,
                payload: None,
                tos,
            });
        }
    }
}

/// `None`: malformed.
#[inline]
fn upper(carried: &Carried<'_>, config: &Config) -> Option<Band> {
    match (carried.next, carried.payload) {
        (protocol::UDP, Some(payload)) => {
            if let Some(payload) = udp(payload)? {
                return turnstile(payload, config);
            }
        }
        (protocol::ICMPV6, Some(payload)) => {
            // Multicast listener discovery, neighbour discovery; MLDv2 reports.
            if let 130..=137 | 143 = payload.first()? {
                return Some(Band::Signal);
            }
        }
        (protocol::IGMP | protocol::OSPF | protocol::PIM | protocol::VRRP, _) => {
            return Some(Band::Signal);
        }
        _ => {}
    }
    Band::from_minor(config.dscp.get(carried.tos >> 2), config)
}

/// What a datagram to Turnstile's port carries; inner `None`: it is to another port. `None`:
/// malformed.
#[inline]
fn udp(datagram: &[u8]) -> Option<Option<&[u8]>> {
    let (udp, payload) = datagram.split_first_chunk::<8>()?;
    let &[_, _, port_high, port_low, len_high, len_low, _, _] = udp;
    if u16::from_be_bytes([port_high, port_low]) != header::PORT {
        return Some(None);
    }
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    // What `len` says beyond the UDP header; less than that is malformed.
    let len = len.checked_sub(udp.len())?;
    Some(Some(payload.get(..len).unwrap_or(payload)))
}

/// `None`: malformed.
#[inline]
fn turnstile(payload: &[u8], config: &Config) -> Option<Band> {
    let header = header::parse(payload)?;
    Some(match header.kind {
        Type::Token => Band::Token(header.priority.min(config.priorities.saturating_sub(1))),
        Type::Data if header.is_unscheduled() && config.unscheduled != 0 => Band::Unscheduled,
        Type::Data => Band::Data,
        Type::Sync | Type::Resend | Type::Fin | Type::Ack | Type::Reset | Type::Challenge => {
            Band::Signal
        }
    })
}

/// The part of `bytes` that `len` claims; all, if it claims more than is there, or claims nothing.
#[inline]
fn claimed(bytes: &[u8], len: usize) -> &[u8] {
    if len == 0 {
        bytes
    } else {
        bytes.get(..len).unwrap_or(bytes)
    }
}

#[cfg(test)]
mod tests;
