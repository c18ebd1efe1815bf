// SPDX-License-Identifier: GPL-2.0
//! Fuzzing of the classifier with random bytes, truncated packets and packets with changed bytes:
//! the result is always a band that the port has, and nothing panics.

use proptest::prelude::*;
use turnstile_core::header;
use turnstile_core::port::band::Band;
use turnstile_core::port::classify::{classify, classify_fast, data_slot, Reading, USEFUL_LEN};
use turnstile_core::port::config::Config;
use turnstile_core::port::uapi::class;
use turnstile_core::port::Slot;

const ETHERTYPES: [u16; 10] = [
    0x0800, 0x86dd, 0x8100, 0x88a8, 0x0806, 0x88cc, 0x8809, 0x888e, 0x88f7, 0x0004,
];

fn ethertype() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => prop::sample::select(&ETHERTYPES[..4]),
        1 => prop::sample::select(&ETHERTYPES[..]),
        1 => any::<u16>(),
    ]
}

/// Bytes of IP versions, tags, ethertypes, next headers, the UDP port and Turnstile types.
const HEADERS: [u8; 19] = [
    0x45, 0x46, 0x60, 0x81, 0x88, 0xa8, 0x86, 0xdd, 0x08, 17, 43, 44, 51, 58, 60, 0x74, 0x75, 0x12,
    0x13,
];

/// Bytes that look like headers more often than random ones.
fn network() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        1 => Just(0_u8),
        1 => prop::sample::select(&HEADERS[..]),
    ];
    prop::collection::vec(byte, 0..200)
}

fn config() -> impl Strategy<Value = Config> {
    (1_u8..=8, 0_u32..=2, prop::array::uniform32(any::<u8>())).prop_map(
        |(priorities, unscheduled, some)| {
            let mut config = Config {
                priorities,
                unscheduled,
                ..Config::DEFAULT
            };
            // Not even a valid map.
            config.dscp.0[..32].copy_from_slice(&some);
            config
        },
    )
}

