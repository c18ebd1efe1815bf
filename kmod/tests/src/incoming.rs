// SPDX-License-Identifier: GPL-2.0
//! A message, as far as a receive buffer looks at it.

use crate::SockAddress;
use turnstile_core::transport::budget::{Place, Standing};

/// Memory that what came takes.
pub(crate) struct Segments(pub(crate) u32);

impl Segments {
    pub(crate) fn truesize(&self) -> u32 {
        self.0
    }
}

/// As the module's.
pub(crate) struct Incoming {
    pub(crate) number: u64,
    pub(crate) from: SockAddress,
    pub(crate) segments: Segments,
    pub(crate) length: Option<u32>,
    pub(crate) contiguous: u32,
    pub(crate) window: u32,
    pub(crate) place: Place,
    pub(crate) standing: Standing,
    pub(crate) stalled: bool,
    pub(crate) kept: u32,
}

impl Incoming {
    pub(crate) fn charged(&self) -> u32 {
        match self.place {
            Place::Shared => self.window,
            _ => self.length.unwrap_or(self.contiguous).max(self.kept),
        }
    }
}
