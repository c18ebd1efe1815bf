// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `*mut u8` cannot be sent between threads safely
//!
//! A qdisc is used on all processors.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 16;

pub struct Planted(*mut u8);
