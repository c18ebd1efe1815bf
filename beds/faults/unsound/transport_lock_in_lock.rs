// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0499]: cannot borrow `*net` as mutable more than once at a time
//!
//! A lock inside a lock would give two `&mut` to one state: on one processor nothing keeps the
//! second one out.

use knet_transport::{Net, Transport};

pub fn twice<T: Transport>(net: &mut Net<'_, T>) {
    let one = net.lock();
    let two = net.lock();
    drop((one, two));
}
