// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `multicast` found
//!
//! An answer that was swapped for an event would be written into after it was sent.

use kernel::prelude::*;
use knet_transport::{Control, Family, Reply};

pub fn read<T: Family>(net: &mut Control<'_, T>, reply: &mut Reply) -> Result {
    net.multicast(1, |event| {
        core::mem::swap(event, reply);
        Ok(())
    })
}
