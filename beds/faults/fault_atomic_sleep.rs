// SPDX-License-Identifier: GPL-2.0
//! Asks for memory in a way that may sleep while it holds a spinlock. Noticed by
//! DEBUG_ATOMIC_SLEEP.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

module! {
    type: Fault,
    name: "fault_atomic_sleep",
    authors: ["Turnstile"],
    description: "Planted fault: sleep in atomic context",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let lock: Pin<KBox<SpinLock<()>>> =
            KBox::pin_init(new_spinlock!((), "fault_atomic_sleep"), GFP_KERNEL)?;
        let guard = lock.lock();
        let block = KBox::new([0_u8; 64], GFP_KERNEL);
        drop(guard);
        block.map(|_| Self).map_err(Error::from)
    }
}
