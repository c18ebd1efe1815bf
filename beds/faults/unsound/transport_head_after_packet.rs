// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0505]: cannot move out of `arrival` because it is borrowed
//!
//! The first bytes of a packet may be in the packet, which is gone then.

use knet_transport::Arrival;

pub fn first(arrival: Arrival<'_>) -> Option<u8> {
    let head = arrival.head();
    drop(arrival.into_skb());
    head.first().copied()
}
