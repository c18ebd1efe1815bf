// SPDX-License-Identifier: GPL-2.0
//! Refused: error: lifetime may not live long enough
//!
//! What a device receives is lent.

use kernel::prelude::*;
use knet::{Heard, Listener};

pub struct Keeps;

impl Listener for Keeps {
    type News = &'static [u8];

    fn sift(packet: &Heard<'_>) -> Option<&'static [u8]> {
        let buffer = KBox::leak(KBox::new([0; 160], GFP_KERNEL).ok()?);
        Some(packet.network(buffer).1)
    }

    fn heard(&mut self, _: &'static [u8]) -> bool {
        false
    }
}
