// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `fastest` found
//!
//! Devices are asked under RTNL, within which sockets are locked elsewhere.

use knet_transport::{Net, Transport};

pub fn speed<T: Transport>(net: &mut Net<'_, T>) -> Option<u64> {
    net.fastest()
}
