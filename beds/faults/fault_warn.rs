// SPDX-License-Identifier: GPL-2.0
//! Warns. Noticed in the log of any kernel.

use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_warn",
    authors: ["Turnstile"],
    description: "Planted fault: WARN",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        kernel::warn_on!(true);
        Ok(Self)
    }
}
