// SPDX-License-Identifier: GPL-2.0
//! Queueing disciplines: the trait to implement, and what its methods get to work with.
//!
//! C header: [`include/net/sch_generic.h`](srctree/include/net/sch_generic.h).

use crate::{
    attr::Nest,
    bindings,
    child::Child,
    device::Device,
    dump::{Message, Stats},
    extack::Extack,
    skb::Skb,
};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::prelude::*;

mod adapter;
mod counters;
pub use adapter::Registration;

/// Why a packet is dropped, as tools like `dropwatch` show it. Maps to C's `enum qdisc_drop_reason`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue is at its limit (`QDISC_DROP_OVERLIMIT`).
    OverLimit,
    /// It waited too long (`QDISC_DROP_CONGESTED`).
    Congested,
    /// Anything else (`QDISC_DROP_GENERIC`).
    Generic,
}

impl DropReason {
    fn code(self) -> bindings::qdisc_drop_reason {
        match self {
            DropReason::OverLimit => bindings::qdisc_drop_reason_QDISC_DROP_OVERLIMIT,
            DropReason::Congested => bindings::qdisc_drop_reason_QDISC_DROP_CONGESTED,
            DropReason::Generic => bindings::qdisc_drop_reason_QDISC_DROP_GENERIC,
        }
    }
}

/// A queueing discipline.
///
/// Everything with `&mut self` runs under the qdisc's root lock, in softirq context or with softirqs off: it
/// must not sleep. knet keeps the qdisc's `qlen`, `backlog`, `drops` and sent counters, and those of its parents, from
/// what the methods report; an implementation never touches them.
#[vtable]
pub trait Qdisc: Sized + Send {
    /// The kind, as in `tc qdisc add … KIND`: at most 15 bytes.
    const KIND: &'static str;

    /// Whether [`Qdisc::link_changed`] is wanted.
    const WATCH_LINK: bool = false;

    /// The part that is read without the lock: what [`Qdisc::find_class`] and its like need. The kernel looks classes
    /// up while the qdisc is in the middle of an `enqueue` (a child that drops reports it to the class), so this
    /// can be no part of `Self`.
    type Shared: Default + Send + Sync;

