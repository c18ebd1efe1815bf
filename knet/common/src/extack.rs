// SPDX-License-Identifier: GPL-2.0
//! Error messages for netlink requests.

use crate::bindings;
use core::fmt::{self, Write};
use kernel::error::Error;

/// Where a refused request gets its message. Maps to C's `struct netlink_ext_ack`.
pub struct Extack(*mut bindings::netlink_ext_ack);

/// The kernel copies messages into a buffer of this size (`NETLINK_MAX_FMTMSG_LEN`).
const LEN: usize = 80;

/// Collects text up to the buffer's size and drops the rest.
struct Message {
    text: [u8; LEN],
    len: usize,
}

impl Write for Message {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for &byte in s.as_bytes() {
            // The last byte stays NUL.
            if self.len >= LEN - 1 {
                break;
            }
            if let Some(place) = self.text.get_mut(self.len) {
                *place = byte;
                self.len = self.len.wrapping_add(1);
            }
        }
        Ok(())
    }
}

impl Extack {
    /// # Safety
    ///
    /// `extack` must be null or a `struct netlink_ext_ack` that is valid while this value lives.
    /// Each crate has a type of its own for that, from its own bindings.
    pub unsafe fn from_raw<T>(extack: *mut T) -> Self {
        Extack(extack.cast())
    }

    /// Says which attribute of the request is to blame: the one that `attr`, a part of the request,
    /// begins with.
    pub(crate) fn blame(&mut self, attr: &[u8]) {
        if !self.0.is_null() {
            // SAFETY: valid by `from_raw`. C keeps the address to work out a distance from the
            // request's start.
            unsafe { bindings::knet_extack_blame(self.0, attr.as_ptr().cast()) };
        }
    }

    /// Sets the message, cut to 79 bytes, and returns `error` so that a caller can say
    /// `return Err(extack.refuse(EINVAL, format_args!(…)))`.
    pub fn refuse(&mut self, error: Error, message: fmt::Arguments<'_>) -> Error {
        if !self.0.is_null() {
            let mut buffer = Message {
                text: [0; LEN],
                len: 0,
            };
            // Message never fails, and a message cut short is better than none.
            let _ = buffer.write_fmt(message);
            // SAFETY: valid by `from_raw`; the text is NUL-terminated, and C copies it.
            unsafe { bindings::knet_extack_set(self.0, buffer.text.as_ptr().cast()) };
        }
        error
    }
}
