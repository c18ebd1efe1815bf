// SPDX-License-Identifier: GPL-2.0
//! From the kernel's operations tables to the [`Qdisc`] trait.
//!
//! A qdisc's private area holds a [`Private`], in zeroed memory that never moves. Its life: `init`
//! sets up watchdog and filters first, because the kernel calls `destroy` also after a failed
//! `init`, then the shared part, then the implementation itself, and says so in `live`.

use super::{Context, Locked, Qdisc, Rtnl};
use crate::{bindings, child::MAX_CHILDREN, skb::Skb, tap::Tap, Extack};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{self, MaybeUninit},
    ptr::NonNull,
    sync::atomic::AtomicI32,
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

mod classes;
mod lifecycle;
mod packets;

use classes::{
    bind, change_class, delete_class, dump_class, dump_class_stats, find, graft, leaf, tcf_block,
    unbind, walk,
};
pub(crate) use lifecycle::nest;
use lifecycle::{change, destroy, dump, dump_stats, init, reset};
use packets::{dequeue, enqueue, peek, settle};
pub(super) use packets::{dequeue_slow, enqueue_slow, give_away, is_on_device};

/// A qdisc's private area. What each packet needs comes first.
#[repr(C)]
pub(super) struct Private<T: Qdisc> {
    /// The qdisc's device, which outlives it.
    pub(super) dev: *mut bindings::net_device,
    pub(super) filters: Filters,
    tap: Option<Tap<T::Listener>>,
    watching: bool,
    /// A parent peeks: the packet that is asked for stays in the queue, as far as the counters are
    /// concerned.
    peeking: bool,
    /// What a parent has looked at: a packet of ours. While there is one, `dequeue` is another
    /// function.
    peeked: Option<NonNull<bindings::sk_buff>>,
    /// It counts as sent.
    peeked_counted: bool,
    /// `inner` is initialised.
    live: bool,
    /// What others have told of what came in by the device, and nobody has taken yet; null unless
    /// the qdisc [is told](Qdisc::IS_TOLD).
    ingress: *mut bindings::knet_ingress,
    inner: MaybeUninit<T>,
    pub(super) shared: T::Shared,
    /// By place; null or a qdisc of which we hold a reference. Changed under RTNL with the root
    /// lock held.
    children: [*mut bindings::Qdisc; MAX_CHILDREN],
    pub(super) watchdog: bindings::qdisc_watchdog,
    link: bindings::knet_link_watch,
    settling: bindings::knet_settling,
    /// Packets and bytes that were dropped, but are not off any counter yet: see `packets::lose`.
    owed: (u32, u32),
}

pub(super) struct Filters {
    pub(super) list: *mut bindings::tcf_proto,
    block: *mut bindings::tcf_block,
}

/// Where a qdisc of the kind that `T` implements has its private area.
pub(super) fn private<T: Qdisc>(sch: *mut bindings::Qdisc) -> *mut Private<T> {
    // C: qdisc_priv. The kernel allocated `priv_size` bytes for us there.
    sch.wrapping_byte_add(bindings::KNET_QDISC_PRIVATE as usize)
        .cast()
}

/// # Safety
///
/// As for [`private`], and `sch` must stay valid for `'a`.
unsafe fn context<'a, T: Qdisc>(sch: *mut bindings::Qdisc) -> Context<'a, T> {
    Context {
        // SAFETY: the kernel passes no null pointers here.
        sch: unsafe { NonNull::new_unchecked(sch) },
        _lock: PhantomData,
    }
}

/// # Safety
///
/// As for [`private`], the qdisc must be live, and the caller must exclude all other uses for `'a`:
/// by the root lock, or because the qdisc is not reachable.
pub(super) unsafe fn this<'a, T: Qdisc>(sch: *mut bindings::Qdisc) -> &'a mut T {
    // SAFETY: promised by the caller. The reference covers `inner` alone: what the kernel reaches
    // without the lock (watchdog, filters, the shared part) is beside it.
    unsafe { (*private::<T>(sch)).inner.assume_init_mut() }
}

