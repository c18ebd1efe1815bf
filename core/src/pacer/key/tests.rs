// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn tcp_header(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header.extend([0; 8]);
    header.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    header
}

fn ipv4_packet(next: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x45 + (options / 4) as u8, 0, 0, 0, 0, 0];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, next, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(std::vec![0; options]);
    packet.extend(payload);
    packet
}

fn ipv6_packet(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet.extend([0xfd; 16]);
    packet.extend([0xfe; 16]);
    packet.extend(payload);
    packet
}

const ACK: u8 = flag::ACK;
const ECHO: u8 = flag::ACK | flag::ECE;

#[test]
fn ipv4_with_and_without_options() {
    let plain = segment(IPV4, &ipv4_packet(TCP, 0x4000, 0, &tcp_header(1, 2, ACK))).unwrap();
    assert!(!plain.echo);
    assert_eq!(plain.flow.ports, [0, 1, 0, 2]);
    assert_eq!(plain.flow.source[10..], [0xff, 0xff, 10, 0, 0, 1]);
    assert_eq!(plain.flow.destination[10..], [0xff, 0xff, 10, 0, 0, 2]);
    let options = segment(IPV4, &ipv4_packet(TCP, 0, 8, &tcp_header(1, 2, ECHO))).unwrap();
    assert!(options.echo);
    assert_eq!(options.flow, plain.flow);
}

#[test]
fn an_acknowledgement_is_of_the_flow_it_came_back_for() {
    let out = segment(IPV6, &ipv6_packet(TCP, &tcp_header(7, 9, ACK))).unwrap();
    let mut back = ipv6_packet(TCP, &tcp_header(9, 7, ECHO));
    back[8..24].fill(0xfe);
    back[24..40].fill(0xfd);
    let back = segment(IPV6, &back).unwrap();
    assert!(back.echo && back.flow != out.flow);
    assert_eq!(back.flow.reversed(), out.flow);
    assert_eq!(back.flow.reversed().hash(3), out.flow.hash(3));
    assert_ne!(out.flow.hash(3), out.flow.hash(4));
}

#[test]
fn ipv6_with_extension_headers() {
    // BIG TCP puts a hop-by-hop header with the length before TCP.
    let mut payload = std::vec![TCP, 0, 0xc2, 4, 0, 1, 0, 0];
    payload.extend(tcp_header(1, 2, ECHO));
    assert!(segment(IPV6, &ipv6_packet(HOP_BY_HOP, &payload)).is_some_and(|found| found.echo));
    // An endless chain of extension headers.
    let endless = ipv6_packet(HOP_BY_HOP, &[0; 200]);
    assert_eq!(segment(IPV6, &endless), None);
}

#[test]
fn vlan_tags() {
    let packet = ipv4_packet(TCP, 0, 0, &tcp_header(1, 2, ECHO));
    let mut tagged = std::vec![0, 5, 0x81, 0, 0, 6, 0x08, 0];
    tagged.extend(&packet);
    assert_eq!(segment(SERVICE_VLAN, &tagged), segment(IPV4, &packet));
    let mut thrice = std::vec![0, 5, 0x81, 0];
    thrice.extend(tagged);
    assert_eq!(segment(VLAN, &thrice), None);
}

#[test]
fn only_an_acknowledgement_echoes() {
    for flags in 0..=u8::MAX {
        let found = segment(IPV4, &ipv4_packet(TCP, 0, 0, &tcp_header(1, 2, flags))).unwrap();
        let is_ack = flags & (flag::ACK | flag::SYN | flag::RST) == flag::ACK;
        assert_eq!(found.echo, is_ack && flags & flag::ECE != 0, "{flags:#x}");
    }
}

#[test]
fn what_is_no_tcp_or_not_whole() {
    let tcp = tcp_header(1, 2, ECHO);
    for (protocol, packet) in [
        (0x0806, ipv4_packet(TCP, 0, 0, &tcp)),
        (IPV6, ipv4_packet(TCP, 0, 0, &tcp)),
        (IPV4, ipv6_packet(TCP, &tcp)),
        (IPV4, ipv4_packet(17, 0, 0, &tcp)),
        (IPV6, ipv6_packet(17, &tcp)),
        // First and later fragments.
        (IPV4, ipv4_packet(TCP, 0x2000, 0, &tcp)),
        (IPV4, ipv4_packet(TCP, 0x0010, 0, &tcp)),
        (IPV6, ipv6_packet(44, &tcp)),
    ] {
        assert_eq!(segment(protocol, &packet), None, "{protocol:#x} {packet:?}");
    }
    let mut short = tcp;
    short[12] = 0x40;
    assert_eq!(segment(IPV4, &ipv4_packet(TCP, 0, 0, &short)), None);
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(
        protocol in prop_oneof![Just(IPV4), Just(IPV6), Just(VLAN), any::<u16>()],
        bytes: Vec<u8>,
    ) {
        let _ = segment(protocol, &bytes);
    }

    #[test]
    fn any_cut_does_no_harm(cut in 0_usize..100) {
        let packet = ipv6_packet(TCP, &tcp_header(1, 2, ECHO));
        let cut = cut.min(packet.len());
        // Ports and flags have to be present, the bytes behind them not.
        prop_assert_eq!(segment(IPV6, &packet[..cut]).is_some(), cut >= 54);
    }
}
