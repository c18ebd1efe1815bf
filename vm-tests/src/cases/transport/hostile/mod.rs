// SPDX-License-Identifier: GPL-2.0
//! The transport among those who mean it ill: packets and calls that no well-behaved program makes.
//! Nothing may be reported, nothing may stay behind, and everybody else is served.

mod flood;
mod honest;
mod named;
mod owner;
mod packets;
mod room;
mod silence;
mod sockets;

use anyhow::Result;
use turnstile_core::transport::uapi::{command, config};

use crate::harness::{Case, Need, MUCH_WORK};
use crate::raw_netlink::{attribute_u64, Generic, GenericRequest};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/hostile/packets", packets::run)
        .needs(MUCH_WORK)
        .timeout_s(3000),
    // Under KASAN, what looks at the flood takes minutes.
    Case::new("transport/hostile/flood", flood::run)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(3000),
    Case::new("transport/hostile/known-name", named::run).timeout_s(300),
    // It compares times, and takes more than a minute under KASAN.
    Case::new("transport/hostile/receive-room", room::run)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(300),
    Case::new("transport/hostile/fills-a-buffer", owner::fills)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(600),
    Case::new("transport/hostile/grows-buffers", owner::grows)
        .needs(MUCH_WORK)
        .timeout_s(600),
    Case::new("transport/hostile/silence-in-a-name", silence::run).timeout_s(120),
    Case::new("transport/hostile/options", sockets::options).timeout_s(180),
    Case::new("transport/hostile/ancillary", sockets::ancillary)
        .needs(MUCH_WORK)
        .timeout_s(180),
];

/// The port of those who are to be served.
const HONEST: u16 = 4000;
/// The port that the others may have.
const OTHER: u16 = 4001;

/// Gives the victim a slow link, 50 Mbit/s: what it sends to the attackers, at the rate of its
/// link, is not what is tested.
fn slow(family: &mut Generic) -> Result<()> {
    let attributes = attribute_u64(config::LINK_RATE64, 6_250_000);
    let request = GenericRequest::new(command::TRANSPORT_SET, &attributes);
    family.request(&request)?.1.success()
}