/// Runs `work` with the qdisc's tree locked, and accounts for what it drops. `None` if the qdisc is
/// not live.
///
/// # Safety
///
/// As for [`private`]; RTNL must be held and the lock must not.
pub(crate) unsafe fn with_lock<T: Qdisc, R>(
    sch: *mut bindings::Qdisc,
    work: impl FnOnce(&mut T, &mut Locked<'_, T>) -> R,
) -> Option<R> {
    // SAFETY: `live` changes under RTNL only; the lock excludes the packet path, RTNL everybody
    // else.
    unsafe {
        if !(*private::<T>(sch)).live {
            return None;
        }
        let mut locked = Locked {
            context: context(sch),
            rtnl: Rtnl::held(),
            lost: (0, 0),
        };
        bindings::knet_tree_lock(sch);
        settle::<T>(sch);
        let result = work(this(sch), &mut locked);
        account_lost(sch, locked.lost);
        if locked.lost.0 != 0 {
            report_lost(sch, locked.lost);
        }
        bindings::knet_tree_unlock(sch);
        Some(result)
    }
}

/// The child in this place.
///
/// # Safety
///
/// As for [`private`]; RTNL or the root lock must be held, and the child is valid as long.
#[inline]
pub(super) unsafe fn child<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    place: usize,
) -> Option<NonNull<bindings::Qdisc>> {
    // SAFETY: promised by the caller.
    let children = unsafe { &raw const (*private::<T>(sch)).children };
    if place >= MAX_CHILDREN {
        return None;
    }
    // SAFETY: there are that many places.
    NonNull::new(unsafe { *children.cast::<*mut bindings::Qdisc>().add(place) })
}

/// Where the class's child has its place: one that there is.
fn child_place<T: Qdisc>(minor: u16, extack: &mut Extack) -> Result<usize> {
    let place = T::child_place(minor, extack)?;
    if place < T::CHILDREN {
        Ok(place)
    } else {
        Err(EINVAL)
    }
}

/// Lets `listener` hear what the device receives.
///
/// # Safety
///
/// As for [`private`]; RTNL must be held.
pub(super) unsafe fn listen<T: Qdisc>(sch: *mut bindings::Qdisc, listener: T::Listener) -> Result {
    let area = private::<T>(sch);
    // SAFETY: only who holds RTNL changes `tap`, and the packet path is stopped meanwhile. The
    // device outlives the qdisc, which stops the tap.
    unsafe {
        if (*area).tap.is_some() {
            return Err(EBUSY);
        }
        let tap = Tap::start((*area).dev, sch, listener)?;
        set_tap::<T>(sch, Some(tap));
    }
    Ok(())
}

/// Nobody hears what the device receives any longer, if anybody did.
///
/// # Safety
///
/// As for [`listen`].
pub(super) unsafe fn listen_no_more<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: promised by the caller. A tap is stopped once, as it is not there any more.
    unsafe {
        if let Some(tap) = set_tap::<T>(sch, None) {
            tap.stop();
        }
    }
}

/// Exchanges the tap while no packet comes or goes.
///
/// # Safety
///
/// As for [`listen`].
unsafe fn set_tap<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    tap: Option<Tap<T::Listener>>,
) -> Option<Tap<T::Listener>> {
    let area = private::<T>(sch);
    // SAFETY: promised by the caller. `live` changes under RTNL only; before a qdisc is live there
    // is no packet path.
    unsafe {
        if !(*area).live {
            return core::mem::replace(&mut (*area).tap, tap);
        }
        bindings::knet_tree_lock(sch);
        let before = core::mem::replace(&mut (*area).tap, tap);
        bindings::knet_tree_unlock(sch);
        before
    }
}

/// What others have told of what came in by the device, if the qdisc is told.
///
/// # Safety
///
/// As for [`private`]; the qdisc must be valid.
#[inline]
pub(super) unsafe fn told<T: Qdisc>(sch: *mut bindings::Qdisc) -> Option<&'static AtomicI32> {
    // SAFETY: promised by the caller, who does not keep it: what there is lives as long as the
    // qdisc. An `atomic_t` is an `int` that is read and written as such.
    unsafe {
        let ingress = (*private::<T>(sch)).ingress;
        (!ingress.is_null()).then(|| &*(&raw const (*ingress).told).cast::<AtomicI32>())
    }
}

/// Tells the qdiscs of this kind that send by the device which the packet came in by.
///
/// # Safety
///
/// As for [`private`]; the root lock must be held.
#[inline]
pub(super) unsafe fn tell<T: Qdisc>(sch: *mut bindings::Qdisc, skb: &Skb, amount: u32) {
    let ifindex = skb.came_in_by();
    if ifindex != 0 {
        // SAFETY: the qdisc's device outlives it, and those who are told are valid as C wants it.
        unsafe { bindings::knet_ingress_tell((*private::<T>(sch)).dev, ifindex, amount) }
    }
}

