// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0500]: closure requires unique access to `*on` but it is already borrowed
//!
//! A lock inside a lock would give two `&mut` to one qdisc: on one processor nothing keeps the
//! second one out.

use knet::{Configuring, Qdisc};

pub fn twice<T: Qdisc>(on: &mut Configuring<'_, T>) {
    on.lock(|_, _| on.lock(|_, _| ()));
}
