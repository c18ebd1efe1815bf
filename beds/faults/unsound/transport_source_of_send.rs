// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `set_source` found
//!
//! The address that `sendmsg` has may be shorter than the one that is written there.

use knet_transport::{Sending, SockAddress};

pub fn send(message: &mut Sending<'_>, from: SockAddress) {
    message.set_source(from);
}
