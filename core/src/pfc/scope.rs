// SPDX-License-Identifier: GPL-2.0
//! What a link's pauses are of: some of its priorities, or all of it.

use super::frame::Frame;
use super::PRIORITIES;

/// Which pauses are about data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the whole link (IEEE 802.3 Annex 31B).
    Link,
    /// Those of any of these priorities: bit 0 is priority 0. A frame that pauses the whole link
    /// pauses these, too.
    Priorities(u8),
}

impl Scope {
    /// One priority, 0 to 7; none, if it is not that.
    pub const fn one(priority: u8) -> Self {
        if priority < PRIORITIES {
            Self::Priorities(1 << priority)
        } else {
            Self::Priorities(0)
        }
    }

    /// The frame that says so of all of it.
    pub fn frame(self, quanta: u16) -> Frame {
        let Self::Priorities(enabled) = self else {
            return Frame::Pause { quanta };
        };
        let mut all = [0; PRIORITIES as usize];
        for (priority, its) in (0..PRIORITIES).zip(&mut all) {
            if enabled & (1 << (priority & 7)) != 0 {
                *its = quanta;
            }
        }
        Frame::Pfc {
            enabled,
            quanta: all,
        }
    }

    /// What a frame says of each part of it: for how many quanta it is to be silent. A link is one
    /// part, which has the first place.
    pub fn said_by(self, frame: &Frame) -> impl Iterator<Item = Option<u16>> {
        let frame = *frame;
        (0..PRIORITIES).map(move |priority| match (self, frame) {
            (Self::Link, Frame::Pause { quanta }) if priority == 0 => Some(quanta),
            (Self::Link, _) => None,
            (Self::Priorities(mask), _) if mask & (1 << (priority & 7)) == 0 => None,
            (Self::Priorities(_), frame) => frame.says(priority),
        })
    }
}

#[cfg(test)]
mod tests;
