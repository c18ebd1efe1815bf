// SPDX-License-Identifier: GPL-2.0
//! From the kernel's operations tables to the [`Qdisc`] trait.
//!
//! A qdisc's private area holds a [`Private`], in zeroed memory that never moves. Its life: `init` sets up watchdog and
//! filters first, because the kernel calls `destroy` also after a failed `init`, then the shared part, then
//! the implementation itself, and says so in `live`.

use super::{Changing, Configuring, Context, Dequeuing, Enqueuing, Qdisc};
use crate::{
    attr::Nest,
    bindings,
    child::Child,
    dump::{Message, Stats},
    extack::Extack,
    skb::Skb,
};
use core::{ffi::c_void, marker::PhantomData, mem::MaybeUninit, ptr, ptr::NonNull};
use kernel::{
    error::{code::*, to_result, Result},
    prelude::*,
    ThisModule,
};

/// A qdisc's private area.
pub(super) struct Private<T: Qdisc> {
    pub(super) watchdog: bindings::qdisc_watchdog,
    pub(super) filters: Filters,
    link: bindings::knet_link_watch,
    watching: bool,
    pub(super) shared: T::Shared,
    /// `inner` is initialised.
    live: bool,
    inner: MaybeUninit<T>,
}

pub(super) struct Filters {
    pub(super) list: *mut bindings::tcf_proto,
    block: *mut bindings::tcf_block,
}

/// # Safety
///
/// `sch` must be a qdisc of the kind that `T` implements.
unsafe fn private<T: Qdisc>(sch: *mut bindings::Qdisc) -> *mut Private<T> {
    // SAFETY: the kernel allocated `priv_size` bytes for us.
    unsafe { bindings::knet_qdisc_priv(sch).cast() }
}

/// # Safety
///
/// As for [`private`], and `sch` must stay valid for `'a`.
unsafe fn context<'a, T: Qdisc>(sch: *mut bindings::Qdisc) -> Context<'a, T> {
    // SAFETY: the kernel passes no null pointers here, and a private area is never at address 0.
    unsafe {
        Context {
            private: NonNull::new_unchecked(private(sch)),
            sch: NonNull::new_unchecked(sch),
            _lock: PhantomData,
        }
    }
}

/// # Safety
///
/// As for [`private`], the qdisc must be live, and the caller must exclude all other uses for `'a`: by the root lock,
/// or because the qdisc is not reachable.
unsafe fn this<'a, T: Qdisc>(sch: *mut bindings::Qdisc) -> &'a mut T {
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

unsafe extern "C" fn enqueue<T: Qdisc>(
    skb: *mut bindings::sk_buff,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> i32 {
    // SAFETY: the kernel gives us the packet and holds the root lock; the qdisc is live, or it could not be reached.
    unsafe {
        let skb = Skb::from_raw(NonNull::new_unchecked(skb));
        let len = skb.packet_len();
        let mut on = Enqueuing {
            sch: NonNull::new_unchecked(sch),
            to_free,
            queued: (0, 0),
            lost: (0, 0),
            refused: 0,
            verdict: bindings::NET_XMIT_DROP as i32,
            _lock: PhantomData,
        };
        this::<T>(sch).enqueue(skb, &mut on, context(sch));

        let (packets, bytes) = on.queued;
        if packets != 0 {
            bindings::knet_enqueued(sch, packets, bytes);
        }
        if on.refused != 0 {
            bindings::knet_count_drops(sch, on.refused);
        }
        account_lost(sch, on.lost);
        report_lost(sch, on.lost);
        if packets == 0 {
            return on.verdict;
        }
        if packets != 1 || bytes != len {
            // The parents will count one packet of `len` bytes; correct that.
            bindings::qdisc_tree_reduce_backlog(
                sch,
                1i32.wrapping_sub(packets as i32),
                (len as i32).wrapping_sub(bytes as i32),
            );
        }
        bindings::NET_XMIT_SUCCESS as i32
    }
}

/// # Safety
///
/// As for the kernel's `dequeue`. The second result must go to [`report_lost`].
unsafe fn dequeue_one<T: Qdisc>(sch: *mut bindings::Qdisc) -> (*mut bindings::sk_buff, (u32, u32)) {
    // SAFETY: the kernel holds the root lock; the qdisc is live, or it could not be reached.
    unsafe {
        let mut on = Dequeuing { sch: NonNull::new_unchecked(sch), lost: (0, 0), _lock: PhantomData };
        let skb = match this::<T>(sch).dequeue(&mut on, context(sch)) {
            Some(skb) => skb.into_raw().as_ptr(),
            None => ptr::null_mut(),
        };
        if !skb.is_null() {
            bindings::knet_dequeued(sch, skb);
        }
        account_lost(sch, on.lost);
        (skb, on.lost)
    }
}

unsafe extern "C" fn dequeue<T: Qdisc>(sch: *mut bindings::Qdisc) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us.
    unsafe {
        let (skb, lost) = dequeue_one::<T>(sch);
        report_lost(sch, lost);
        skb
    }
}

/// As `qdisc_peek_dequeued`, but the peeked packet is back in the counters before the parents hear of drops: to them
/// the qdisc is not empty.
unsafe extern "C" fn peek<T: Qdisc>(sch: *mut bindings::Qdisc) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us. `gso_skb` is free for this use since only parents peek.
    unsafe {
        let peeked = bindings::knet_peeked(sch);
        if !peeked.is_null() {
            return peeked;
        }
        let (skb, lost) = dequeue_one::<T>(sch);
        if !skb.is_null() {
            bindings::knet_stash_peeked(sch, skb);
        }
        report_lost(sch, lost);
        skb
    }
}

