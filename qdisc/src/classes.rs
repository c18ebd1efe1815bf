// SPDX-License-Identifier: GPL-2.0
//! Which classes a port has, readable without its lock.

use core::array;
use kernel::sync::atomic::{Atomic, Relaxed};
use turnstile_core::{port::band::Band, port::config::Config};

/// Minor numbers end at 0x17, token priority 7.
const MINORS: usize = 32;

/// One bit and one counter per minor number.
pub(crate) struct Classes {
    exist: Atomic<u32>,
    /// Nothing of data may be dropped.
    lossless: Atomic<bool>,
    /// How many filters name the class.
    bound: [Atomic<u32>; MINORS],
}

impl Default for Classes {
    fn default() -> Self {
        Classes {
            exist: Atomic::new(0),
            lossless: Atomic::new(false),
            bound: array::from_fn(|_| Atomic::new(0)),
        }
    }
}

fn bits(config: &Config) -> u32 {
    Band::all(config).fold(0, |bits, band| {
        bits | 1u32.wrapping_shl(band.minor().into())
    })
}

impl Classes {
    /// Makes it the classes of a port with this configuration.
    pub(crate) fn set(&self, config: &Config) {
        self.exist.store(bits(config), Relaxed);
        self.lossless.store(config.generates(), Relaxed);
    }

    /// Must data not be dropped, since whoever sends it is paused?
    pub(crate) fn are_lossless(&self) -> bool {
        self.lossless.load(Relaxed)
    }

    pub(crate) fn contains(&self, minor: u16) -> bool {
        minor < MINORS as u16 && self.exist.load(Relaxed) & 1u32.wrapping_shl(minor.into()) != 0
    }

    pub(crate) fn next(&self, after: u16) -> Option<u16> {
        (after.saturating_add(1)..MINORS as u16).find(|&minor| self.contains(minor))
    }

    /// A filter starts or stops to name the class. RTNL is held.
    pub(crate) fn bind(&self, minor: u16, bound: bool) {
        if let Some(count) = self.bound.get(usize::from(minor)) {
            let now = count.load(Relaxed);
            count.store(
                if bound {
                    now.saturating_add(1)
                } else {
                    now.saturating_sub(1)
                },
                Relaxed,
            );
        }
    }

    /// A class that filters name and that this configuration would take away.
    pub(crate) fn bound_but_gone(&self, config: &Config) -> Option<u16> {
        let gone = self.exist.load(Relaxed) & !bits(config);
        (0u16..).zip(&self.bound).find_map(|(minor, count)| {
            (gone & 1u32.wrapping_shl(minor.into()) != 0 && count.load(Relaxed) != 0)
                .then_some(minor)
        })
    }
}
