// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `NonNull<knet_transport::bindings::knt_net>` cannot be sent between
//! threads safely
//!
//! What is locked by one thread is released by the same.

use knet_transport::{Net, Transport};

fn sent<T: Send>(_: T) {}

pub fn elsewhere<T: Transport>(net: Net<'_, T>) {
    sent(net);
}
