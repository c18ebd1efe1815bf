// SPDX-License-Identifier: GPL-2.0
//! Writing statistics dumps.

use crate::{bindings, Message};
use kernel::{error::to_result, prelude::*};

/// A statistics dump under construction. Maps to C's `struct gnet_dump`.
pub struct Stats(*mut bindings::gnet_dump);

/// The counters that every class has.
#[derive(Clone, Copy, Default)]
pub struct ClassStats {
    /// Bytes sent.
    pub bytes: u64,
    /// Wire packets sent.
    pub packets: u64,
    /// Packets queued now.
    pub queued: u32,
    /// Bytes queued now.
    pub backlog: u32,
    /// Packets dropped, whatever the cause.
    pub drops: u32,
    /// Times that something was held back.
    pub overlimits: u32,
}

impl Stats {
    /// # Safety
    ///
    /// `dump` must be a dump that is being built, valid while this value lives.
    pub(crate) unsafe fn from_raw(dump: *mut bindings::gnet_dump) -> Self {
        Stats(dump)
    }

    /// The counters of a class. (The qdisc's own are added by the kernel.)
    pub fn class(&mut self, stats: &ClassStats) -> Result {
        let queue = bindings::gnet_stats_queue {
            qlen: stats.queued,
            backlog: stats.backlog,
            drops: stats.drops,
            requeues: 0,
            overlimits: stats.overlimits,
        };
        // SAFETY: valid by `from_raw`.
        to_result(unsafe { bindings::knet_class_stats(self.0, stats.bytes, stats.packets, &queue) })
    }

    /// The qdisc's or class's own statistics (`TCA_XSTATS`), as attributes.
    pub fn own(&mut self, fill: impl FnOnce(&mut Message) -> Result) -> Result {
        // SAFETY: valid by `from_raw`; the dump's message is valid as long as the dump.
        let (mut message, from) = unsafe {
            (
                Message::from_raw(bindings::knet_dump_skb(self.0)),
                bindings::knet_dump_len(self.0),
            )
        };
        message.nest(bindings::TCA_XSTATS as u16, fill)?;
        // SAFETY: valid by `from_raw`; the message ended at `from`, where it now has the attribute
        // that was just completed, and nothing behind it.
        to_result(unsafe { bindings::knet_dump_own(self.0, from) })
    }
}
