// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `*mut knet::bindings::sk_buff` cannot be sent between threads safely
//!
//! What became of a packet is said once, in the call that asks for it.

use knet::{Dequeued, Enqueued};

fn send<T: Send>(_: T) {}

pub fn keep(enqueued: Enqueued, dequeued: Dequeued) {
    send(dequeued);
    send(enqueued);
}
