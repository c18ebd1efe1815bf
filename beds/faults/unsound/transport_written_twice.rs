// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0308]: mismatched types
//!
//! Two that release at once would free the same pages.

use knet_transport::Written;

pub fn second(written: &Written) -> Written {
    written.clone()
}
