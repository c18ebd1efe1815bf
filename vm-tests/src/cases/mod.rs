// SPDX-License-Identifier: GPL-2.0
//! The test cases, one file per theme. To add a theme: a file with `pub(super) const CASES`, its
//! `mod` line here, and its name in [`all`].

use crate::harness::Case;

mod guest;
mod refused;

/// Every case, in the order they are run.
pub fn all() -> Vec<&'static Case> {
    [guest::CASES, refused::CASES].into_iter().flatten().collect()
}
