// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `options` found
//!
//! The ancillary data of `recvmsg` is at an address of the application's.

use knet_transport::Receiving;

pub fn receive(message: &mut Receiving<'_>) {
    drop(message.options());
}
