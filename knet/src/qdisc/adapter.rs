// SPDX-License-Identifier: GPL-2.0
//! From the kernel's operations tables to the [`Qdisc`] trait.
//!
//! A qdisc's private area holds a [`Private`], in zeroed memory that never moves. Its life: `init` sets up watchdog and
//! filters first, because the kernel calls `destroy` also after a failed `init`, then the shared part, then
//! the implementation itself, and says so in `live`.

use super::{Changing, Context, Qdisc};
use crate::bindings;
use core::{ffi::c_void, marker::PhantomData, mem::MaybeUninit, ptr::NonNull};
use kernel::{
    error::{to_result, Result},
    prelude::*,
    ThisModule,
};

mod classes;
mod lifecycle;
mod packets;

use classes::{
    bind, change_class, delete_class, dump_class, dump_class_stats, find, graft, leaf, tcf_block,
    unbind, walk,
};
use lifecycle::{change, destroy, dump, dump_stats, init, reset};
use packets::{dequeue, enqueue, peek};
pub(super) use packets::{dequeue_unusual, enqueue_unusual, give_away};

/// A qdisc's private area.
pub(super) struct Private<T: Qdisc> {
    pub(super) watchdog: bindings::qdisc_watchdog,
    pub(super) filters: Filters,
    link: bindings::knet_link_watch,
    watching: bool,
    /// A parent peeks: the packet that is asked for stays in the queue, as far as the counters are concerned.
    peeking: bool,
    pub(super) shared: T::Shared,
    /// `inner` is initialised.
    live: bool,
    inner: MaybeUninit<T>,
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
/// As for [`private`], the qdisc must be live, and the caller must exclude all other uses for `'a`: by the root lock,
/// or because the qdisc is not reachable.
pub(super) unsafe fn this<'a, T: Qdisc>(sch: *mut bindings::Qdisc) -> &'a mut T {
    // SAFETY: promised by the caller. The reference covers `inner` alone: what the kernel reaches without the lock
    // (watchdog, filters, the shared part) is beside it.
    unsafe { (*private::<T>(sch)).inner.assume_init_mut() }
}

/// Runs `work` with the qdisc's tree locked, and accounts for what it drops. `None` if the qdisc is not live.
///
/// # Safety
///
/// As for [`private`]; RTNL must be held and the lock must not.
pub(super) unsafe fn with_lock<T: Qdisc, R>(
    sch: *mut bindings::Qdisc,
    work: impl FnOnce(&mut T, &mut Changing, Context<'_, T>) -> R,
) -> Option<R> {
    // SAFETY: `live` changes under RTNL only; the lock excludes the packet path, RTNL everybody else.
    unsafe {
        if !(*private::<T>(sch)).live {
            return None;
        }
        let mut changing = Changing::default();
        bindings::knet_tree_lock(sch);
        let result = work(this(sch), &mut changing, context(sch));
        account_lost(sch, changing.lost);
        report_lost(sch, changing.lost);
        bindings::knet_tree_unlock(sch);
        Some(result)
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

/// Takes dropped packets off the parents' counters.
///
/// # Safety
///
/// The qdisc's root lock must be held, its own counters must be right already (a parent that finds the qdisc
/// empty deactivates its class), and no reference to any parent's data may be live.
#[inline]
unsafe fn report_lost(sch: *mut bindings::Qdisc, (packets, bytes): (u32, u32)) {
    if packets != 0 {
        // SAFETY: promised by the caller.
        unsafe { bindings::qdisc_tree_reduce_backlog(sch, packets as i32, bytes as i32) }
    }
}

/// The result of a callback as C wants it.
fn errno(result: Result) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A registered qdisc kind; dropping it unregisters the kind. Keep it in the module.
pub struct Registration<T: Qdisc> {
    ops: KBox<bindings::Qdisc_ops>,
    _class_ops: KBox<bindings::Qdisc_class_ops>,
    _kind: PhantomData<T>,
}

// SAFETY: after registration only the kernel looks at the tables.
unsafe impl<T: Qdisc> Send for Registration<T> {}
// SAFETY: there is nothing to do with a shared registration.
unsafe impl<T: Qdisc> Sync for Registration<T> {}

impl<T: Qdisc> Registration<T> {
    /// Registers the kind.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the kind exists, `ENOMEM`.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        const { assert!(T::KIND.len() < bindings::IFNAMSIZ as usize) };
        // The private area begins at a multiple of what `struct Qdisc` is aligned to, which is a cache line; and so is what `kzalloc` gives for one.
        const {
            let align = align_of::<Private<T>>();
            assert!(bindings::KNET_QDISC_PRIVATE as usize % align == 0);
            assert!(align <= align_of::<bindings::Qdisc>());
        };
        let mut id = [0; bindings::IFNAMSIZ as usize];
        for (to, from) in id.iter_mut().zip(T::KIND.bytes()) {
            *to = from;
        }
        let class_ops = KBox::new(
            bindings::Qdisc_class_ops {
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
                ..Default::default()
            },
            GFP_KERNEL,
        )?;
        let mut ops = KBox::new(
            bindings::Qdisc_ops {
                cl_ops: &raw const *class_ops,
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
                owner: module.as_ptr().cast::<c_void>().cast(),
                ..Default::default()
            },
            GFP_KERNEL,
        )?;
        // The notifier before the kind: a qdisc must find it.
        // SAFETY: called once for the module, and undone in `drop` or right here. The tables stay where they are
        // when the boxes move.
        unsafe {
            to_result(bindings::knet_link_watch_start())?;
            if let Err(error) = to_result(bindings::register_qdisc(&raw mut *ops)) {
                bindings::knet_link_watch_stop();
                return Err(error);
            }
        }
        Ok(Registration {
            ops,
            _class_ops: class_ops,
            _kind: PhantomData,
        })
    }
}

impl<T: Qdisc> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: both were registered in `new`. The module's reference count keeps us from getting here while a
        // qdisc exists.
        unsafe {
            bindings::unregister_qdisc(&mut *self.ops);
            bindings::knet_link_watch_stop();
        }
    }
}
