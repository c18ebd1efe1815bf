// SPDX-License-Identifier: GPL-2.0
//! Compiles
//!
//! Nothing is wrong with this one: the others are refused for what they say, and not for what they
//! share with it.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 16;

pub struct Planted;
