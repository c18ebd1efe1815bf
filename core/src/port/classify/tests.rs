// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::header::Header;
use crate::port::uapi::class;
use std::vec;
use std::vec::Vec;

const MAC: Option<[u8; 6]> = Some([0x02, 0, 0, 0, 0, 1]);

/// A map in which every band has a code, so that nothing is data by chance: EF (46) is a signal.
fn config() -> Config {
    let mut config = Config {
        priorities: 4,
        ..Config::DEFAULT
    };
    config.dscp.0[46] = class::SIGNAL;
    config.dscp.0[8] = class::UNSCHEDULED;
    config.dscp.0[26] = class::TOKENS + 2;
    config
}

const EF: u8 = 46;

fn v4(next: u8, dscp: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options;
    let mut p = vec![0; header_len];
    p[0] = 0x40 | (header_len / 4) as u8;
    p[1] = dscp << 2;
    p[2..4].copy_from_slice(&((header_len + payload.len()) as u16).to_be_bytes());
    p[8] = 64;
    p[9] = next;
    p.extend_from_slice(payload);
    p
}

fn v6(next: u8, dscp: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0; 40];
    p[0] = 0x60 | (dscp >> 2);
    p[1] = dscp << 6;
    p[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    p[6] = next;
    p[7] = 255;
    p.extend_from_slice(payload);
    p
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0xab, 0xcd];
    p.extend_from_slice(&port.to_be_bytes());
    p.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    p.extend_from_slice(&[0, 0]);
    p.extend_from_slice(payload);
    p
}

fn turnstile(kind: Type, priority: u8, flags: u8) -> Vec<u8> {
    let mut payload = Header {
        kind,
        priority,
        flags,
        beyond: 0,
    }
    .write()
    .to_vec();
    payload.extend_from_slice(&[0; 12]);
    udp(header::PORT, &payload)
}

/// `packet` behind tags: what a classifier sees after the first ethertype.
fn tagged(tags: &[u16], inner: u16, packet: &[u8]) -> Vec<u8> {
    let mut p = Vec::new();
    for next in tags.iter().skip(1).copied().chain([inner]) {
        p.extend_from_slice(&[0x20, 0x05]);
        p.extend_from_slice(&next.to_be_bytes());
    }
    p.extend_from_slice(packet);
    p
}

