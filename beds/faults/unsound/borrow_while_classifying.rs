// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0499]: cannot borrow `*on` as mutable more than once at a time
//!
//! So may a filter.

use knet::{Enqueuing, Qdisc, Skb};

pub fn ask<'a, T: Qdisc>(skb: &mut Skb, on: &'a mut Enqueuing<'_, T>) -> &'a mut T {
    let (this, _) = on.qdisc();
    on.classify(skb);
    this
}
