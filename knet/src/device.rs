// SPDX-License-Identifier: GPL-2.0
//! The network device that a qdisc is on.

use crate::bindings;
use core::{marker::PhantomData, ptr::NonNull};

/// A borrowed network device. Maps to C's `struct net_device`.
pub struct Device<'a>(NonNull<bindings::net_device>, PhantomData<&'a ()>);

impl Device<'_> {
    /// # Safety
    ///
    /// `dev` must be valid for the lifetime of the result, and the caller must hold RTNL (and the
    /// device's own lock where it has one), as qdisc configuration does.
    pub(crate) unsafe fn from_raw(dev: NonNull<bindings::net_device>) -> Self {
        Device(dev, PhantomData)
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::net_device {
        self.0.as_ptr()
    }

    /// Link speed in bytes/s as ethtool would show it. `None`: the device reports none.
    pub fn speed(&self) -> Option<u64> {
        // SAFETY: promised to `from_raw`.
        match unsafe { bindings::knet_device_speed(self.0.as_ptr()) } {
            0 => None,
            speed => Some(speed),
        }
    }

    /// Bytes of a transmit queue of `tx_queue_len` full packets: what bfifo takes as its default limit.
    pub fn queue_bytes(&self) -> u32 {
        // SAFETY: promised to `from_raw`.
        unsafe { bindings::knet_device_queue_bytes(self.0.as_ptr()) }
    }
}
