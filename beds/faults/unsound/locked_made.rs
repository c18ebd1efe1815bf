// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0599]: no function or associated item named `default` found for struct `Locked`
//!
//! Who drops packets of a queue has locked it.

use knet::{Locked, Qdisc};

pub fn make<T: Qdisc>() -> Locked<'static, T> {
    Locked::default()
}