/// A valid packet: tags, IPv4 or IPv6 with extension headers or options, UDP, Turnstile.
fn valid() -> impl Strategy<Value = (u16, Vec<u8>, usize)> {
    (
        any::<bool>(),
        0_usize..=2,
        0_usize..=10,
        prop::collection::vec(prop::sample::select(&[0_u8, 43, 60, 51, 44][..]), 0..5),
        0_u8..8,
    )
        .prop_map(|(v6, tags, options, chain, priority)| {
            let mut ip = Vec::new();
            let header = [0x12, priority, 0, 0];
            if v6 {
                let mut extensions = Vec::new();
                for (i, &kind) in chain.iter().enumerate() {
                    let next = chain.get(i + 1).copied().unwrap_or(17);
                    let (len, size) = match kind {
                        44 => (0, 8),
                        51 => (4, 24),
                        _ => (options as u8 % 3, 8 * (options % 3) + 8),
                    };
                    extensions.push(next);
                    extensions.push(len);
                    extensions.resize(extensions.len() + size - 2, 0);
                }
                ip.extend_from_slice(&[0x60, 0, 0, 0]);
                ip.extend_from_slice(&(extensions.len() as u16 + 12).to_be_bytes());
                ip.extend_from_slice(&[chain.first().copied().unwrap_or(17), 64]);
                ip.extend_from_slice(&[0; 32]);
                ip.extend_from_slice(&extensions);
            } else {
                let len = 20 + 4 * options;
                ip.extend_from_slice(&[0x40 | (len / 4) as u8, 0]);
                ip.extend_from_slice(&(len as u16 + 12).to_be_bytes());
                ip.extend_from_slice(&[0, 0, 0, 0, 64, 17]);
                ip.resize(len, 0);
            }
            ip.extend_from_slice(&[0, 0, 0x74, 0x75, 0, 12, 0, 0]);
            ip.extend_from_slice(&header);
            let protocol = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
            let mut network = Vec::new();
            let mut first = u16::from_be_bytes(protocol);
            for _ in 0..tags {
                let [high, low] = first.to_be_bytes();
                network.splice(0..0, [0, 7, high, low]);
                first = 0x8100;
            }
            network.extend_from_slice(&ip);
            (first, network, usize::from(priority))
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn anything_has_a_band_that_the_port_has(
        protocol in ethertype(),
        network in network(),
        mac in any::<Option<[u8; 6]>>(),
        config in config(),
    ) {
        let band = classify(protocol, &network, mac, &config);
        prop_assert!(band.exists(&config), "{band}");
        // Truncated to the useful length, it has the same band or is data.
        let cut = classify(protocol, network.get(..USEFUL_LEN).unwrap_or(&network), mac, &config);
        prop_assert!(cut == band || cut == Band::Data);
    }

    #[test]
    fn a_valid_packet_is_a_token_and_a_truncated_one_data(
        (protocol, network, priority) in valid(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut config = Config { priorities: 8, ..Config::DEFAULT };
        // If a cut packet went by its DSCP, it would be a signal.
        config.dscp.0 = [class::SIGNAL; 64];
        prop_assert_eq!(classify(protocol, &network, None, &config), Band::Token(priority as u8));
        let len = cut.index(network.len());
        let band = classify(protocol, &network[..len], None, &config);
        prop_assert_eq!(band, Band::Data, "{} of {}", len, network.len());
    }

    #[test]
    fn a_changed_byte_is_never_a_fault(
        (protocol, mut network, _) in valid(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let at = at.index(network.len());
        network[at] = value;
        let band = classify(protocol, &network, None, &Config::DEFAULT);
        prop_assert!(band.exists(&Config::DEFAULT));
    }

    #[test]
    fn the_short_way_leads_to_the_same_band(
        (protocol, mut network, _) in prop_oneof![valid(), (ethertype(), network(), Just(0))],
        changes in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                prop_oneof![
                    any::<u8>(),
                    prop::sample::select(&[0x45_u8, 0x60, 6, 17, 0, 12, 32][..]),
                ],
            ),
            0..4,
        ),
        cut in any::<prop::sample::Index>(),
        mac in prop_oneof![any::<[u8; 6]>(), Just([2; 6]), Just([1, 0x80, 0xc2, 0, 0, 14])],
        padding in 0_usize..20,
        config in config(),
    ) {
        for (at, value) in changes {
            let len = network.len().min(60);
            if len != 0 {
                network[at.index(len)] = value;
            }
        }
        network.truncate(cut.index(2 * network.len() + 1));
        network.resize(network.len() + padding, 0x12);
        let mut frame = mac.to_vec();
        frame.extend_from_slice(&[2; 6]);
        frame.extend_from_slice(&protocol.to_be_bytes());
        frame.extend_from_slice(&network);
        if let Some(minor) = classify_fast(&frame, Reading::of(&config), &config.dscp) {
            let band = Band::from_minor(minor, &config).unwrap_or(Band::Data);
            prop_assert_eq!(band, classify(protocol, &network, Some(mac), &config));
            prop_assert!(band != Band::Data || data_slot(protocol, &network) == Slot::DATA);
        }
    }

    #[test]
    fn most_packets_go_the_short_way((protocol, network, _) in valid()) {
        let mut frame = vec![2; 12];
        frame.extend_from_slice(&protocol.to_be_bytes());
        frame.extend_from_slice(&network);
        let plain = network[0] == 0x45 || (network[0] == 0x60 && network[6] == 17);
        let plain = plain && (protocol == 0x0800 || protocol == 0x86dd);
        let class = classify_fast(&frame, Reading::of(&Config::DEFAULT), &Config::DEFAULT.dscp);
        let early = data_slot(protocol, &network) != Slot::DATA;
        prop_assert_eq!(class.is_some(), plain && !early);
    }

    #[test]
    fn a_turnstile_header_is_read_as_it_was_written(bytes in any::<[u8; 4]>()) {
        if let Some(header) = header::parse(&bytes) {
            prop_assert_eq!(header.write(), bytes);
        }
    }
}
