// SPDX-License-Identifier: GPL-2.0
//! A network namespace: its state, lock, timer and the packets that it sends.

use crate::{
    bindings,
    buffer::Written,
    seal::Seal,
    sock::{Sock, Tie},
    transport::{Path, Transport},
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};
use kernel::{
    error::{to_result, Result},
    ffi::c_int,
};

/// `CLOCK_BOOTTIME`, ns: it goes on while the machine is suspended. The timer runs by it.
pub fn now() -> u64 {
    // SAFETY: no preconditions.
    unsafe { bindings::knt_now() }
}

/// [`now`], and `CLOCK_TAI` or `CLOCK_REALTIME` at that moment, ns. The hardware is read once.
pub fn times(tai: bool) -> (u64, u64) {
    // SAFETY: no preconditions.
    let times = unsafe { bindings::knt_times(tai) };
    (times.now, times.wall)
}

/// A random number that nobody can guess.
pub fn random() -> u64 {
    // SAFETY: no preconditions.
    unsafe { bindings::knt_random() }
}

/// A network namespace, as the transport `T` sees it during a call.
///
/// There is one in each call, and it cannot be copied or kept. [`Net::lock`] borrows it, and all
/// that sleeps wants it: so nothing is locked twice, and nobody sleeps with the lock.
///
/// # Invariants
///
/// The namespace lives for `'a`, and its state is `T`'s. Of the code that has this value, nobody
/// has its lock but by a [`Looking`] or a [`Locked`] that borrows it.
pub struct Net<'a, T: Transport> {
    raw: NonNull<bindings::knt_net>,
    _lives: PhantomData<(&'a (), T)>,
}

impl<T: Transport> Net<'_, T> {
    /// # Safety
    ///
    /// `net` must live as long as the value, and its state be `T`'s: `T` is the transport that is
    /// registered. The caller is called by C, which does not have the lock, and makes no other
    /// value of the same call.
    pub(crate) unsafe fn from_raw(net: *mut bindings::knt_net) -> Self {
        // INVARIANT: promised by the caller.
        Self {
            // SAFETY: what lives is not at address 0.
            raw: unsafe { NonNull::new_unchecked(net) },
            _lives: PhantomData,
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::knt_net {
        self.raw.as_ptr()
    }

    /// Locks the state; `None` if there is none yet. Bottom halves are off until it is released: no
    /// sleeping.
    pub fn lock(&mut self) -> Option<Locked<'_, T>> {
        // INVARIANT: what has the lock is taken apart, and gives it back no more by itself.
        let looking = ManuallyDrop::new(self.look()?);
        Some(Locked {
            net: looking.net,
            state: looking.state,
            outbox: Outbox {
                packets: bindings::knt_outbox::default(),
                net: looking.net.as_ptr(),
            },
            _net: PhantomData,
        })
    }

    /// The same for who changes nothing of what [`Transport::next_timer`] depends on, and has
    /// nothing to send: that is not asked when the lock is released. If it did change, the timer
    /// would be late until the lock is taken once more.
    pub fn look(&mut self) -> Option<Looking<'_, T>> {
        // SAFETY: the namespace lives.
        let state = unsafe { bindings::knt_net_state(self.as_raw()) };
        let state = NonNull::new(state)?.cast();
        // SAFETY: the namespace lives. The lock is not held by who called us: by the type's
        // invariant that is who has a value that borrows `self`, which is borrowed exclusively
        // here. A single processor, where the lock is none, has nobody else: bottom halves are off
        // while it is held. Who forgot a `Looking` or a `Locked` has no reference to the state any
        // more, and waits here.
        unsafe { bindings::knt_net_lock(self.as_raw()) };
        Some(Looking {
            net: self.raw,
            state,
            _net: PhantomData,
        })
    }
}

/// A namespace's state, locked by [`Net::look`].
///
/// # Invariants
///
/// The namespace lives, its state is at `state`, and the lock is held and given back by this value
/// alone.
pub struct Looking<'a, T: Transport> {
    net: NonNull<bindings::knt_net>,
    state: NonNull<T::State>,
    _net: PhantomData<&'a mut T::State>,
}

impl<T: Transport> Deref for Looking<'_, T> {
    type Target = T::State;

    fn deref(&self) -> &T::State {
        // SAFETY: the lock excludes all others, and the state lives as long as the namespace.
        unsafe { self.state.as_ref() }
    }
}

impl<T: Transport> DerefMut for Looking<'_, T> {
    fn deref_mut(&mut self) -> &mut T::State {
        // SAFETY: as in `deref`.
        unsafe { self.state.as_mut() }
    }
}

impl<T: Transport> Drop for Looking<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the lock is held, and given back.
        unsafe { bindings::knt_net_unlock(self.net.as_ptr()) }
    }
}

/// The packets to send when the lock is released.
///
/// # Invariants
///
/// `net` lives as long as this.
pub struct Outbox {
    pub(crate) packets: bindings::knt_outbox,
    pub(crate) net: *mut bindings::knt_net,
}

/// A packet to send.
pub struct Departure<'a> {
    /// Whom to, and from which address.
    pub to: Path,
    /// The socket that it is from, by which the kernel decides whether and how it goes: its cgroup,
    /// user, priority. `None`: nobody's.
    pub socket: Option<&'a Sock>,
    /// The mark that it has, and the device that it goes by.
    pub tie: Tie,
    /// The transport's header.
    pub head: &'a [u8],
    /// What follows it: bytes `offset..offset + len` of what was written.
    pub payload: Option<(&'a Written, u32, u32)>,
    /// The UDP port that it comes from.
    pub port: u16,
    /// DSCP and ECN of IP's header.
    pub tos: u8,
    /// How it is sealed; `None`: it is sent as it is.
    pub seal: Option<&'a Seal>,
    /// Whether it counts among what [`Outbox::has_room`] looks at.
    pub counts: bool,
}

