// SPDX-License-Identifier: GPL-2.0
//! Takes two locks in one order and then in the other: no deadlock now, one some day. Noticed by
//! lockdep.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

module! {
    type: Fault,
    name: "fault_lock_order",
    authors: ["Turnstile"],
    description: "Planted fault: inverted lock order",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let a: Pin<KBox<Mutex<()>>> = KBox::pin_init(new_mutex!((), "fault_a"), GFP_KERNEL)?;
        let b: Pin<KBox<Mutex<()>>> = KBox::pin_init(new_mutex!((), "fault_b"), GFP_KERNEL)?;
        {
            let _first = a.lock();
            let _second = b.lock();
        }
        {
            let _first = b.lock();
            let _second = a.lock();
        }
        Ok(Self)
    }
}
