// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0499]: cannot borrow `*on` as mutable more than once at a time
//!
//! A child may enter the qdisc again, by the root of its tree, while it gets a packet.

use knet::{Enqueuing, Qdisc, Skb};

pub fn give<'a, T: Qdisc>(skb: Skb, on: &'a mut Enqueuing<'_, T>) -> &'a mut T {
    let (this, _) = on.qdisc();
    on.give(skb, 0);
    this
}
