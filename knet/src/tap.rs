// SPDX-License-Identifier: GPL-2.0
//! Hearing what a device receives.
//!
//! A qdisc sees only what its device sends. Who must know what comes back, acknowledgements for example, listens with a [`Tap`].
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h), `struct packet_type`.

use crate::{bindings, device::Device, skb::HeaderBuffer};
use core::{cell::UnsafeCell, marker::PhantomData, ptr::NonNull};
use kernel::prelude::*;

/// What listens.
pub trait Listener: Send + 'static {
    /// What there is to know of a packet.
    type News;

    /// Is the packet of interest? Called for every packet that the device receives, without a lock.
    fn sift(packet: &Heard<'_>) -> Option<Self::News>;

    /// It is, and this is what [`Listener::sift`] found. Called with the lock.
    fn heard(&mut self, news: Self::News);
}

/// A packet that a device has received, before anybody else had it: borrowed, and not to be changed.
pub struct Heard<'a>(NonNull<bindings::sk_buff>, PhantomData<&'a ()>);

impl Heard<'_> {
    /// EtherType in host byte order, and what follows it, possibly cut short. An outer VLAN tag is not there any more.
    pub fn network<'a>(&'a self, buffer: &'a mut HeaderBuffer) -> (u16, &'a [u8]) {
        let skb = self.0.as_ptr();
        // SAFETY: the packet is valid while it is borrowed. A device's receive path has `data` at the network header.
        let (protocol, len, linear) = unsafe {
            let protocol: *const u16 = skb
                .wrapping_byte_add(bindings::KNET_SKB_PROTOCOL as usize)
                .cast();
            let len = (*skb).len;
            (
                u16::from_be(*protocol),
                len,
                len.saturating_sub((*skb).data_len),
            )
        };
        let wanted = len.min(buffer.len() as u32);
        if wanted <= linear {
            // SAFETY: `data` points to `linear` readable bytes, which nobody changes meanwhile.
            let bytes = unsafe { core::slice::from_raw_parts((*skb).data, wanted as usize) };
            return (protocol, bytes);
        }
        // SAFETY: the buffer has room for `wanted` bytes, and the packet that many.
        let copied =
            unsafe { bindings::skb_copy_bits(skb, 0, buffer.as_mut_ptr().cast(), wanted as i32) };
        match buffer.get(..wanted as usize) {
            Some(bytes) if copied == 0 => (protocol, bytes),
            _ => (protocol, &[]),
        }
    }
}

/// `tap` comes first: C hands out its address.
#[repr(C)]
struct Inner<T> {
    tap: UnsafeCell<bindings::knet_tap>,
    listener: UnsafeCell<T>,
}

/// A [`Listener`] that hears what one device receives, until this is dropped.
///
/// # Invariants
///
/// `Inner` never moves. Its tap is started; its listener is touched with the tap's lock only. Made and dropped under RTNL, in a context that may
/// sleep, while the device lives.
pub struct Tap<T: Listener>(KBox<Inner<T>>);

// SAFETY: the listener is `Send`, and the lock sees to it that one thread at a time has it.
unsafe impl<T: Listener> Send for Tap<T> {}
// SAFETY: as above.
unsafe impl<T: Listener> Sync for Tap<T> {}

impl<T: Listener> Tap<T> {
    /// Starts to listen. The device is borrowed as a qdisc has it: it outlives the qdisc.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'_>, listener: T) -> Result<Self> {
        let inner = KBox::new(
            Inner {
                tap: UnsafeCell::new(bindings::knet_tap::default()),
                listener: UnsafeCell::new(listener),
            },
            GFP_KERNEL,
        )?;
        let tap = inner.tap.get();
        // SAFETY: the box does not move what is in it. Whoever is called finds the listener, and stops to be called before the box is freed.
        unsafe {
            bindings::knet_tap_init(tap);
            bindings::knet_tap_start(tap, device.as_ptr(), Some(heard::<T>));
        }
        Ok(Tap(inner))
    }

    /// Works on the listener while it hears nothing.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        locked(&self.0, work)
    }
}

#[inline]
fn locked<T, R>(inner: &Inner<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let tap = inner.tap.get();
    // SAFETY: the lock is set up before anybody can call this. It excludes all other uses of the listener.
    unsafe {
        bindings::knet_tap_lock(tap);
        let result = work(&mut *inner.listener.get());
        bindings::knet_tap_unlock(tap);
        result
    }
}

impl<T: Listener> Drop for Tap<T> {
    fn drop(&mut self) {
        // SAFETY: it was started. After this nobody uses what is in the box.
        unsafe { bindings::knet_tap_stop(self.0.tap.get()) }
    }
}

/// # Safety
///
/// Called by C for a tap that `Tap::new` started, with a valid packet.
unsafe extern "C" fn heard<T: Listener>(
    tap: *mut bindings::knet_tap,
    skb: *const bindings::sk_buff,
) {
    // SAFETY: `tap` is the first field of an `Inner` that lives until the tap is stopped; no packet is at address 0.
    let (inner, packet) = unsafe {
        let skb = NonNull::new_unchecked(skb.cast_mut());
        (&*tap.cast::<Inner<T>>(), Heard(skb, PhantomData))
    };
    if let Some(news) = T::sift(&packet) {
        locked(inner, |listener| listener.heard(news));
    }
}
