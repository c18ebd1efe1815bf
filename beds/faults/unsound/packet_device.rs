// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `is_on_ethernet` found for reference `&Skb`
//!
//! What `skb->dev` points to may be gone: a packet alone says nothing of it.

use knet::Skb;

pub fn ask(skb: &Skb) -> bool {
    skb.is_on_ethernet()
}
