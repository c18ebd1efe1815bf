// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0624]: method `split` is private
//!
//! Splitting looks at what the packet's device can do: only a qdisc can say that it is there.

use knet::Skb;

pub fn split(skb: Skb) {
    let _ = skb.split();
}