/// The qdisc is told of the same as others: what it was told alone is forgotten.
///
/// # Safety
///
/// As for [`private`], for a qdisc that nobody reaches; RTNL must be held, and `ingress` be one
/// that has not ended.
pub(crate) unsafe fn share_ingress<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    ingress: *mut bindings::knet_ingress,
) {
    // SAFETY: promised by the caller. What it had was its own, and `destroy` ends what it has now.
    unsafe {
        let own = &raw mut (*private::<T>(sch)).ingress;
        if !(*own).is_null() {
            bindings::knet_ingress_end(*own);
            own.write(bindings::knet_ingress_get(ingress));
        }
    }
}

/// Works on the listener while it hears nothing.
///
/// # Safety
///
/// As for [`private`]; RTNL or the root lock must be held, and nobody on this processor may be
/// working on the listener already.
#[inline]
pub(super) unsafe fn with_listener<T: Qdisc, R>(
    sch: *mut bindings::Qdisc,
    work: impl FnOnce(&mut T::Listener) -> R,
) -> Option<R> {
    // SAFETY: promised by the caller. `tap` changes under RTNL and, while the qdisc is live, the
    // root lock.
    unsafe { (*private::<T>(sch)).tap.as_ref().map(|tap| tap.with(work)) }
}

/// Works on the listener of the qdisc of this kind that sends by the device which the packet came
/// in by: [`Tap::find`].
///
/// # Safety
///
/// As for [`private`]; the qdisc must be valid, and nobody on this processor may be working on a
/// listener of its kind already.
#[inline]
pub(super) unsafe fn with_listener_of<T: Qdisc, R>(
    sch: *mut bindings::Qdisc,
    skb: &Skb,
    work: impl FnMut(&mut T::Listener) -> Option<(R, bool)>,
) -> Option<R> {
    match skb.came_in_by() {
        0 => None,
        // SAFETY: promised by the caller. A qdisc's device outlives it, and `sch` is of the kind
        // that `T` implements, whose listeners are of that type.
        ifindex => unsafe { Tap::find(sch, ifindex, work) },
    }
}

/// Takes dropped packets off this qdisc's counters.
///
/// # Safety
///
/// The qdisc's root lock must be held.
#[inline]
unsafe fn account_lost(sch: *mut bindings::Qdisc, (packets, bytes): (u32, u32)) {
    if packets != 0 {
        // SAFETY: promised by the caller.
        unsafe { bindings::knet_lost(sch, packets, bytes) }
    }
}

/// Takes dropped packets off the parents' counters, and tells them if the qdisc is empty now.
///
/// # Safety
///
/// The qdisc's root lock must be held, its own counters must be right already (a parent that finds
/// the qdisc empty deactivates its class), and no reference to any parent's data may be live.
#[inline]
unsafe fn report_lost(sch: *mut bindings::Qdisc, (packets, bytes): (u32, u32)) {
    // SAFETY: promised by the caller.
    unsafe { bindings::qdisc_tree_reduce_backlog(sch, packets as i32, bytes as i32) }
}

/// Adds to the parents' counters, modulo 2^32, and tells nobody.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held.
#[inline]
pub(super) unsafe fn count_at_parents(sch: *mut bindings::Qdisc, (packets, bytes): (u32, u32)) {
    // SAFETY: promised by the caller.
    unsafe {
        if (packets != 0 || bytes != 0) && has_parent(sch) {
            bindings::knet_count_at_parents(sch, packets, bytes);
        }
    }
}

/// Does anybody else count what is queued here? Not always so if it says yes.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held.
#[inline]
pub(super) unsafe fn has_parent(sch: *mut bindings::Qdisc) -> bool {
    // SAFETY: promised by the caller.
    unsafe { (*sch).parent != bindings::TC_H_ROOT }
}

/// The result of a callback as C wants it.
pub(crate) fn errno(result: Result) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The kind of qdisc that `T` implements: a `static` of the module.
///
/// ```ignore
/// static FIFO: Kind<Fifo> = Kind::new();
///
/// // In the module's `init`, which keeps it:
/// let registration = FIFO.register()?;
/// ```
///
/// What the kernel knows of the kind stays where it is as long as the module is there, and each
/// qdisc keeps the module there. So a kind may be unregistered at any time: there will be no new
/// qdiscs of it, and the old ones live on.
pub struct Kind<T: Qdisc> {
    kind: UnsafeCell<bindings::knet_kind>,
    _kind: PhantomData<fn() -> T>,
}

// SAFETY: there is nothing but `register` to do with it, which is for C to serialise.
unsafe impl<T: Qdisc> Sync for Kind<T> {}

