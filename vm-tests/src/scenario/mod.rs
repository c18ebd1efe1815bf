// SPDX-License-Identifier: GPL-2.0
//! What transports are put through: a network, its ports, messages, and the figures that come of it.
//!
//! A scenario is run by an experiment ([`crate::lab`]), which shows its figures beside those of the papers, and by cases, which hold
//! them to what must be.

mod carrier;
pub mod mixed;
mod ports;
mod watch;

pub use carrier::Carrier;
pub use ports::{Queues, Seen};

/// Bytes of a full packet on the wire.
pub const FULL_WIRE: u64 = 1538;
/// The delay of each of `hops` links, ns, with which a token over all of them and the full packet for it together take `rtt` ns.
pub fn delay_for(rtt: u64, hops: u64, rate: u64) -> u64 {
    let wire = |bytes: u64| bytes * 8 * 1_000_000_000 / rate;
    rtt.saturating_sub(hops * (wire(FULL_WIRE) + wire(84))) / (2 * hops)
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
