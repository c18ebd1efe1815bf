// SPDX-License-Identifier: GPL-2.0

use super::*;
use std::vec::Vec;

#[test]
fn the_flow_with_most_gives_its_oldest() {
    for (queued, new, place) in [
        // One flow alone: what arrives last goes.
        (&[1, 1, 1, 1][..], 1, None),
        (&[1, 2, 1, 1], 1, None),
        // Of as many with the new one: another's.
        (&[1, 2, 2, 1], 1, None),
        (&[1, 2, 2, 2], 1, Some(1)),
        (&[2, 1, 2, 1], 3, Some(0)),
        (&[3, 1, 2, 1], 3, Some(1)),
        (&[3, 1, 2, 1, 3], 3, None),
        (&[4, 5, 6, 7], 8, Some(0)),
        (&[4, 5, 6, 7], 4, None),
        // Packets that tell no flow are one.
        (&[0, 0, 0], 0, None),
        (&[], 1, None),
    ] {
        let all = queued.len() as u64;
        let mut recent = Recent::NONE;
        recent.look(queued, all, all);
        assert_eq!(recent.displaced(queued, new), place, "{new} to {queued:?}");
    }
}

/// Of flows that have as many tokens in the queue, the one that had most lately gives.
#[test]
fn what_has_left_counts() {
    let mut recent = Recent::NONE;
    recent.look(&[1, 2, 2, 2], 4, 4);
    assert_eq!(recent.displaced(&[1, 2, 2, 2], 2), None);
    // Three of the second flow's have left, and others have come.
    recent.look(&[2, 1, 3, 4], 4, 7);
    assert_eq!(recent.displaced(&[2, 1, 3, 4], 5), Some(0));
    recent.gone(2, 6);
    assert!(recent.is_current(6));
    recent.queued(5, 1, 7);
    // Not the one that was displaced.
    assert_eq!(recent.displaced(&[1, 3, 4, 5], 2), None);
    // What came before the last 128 does not count.
    for flow in 6..6 + KEPT as Flow {
        recent.queued(flow, 1, 2 + flow);
    }
    assert_eq!(recent.displaced(&[2, 34], 500), Some(1));
}

/// Of a queue of which the end cannot be seen, only the head is noted; what comes while somebody
/// looks is.
#[test]
fn of_a_long_queue_the_head_and_what_comes_count() {
    let mut recent = Recent::NONE;
    let queued: Vec<Flow> = (1..=LOOKS as u64).collect();
    recent.look(&queued, 100, 100);
    assert_eq!(recent.displaced(&queued, 200), Some(0));
    assert_eq!(recent.displaced(&queued, 1), None);
    for came in 101..=110 {
        recent.queued(200, 1, came);
    }
    assert_eq!(recent.displaced(&queued, 200), None);
}

/// A UDP datagram over IPv4.
fn datagram(address: u8, port: u8, payload: u8) -> Vec<u8> {
    let mut packet = [0x45, 0xb8, 0, 46, 0, payload, 0, 0, 64, 17, 0, 0].to_vec();
    packet.extend([10, 0, 0, address, 10, 0, 0, 9]);
    packet.extend([0xc0, port, 0x74, 0x75, 0, 26, payload, 1]);
    packet.extend([payload; 18]);
    packet
}

/// The same over IPv6.
fn datagram6(address: u8, port: u8, payload: u8) -> Vec<u8> {
    let mut packet = [0x6b, 0x80, 0, 0, 0, 26, 17, 64].to_vec();
    packet.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, address]);
    packet.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    packet.extend(&datagram(address, port, payload)[20..]);
    packet
}

const KEY: u64 = 0x1234_5678_9abc_def0;

/// The addresses that make another sender's flow the same by one key do not by others: who does not
/// know the key cannot choose them.
#[test]
fn nobody_chooses_whose_flow_his_is() {
    let of_key = |key, packet: &[u8]| of(key, ethertype::IPV6, packet);
    let victim = datagram6(1, 7, 0);
    let first = |key, port: u8| mix(mix(key ^ u64::from(ports(port))) ^ word(&victim[8..16]));
    // The second half of the sender's address, so that what follows is as for the victim.
    let interface = word(&victim[16..24]) ^ first(KEY, 7) ^ first(KEY, 8);
    let mut other = datagram6(1, 8, 0);
    other[16..24].copy_from_slice(&interface.to_be_bytes());
    assert_eq!(of_key(KEY, &victim), of_key(KEY, &other));
    let alike = (1..1000).filter(|&key| of_key(key, &victim) == of_key(key, &other));
    assert_eq!(alike.count(), 0);
    // Nor are these the same by any key.
    let flows = [(9, 0x75), (8, 0x74)]
        .map(|(address, port)| of(KEY, ethertype::IPV4, &datagram(address, port, 0)));
    assert_ne!(flows[0], flows[1]);
}

/// The ports of [`datagram6`].
fn ports(port: u8) -> u32 {
    ends(ethertype::IPV6, &datagram6(1, port, 0))
        .unwrap()
        .1
        .ports()
}

#[test]
fn a_flow_is_the_addresses_and_the_ports() {
    for (protocol, make) in [
        (ethertype::IPV4, datagram as fn(u8, u8, u8) -> Vec<u8>),
        (ethertype::IPV6, datagram6),
    ] {
        let flow = |address, port, payload| of(KEY, protocol, &make(address, port, payload));
        let one = flow(1, 7, 0);
        assert_eq!(one, flow(1, 7, 200));
        assert_ne!(one, flow(2, 7, 0));
        assert_ne!(one, flow(1, 8, 0));
        // Behind a VLAN tag.
        let mut tagged = [0, 5].to_vec();
        tagged.extend(protocol.to_be_bytes());
        tagged.extend(make(1, 7, 0));
        assert_eq!(one, of(KEY, ethertype::VLAN, &tagged));
        // Without the ports, as in a later fragment, the addresses tell.
        let ip = make(1, 7, 0).len() - 26;
        let short = |address| of(KEY, protocol, &make(address, 7, 0)[..ip]);
        assert!(![0, one, short(2)].contains(&short(1)));
    }
    assert_eq!(of(KEY, ethertype::ARP, &datagram(1, 7, 0)), 0);
    assert_eq!(of(KEY, ethertype::IPV4, &[0x45; 12]), 0);
}