fn of(protocol: u16, network: &[u8]) -> Band {
    classify(protocol, network, MAC, &config())
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

#[test]
fn turnstile_types_have_their_bands() {
    let cases = [
        (Type::Sync, 0, 0, Band::Signal),
        (Type::Resend, 0, 0, Band::Signal),
        (Type::Fin, 0, 0, Band::Signal),
        (Type::Ack, 0, 0, Band::Signal),
        (Type::Reset, 0, 0, Band::Signal),
        (Type::Challenge, 0, 0, Band::Signal),
        (Type::Token, 0, 0, Band::Token(0)),
        (Type::Token, 3, 0, Band::Token(3)),
        (Type::Token, 4, 0, Band::Token(3)),
        (Type::Token, 255, 0, Band::Token(3)),
        (Type::Token, 1, 1, Band::Token(1)),
        (Type::Data, 0, 0, Band::Data),
        (Type::Data, 3, 1, Band::Unscheduled),
        (Type::Data, 3, 0xfe, Band::Data),
        (Type::Sync, 0, 1, Band::Signal),
    ];
    for (kind, priority, flags, band) in cases {
        let datagram = turnstile(kind, priority, flags);
        assert_eq!(
            of(IPV4, &v4(17, EF, 0, &datagram)),
            band,
            "{kind:?} {priority} {flags}"
        );
        assert_eq!(of(IPV4, &v4(17, EF, 40, &datagram)), band, "with options");
        assert_eq!(of(IPV6, &v6(17, EF, &datagram)), band, "IPv6");
    }
}

#[test]
fn without_the_band_unscheduled_packets_are_data() {
    let config = Config {
        unscheduled: 0,
        dscp: DscpMap::NONE,
        ..config()
    };
    let packet = v4(17, 0, 0, &turnstile(Type::Data, 0, 1));
    assert_eq!(classify(IPV4, &packet, MAC, &config), Band::Data);
}

#[test]
fn a_bad_turnstile_header_is_data_whatever_its_dscp() {
    let bad: [&[u8]; 5] = [
        &[0x22, 0, 0, 0],
        &[0x19, 0, 0, 0],
        &[0x10, 0, 0, 0],
        &[0x12, 0, 0, 64],
        &[0x12, 0, 0],
    ];
    for payload in bad {
        assert_eq!(
            of(IPV4, &v4(17, EF, 0, &udp(header::PORT, payload))),
            Band::Data
        );
        assert_eq!(
            of(IPV6, &v6(17, EF, &udp(header::PORT, payload))),
            Band::Data
        );
    }
    // From the port is not to the port.
    let mut reply = turnstile(Type::Token, 0, 0);
    reply.swap(0, 2);
    reply.swap(1, 3);
    assert_eq!(of(IPV4, &v4(17, 0, 0, &reply)), Band::Data);
    assert_eq!(of(IPV4, &v4(17, EF, 0, &reply)), Band::Signal);
    // The same bytes over TCP.
    assert_eq!(
        of(IPV4, &v4(6, 0, 0, &turnstile(Type::Sync, 0, 0))),
        Band::Data
    );
}

#[test]
fn padding_is_not_a_header() {
    // An empty datagram in a minimum frame, whose padding looks like a token.
    let token = Header {
        kind: Type::Token,
        priority: 0,
        flags: 0,
        beyond: 0,
    }
    .write();
    for packet in [
        v4(17, EF, 0, &udp(header::PORT, &[])),
        v6(17, EF, &udp(header::PORT, &[])),
    ] {
        let protocol = if packet[0] >> 4 == 4 { IPV4 } else { IPV6 };
        let mut padded = packet.clone();
        padded.extend_from_slice(&token);
        assert_eq!(of(protocol, &padded), Band::Data);
        // Claimed by IP but not by UDP.
        if protocol == IPV4 {
            padded[3] += 4;
            assert_eq!(of(protocol, &padded), Band::Data);
        }
    }
    // UDP claims less than its own header.
    let mut datagram = turnstile(Type::Token, 0, 0);
    datagram[5] = 7;
    assert_eq!(of(IPV4, &v4(17, EF, 0, &datagram)), Band::Data);
    datagram[5] = 11;
    assert_eq!(of(IPV4, &v4(17, EF, 0, &datagram)), Band::Data);
    datagram[5] = 12;
    assert_eq!(of(IPV4, &v4(17, EF, 0, &datagram)), Band::Token(0));
}

#[test]
fn control_protocols_are_signals() {
    for protocol in [0x0806, 0x88cc, 0x8809, 0x888e, 0x88f7] {
        assert_eq!(of(protocol, &[]), Band::Signal, "{protocol:#x}");
    }
    for protocol in [0x0800, 0x86dd, 0x8100, 0x0004, 0x8847, 0x8863, 0xffff, 0] {
        assert_eq!(of(protocol, &[]), Band::Data, "{protocol:#x}");
    }
    for next in [2, 89, 103, 112] {
        assert_eq!(
            of(IPV4, &v4(next, 0, 4, &[0; 8])),
            Band::Signal,
            "IPv4 {next}"
        );
        assert_eq!(of(IPV6, &v6(next, 0, &[0; 8])), Band::Signal, "IPv6 {next}");
    }
    for next in [1, 6, 17, 47, 50, 88, 102, 132, 255] {
        assert_eq!(
            of(IPV4, &v4(next, 0, 4, &[0; 8])),
            Band::Data,
            "IPv4 {next}"
        );
    }
}

#[test]
fn link_local_addresses_of_bridges_are_signals() {
    for last in 0..=255 {
        let mac = Some([0x01, 0x80, 0xc2, 0, 0, last]);
        let band = if last < 0x10 {
            Band::Signal
        } else {
            Band::Data
        };
        assert_eq!(
            classify(0x0004, &[0x42, 0x42, 0x03], mac, &config()),
            band,
            "{last:#x}"
        );
    }
    assert_eq!(
        classify(0x0004, &[], Some([0x01, 0x80, 0xc2, 0, 1, 0]), &config()),
        Band::Data
    );
    assert_eq!(classify(0x0004, &[], None, &config()), Band::Data);
}

#[test]
fn neighbour_and_listener_discovery_are_signals_and_pings_are_not() {
    for kind in 0..=255 {
        let band = if matches!(kind, 130..=137 | 143) {
            Band::Signal
        } else {
            Band::Data
        };
        assert_eq!(of(IPV6, &v6(58, 0, &[kind, 0, 0, 0])), band, "{kind}");
        // MLD comes with a hop-by-hop router alert.
        let alert = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &[kind, 0, 0, 0]].concat();
        assert_eq!(of(IPV6, &v6(0, 0, &alert)), band, "{kind}");
    }
    assert_eq!(of(IPV6, &v6(58, EF, &[])), Band::Data); // no type: malformed
    assert_eq!(of(IPV6, &v6(58, EF, &[128])), Band::Signal); // by DSCP
}

