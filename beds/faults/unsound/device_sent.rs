// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `NonNull<knet::bindings::net_device>` cannot be sent between threads
//! safely
//!
//! A device is looked at under RTNL, which a thread holds.

use knet::Device;

fn send<T: Send>(_: T) {}

pub fn elsewhere(device: Device<'static>) {
    send(device);
}
