// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! RTNL is held for a time.

use knet::{Locked, Qdisc, Rtnl};

pub fn keep<'a, T: Qdisc>(on: &'a Locked<'_, T>) -> &'a Rtnl<'static> {
    on.rtnl()
}
