// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! A device may be gone when the qdisc is.

use knet::{Configuring, Device, Qdisc};

pub fn keep<'a, T: Qdisc>(on: &'a Configuring<'_, T>) -> Device<'static> {
    on.device()
}
