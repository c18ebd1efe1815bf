// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! Nor does the lock give one that stays.

use knet::{Configuring, Qdisc};

pub fn keep<'a, T: Qdisc>(on: &'a mut Configuring<'_, T>) -> Option<&'a mut T> {
    on.lock(|this, _| this)
}
