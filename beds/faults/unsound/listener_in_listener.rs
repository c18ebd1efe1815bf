// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0500]: closure requires unique access to `*on` but it is already borrowed
//!
//! The listener inside itself would give two `&mut` to it.

use knet::{Enqueuing, Qdisc};

pub fn twice<T: Qdisc>(on: &mut Enqueuing<'_, T>) {
    on.listener(|_| on.listener(|_| ()));
}
