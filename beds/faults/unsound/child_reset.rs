// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no method named `reset` found for struct `Child`
//!
//! A child is emptied under RTNL, by knet; in a dequeue there is none.

use knet::{Dequeuing, Qdisc};

pub fn empty<T: Qdisc>(on: &mut Dequeuing<'_, T>) {
    if let Some(child) = on.context().child(0) {
        child.reset();
    }
}