impl<T: Qdisc> Kind<T> {
    const CLASSES: bindings::Qdisc_class_ops = bindings::Qdisc_class_ops {
        graft: Some(graft::<T>),
        leaf: Some(leaf::<T>),
        find: Some(find::<T>),
        change: Some(change_class::<T>),
        delete: Some(delete_class::<T>),
        walk: Some(walk::<T>),
        tcf_block: Some(tcf_block::<T>),
        bind_tcf: Some(bind::<T>),
        unbind_tcf: Some(unbind::<T>),
        dump: Some(dump_class::<T>),
        dump_stats: Some(dump_class_stats::<T>),
        // SAFETY: a table of numbers and optional functions may be all zeros.
        ..unsafe { mem::zeroed() }
    };

    /// The kind; unknown to the kernel as yet.
    pub const fn new() -> Self {
        const {
            assert!(
                !T::KIND.is_empty() && T::KIND.len() < bindings::IFNAMSIZ as usize,
                "the name of a kind has 1 to 15 bytes"
            );
            // The kernel takes whatever it allocates for us to be aligned like this, and the size
            // to be an `int`.
            assert!(
                align_of::<Private<T>>() <= PRIVATE_ALIGN
                    && bindings::KNET_QDISC_PRIVATE as usize % PRIVATE_ALIGN == 0,
                "a qdisc is aligned to 64 bytes at most"
            );
            assert!(
                size_of::<Private<T>>() <= PRIVATE_MAX,
                "a qdisc has a megabyte at most"
            );
            assert!(
                T::CHILDREN <= MAX_CHILDREN,
                "a qdisc has 16 children at most"
            );
        }
        let mut id = [0; bindings::IFNAMSIZ as usize];
        let mut at = 0;
        while at < T::KIND.len() {
            id[at] = T::KIND.as_bytes()[at];
            assert!(id[at] != 0, "the name of a kind has no NUL");
            at += 1;
        }
        Kind {
            kind: UnsafeCell::new(bindings::knet_kind {
                ops: bindings::Qdisc_ops {
                    cl_ops: const { &Self::CLASSES },
                    id,
                    priv_size: size_of::<Private<T>>() as i32,
                    static_flags: bindings::TCQ_F_DEQUEUE_DROPS,
                    enqueue: Some(enqueue::<T>),
                    dequeue: Some(dequeue::<T>),
                    peek: Some(peek::<T>),
                    init: Some(init::<T>),
                    reset: Some(reset::<T>),
                    destroy: Some(destroy::<T>),
                    change: Some(change::<T>),
                    dump: Some(dump::<T>),
                    dump_stats: Some(dump_stats::<T>),
                    // SAFETY: as for the classes.
                    ..unsafe { mem::zeroed() }
                },
                // SAFETY: nor does the rest have to be anything else.
                ..unsafe { mem::zeroed() }
            }),
            _kind: PhantomData,
        }
    }

    /// Its operations, by which a qdisc is known as one of the kind.
    pub(crate) fn ops(&'static self) -> *const bindings::Qdisc_ops {
        // SAFETY: a field of what lives as long as the module.
        unsafe { &raw const (*self.kind.get()).ops }
    }

    /// What C knows it as.
    pub(crate) fn raw(&'static self) -> *const bindings::knet_kind {
        self.kind.get()
    }

    /// Makes `tc qdisc add … KIND` work, until the result is dropped or the module goes. May sleep;
    /// takes RTNL.
    ///
    /// Qdiscs can be made as soon as the module's `init` has succeeded.
    ///
    /// # Errors
    ///
    /// `EEXIST` if this is registered, or another kind of its name; `ENOMEM`.
    pub fn register(&'static self) -> Result<Registration> {
        // SAFETY: it lives as long as the module, and is changed by C alone from here on.
        to_result(unsafe { bindings::knet_kind_register(self.kind.get()) })?;
        Ok(Registration(self.kind.get()))
    }
}

impl<T: Qdisc> Default for Kind<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// `struct Qdisc` is aligned to a cache line, and its private area begins with one.
const PRIVATE_ALIGN: usize = 64;
const PRIVATE_MAX: usize = 1 << 20;

/// A [`Kind`] is registered; dropping it unregisters the kind, but not on the packet path. Keep it
/// in the module.
#[must_use]
pub struct Registration(*mut bindings::knet_kind);

impl Registration {
    /// # Safety
    ///
    /// The kind must be registered, by whom nobody else speaks for, and live as long as the module.
    pub(crate) unsafe fn of(kind: *mut bindings::knet_kind) -> Self {
        Registration(kind)
    }
}

// SAFETY: C unregisters a kind from any thread.
unsafe impl Send for Registration {}
// SAFETY: there is nothing to do with a shared registration.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was registered, and lives as long as the module.
        unsafe { bindings::knet_kind_unregister(self.0) }
    }
}
