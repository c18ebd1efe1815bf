// SPDX-License-Identifier: GPL-2.0
//! Refused: a qdisc has 16 children at most
//!
//! There are so many places for children.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 17;

pub struct Planted;
