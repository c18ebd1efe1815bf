// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! A child may be gone when its lock is released.

use knet::{Child, Context, Qdisc};

pub fn keep<T: Qdisc>(sch: Context<'_, T>) -> Option<Child<'static>> {
    sch.child(0)
}
