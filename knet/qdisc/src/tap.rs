// SPDX-License-Identifier: GPL-2.0
//! Hearing what a device receives.
//!
//! A qdisc sees only what its device sends. Who must know what comes back, acknowledgements for
//! example, has a [`Listener`]. It belongs to knet, which lets it listen from
//! [`Configuring::listen`](crate::Configuring::listen) until the qdisc is destroyed, and drops it
//! when nobody can be calling it any more: that is a grace period later, for which nobody waits.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h),
//! `struct packet_type`.

use crate::{bindings, skb::HeaderBuffer};
use core::{cell::UnsafeCell, marker::PhantomData, ptr::NonNull};
use kernel::prelude::*;

/// What listens. It is dropped in a process, some time after its qdisc.
pub trait Listener: Send + 'static {
    /// What there is to know of a packet.
    type News;

    /// Is the packet of interest? Called for every packet that the device receives, without a lock.
    fn sift(packet: &Heard<'_>) -> Option<Self::News>;

    /// It is, and this is what [`Listener::sift`] found. Called with the lock.
    fn heard(&mut self, news: Self::News);
}

/// Nobody listens.
impl Listener for () {
    type News = ();

    fn sift(_packet: &Heard<'_>) -> Option<()> {
        None
    }

    fn heard(&mut self, (): ()) {}
}

/// A packet that a device has received, before anybody else had it: borrowed, and not to be
/// changed.
pub struct Heard<'a>(NonNull<bindings::sk_buff>, PhantomData<&'a ()>);

impl Heard<'_> {
    /// EtherType in host byte order, and what follows it, possibly cut short. An outer VLAN tag is
    /// not there any more.
    pub fn network<'a>(&'a self, buffer: &'a mut HeaderBuffer) -> (u16, &'a [u8]) {
        let skb = self.0.as_ptr();
        // SAFETY: the packet is valid while it is borrowed. A device's receive path has `data` at
        // the network header.
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
struct Inner<L> {
    tap: UnsafeCell<bindings::knet_tap>,
    listener: UnsafeCell<L>,
}

/// A [`Listener`] that hears what one device receives.
///
/// # Invariants
///
/// `Inner` never moves. Its tap is started; its listener is touched with the tap's lock only.
/// Transparent, so that `None` of it is 0, as a qdisc's private area begins.
#[repr(transparent)]
pub(crate) struct Tap<L: Listener>(NonNull<Inner<L>>);

impl<L: Listener> Tap<L> {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `dev` must be valid until the tap is stopped, and RTNL held.
    pub(crate) unsafe fn start(dev: *mut bindings::net_device, listener: L) -> Result<Self> {
        let inner = KBox::new(
            Inner {
                tap: UnsafeCell::new(bindings::knet_tap::default()),
                listener: UnsafeCell::new(listener),
            },
            GFP_KERNEL,
        )?;
        let inner = KBox::into_raw(inner);
        // SAFETY: a box is not null, and what is in it is valid; `dev` is by the caller's promise.
        // Whoever is called finds the listener, and nobody is called any more when `ended` is. If
        // it does not start, the box is ours alone as before.
        unsafe {
            let tap = (*inner).tap.get();
            bindings::knet_tap_init(tap);
            let started = bindings::knet_tap_start(tap, dev, Some(heard::<L>), Some(ended::<L>));
            if started != 0 {
                drop(KBox::from_raw(inner));
                return Err(Error::from_errno(started));
            }
            // INVARIANT: `Inner` is in memory of its own, which `ended` frees.
            Ok(Tap(NonNull::new_unchecked(inner)))
        }
    }

    /// Works on the listener while it hears nothing.
    ///
    /// # Safety
    ///
    /// Nobody on this processor may be working on it already. (Where there is only one processor
    /// the lock keeps nobody out.)
    #[inline]
    pub(crate) unsafe fn with<R>(&self, work: impl FnOnce(&mut L) -> R) -> R {
        // SAFETY: `Inner` is valid as long as the tap is started. The rest is promised by the
        // caller.
        unsafe { locked(self.0.as_ref(), work) }
    }

    /// Listens no longer.
    ///
    /// # Safety
    ///
    /// RTNL must be held.
    pub(crate) unsafe fn stop(self) {
        // SAFETY: it was started, and is stopped once: `self` is used up. After a grace period C
        // calls `ended`.
        unsafe { bindings::knet_tap_stop(self.0.as_ref().tap.get()) }
    }
}

/// # Safety
///
/// As for [`Tap::with`].
#[inline]
unsafe fn locked<L, R>(inner: &Inner<L>, work: impl FnOnce(&mut L) -> R) -> R {
    let tap = inner.tap.get();
    // SAFETY: the lock is set up before anybody can call this. It excludes all other processors,
    // the caller all else.
    unsafe {
        bindings::knet_tap_lock(tap);
        let result = work(&mut *inner.listener.get());
        bindings::knet_tap_unlock(tap);
        result
    }
}

/// # Safety
///
/// Called by C in a softirq for a tap that `Tap::start` started, with a valid packet. The lock
/// keeps softirqs out, so nobody on this processor has it.
unsafe extern "C" fn heard<L: Listener>(
    tap: *mut bindings::knet_tap,
    skb: *const bindings::sk_buff,
) {
    // SAFETY: `tap` is the first field of an `Inner` that lives until `ended`; no packet is at
    // address 0.
    let (inner, packet) = unsafe {
        let skb = NonNull::new_unchecked(skb.cast_mut());
        (&*tap.cast::<Inner<L>>(), Heard(skb, PhantomData))
    };
    if let Some(news) = L::sift(&packet) {
        // SAFETY: as C calls us.
        unsafe { locked(inner, |listener| listener.heard(news)) };
    }
}

/// # Safety
///
/// C's last call for a tap that `Tap::start` started, in a process, when nobody can be in `heard`
/// any more.
unsafe extern "C" fn ended<L: Listener>(tap: *mut bindings::knet_tap) {
    // SAFETY: `tap` is the first field of an `Inner` that came from a box; nobody else has its
    // address any more.
    drop(unsafe { KBox::from_raw(tap.cast::<Inner<L>>()) });
}
