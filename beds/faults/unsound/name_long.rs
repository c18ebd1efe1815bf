// SPDX-License-Identifier: GPL-2.0
//! Refused: the name of a kind has 1 to 15 bytes
//!
//! The kernel has room for a name of 15 bytes.

include!("skeleton.inc");

const NAME: &str = "sixteen_bytes_it";
const PLACES: usize = 16;

pub struct Planted;