    /// Makes the qdisc from the options of `tc qdisc add`. May sleep.
    fn new(
        on: &Configuring<'_, Self>,
        options: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result<Self>;

    /// Changes a live qdisc: `tc qdisc change` or `replace`. May sleep, outside of [`Configuring::lock`].
    fn change(on: &Configuring<'_, Self>, options: Option<Nest<'_>>, extack: &mut Extack)
        -> Result;

    /// Takes a packet: keeps it, gives it to a child, or gives it back to be dropped, and says so to `arriving`.
    fn enqueue(&mut self, skb: Skb, arriving: Arriving<'_>, sch: Context<'_, Self>) -> Enqueued;

    /// Asked before each [`Qdisc::dequeue`]: is there nothing to give, for sure?
    fn is_empty(&mut self) -> bool {
        false
    }

    /// Gives the packet to send next, if one may be sent now.
    fn dequeue(&mut self, on: &mut Dequeuing<'_>, sch: Context<'_, Self>) -> Option<Skb>;

    /// Drops everything that is queued (see [`drop_queued`]), children included. RTNL is held.
    fn reset(&mut self);

    /// Writes the options, so that they recreate the qdisc.
    fn dump(&mut self, message: &mut Message) -> Result;

    /// Writes the qdisc's own statistics.
    fn dump_stats(&mut self, _stats: &mut Stats) -> Result {
        Ok(())
    }

    /// The device's link came up or changed: its speed may be another.
    fn link_changed(_on: &Configuring<'_, Self>) {}

    /// Is there a class with this minor number?
    fn find_class(_shared: &Self::Shared, _minor: u16) -> bool {
        false
    }

    /// The class with the lowest minor number above `after`.
    fn next_class(_shared: &Self::Shared, _after: u16) -> Option<u16> {
        None
    }

    /// A filter starts (`true`) or stops to name the class.
    fn class_bound(_shared: &Self::Shared, _minor: u16, _bound: bool) {}

    /// Where the class keeps its child. An error, with a message, for a class that takes none.
    fn child(&mut self, _minor: u16, extack: &mut Extack) -> Result<&mut Option<Child>> {
        Err(extack.refuse(
            eopnotsupp(),
            format_args!("{}: classes take no child qdisc", Self::KIND),
        ))
    }

    /// Writes the class's options.
    fn dump_class(&mut self, _minor: u16, _message: &mut Message) -> Result {
        Ok(())
    }

    /// Writes the class's statistics.
    fn dump_class_stats(&mut self, _minor: u16, _stats: &mut Stats) -> Result {
        Ok(())
    }

    /// What to tell a person who tries to add, change or delete a class.
    const CLASSES_ARE_FIXED: &'static str = "the qdisc makes its classes itself";
}

/// `EOPNOTSUPP`, which is not among the kernel crate's errors.
pub fn eopnotsupp() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// The qdisc that a packet operation runs for.
pub struct Context<'a, T: Qdisc> {
    private: NonNull<adapter::Private<T>>,
    sch: NonNull<bindings::Qdisc>,
    _lock: PhantomData<&'a ()>,
}

impl<T: Qdisc> Clone for Context<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Qdisc> Copy for Context<'_, T> {}

/// What the filters say of a packet.
pub enum Classified {
    /// Nothing.
    Unmatched,
    /// This class: major number in the upper half, minor in the lower.
    Class(u32),
    /// An action took the packet; it must be dropped without being counted as lost.
    Stolen,
    /// An action wants it dropped.
    Shot,
}

impl<T: Qdisc> Context<'_, T> {
    /// The qdisc's handle: major number in the upper half, 0 in the lower.
    #[inline]
    pub fn handle(&self) -> u32 {
        // SAFETY: `sch` is valid for the lifetime of the context.
        unsafe { (*self.sch.as_ptr()).handle }
    }

    /// What the kernel reads without the lock.
    #[inline]
    pub fn shared(&self) -> &T::Shared {
        // SAFETY: `private` is valid for the lifetime of the context and its shared part is set up first of all.
        unsafe { &(*self.private.as_ptr()).shared }
    }

    /// Are there filters now? Without, [`Context::classify`] has nothing to say.
    #[inline]
    pub fn has_filters(&self) -> bool {
        // SAFETY: the filter list is set up before the first packet comes. The kernel changes its head at any time,
        // hence the volatile read.
        unsafe {
            let list = &raw mut (*self.private.as_ptr()).filters.list;
            !list.read_volatile().is_null()
        }
    }

    /// Runs the qdisc's filters over the packet.
    pub fn classify(&self, skb: &mut Skb) -> Classified {
        let mut result = bindings::tcf_result::default();
        // SAFETY: the filter list is set up before the first packet comes; enqueue runs in an RCU-bh section. C reads
        // the head as RCU wants it.
        let action = unsafe {
            let list = &raw mut (*self.private.as_ptr()).filters.list;
            bindings::knet_classify(skb.as_ptr(), list, &mut result)
        };
        let Ok(action) = u32::try_from(action) else {
            // TC_ACT_UNSPEC
            return Classified::Unmatched;
        };
        match action {
            bindings::TC_ACT_STOLEN | bindings::TC_ACT_QUEUED | bindings::TC_ACT_TRAP => {
                Classified::Stolen
            }
            bindings::TC_ACT_SHOT => Classified::Shot,
            // SAFETY: a match fills in the class.
            _ => Classified::Class(unsafe { result.__bindgen_anon_1.__bindgen_anon_1.classid }),
        }
    }

