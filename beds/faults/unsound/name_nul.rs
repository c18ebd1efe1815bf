// SPDX-License-Identifier: GPL-2.0
//! Refused: the name of a kind has no NUL
//!
//! A name ends at its NUL.

include!("skeleton.inc");

const NAME: &str = "a\0b";
const PLACES: usize = 16;

pub struct Planted;
