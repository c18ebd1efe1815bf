// SPDX-License-Identifier: GPL-2.0
//! Scenarios for transports: a network, its ports, messages, and the figures that result.
//!
//! Experiments ([`crate::lab`]) run a scenario to show its figures beside those of the papers, and
//! cases run it to check them against bounds.

pub mod bursts;
mod carrier;
pub mod convergence;
pub mod flows;
pub mod incast;
pub mod lossless;
pub mod mixed;
pub mod parking_lot;
mod ports;
pub mod priority;
pub mod sharing;
mod watch;

pub use carrier::Carrier;
pub use ports::{data_sent, Queues, Seen, SHIPPED};

/// The token group's share of a link (ExpressPass section 2.1).
pub const TOKEN_SHARE: f64 = 84.0 / 1622.0;
/// Cap of a token queue, packets (TOP section 4.3): the default, without jitter.
pub const TOKEN_LIMIT: u64 = 8;
/// DCTCP's marking threshold at 10 Gbit/s, packets (ExpressPass section 3.1).
pub const THRESHOLD: u32 = 65;
/// The shortest retransmission timeout of TCP, us: one tick of a kernel with 250 of them a second.
/// The papers' simulators take 200.
pub const RTO: u32 = 4_000;
/// From configuring to the start of a load, ns.
pub const LEAD: u64 = 1_000_000;
/// Bytes of a full packet on the wire.
pub const FULL_WIRE: u64 = 1538;
/// Bytes of a message in a full packet of Turnstile, over IPv4.
pub const FULL_PAYLOAD: u64 = 1450;

/// The delay of each of `hops` links, ns, with which a token over all of them and the full packet
/// for it together take `rtt` ns.
pub const fn delay_for(rtt: u64, hops: u64, rate: u64) -> u64 {
    const fn wire(bytes: u64, rate: u64) -> u64 {
        bytes * 8 * 1_000_000_000 / rate
    }
    rtt.saturating_sub(hops * (wire(FULL_WIRE, rate) + wire(84, rate))) / (2 * hops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Link;

    #[test]
    fn delays_make_up_the_round_trip() {
        let rate = 10_000_000_000;
        let link = Link::new(rate, delay_for(48_000, 3, rate));
        let rtt = 3 * (link.latency(1514) + link.latency(60));
        assert!(rtt.abs_diff(48_000) < 10, "{rtt}");
    }
}
