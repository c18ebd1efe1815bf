// SPDX-License-Identifier: GPL-2.0
//! Follows an RCU-protected pointer outside a read-side critical section. Noticed by PROVE_RCU.

use kernel::bindings;
use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_rcu",
    authors: ["Turnstile"],
    description: "Planted fault: RCU pointer without read lock",
    license: "GPL",
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: none. `pid_task` wants `rcu_read_lock`; process 1 exists for as long as the
        // machine runs, so that nothing worse happens.
        let task =
            unsafe { bindings::pid_task(bindings::find_vpid(1), bindings::pid_type_PIDTYPE_PID) };
        pr_info!("process 1 found: {}\n", !task.is_null());
        Ok(Self)
    }
}
