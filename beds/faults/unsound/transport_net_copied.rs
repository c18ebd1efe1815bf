// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0507]: cannot move out of `*net` which is behind a mutable reference
//!
//! With two of them the state could be locked twice.

use knet_transport::{Net, Transport};

pub fn second<'a, T: Transport>(net: &mut Net<'a, T>) -> Net<'a, T> {
    *net
}
