// SPDX-License-Identifier: GPL-2.0
//! Panics as Rust does, which is a BUG of the kernel. The machine does not survive it.

use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_bug",
    authors: ["Turnstile"],
    description: "Planted fault: Rust panic",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        panic!("planted");
    }
}
