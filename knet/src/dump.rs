// SPDX-License-Identifier: GPL-2.0
//! Writing dumps: attributes into a netlink message, statistics into a statistics dump.

use crate::bindings;
use kernel::{
    error::{code::*, to_result},
    prelude::*,
};

/// A netlink message under construction.
pub struct Message(*mut bindings::sk_buff);

impl Message {
    /// # Safety
    ///
    /// `skb` must be a netlink message that is being built, valid while this value lives.
    pub(crate) unsafe fn from_raw(skb: *mut bindings::sk_buff) -> Self {
        Message(skb)
    }

    /// Adds a nested attribute and fills it. `EMSGSIZE`, and the message as it was, when there is no room.
    pub fn nest(&mut self, number: u16, fill: impl FnOnce(&mut Self) -> Result) -> Result {
        // SAFETY: valid by `from_raw`.
        let nest = unsafe { bindings::knet_nest_start(self.0, number.into()) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        let filled = fill(self);
        // SAFETY: `nest` was opened above in this very message.
        unsafe {
            match filled {
                Ok(()) => bindings::knet_nest_end(self.0, nest),
                Err(_) => bindings::knet_nest_cancel(self.0, nest),
            }
        }
        filled
    }

    /// Adds a `u32`.
    pub fn u32(&mut self, number: u16, value: u32) -> Result {
        self.bytes(number, &value.to_ne_bytes())
    }

    /// Adds a `u64`, aligned by an attribute of type `pad` where the architecture needs it.
    pub fn u64(&mut self, number: u16, value: u64, pad: u16) -> Result {
        // SAFETY: valid by `from_raw`.
        to_result(unsafe { bindings::knet_put_u64(self.0, number.into(), value, pad.into()) })
    }

    /// Adds bytes.
    pub fn bytes(&mut self, number: u16, value: &[u8]) -> Result {
        let len = i32::try_from(value.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: valid by `from_raw`; `value` has `len` bytes.
        to_result(unsafe { bindings::nla_put(self.0, number.into(), len, value.as_ptr().cast()) })
    }
}

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

    /// The qdisc's or class's own statistics (`TCA_STATS_APP`), as attributes.
    pub fn app(&mut self, fill: impl FnOnce(&mut Message) -> Result) -> Result {
        // SAFETY: valid by `from_raw`; the dump's message is valid as long as the dump.
        let mut message = unsafe { Message::from_raw(bindings::knet_dump_skb(self.0)) };
        message.nest(bindings::TCA_STATS_APP as u16, fill)
    }
}
