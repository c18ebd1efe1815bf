// SPDX-License-Identifier: GPL-2.0
//! Loses packets. No detector of the kernel speaks of it: the count of skbs before and after does.

use kernel::bindings;
use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_leak",
    authors: ["Turnstile"],
    description: "Planted fault: lost packets",
    license: "GPL",
}

/// More than the kernel's own per-CPU caches of skbs hold, so that the count rises whatever they
/// held before.
const LOST: usize = 1000;

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        for _ in 0..LOST {
            // SAFETY: allocation may be asked for at any time in a context that may sleep.
            let skb = unsafe { bindings::__alloc_skb(128, bindings::GFP_KERNEL, 0, -1) };
            if skb.is_null() {
                return Err(ENOMEM);
            }
        }
        pr_info!("lost {LOST} packets\n");
        Ok(Self)
    }
}