#[test]
fn the_dscp_map_is_for_the_rest() {
    for (dscp, band) in [
        (0, Band::Data),
        (8, Band::Unscheduled),
        (26, Band::Token(2)),
        (46, Band::Signal),
        (48, Band::Signal),
        (56, Band::Signal),
        (63, Band::Data),
    ] {
        for next in [6, 17, 1, 50] {
            let payload = udp(53, &[0; 12]);
            assert_eq!(
                of(IPV4, &v4(next, dscp, 0, &payload)),
                band,
                "{dscp} {next}"
            );
            assert_eq!(of(IPV6, &v6(next, dscp, &payload)), band, "{dscp} {next}");
        }
    }
    // ECN bits are no part of it.
    let mut packet = v4(6, EF, 0, &[0; 20]);
    packet[1] |= 3;
    assert_eq!(of(IPV4, &packet), Band::Signal);
    let mut packet = v6(6, EF, &[0; 20]);
    packet[1] |= 0x3f;
    assert_eq!(of(IPV6, &packet), Band::Signal);
}

#[test]
fn a_map_that_names_a_missing_band_gives_data() {
    let mut config = config();
    config.dscp.0[46] = class::TOKENS + 5;
    assert_eq!(
        classify(IPV4, &v4(6, EF, 0, &[0; 20]), MAC, &config),
        Band::Data
    );
}

#[test]
fn malformed_ip_is_data_whatever_its_dscp() {
    let good = v4(6, EF, 0, &[0; 20]);
    assert_eq!(of(IPV4, &good), Band::Signal);
    for (at, value) in [(0, 0x65), (0, 0x55), (0, 0x44), (0, 0x40), (3, 19)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(of(IPV4, &bad), Band::Data, "byte {at} = {value:#x}");
    }
    // A header longer than what the packet claims, or than what is there.
    let mut bad = good.clone();
    (bad[0], bad[3]) = (0x46, 20);
    assert_eq!(of(IPV4, &bad), Band::Data);
    (bad[0], bad[3]) = (0x4f, 0xff);
    assert_eq!(of(IPV4, &bad), Band::Data);

    let good = v6(6, EF, &[0; 20]);
    assert_eq!(of(IPV6, &good), Band::Signal);
    let mut bad = good.clone();
    bad[0] = 0x40 | bad[0] & 0xf;
    assert_eq!(of(IPV6, &bad), Band::Data);
    // Each as the other.
    assert_eq!(of(IPV6, &v4(6, EF, 0, &[0; 40])), Band::Data);
    assert_eq!(of(IPV4, &good), Band::Data);
}

#[test]
fn a_packet_without_payload_is_well_formed() {
    assert_eq!(of(IPV4, &v4(6, EF, 0, &[])), Band::Signal);
    assert_eq!(of(IPV4, &v4(6, EF, 8, &[])), Band::Signal);
    assert_eq!(of(IPV6, &v6(59, EF, &[])), Band::Signal);
    assert_eq!(
        of(IPV4, &v4(17, EF, 0, &[])),
        Band::Data,
        "but UDP has a header"
    );
}

#[test]
fn super_packets_beyond_64_kib_claim_no_length() {
    let mut packet = v4(6, EF, 0, &[0; 20]);
    packet[2..4].fill(0);
    assert_eq!(of(IPV4, &packet), Band::Signal);
    let mut packet = v6(17, EF, &turnstile(Type::Token, 1, 0));
    packet[4..6].fill(0);
    assert_eq!(of(IPV6, &packet), Band::Token(1));
}

