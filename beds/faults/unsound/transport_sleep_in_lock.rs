// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0499]: cannot borrow `*net` as mutable more than once at a time
//!
//! Nobody may sleep with the lock; and `sock_bind`, which this calls, would take it again.

use knet_transport::{Caller, Net, Transport};

pub fn bind<T: Transport>(net: &mut Net<'_, T>, sock: Caller<'_>) {
    let state = net.lock();
    drop(sock.autobind(net));
    drop(state);
}