    /// Asks to be dequeued again at `time` (`CLOCK_MONOTONIC`, ns); replaces an earlier wish.
    #[inline]
    pub fn wake_at(&self, time: u64) {
        // SAFETY: the watchdog is set up before the first packet comes and cancelled after the last.
        unsafe {
            bindings::qdisc_watchdog_schedule_range_ns(
                &raw mut (*self.private.as_ptr()).watchdog,
                time,
                0,
            );
        }
    }

    /// Counts that something was held back by a rate (`overlimits` in `tc -s`).
    #[inline]
    pub fn count_overlimit(&self) {
        // SAFETY: `sch` is valid and its lock is held.
        unsafe { bindings::knet_overlimit(self.sch.as_ptr()) }
    }
}

/// The qdisc while it is being configured: RTNL is held, the qdisc's lock is not.
pub struct Configuring<'a, T: Qdisc> {
    context: Context<'a, T>,
}

impl<T: Qdisc> Configuring<'_, T> {
    /// The device that the qdisc is on.
    pub fn device(&self) -> Device<'_> {
        // SAFETY: a qdisc's device outlives it, and configuration runs under RTNL.
        unsafe {
            let dev = bindings::knet_qdisc_dev(self.context.sch.as_ptr());
            Device::from_raw(NonNull::new_unchecked(dev))
        }
    }

    /// What the kernel reads without the lock.
    pub fn shared(&self) -> &T::Shared {
        self.context.shared()
    }

    /// Stops the traffic and works on the qdisc. Not from [`Qdisc::new`], where there is none yet: then
    /// `work` is not run and the result is `None`.
    ///
    /// What `work` drops it reports to the [`Changing`] it gets.
    pub fn lock<R>(
        &self,
        work: impl FnOnce(&mut T, &mut Changing, Context<'_, T>) -> R,
    ) -> Option<R> {
        // SAFETY: RTNL is held, so nobody initialises or destroys the qdisc meanwhile; `with_lock` excludes all else.
        unsafe { adapter::with_lock(self.context.sch.as_ptr(), work) }
    }
}

/// A packet that arrives. Its way in ends with one of [`Arriving::queued`] and [`Arriving::otherwise`].
pub struct Arriving<'a> {
    sch: NonNull<bindings::Qdisc>,
    to_free: *mut *mut bindings::sk_buff,
    _lock: PhantomData<&'a ()>,
}

/// An arriving packet has been dealt with, and accounted for.
#[must_use]
pub struct Enqueued(i32);

/// The way in of a packet that is not just queued. Whatever happens to the packet is reported here.
pub struct Enqueuing<'a> {
    sch: NonNull<bindings::Qdisc>,
    to_free: *mut *mut bindings::sk_buff,
    /// Newly queued: packets and bytes.
    queued: (u32, u32),
    /// Of these, how many the qdisc's counters have already.
    counted: (u32, u32),
    /// Queued before, dropped now: packets and bytes.
    lost: (u32, u32),
    refused: u32,
    verdict: i32,
    _lock: PhantomData<&'a ()>,
}