#[test]
fn only_the_first_fragment_has_a_udp_header() {
    let datagram = turnstile(Type::Token, 1, 0);
    let mut packet = v4(17, 26, 0, &datagram);
    packet[6] = 0x40; // don't fragment
    assert_eq!(of(IPV4, &packet), Band::Token(1));
    packet[6] = 0x20; // more fragments
    assert_eq!(of(IPV4, &packet), Band::Token(1));
    for (high, low) in [(0x20, 1), (0x00, 1), (0x1f, 0xff), (0x10, 0)] {
        (packet[6], packet[7]) = (high, low);
        assert_eq!(of(IPV4, &packet), Band::Token(2), "by DSCP");
    }
    let mut ospf = v4(89, 0, 0, &[0; 8]);
    ospf[7] = 1;
    assert_eq!(of(IPV4, &ospf), Band::Signal);

    let fragment = |offset_and_flags: u16, next: u8, rest: &[u8]| {
        let [high, low] = offset_and_flags.to_be_bytes();
        v6(44, 26, &[&[next, 0, high, low, 0, 0, 0, 1], rest].concat())
    };
    assert_eq!(of(IPV6, &fragment(1, 17, &datagram)), Band::Token(1));
    assert_eq!(of(IPV6, &fragment(8, 17, &datagram)), Band::Token(2));
    assert_eq!(of(IPV6, &fragment(8, 58, &[135])), Band::Token(2));
    assert_eq!(of(IPV6, &fragment(0, 58, &[135])), Band::Signal);
    assert_eq!(of(IPV6, &fragment(8, 89, &[])), Band::Signal);
    // What follows a later fragment's header is no further header.
    assert_eq!(
        of(IPV6, &fragment(8, 60, &[89, 0, 0, 0, 0, 0, 0, 0])),
        Band::Token(2)
    );
}

