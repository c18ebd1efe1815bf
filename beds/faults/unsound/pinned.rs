// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `PhantomPinned` cannot be unpinned
//!
//! The methods get `&mut Self`: a qdisc must not mind being moved.

include!("skeleton.inc");

const NAME: &str = "planted";
const PLACES: usize = 16;

pub struct Planted(core::marker::PhantomPinned);