impl Enqueuing<'_> {
    /// A packet of `len` bytes ([`Skb::packet_len`]) was put into a queue.
    #[inline]
    pub fn queued(&mut self, len: u32) {
        self.queued = add(self.queued, len);
    }

    /// The arriving packet is dropped.
    pub fn refuse(&mut self, skb: Skb, reason: DropReason) {
        self.refused = self.refused.wrapping_add(1);
        self.free(skb, reason);
    }

    /// A packet that was in a queue is dropped, to make room.
    pub fn drop_queued(&mut self, skb: Skb, reason: DropReason) {
        self.lost = add(self.lost, skb.packet_len());
        self.free(skb, reason);
    }

    /// The arriving packet was taken by a filter's action: freed, and not counted as dropped.
    pub fn stolen(&mut self, skb: Skb) {
        self.verdict =
            (bindings::NET_XMIT_SUCCESS | bindings::net_xmit_qdisc_t___NET_XMIT_STOLEN) as i32;
        self.free(skb, DropReason::Generic);
    }

    /// The arriving packet is dropped because a filter's action says so.
    pub fn shot(&mut self, skb: Skb) {
        self.refused = self.refused.wrapping_add(1);
        self.verdict =
            (bindings::NET_XMIT_SUCCESS | bindings::net_xmit_qdisc_t___NET_XMIT_BYPASS) as i32;
        self.free(skb, DropReason::Generic);
    }

    fn free(&mut self, skb: Skb, reason: DropReason) {
        // SAFETY: `to_free` is the list that our caller frees once the lock is released.
        unsafe {
            bindings::knet_drop_enqueue(
                self.sch.as_ptr(),
                skb.into_raw().as_ptr(),
                self.to_free,
                reason.code(),
            );
        }
    }

    /// Lets a child take a packet of `len` bytes; was it queued?
    ///
    /// The packet is counted before the child gets it. A full child drops another packet instead and takes that off our
    /// counters at once: without the new one they would be 0 for a moment, and a parent such as hfsc would hear that the qdisc is
    /// empty and never ask it again.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        len: u32,
        enqueue: impl FnOnce(*mut *mut bindings::sk_buff) -> i32,
    ) -> bool {
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe { counters::enqueued(self.sch.as_ptr(), 1, len) };
        let verdict = enqueue(self.to_free);
        if verdict == bindings::NET_XMIT_SUCCESS as i32 {
            self.counted = add(self.counted, len);
            self.queued = add(self.queued, len);
            return true;
        }
        // SAFETY: as above.
        unsafe { counters::removed(self.sch.as_ptr(), 1, len) };
        if verdict as u32 & bindings::net_xmit_qdisc_t___NET_XMIT_STOLEN == 0 {
            self.refused = self.refused.wrapping_add(1);
        }
        self.verdict = verdict;
        false
    }

    /// Packets and bytes that are queued but not counted yet.
    pub(super) fn uncounted(&self) -> (u32, u32) {
        (
            self.queued.0.wrapping_sub(self.counted.0),
            self.queued.1.wrapping_sub(self.counted.1),
        )
    }
}

/// One more packet of `len` bytes.
#[inline]
fn add((packets, bytes): (u32, u32), len: u32) -> (u32, u32) {
    (packets.wrapping_add(1), bytes.wrapping_add(len))
}

/// A packet's way out. Packets that are dropped instead of sent are reported here.
pub struct Dequeuing<'a> {
    sch: NonNull<bindings::Qdisc>,
    lost: (u32, u32),
    /// There is more to do than to hand over a packet.
    more: bool,
    /// The packet stays in the queue, as far as the counters are concerned.
    peek: bool,
    _lock: PhantomData<&'a ()>,
}

impl Dequeuing<'_> {
    /// A packet that was in a queue is dropped.
    pub fn drop_queued(&mut self, skb: Skb, reason: DropReason) {
        self.more = true;
        self.lost = (
            self.lost.0.wrapping_add(1),
            self.lost.1.wrapping_add(skb.packet_len()),
        );
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe {
            bindings::knet_drop_dequeue(self.sch.as_ptr(), skb.into_raw().as_ptr(), reason.code())
        }
    }
}

/// A change under RTNL. Packets that the new limits have no room for are reported here.
#[derive(Default)]
pub struct Changing {
    lost: (u32, u32),
}

impl Changing {
    /// A packet that was in a queue is dropped.
    pub fn drop_queued(&mut self, skb: Skb) {
        self.lost = add(self.lost, skb.packet_len());
        drop_queued(skb);
    }
}

/// Drops a packet in [`Qdisc::reset`], where the kernel clears the counters itself. Needs RTNL: packets are freed
/// when it is released.
pub fn drop_queued(skb: Skb) {
    // SAFETY: ours to free.
    unsafe { bindings::knet_drop_rtnl(skb.into_raw().as_ptr()) }
}
