// SPDX-License-Identifier: GPL-2.0
//! Frees a timer that is about to fire. Noticed by DEBUG_OBJECTS, which also stops the timer.

use core::mem::MaybeUninit;

use kernel::bindings;
use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_active_timer",
    authors: ["Turnstile"],
    description: "Planted fault: free of an active timer",
    license: "GPL",
}

struct Fault;

/// Never called where the fault is noticed.
extern "C" fn fire(_timer: *mut bindings::timer_list) {}

/// An hour: longer than the machine runs, should the fault go unnoticed.
const LATER: c_ulong = 3600 * bindings::HZ as c_ulong;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let timer: KBox<MaybeUninit<bindings::timer_list>> =
            KBox::new(MaybeUninit::zeroed(), GFP_KERNEL)?;
        let timer = KBox::into_raw(timer);
        // SAFETY: `timer` is valid, zeroed and ours. That it is freed while it is active is the
        // fault.
        unsafe {
            bindings::timer_init_key(
                timer.cast(),
                Some(fire),
                0,
                c"fault_active_timer".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            );
            bindings::mod_timer(timer.cast(), bindings::jiffies + LATER);
            drop(KBox::from_raw(timer));
        }
        Ok(Self)
    }
}
