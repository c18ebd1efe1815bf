// SPDX-License-Identifier: GPL-2.0
//! Reads one byte past the end of an allocation. Noticed by KASAN.

use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_out_of_bounds",
    authors: ["Turnstile"],
    description: "Planted fault: out-of-bounds read",
    license: "GPL",
}

/// Not a size that the allocator has: what follows is padding, which belongs to nobody.
const LEN: usize = 120;

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let block = KBox::new([0x5a_u8; LEN], GFP_KERNEL)?;
        // SAFETY: none. This is the fault.
        let value = unsafe { block.as_ptr().add(LEN).read_volatile() };
        pr_info!("read {value:#x} past the end\n");
        Ok(Self)
    }
}