#[test]
fn ipv6_extension_headers_are_stepped_over() {
    let datagram = turnstile(Type::Token, 1, 0);
    // (its number, its bytes less the first)
    let hop: (u8, &[u8]) = (0, &[0, 1, 4, 0, 0, 0, 0]);
    let route: (u8, &[u8]) = (
        43,
        &[
            2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
        ],
    );
    let dest: (u8, &[u8]) = (60, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let auth: (u8, &[u8]) = (
        51,
        &[
            4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    );
    let first_fragment: (u8, &[u8]) = (44, &[0, 0, 1, 0, 0, 0, 0]);
    let chain = |headers: &[(u8, &[u8])], last: u8, payload: &[u8]| {
        let mut bytes = Vec::new();
        for (i, (_, body)) in headers.iter().enumerate() {
            bytes.push(headers.get(i + 1).map_or(last, |h| h.0));
            bytes.extend_from_slice(body);
        }
        bytes.extend_from_slice(payload);
        v6(headers.first().map_or(last, |h| h.0), 26, &bytes)
    };
    for headers in [
        &[hop][..],
        &[route],
        &[dest],
        &[auth],
        &[first_fragment],
        &[hop, dest, route, first_fragment, auth, dest],
    ] {
        assert_eq!(
            of(IPV6, &chain(headers, 17, &datagram)),
            Band::Token(1),
            "{headers:?}"
        );
        assert_eq!(
            of(IPV6, &chain(headers, 6, &[0; 20])),
            Band::Token(2),
            "{headers:?}"
        );
        assert_eq!(
            of(IPV6, &chain(headers, 59, &[])),
            Band::Token(2),
            "no next header"
        );
        assert_eq!(
            of(IPV6, &chain(headers, 50, &[0; 20])),
            Band::Token(2),
            "ESP"
        );
    }
    assert_eq!(of(IPV6, &chain(&[hop; 8], 17, &datagram)), Band::Token(1));
    assert_eq!(
        of(IPV6, &chain(&[hop; 9], 17, &datagram)),
        Band::Data,
        "too many"
    );
}

#[test]
fn vlan_tags_are_stepped_over_and_no_more_than_two() {
    let v4 = v4(17, 0, 0, &turnstile(Type::Token, 1, 0));
    let v6 = v6(17, 0, &turnstile(Type::Token, 1, 0));
    for (inner, packet, band) in [
        (IPV4, &v4[..], Band::Token(1)),
        (IPV6, &v6, Band::Token(1)),
        (0x0806, &[], Band::Signal),
        (0x0026, &[0x42; 38], Band::Data),
    ] {
        for tags in [
            &[0x8100][..],
            &[0x88a8],
            &[0x88a8, 0x8100],
            &[0x8100, 0x8100],
        ] {
            assert_eq!(
                of(tags[0], &tagged(tags, inner, packet)),
                band,
                "{tags:x?} {inner:#x}"
            );
        }
        let three = [0x88a8, 0x8100, 0x8100];
        assert_eq!(of(three[0], &tagged(&three, inner, packet)), Band::Data);
    }
}

#[test]
fn a_truncated_packet_is_data_until_its_headers_are_there() {
    let ext = [
        &[17, 0, 1, 4, 0, 0, 0, 0][..],
        &turnstile(Type::Token, 1, 0),
    ]
    .concat();
    let cases = [
        (
            IPV4,
            v4(17, EF, 0, &turnstile(Type::Token, 1, 0)),
            20 + 8 + 4,
        ),
        (
            IPV4,
            v4(17, EF, 40, &turnstile(Type::Token, 1, 0)),
            60 + 8 + 4,
        ),
        (IPV6, v6(17, EF, &turnstile(Type::Token, 1, 0)), 40 + 8 + 4),
        (IPV6, v6(0, EF, &ext), 40 + 8 + 8 + 4),
    ];
    for (protocol, packet, needed) in cases {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let bytes = if tags.is_empty() {
                packet.clone()
            } else {
                tagged(tags, protocol, &packet)
            };
            let first = tags.first().copied().unwrap_or(protocol);
            let needed = needed + 4 * tags.len();
            for len in 0..bytes.len() {
                let band = if len < needed {
                    Band::Data
                } else {
                    Band::Token(1)
                };
                assert_eq!(of(first, &bytes[..len]), band, "{len} of {needed}");
            }
            assert!(needed <= USEFUL_LEN);
        }
    }
}

#[test]
fn what_is_unasked_or_short_is_known_behind_tags() {
    use crate::header::{FLAG_REN, FLAG_SHORT, FLAG_UNASKED};
    for (flags, slot) in [
        (FLAG_UNASKED, Slot::UNASKED_LONG),
        (FLAG_UNASKED | FLAG_SHORT, Slot::UNASKED),
        (FLAG_SHORT, Slot::SHORT),
    ] {
        let early = turnstile(Type::Data, 0, flags);
        let (four, six) = (v4(17, EF, 0, &early), v6(17, EF, &early));
        assert_eq!(
            (data_slot(IPV4, &four), data_slot(IPV6, &six)),
            (slot, slot)
        );
        assert_eq!(of(IPV4, &four), Band::Data);
        let vlan = ethertype::VLAN;
        let one = tagged(&[vlan], IPV4, &four);
        assert_eq!(data_slot(vlan, &one), slot);
        let two = tagged(&[ethertype::SERVICE_VLAN, vlan], IPV6, &six);
        assert_eq!(data_slot(ethertype::SERVICE_VLAN, &two), slot);
        let three = tagged(&[vlan, vlan, vlan], IPV6, &six);
        assert_eq!(data_slot(vlan, &three), Slot::DATA);
        assert_eq!(data_slot(IPV4, &four[..24]), Slot::DATA);
        assert_eq!(data_slot(ethertype::ARP, &four), Slot::DATA);
    }
    for (kind, flags) in [
        (Type::Data, 0),
        (Type::Data, FLAG_REN),
        (Type::Sync, FLAG_UNASKED),
        (Type::Sync, FLAG_SHORT),
        (Type::Token, FLAG_UNASKED),
        (Type::Token, FLAG_SHORT),
    ] {
        let other = v4(17, EF, 0, &turnstile(kind, 0, flags));
        assert_eq!(data_slot(IPV4, &other), Slot::DATA, "{kind:?} {flags}");
    }
}
