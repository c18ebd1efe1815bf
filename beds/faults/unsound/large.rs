// SPDX-License-Identifier: GPL-2.0
//! Refused: a qdisc has a megabyte at most
//!
//! The kernel takes a qdisc's size for an `int`.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 16;

pub struct Planted([u8; 1 << 33]);