impl Outbox {
    /// Adds a packet. `false`: no memory; it is longer than an IP packet, or its header than 256
    /// bytes; the payload is not there any more, or not yet; or the socket is of another namespace,
    /// or not of the path's family.
    pub fn add(&mut self, departure: &Departure<'_>) -> bool {
        let raw = departure.to_raw(departure.head);
        // SAFETY: all pointers are to what lives during the call.
        unsafe { bindings::knt_outbox_add(self.net, &mut self.packets, &raw) }
    }

    /// Adds packets in a row: `heads` are their headers, which take the place of `departure`'s; its
    /// payload is that of all of them, of which all but the last have `each` bytes. None of them
    /// counts, or is sealed. `false`: some were not added, as for one, or as there are too few
    /// headers.
    pub fn add_run<const N: usize>(
        &mut self,
        departure: &Departure<'_>,
        heads: &[[u8; N]],
        each: u32,
    ) -> bool {
        let Some(head) = heads.first() else {
            return false;
        };
        let raw = departure.to_raw(head);
        // C takes as many headers as there are packets.
        let most = each.saturating_mul(u32::try_from(heads.len()).unwrap_or(u32::MAX));
        if raw.len > most {
            return false;
        }
        // SAFETY: all pointers are to what lives during the call, and there is a header for each of
        // the packets, one behind the other.
        unsafe { bindings::knt_outbox_add_run(self.net, &mut self.packets, &raw, each) }
    }
}

impl Departure<'_> {
    fn to_raw(&self, head: &[u8]) -> bindings::knt_departure {
        let (out, offset, len) = match self.payload {
            Some((written, offset, len)) => (written.as_raw(), offset, len),
            None => (core::ptr::null_mut(), 0, 0),
        };
        bindings::knt_departure {
            to: bindings::knt_path {
                ip: self.to.ip,
                local: self.to.local,
                scope: self.to.scope,
            },
            sk: self.socket.map_or(core::ptr::null_mut(), Sock::as_raw),
            tie: self.tie.to_raw(),
            head: head.as_ptr(),
            head_len: u32::try_from(head.len()).unwrap_or(u32::MAX),
            out,
            offset,
            len,
            port: self.port,
            tos: self.tos,
            seal: self.seal.map_or(core::ptr::null(), Seal::as_raw),
            counts: self.counts,
        }
    }
}

/// What is known of a device's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// There is no such device, it is down, or it was not asked yet.
    Gone,
    /// It does not say.
    Silent,
    /// Bytes/s.
    Speed(u64),
}

/// A namespace's state, locked.
///
/// # Invariants
///
/// The namespace lives, its state is at `state`, and the lock is held and given back by this value
/// alone.
pub struct Locked<'a, T: Transport> {
    net: NonNull<bindings::knt_net>,
    state: NonNull<T::State>,
    outbox: Outbox,
    _net: PhantomData<&'a mut T::State>,
}

impl<T: Transport> Locked<'_, T> {
    /// The state, and where packets to send go.
    pub fn parts(&mut self) -> (&mut T::State, &mut Outbox) {
        // SAFETY: the lock excludes all others, and the state lives as long as the namespace.
        (unsafe { self.state.as_mut() }, &mut self.outbox)
    }

    /// What is known of the device with this index, since it was last asked: when the state was
    /// made, and by [`Control::fastest`](crate::Control::fastest).
    pub fn device(&self, index: u32) -> Device {
        // SAFETY: the namespace lives by the type's invariant.
        match unsafe { bindings::knt_net_speed(self.net.as_ptr(), index) } {
            u64::MAX => Device::Gone,
            0 => Device::Silent,
            speed => Device::Speed(speed),
        }
    }

    /// Releases the lock, and sends the packets.
    ///
    /// # Errors
    /// `EPERM`: one of them may not go out, by netfilter or a program of its socket's cgroup.
    pub fn send(self) -> Result {
        // What is left to be dropped has no destructor.
        to_result(ManuallyDrop::new(self).release())
    }

    /// Does what is to be done at the end, once.
    fn release(&mut self) -> c_int {
        let at = T::next_timer(self).unwrap_or(u64::MAX);
        // SAFETY: the lock is held, and given back.
        unsafe {
            bindings::knt_net_arm(self.net.as_ptr(), at);
            bindings::knt_net_unlock(self.net.as_ptr());
        }
        let packets = &self.outbox.packets;
        if packets.first.is_null() && packets.garbage.is_null() && packets.outs.is_null() {
            return 0;
        }
        // SAFETY: the packets are given away, and the lock is not held any more.
        unsafe { bindings::knt_outbox_send(self.net.as_ptr(), &mut self.outbox.packets) }
    }
}

impl<T: Transport> Deref for Locked<'_, T> {
    type Target = T::State;

    fn deref(&self) -> &T::State {
        // SAFETY: as in `parts`.
        unsafe { self.state.as_ref() }
    }
}

impl<T: Transport> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T::State {
        // SAFETY: as in `parts`.
        unsafe { self.state.as_mut() }
    }
}

impl<T: Transport> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        // To the endpoint a packet that does not go out is lost.
        let _ = self.release();
    }
}
