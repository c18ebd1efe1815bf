// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! A namespace may end after the call.

use knet_transport::{Net, Transport};

pub fn kept<T: Transport>(net: Net<'_, T>) -> Net<'static, T> {
    net
}
