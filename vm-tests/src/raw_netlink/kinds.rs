// SPDX-License-Identifier: GPL-2.0
//! `TCA_OPTIONS` of stock qdiscs, and a filter, that tests make thousands of times, where starting
//! `tc` would take too long.
//!
//! Layouts: `include/uapi/linux/pkt_sched.h`.

use super::{attribute, attribute_u32, attribute_u64, NESTED, TCA_KIND, TCA_OPTIONS};

/// `pfifo` (packets) and `bfifo` (bytes): `struct tc_fifo_qopt`.
pub fn fifo(limit: u32) -> Vec<u8> {
    limit.to_ne_bytes().to_vec()
}

/// `prio` with three bands and the usual map: `struct tc_prio_qopt`.
pub fn prio() -> Vec<u8> {
    let mut options = 3_u32.to_ne_bytes().to_vec();
    options.extend_from_slice(&[1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    options
}

/// What a `netem` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Netem {
    /// ns added to each packet.
    pub delay_ns: u64,
    /// ns of variation, to both sides.
    pub jitter_ns: u64,
    /// Packets.
    pub limit: u32,
    /// Share of packets lost, of 2^32.
    pub loss: u32,
    /// Share of packets sent twice, of 2^32.
    pub duplicate: u32,
}

/// `netem`: `struct tc_netem_qopt`, then attributes.
pub fn netem(what: Netem) -> Vec<u8> {
    const LATENCY64: u16 = 10;
    const JITTER64: u16 = 11;
    let mut head = Vec::new();
    // Latency (given in ns below), limit, loss, gap, duplicate, jitter.
    for word in [0, what.limit, what.loss, 0, what.duplicate, 0] {
        head.extend_from_slice(&word.to_ne_bytes());
    }
    head.extend(attribute_u64(LATENCY64, what.delay_ns));
    head.extend(attribute_u64(JITTER64, what.jitter_ns));
    head
}

/// `tbf`: bytes/s, bytes of burst and bytes of queue.
pub fn tbf(rate: u32, burst: u32, limit: u32) -> Vec<u8> {
    const PARMS: u16 = 1;
    const BURST: u16 = 6;
    /// `TC_LINKLAYER_ETHERNET`: the kernel needs no rate table then.
    const ETHERNET: u8 = 1;
    let mut parms = Vec::new();
    // struct tc_ratespec: rate (with cell_log and linklayer) and peakrate (none).
    parms.extend_from_slice(&[3, ETHERNET, 0, 0, 0, 0, 0, 0]);
    parms.extend_from_slice(&rate.to_ne_bytes());
    parms.extend_from_slice(&[0; 12]);
    parms.extend_from_slice(&limit.to_ne_bytes());
    // Buffer and mtu, in ticks: the burst below goes first.
    parms.extend_from_slice(&[0; 8]);
    [attribute(PARMS, &parms), attribute_u32(BURST, burst)].concat()
}

/// The attributes of a `matchall` filter that sends all packets to a class, or drops them.
pub fn matchall(class: Option<u32>) -> Vec<u8> {
    const CLASS: u16 = 1;
    const ACTIONS: u16 = 2;
    /// Inside an action; the first of the list has number 1.
    const FIRST: u16 = 1;
    const PARMS: u16 = 2;
    const SHOT: u32 = 2;
    let nest = |number: u16, inside: &[u8]| attribute(number | NESTED, inside);
    let options = match class {
        Some(class) => attribute_u32(CLASS, class),
        None => {
            // struct tc_gact: index, capabilities, action, references, bindings.
            let parms: Vec<u8> = [0, 0, SHOT, 0, 0]
                .into_iter()
                .flat_map(u32::to_ne_bytes)
                .collect();
            let action = [
                attribute(TCA_KIND, b"gact\0"),
                nest(TCA_OPTIONS, &attribute(PARMS, &parms)),
            ];
            nest(ACTIONS, &nest(FIRST, &action.concat()))
        }
    };
    [
        attribute(TCA_KIND, b"matchall\0"),
        nest(TCA_OPTIONS, &options),
    ]
    .concat()
}
