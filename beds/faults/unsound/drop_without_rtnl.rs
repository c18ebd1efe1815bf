// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0061]: this function takes 2 arguments but 1 argument was supplied
//!
//! The list of packets that are freed when RTNL is released has no lock but RTNL.

use knet::{drop_queued, Skb};

pub fn forget_rtnl(skb: Skb) {
    drop_queued(skb);
}
