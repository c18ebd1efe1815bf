// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `*mut ()` cannot be sent between threads safely
//!
//! RTNL is held by a thread.

use knet::Rtnl;

fn send<T: Send>(_: T) {}

pub fn elsewhere(rtnl: Rtnl<'static>) {
    send(rtnl);
}
