// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! A context is good for one call.

use knet::{Arriving, Context, Qdisc};

pub fn keep<T: Qdisc>(arriving: &mut Arriving<'_, T>) -> Context<'static, T> {
    arriving.qdisc().1
}
