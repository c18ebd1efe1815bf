// SPDX-License-Identifier: GPL-2.0
//! Refused: a qdisc is aligned to 64 bytes at most
//!
//! The kernel aligns a qdisc's memory to 64 bytes.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 16;

#[repr(align(128))]
pub struct Planted;
