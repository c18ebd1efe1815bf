// SPDX-License-Identifier: GPL-2.0
//! Writing attributes into a netlink message.

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
    /// `skb` must be a `struct sk_buff` with a netlink message that is being built, valid while
    /// this value lives. Each crate has a type of its own for that, from its own bindings.
    pub unsafe fn from_raw<T>(skb: *mut T) -> Self {
        Message(skb.cast())
    }

    /// Adds a nested attribute and fills it. `EMSGSIZE`, and the message as it was, when there is
    /// no room.
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

    /// Adds a `u16`.
    pub fn u16(&mut self, number: u16, value: u16) -> Result {
        self.bytes(number, &value.to_ne_bytes())
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
        to_result(unsafe { bindings::knet_put(self.0, number.into(), len, value.as_ptr().cast()) })
    }
}