/// The result of a callback as C wants it.
fn errno(result: Result) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

unsafe extern "C" fn init<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: RTNL is held and nobody else knows the qdisc. Its private area is zeroed, which is right for
    // everything but what is set here.
    unsafe {
        let area = private::<T>(sch);
        bindings::qdisc_watchdog_init(&raw mut (*area).watchdog, sch);
        (&raw mut (*area).shared).write(T::Shared::default());
        let filters = &raw mut (*area).filters;
        let err =
            bindings::tcf_block_get(&raw mut (*filters).block, &raw mut (*filters).list, sch, extack);
        if err != 0 {
            return err;
        }
        let on = Configuring { context: context::<T>(sch) };
        match T::new(&on, Nest::from_raw(options), &mut Extack::from_raw(extack)) {
            Ok(inner) => (*area).inner.write(inner),
            Err(error) => return error.to_errno(),
        };
        (*area).live = true;
        if T::WATCH_LINK {
            bindings::knet_link_watch_add(&raw mut (*area).link, sch, Some(link_changed::<T>));
            (*area).watching = true;
        }
        0
    }
}

unsafe extern "C" fn link_changed<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: called under RTNL while the qdisc is live.
    unsafe { T::link_changed(&Configuring { context: context::<T>(sch) }) }
}

unsafe extern "C" fn reset<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: the kernel holds the lock, or nobody can reach the qdisc. A qdisc that never came to life has an
    // initialised watchdog all the same.
    unsafe {
        let area = private::<T>(sch);
        bindings::qdisc_watchdog_cancel(&raw mut (*area).watchdog);
        if (*area).live {
            this::<T>(sch).reset();
        }
    }
}

unsafe extern "C" fn destroy<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: the last call for this qdisc; also after an `init` that failed at any point after the watchdog. RTNL is
    // held. Filters go first: they tell the shared part which classes they let go of.
    unsafe {
        let area = private::<T>(sch);
        if (*area).watching {
            bindings::knet_link_watch_del(&raw mut (*area).link);
        }
        bindings::tcf_block_put((*area).filters.block);
        bindings::qdisc_watchdog_cancel(&raw mut (*area).watchdog);
        if (*area).live {
            (*area).live = false;
            (*area).inner.assume_init_drop();
        }
        ptr::drop_in_place(&raw mut (*area).shared);
    }
}

unsafe extern "C" fn change<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: called for a live qdisc under RTNL.
    unsafe {
        let on = Configuring { context: context::<T>(sch) };
        errno(T::change(&on, Nest::from_raw(options), &mut Extack::from_raw(extack)))
    }
}

unsafe extern "C" fn dump<T: Qdisc>(sch: *mut bindings::Qdisc, skb: *mut bindings::sk_buff) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut message = Message::from_raw(skb);
        let dumped = with_lock(sch, |this: &mut T, _, _| {
            message.nest(bindings::TCA_OPTIONS as u16, |message| this.dump(message))
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

unsafe extern "C" fn dump_stats<T: Qdisc>(sch: *mut bindings::Qdisc, dump: *mut bindings::gnet_dump) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut stats = Stats::from_raw(dump);
        let dumped = with_lock(sch, |this: &mut T, _, _| this.dump_stats(&mut stats));
        errno(dumped.unwrap_or(Ok(())))
    }
}

// Classes. The kernel's `unsigned long cl` is the class's minor number, which is never 0.

unsafe extern "C" fn find<T: Qdisc>(sch: *mut bindings::Qdisc, classid: u32) -> usize {
    let minor = (classid & bindings::TC_H_MIN_MASK) as u16;
    // SAFETY: the shared part lives as long as the qdisc can be found.
    let shared = unsafe { &(*private::<T>(sch)).shared };
    if minor != 0 && T::find_class(shared, minor) {
        minor.into()
    } else {
        0
    }
}

unsafe extern "C" fn bind<T: Qdisc>(sch: *mut bindings::Qdisc, _parent: usize, classid: u32) -> usize {
    // SAFETY: as for `find`.
    unsafe {
        let class = find::<T>(sch, classid);
        if class != 0 {
            T::class_bound(&(*private::<T>(sch)).shared, class as u16, true);
        }
        class
    }
}

