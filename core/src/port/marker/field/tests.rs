// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::header::{Header, FLAG_UNSCHEDULED, PORT};
use std::vec;
use std::vec::Vec;

const UDP: u8 = 17;
const TCP: u8 = 6;

fn ipv4(tos: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, next, 0, 0];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(payload);
    packet
}

fn ipv6(tos: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        0x60 | (tos >> 4),
        (tos << 4) | 0xf,
        0xab,
        0xcd,
        0,
        0,
        next,
        64,
    ];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend([0; 32]);
    packet.extend(payload);
    packet
}

fn datagram(port: u16, kind: Type, flags: u8) -> Vec<u8> {
    let header = Header {
        kind,
        priority: 0,
        flags,
        beyond: 0,
    };
    let mut udp = vec![0, 7, 0, 0, 0, 30, 0, 0];
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp.extend(header.write());
    udp.extend([0; 18]);
    udp
}

fn tagged(tags: u8, protocol: u16, packet: &[u8]) -> (u16, Vec<u8>) {
    let (mut protocol, mut packet) = (protocol, packet.to_vec());
    for _ in 0..tags {
        let [high, low] = protocol.to_be_bytes();
        packet.splice(0..0, [0x20, 0x05, high, low]);
        protocol = ethertype::VLAN;
    }
    (protocol, packet)
}

fn label(at: u8, version: Version, ecn: u8, ren: bool) -> Option<Label> {
    let place = Place { at, version };
    Some(Label { place, ecn, ren })
}

#[test]
fn every_field_in_every_place() {
    for tags in 0..=2 {
        for tos in 0..=255 {
            let (protocol, network) = tagged(tags, ethertype::IPV4, &ipv4(tos, TCP, &[0; 20]));
            let expected = label(4 * tags, Version::V4, tos & 3, false);
            assert_eq!(find(protocol, &network), expected);
            let (protocol, network) = tagged(tags, ethertype::IPV6, &ipv6(tos, TCP, &[0; 20]));
            let expected = label(4 * tags, Version::V6, tos & 3, false);
            assert_eq!(find(protocol, &network), expected);
        }
    }
    let (protocol, network) = tagged(3, ethertype::IPV4, &ipv4(2, TCP, &[0; 20]));
    assert_eq!(find(protocol, &network), None);
}

#[test]
fn ren_flows_are_those_of_the_header() {
    let ren = |datagram: &[u8]| {
        let v4 = find(ethertype::IPV4, &ipv4(1, UDP, datagram)).unwrap();
        let v6 = find(ethertype::IPV6, &ipv6(1, UDP, datagram)).unwrap();
        assert_eq!((v4.ren, v4.ecn), (v6.ren, v6.ecn));
        v4.ren
    };
    assert!(ren(&datagram(PORT, Type::Data, FLAG_REN)));
    assert!(ren(&datagram(
        PORT,
        Type::Data,
        FLAG_REN | FLAG_UNSCHEDULED
    )));
    assert!(ren(&datagram(PORT, Type::Sync, FLAG_REN)));
    assert!(!ren(&datagram(PORT, Type::Data, !FLAG_REN)));
    assert!(!ren(&datagram(PORT - 1, Type::Data, FLAG_REN)));
    for other in [
        Type::Token,
        Type::Resend,
        Type::Fin,
        Type::Ack,
        Type::Reset,
        Type::Challenge,
    ] {
        assert!(!ren(&datagram(PORT, other, 0xff)), "{other:?}");
    }
    // Another version; cut short; a TCP segment that looks like it.
    let mut other = datagram(PORT, Type::Data, FLAG_REN);
    other[8] ^= 0x10;
    assert!(!ren(&other));
    assert!(!ren(&datagram(PORT, Type::Data, FLAG_REN)[..10]));
    let tcp = ipv4(1, TCP, &datagram(PORT, Type::Data, FLAG_REN));
    assert!(!find(ethertype::IPV4, &tcp).unwrap().ren);
}

#[test]
fn a_later_fragment_says_nothing_of_its_flow() {
    let mut packet = ipv4(2, UDP, &datagram(PORT, Type::Data, FLAG_REN));
    packet[6..8].copy_from_slice(&[0x20, 0]);
    assert!(find(ethertype::IPV4, &packet).unwrap().ren);
    packet[6..8].copy_from_slice(&[0, 1]);
    assert_eq!(
        find(ethertype::IPV4, &packet),
        label(0, Version::V4, 2, false)
    );
    // Behind IPv6 extension headers: destination options, then a fragment header.
    let mut behind = vec![UDP, 0, 0, 0, 0, 0, 0, 0];
    behind.extend(datagram(PORT, Type::Data, FLAG_REN));
    assert!(find(ethertype::IPV6, &ipv6(0, 60, &behind)).unwrap().ren);
    let fragment = ipv6(0, 44, &behind);
    assert!(find(ethertype::IPV6, &fragment).unwrap().ren);
    behind[3] = 8;
    let fragment = ipv6(0, 44, &behind);
    assert_eq!(
        find(ethertype::IPV6, &fragment),
        label(0, Version::V6, 0, false)
    );
}

#[test]
fn what_has_no_such_field_or_is_malformed_has_no_label() {
    let good = ipv4(2, TCP, &[0; 20]);
    for protocol in [ethertype::ARP, ethertype::IPV6, ethertype::LLDP, 0, 0x8847] {
        assert_eq!(find(protocol, &good), None);
    }
    for (at, byte) in [(0, 0x55), (0, 0x44), (0, 0x4f), (3, 19)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(find(ethertype::IPV4, &bad[..40]), None, "{at}");
    }
    assert_eq!(find(ethertype::IPV4, &good[..19]), None);
    assert_eq!(find(ethertype::IPV6, &ipv6(2, TCP, &[])[..39]), None);
    assert_eq!(find(ethertype::VLAN, &[0, 1, 8]), None);
    assert_eq!(find(ethertype::IPV4, &[]), None);
}
