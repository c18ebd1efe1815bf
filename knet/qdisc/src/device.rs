// SPDX-License-Identifier: GPL-2.0
//! The network device that a qdisc is on.

use crate::{bindings, tally::Tally};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::prelude::*;

/// What the frames of a device begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// An Ethernet header (`ARPHRD_ETHER`).
    Ethernet,
    /// Anything else, or nothing.
    Other,
}

impl Medium {
    /// # Safety
    ///
    /// `dev` must be valid.
    #[inline]
    pub(crate) unsafe fn of(dev: *mut bindings::net_device) -> Self {
        // SAFETY: promised by the caller. The field is an `unsigned short`; it may change at any
        // time, and is only looked at.
        let kind = unsafe {
            dev.wrapping_byte_add(bindings::KNET_DEVICE_TYPE as usize)
                .cast::<u16>()
                .read_volatile()
        };
        if u32::from(kind) == bindings::ARPHRD_ETHER {
            Medium::Ethernet
        } else {
            Medium::Other
        }
    }
}

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

    /// What its frames begin with.
    pub fn medium(&self) -> Medium {
        // SAFETY: promised to `from_raw`.
        unsafe { Medium::of(self.0.as_ptr()) }
    }

    /// Link speed in bytes/s as ethtool would show it. `None`: the device reports none.
    pub fn speed(&self) -> Option<u64> {
        // SAFETY: promised to `from_raw`.
        match unsafe { bindings::knet_device_speed(self.0.as_ptr()) } {
            0 => None,
            speed => Some(speed),
        }
    }

    /// Do its frames leave by other devices? RTNL is held while there is one of these.
    pub fn is_stacked(&self) -> bool {
        // SAFETY: promised to `from_raw`. A list that changes meanwhile is only compared with its
        // own address.
        unsafe { bindings::knet_device_is_stacked(self.0.as_ptr()) }
    }

    /// Does its link carry frames, as far as it knows?
    pub fn is_up(&self) -> bool {
        // SAFETY: promised to `from_raw`.
        unsafe { bindings::knet_device_is_up(self.0.as_ptr()) }
    }

    /// The longest frame that it sends or takes in bytes, with its header and a VLAN tag.
    pub fn frame_bytes(&self) -> u32 {
        // SAFETY: promised to `from_raw`.
        unsafe { bindings::knet_device_frame_bytes(self.0.as_ptr()) }
    }

    /// What packets that it receives may be merged into, in bytes; 0 if they are not.
    pub fn merged_bytes(&self) -> u32 {
        // SAFETY: promised to `from_raw`. Fields that change meanwhile are only read.
        unsafe { bindings::knet_device_merged_bytes(self.0.as_ptr()) }
    }

    /// A number that all qdiscs on devices of its namespace count together that ask for it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn tally(&self) -> Result<Tally> {
        // SAFETY: promised to `from_raw`; configuration may sleep.
        unsafe { Tally::of(self.0.as_ptr()) }
    }

    /// Bytes of a transmit queue of `tx_queue_len` full packets: what bfifo takes as its default
    /// limit.
    pub fn queue_bytes(&self) -> u32 {
        // SAFETY: promised to `from_raw`.
        unsafe { bindings::knet_device_queue_bytes(self.0.as_ptr()) }
    }
}
