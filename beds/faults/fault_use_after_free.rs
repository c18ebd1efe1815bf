// SPDX-License-Identifier: GPL-2.0
//! Reads memory after it was freed. Noticed by KASAN.

use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_use_after_free",
    authors: ["Turnstile"],
    description: "Planted fault: use after free",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let stale = KBox::into_raw(KBox::new([0x5a_u64; 8], GFP_KERNEL)?);
        // SAFETY: `stale` comes from `into_raw` just above and was not given to anyone else.
        drop(unsafe { KBox::from_raw(stale) });
        // SAFETY: none. This is the fault.
        let value = unsafe { stale.cast::<u64>().read_volatile() };
        pr_info!("read {value:#x} from freed memory\n");
        Ok(Self)
    }
}
