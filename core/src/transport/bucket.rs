// SPDX-License-Identifier: GPL-2.0
//! A token bucket for packets that answer what belongs to no message.

use crate::units::Nanos;

/// So many may leave in a row, and then one each [`INTERVAL`].
pub(crate) const BURST: u32 = 64;
pub(crate) const INTERVAL: Nanos = Nanos::MILLISECOND;

/// A bucket that holds [`BURST`] and gets one more each [`INTERVAL`].
pub(crate) struct Bucket {
    left: u32,
    at: Nanos,
}

impl Bucket {
    /// A full one.
    pub(crate) const FULL: Self = Self {
        left: BURST,
        at: Nanos::ZERO,
    };

    /// Takes one out. `false`: there is none.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        let passed = (now - self.at).0 / INTERVAL.0;
        if passed != 0 {
            let passed = u32::try_from(passed).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(passed).min(BURST);
            self.at = match self.left == BURST {
                true => now,
                // A part of an interval is not lost.
                false => self.at + Nanos(u64::from(passed).saturating_mul(INTERVAL.0)),
            };
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}
