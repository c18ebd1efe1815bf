// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `wait` found
//!
//! Waiting releases the socket's lock, and the kernel is in the middle of binding it.

use knet_transport::{LockedSock, Net, Timeout, Transport};

pub fn bind<T: Transport>(net: &mut Net<'_, T>, sock: LockedSock<'_>, mut timeout: Timeout) {
    drop(sock.wait(net, &mut timeout, |_| true));
}
