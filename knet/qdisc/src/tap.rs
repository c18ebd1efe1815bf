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
use core::{cell::UnsafeCell, marker::PhantomData, ptr, ptr::NonNull};
use kernel::{prelude::*, sync::rcu};

/// What listens, and what qdiscs on other devices of the namespace may work on if they have packets
/// that the device received: [`Enqueuing::listener_of`](crate::Enqueuing::listener_of). It is
/// dropped in a process, some time after its qdisc.
pub trait Listener: Send + 'static {
    /// What there is to know of a packet.
    type News;

    /// Is the packet of interest? Called for every packet that the device receives, without a lock.
    fn sift(packet: &Heard<'_>) -> Option<Self::News>;

    /// It is, and this is what [`Listener::sift`] found. Called with the lock. `true`: the qdisc
    /// has packets to give that it had not before, and is to be asked for them.
    fn heard(&mut self, news: Self::News) -> bool;

    /// It is about to listen no more: what there is to say to the other end of the device's link.
    /// The Ethernet frame leaves with the device's own address as its source, unless the device is
    /// down or busy. Called with the lock, in a process.
    fn last_word(&mut self) -> Option<LastWord> {
        None
    }
}

/// An Ethernet frame of the least length.
pub type LastWord = [u8; 60];

/// Nobody listens.
impl Listener for () {
    type News = ();

    fn sift(_packet: &Heard<'_>) -> Option<()> {
        None
    }

    fn heard(&mut self, (): ()) -> bool {
        false
    }
}

/// A packet that a device has received, before anybody else had it: borrowed, and not to be
/// changed.
pub struct Heard<'a>(NonNull<bindings::sk_buff>, PhantomData<&'a ()>);

impl Heard<'_> {
    /// EtherType in host byte order.
    #[inline]
    pub fn protocol(&self) -> u16 {
        let skb = self.0.as_ptr();
        // SAFETY: the packet is valid while it is borrowed.
        unsafe {
            let protocol: *const u16 = skb
                .wrapping_byte_add(bindings::KNET_SKB_PROTOCOL as usize)
                .cast();
            u16::from_be(*protocol)
        }
    }

    /// Where the frame went to, on an Ethernet.
    pub fn destination(&self) -> Option<&[u8; 6]> {
        // SAFETY: the packet is valid while it is borrowed, and comes from a device.
        let destination = unsafe { bindings::knet_skb_destination(self.0.as_ptr()) };
        // SAFETY: if there is one, it is six readable bytes of the packet's linear part, which
        // nobody changes meanwhile.
        unsafe { destination.cast::<[u8; 6]>().as_ref() }
    }

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
    /// `dev` must be valid until the tap is stopped, and RTNL held. `sch` must be
    /// valid: packets are asked for from its queue of the device.
    pub(crate) unsafe fn start(
        dev: *mut bindings::net_device,
        sch: *mut bindings::Qdisc,
        listener: L,
    ) -> Result<Self> {
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
            let started =
                bindings::knet_tap_start(tap, dev, sch, Some(heard::<L>), Some(ended::<L>));
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

    /// Works on the listeners of the qdiscs of `sch`'s kind that send by the device with this
    /// number, one after the other while they hear nothing, until `work` says something. What it
    /// says with `true` is, as [`Listener::heard`] does, that the qdisc is to be asked for packets.
    ///
    /// # Safety
    ///
    /// `sch` must be valid, and have a device. Its kind must have listeners of this type, and
    /// nobody on this processor may be working on any of them already.
    pub(crate) unsafe fn find<R>(
        sch: *mut bindings::Qdisc,
        ifindex: i32,
        mut work: impl FnMut(&mut L) -> Option<(R, bool)>,
    ) -> Option<R> {
        let _rcu = rcu::read_lock();
        let (mut ifindex, mut tap) = (ifindex, ptr::null_mut());
        loop {
            // SAFETY: `sch` is valid by the caller's promise, and RCU is read-locked until the end.
            tap = unsafe { bindings::knet_tap_find(sch, ifindex, tap) };
            if tap.is_null() {
                // What came in by a VLAN's device came in by the link below it, which is no VLAN's.
                // SAFETY: as above.
                ifindex = unsafe { bindings::knet_vlan_link(sch, ifindex) };
                if ifindex == 0 {
                    return None;
                }
                continue;
            }
            // SAFETY: `tap` is the first field of an `Inner` that lives until `ended`, which is
            // called a grace period after it can no longer be found. It belongs to a qdisc of the
            // same kind, so that its listener is of the same type.
            let inner = unsafe { &*tap.cast::<Inner<L>>() };
            // SAFETY: promised by the caller.
            let Some((result, wake)) = (unsafe { locked(inner, &mut work) }) else {
                continue;
            };
            if wake {
                // SAFETY: as above; the device and its queues are there until the end, too.
                unsafe { bindings::knet_tap_wake(tap) };
            }
            return Some(result);
        }
    }

    /// Listens no longer.
    ///
    /// # Safety
    ///
    /// RTNL must be held, and nobody on this processor may be working on the listener.
    pub(crate) unsafe fn stop(self) {
        // SAFETY: promised by the caller. The tap's device is valid until it is stopped, and the
        // frame has as many bytes.
        unsafe {
            if let Some(frame) = self.with(L::last_word) {
                let tap = self.0.as_ref().tap.get();
                bindings::knet_tap_say(tap, frame.as_ptr(), frame.len() as u32);
            }
        }
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
        // SAFETY: as C calls us. The packet's device is there, and so are its queues.
        unsafe {
            if locked(inner, |listener| listener.heard(news)) {
                bindings::knet_tap_wake(tap);
            }
        }
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