unsafe extern "C" fn unbind<T: Qdisc>(sch: *mut bindings::Qdisc, class: usize) {
    if class != 0 {
        // SAFETY: as for `find`; `destroy` drops the shared part after the filters.
        unsafe { T::class_bound(&(*private::<T>(sch)).shared, class as u16, false) }
    }
}

unsafe extern "C" fn walk<T: Qdisc>(sch: *mut bindings::Qdisc, walker: *mut bindings::qdisc_walker) {
    // SAFETY: RTNL is held; the kernel passes a valid walker.
    unsafe {
        if (*walker).stop != 0 {
            return;
        }
        let mut minor = 0;
        while let Some(next) = T::next_class(&(*private::<T>(sch)).shared, minor) {
            if !bindings::knet_walk_class(sch, next.into(), walker) {
                break;
            }
            minor = next;
        }
    }
}

unsafe extern "C" fn tcf_block<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    _extack: *mut bindings::netlink_ext_ack,
) -> *mut bindings::tcf_block {
    // Filters belong to the qdisc as a whole, as in prio.
    if class != 0 {
        return ptr::null_mut();
    }
    // SAFETY: set in `init`.
    unsafe { (*private::<T>(sch)).filters.block }
}

unsafe extern "C" fn graft<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    new: *mut bindings::Qdisc,
    old: *mut *mut bindings::Qdisc,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: RTNL is held. On success the kernel gives us its reference to `new` and takes ours to `old`; as in
    // `qdisc_replace`, what the old child still holds is dropped and taken off all counters.
    unsafe {
        let mut extack = Extack::from_raw(extack);
        let grafted = with_lock(sch, |this: &mut T, _, _| -> Result {
            let place = this.child(class as u16, &mut extack)?;
            let new = NonNull::new(new).map(|new| Child::from_raw(new));
            let previous = core::mem::replace(place, new).map_or(ptr::null_mut(), Child::into_raw);
            if !previous.is_null() {
                bindings::knet_qdisc_purge(previous);
            }
            *old = previous;
            Ok(())
        });
        errno(grafted.unwrap_or(Err(EINVAL)))
    }
}

unsafe extern "C" fn leaf<T: Qdisc>(sch: *mut bindings::Qdisc, class: usize) -> *mut bindings::Qdisc {
    // SAFETY: RTNL is held, so the child cannot go while the kernel looks at it.
    unsafe {
        let mut nobody = Extack::from_raw(ptr::null_mut());
        with_lock(sch, |this: &mut T, _, _| match this.child(class as u16, &mut nobody) {
            Ok(Some(child)) => child.as_ptr(),
            _ => ptr::null_mut(),
        })
        .unwrap_or(ptr::null_mut())
    }
}

unsafe extern "C" fn change_class<T: Qdisc>(
    _sch: *mut bindings::Qdisc,
    _classid: u32,
    _parent: u32,
    _attributes: *mut *mut bindings::nlattr,
    _class: *mut usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    let mut extack = unsafe { Extack::from_raw(extack) };
    extack.refuse(super::eopnotsupp(), format_args!("{}: {}", T::KIND, T::CLASSES_ARE_FIXED)).to_errno()
}

unsafe extern "C" fn delete_class<T: Qdisc>(
    _sch: *mut bindings::Qdisc,
    _class: usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    let mut extack = unsafe { Extack::from_raw(extack) };
    extack.refuse(super::eopnotsupp(), format_args!("{}: {}", T::KIND, T::CLASSES_ARE_FIXED)).to_errno()
}

unsafe extern "C" fn dump_class<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    skb: *mut bindings::sk_buff,
    tcm: *mut bindings::tcmsg,
) -> i32 {
    // SAFETY: RTNL is held; `tcm` is the header of the message being built.
    unsafe {
        (*tcm).tcm_handle |= class as u32;
        let mut message = Message::from_raw(skb);
        let mut nobody = Extack::from_raw(ptr::null_mut());
        let dumped = with_lock(sch, |this: &mut T, _, _| {
            if let Ok(Some(child)) = this.child(class as u16, &mut nobody) {
                (*tcm).tcm_info = child.handle();
            }
            message.nest(bindings::TCA_OPTIONS as u16, |message| this.dump_class(class as u16, message))
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

unsafe extern "C" fn dump_class_stats<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut stats = Stats::from_raw(dump);
        let dumped =
            with_lock(sch, |this: &mut T, _, _| this.dump_class_stats(class as u16, &mut stats));
        errno(dumped.unwrap_or(Ok(())))
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
        let mut id = [0; bindings::IFNAMSIZ as usize];
        for (to, from) in id.iter_mut().zip(T::KIND.bytes()) {
            *to = from as _;
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
        Ok(Registration { ops, _class_ops: class_ops, _kind: PhantomData })
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
