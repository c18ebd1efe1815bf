// SPDX-License-Identifier: GPL-2.0
//! Queueing disciplines: the trait to implement, and what its methods get to work with.
//!
//! C header: [`include/net/sch_generic.h`](srctree/include/net/sch_generic.h).

use crate::{
    attr::Nest,
    bindings,
    child::Child,
    device::{Device, Medium},
    dump::Stats,
    skb::Skb,
    tap::Listener,
    Extack, Message,
};
use core::{marker::PhantomData, ptr::NonNull, sync::atomic::Ordering};
use kernel::prelude::*;

mod adapter;
mod counters;
mod passage;

pub(crate) use adapter::{errno, nest, share_ingress, with_lock};
pub use adapter::{Kind, Registration};
pub use passage::{
    Arriving, DequeueReport, Dequeued, Dequeuing, EnqueueReport, Enqueued, Enqueuing, Leaving,
};

/// Why a packet is dropped, as tools like `dropwatch` show it. Maps to C's
/// `enum qdisc_drop_reason`.
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

/// A queueing discipline. Registered with a [`Kind`].
///
/// Everything with `&mut self`, and packets' ways in and out, run under the qdisc's root lock, in
/// softirq context or with softirqs off: they must not sleep.
///
/// A child may enter the qdisc again from inside its own `enqueue` or `dequeue`: netem hands the
/// copies that it makes to the root of the tree. So what deals with packets has no `self`, but
/// borrows the qdisc from an [`Arriving`], [`Enqueuing`], [`Leaving`] or [`Dequeuing`], which also
/// are what calls children and filters. While one of these runs, nothing is borrowed, and the
/// compiler sees to that.
///
/// knet keeps the qdisc's `qlen`, `backlog`, `drops` and sent counters, and those of its parents,
/// from what the methods report; an implementation never touches them.
///
/// It is made where it stays, but may be moved afterwards (`Unpin`): the methods get `&mut Self`.
#[vtable]
pub trait Qdisc: Sized + Send + Unpin + 'static {
    /// The kind, as in `tc qdisc add … KIND`: 1 to 15 bytes.
    const KIND: &'static str;

    /// Whether [`Qdisc::link_changed`] is wanted.
    const WATCH_LINK: bool = false;

    /// Whether others of the kind tell it what came in by its device: see [`Context::tell`].
    const IS_TOLD: bool = false;

    /// The part that is read without the lock: what [`Qdisc::find_class`] and its like need. The
    /// kernel looks classes up while the qdisc is in the middle of an `enqueue` (a child that drops
    /// reports it to the class), so this can be no part of `Self`.
    type Shared: Default + Send + Sync;

    /// Who hears what the device receives, if [`Configuring::listen`] was called; `()`: nobody.
    type Listener: Listener;

    /// Makes the qdisc from the options of `tc qdisc add`, in its place. May sleep.
    ///
    /// The kernel's stack is small. What is large is written where it stays, field by field, by
    /// `try_init!`; what remains to be done with it then is for [`Init::chain`]. Nothing that
    /// relies on its address is part of a qdisc, so that this need be no `PinInit`.
    fn new<'a>(
        on: &'a mut Configuring<'_, Self>,
        options: Option<Nest<'a>>,
        extack: &'a mut Extack,
    ) -> Result<impl Init<Self, Error>>;

    /// Changes a live qdisc: `tc qdisc change` or `replace`. May sleep, outside of
    /// [`Configuring::lock`].
    fn change(
        on: &mut Configuring<'_, Self>,
        options: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result;

    /// What [`Qdisc::enqueue`] has found out about a packet that is not just queued.
    type EnqueueHint;

    /// What [`Qdisc::dequeue`] has found out when there is more to do.
    type DequeueHint;

    /// Takes a packet if all there is to do is to queue it as it is ([`Arriving::queued`]). Any
    /// other goes on to [`Qdisc::enqueue_slow`] ([`Arriving::slow`]).
    fn enqueue(skb: Skb, arriving: Arriving<'_, Self>) -> Enqueued;

    /// Takes a packet: keeps it, gives it to a child, or gives it back to be dropped, and says so
    /// to `on`.
    fn enqueue_slow(skb: Skb, known: Self::EnqueueHint, on: &mut Enqueuing<'_, Self>);

    /// Gives the packet to send next, if one may be sent now and that is all there is to do
    /// ([`Leaving::with`]), or says that nothing is queued ([`Leaving::empty`]). All else is for
    /// [`Qdisc::dequeue_slow`] ([`Leaving::slow`]).
    fn dequeue(leaving: Leaving<'_, Self>) -> Dequeued;

    /// Gives the packet to send next, if one may be sent now.
    fn dequeue_slow(known: Self::DequeueHint, on: &mut Dequeuing<'_, Self>) -> Option<Skb>;

    /// As [`Qdisc::dequeue`], for a parent that looks at the packet to send next. knet keeps the
    /// packet apart, as part of the qdisc's `qlen`, until that parent, or any, takes it, until
    /// [`Qdisc::peeked_expired`] says that it is too old, or until the qdisc is reset.
    fn peek(leaving: Leaving<'_, Self>) -> Dequeued {
        Self::dequeue(leaving)
    }

    /// Is the packet that was kept apart too old to be sent? Then it is dropped.
    ///
    /// Asked when the parent looks again and when it takes the packet. To a parent that looks and
    /// takes at once, a packet may so be there and gone again, but never be replaced by another;
    /// all parents of the kernel's can deal with that.
    fn peeked_expired(&mut self) -> bool {
        false
    }

    /// The packet that was kept apart leaves now, or there is none after all.
    fn peeked_left(&mut self) {}

    /// Drops everything that is queued here, with [`drop_queued`]. The children are emptied by
    /// knet.
    fn reset(&mut self, on: &mut Resetting<'_, Self>);

    /// Writes the options, so that they recreate the qdisc.
    fn dump(&mut self, message: &mut Message) -> Result;

    /// Writes the qdisc's own statistics.
    fn dump_stats(&mut self, _on: &mut Locked<'_, Self>, _stats: &mut Stats) -> Result {
        Ok(())
    }

    /// The device's speed may be another: its link, or that of a device below it, came up, went
    /// down or changed, or a device below it came or went. Called after the change is done with.
    fn link_changed(_on: &mut Configuring<'_, Self>) {}

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

    /// How many places for children there are: at most [`MAX_CHILDREN`](crate::MAX_CHILDREN).
    const CHILDREN: usize = 0;

    /// Whether a class may get a child now, which it may have in principle. An error, with a
    /// message, if not.
    fn may_graft(_shared: &Self::Shared, _minor: u16, _extack: &mut Extack) -> Result {
        Ok(())
    }

    /// Which place the class's child has: below [`Qdisc::CHILDREN`]. An error, with a message, for
    /// a class that takes none.
    fn child_place(_minor: u16, extack: &mut Extack) -> Result<usize> {
        Err(extack.refuse(
            eopnotsupp(),
            format_args!("{}: classes take no child qdisc", Self::KIND),
        ))
    }

    /// There is another child in this place now, or none. Called under the lock.
    fn grafted(&mut self, _place: usize, _child: Option<Child<'_>>) {}

    /// Writes the class's options.
    fn dump_class(&mut self, _minor: u16, _message: &mut Message) -> Result {
        Ok(())
    }

    /// Writes the class's statistics.
    fn dump_class_stats(
        &mut self,
        _minor: u16,
        _on: &mut Locked<'_, Self>,
        _stats: &mut Stats,
    ) -> Result {
        Ok(())
    }

    /// What to tell a person who tries to add, change or delete a class.
    const CLASSES_ARE_FIXED: &'static str = "the qdisc makes its classes itself";
}

/// Where the fields of `struct Qdisc` are that a packet on the fast path touches from its arrival
/// until it has left, and how long they are: for who counts cache lines. [`Context::asked_at_once`]
/// touches the first only if nothing is queued.
pub const FAST_PATH_FIELDS: [(usize, usize); 8] = {
    use bindings::{gnet_stats_basic_sync, gnet_stats_queue, qdisc_skb_head, Qdisc};
    use core::mem::offset_of;
    [
        (offset_of!(Qdisc, dev_queue), 8),
        (offset_of!(Qdisc, enqueue), 8),
        (offset_of!(Qdisc, dequeue), 8),
        (offset_of!(Qdisc, handle), 4),
        (offset_of!(Qdisc, q) + offset_of!(qdisc_skb_head, qlen), 4),
        (
            offset_of!(Qdisc, bstats) + offset_of!(gnet_stats_basic_sync, bytes),
            16,
        ),
        (offset_of!(Qdisc, running), 1),
        (
            offset_of!(Qdisc, qstats) + offset_of!(gnet_stats_queue, backlog),
            4,
        ),
    ]
};

/// `EOPNOTSUPP`, which is not among the kernel crate's errors.
pub fn eopnotsupp() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// The qdisc that a packet operation runs for.
pub struct Context<'a, T: Qdisc> {
    sch: NonNull<bindings::Qdisc>,
    _lock: PhantomData<&'a T>,
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

impl<'a, T: Qdisc> Context<'a, T> {
    /// Valid for the lifetime of the context.
    #[inline]
    fn private(&self) -> *mut adapter::Private<T> {
        adapter::private(self.sch.as_ptr())
    }

    /// The qdisc's handle: major number in the upper half, 0 in the lower.
    #[inline]
    pub fn handle(&self) -> u32 {
        // SAFETY: `sch` is valid for the lifetime of the context.
        unsafe { (*self.sch.as_ptr()).handle }
    }

    /// What the kernel reads without the lock.
    #[inline]
    pub fn shared(&self) -> &T::Shared {
        // SAFETY: the private area is valid for the lifetime of the context, and its shared part is
        // set up first of all.
        unsafe { &(*self.private()).shared }
    }

    /// What the device's frames begin with.
    #[inline]
    pub fn medium(&self) -> Medium {
        // SAFETY: set before the first packet comes; a qdisc's device outlives it.
        unsafe { Medium::of((*self.private()).dev) }
    }

    /// The child in this place ([`Qdisc::child_place`]), if there is one.
    #[inline]
    pub fn child(&self, place: usize) -> Option<Child<'a>> {
        // SAFETY: the context is valid, and while there is one RTNL or the root lock is held: the
        // child stays as long.
        unsafe { adapter::child::<T>(self.sch.as_ptr(), place).map(|child| Child::from_raw(child)) }
    }

    /// Tells the qdiscs of this kind that send by the device which the packet came in by, if it
    /// came in: there is so much more of whatever they are [told](Self::is_told) of. They are those
    /// with [`Qdisc::IS_TOLD`].
    #[inline]
    pub fn tell(&self, skb: &Skb, amount: u32) {
        // SAFETY: the context is valid.
        unsafe { adapter::tell::<T>(self.sch.as_ptr(), skb, amount) }
    }

    /// Has the qdisc been told of anything that [`Enqueuing::told`] has not taken yet?
    #[inline]
    pub fn is_told(&self) -> bool {
        // SAFETY: the context is valid.
        let told = unsafe { adapter::told::<T>(self.sch.as_ptr()) };
        told.is_some_and(|told| told.load(Ordering::Relaxed) != 0)
    }

    /// Are there filters now? Without, [`Enqueuing::classify`] has nothing to say.
    #[inline]
    pub fn has_filters(&self) -> bool {
        // SAFETY: the filter list is set up before the first packet comes. The kernel changes its
        // head at any time, hence the volatile read.
        unsafe {
            let list = &raw mut (*self.private()).filters.list;
            !list.read_volatile().is_null()
        }
    }

    /// Will the kernel ask for a packet at once, if one is queued now that nothing is? So that no
    /// time passes which matters, and the next dequeue needs no clock.
    ///
    /// Packets come to a device queue's qdisc from `__dev_xmit_skb()` alone, which takes the root
    /// lock, enqueues, and runs the qdisc, without letting go of the lock between. The run asks the
    /// qdisc first thing. It does neither if somebody else runs the qdisc already (who is in the
    /// driver now, and comes back some time), nor if the driver does not take packets
    /// (netif_tx_wake_queue() will have the qdisc run some time); or it sends a packet first that
    /// the driver gave back, during which the lock is not held. Such packets are in `qlen`.
    ///
    /// A driver's queue that is stopped in the few instructions between, by anybody but the qdisc
    /// that runs it (a driver that is being reset, a packet socket that goes around qdiscs), makes
    /// this wrong for the one packet.
    #[inline]
    pub fn asked_at_once(&self) -> bool {
        // SAFETY: `sch` is valid and its lock is held. Its device queue lives as long as the
        // device, which outlives it. Others change `running` under the lock alone, the queue's two
        // fields at any time, hence the volatile reads.
        unsafe {
            let sch = self.sch.as_ptr();
            if (*sch).q.qlen != 0 || (&raw const (*sch).running).cast::<u8>().read_volatile() != 0 {
                return false;
            }
            let queue = (*sch).dev_queue.cast_const();
            let runs: *const *mut bindings::Qdisc = queue
                .wrapping_byte_add(bindings::KNET_QUEUE_QDISC as usize)
                .cast();
            let state: *const usize = queue
                .wrapping_byte_add(bindings::KNET_QUEUE_STATE as usize)
                .cast();
            runs.read_volatile() == sch
                && state.read_volatile() & bindings::KNET_QUEUE_HELD as usize == 0
        }
    }

    /// Asks to be dequeued again at `time` (`CLOCK_MONOTONIC`, ns); replaces an earlier wish.
    /// [`u64::MAX`]: never.
    #[inline]
    pub fn wake_at(&self, time: u64) {
        // SAFETY: the watchdog is set up before the first packet comes and cancelled after the
        // last.
        unsafe {
            bindings::qdisc_watchdog_schedule_range_ns(
                &raw mut (*self.private()).watchdog,
                time.min(NEVER),
                0,
            );
        }
    }

    /// Asks that the qdisc of another transmit queue of the device be dequeued at `time`, if it is
    /// one of the same kind; replaces its own wish. Queues are numbered from 0.
    #[inline]
    pub fn wake_queue(&self, queue: u32, time: u64) {
        // SAFETY: `sch` is valid. Qdiscs of the same operations have the same private area, whose
        // watchdog is set up before they are attached to a queue.
        unsafe {
            bindings::knet_queue_wake(
                self.sch.as_ptr(),
                queue,
                core::mem::offset_of!(adapter::Private<T>, watchdog),
                time.min(NEVER),
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

/// The kernel's times have a sign, and one below 0 is over: KTIME_MAX.
const NEVER: u64 = i64::MAX as u64;

/// RTNL is held: the lock of all that configures the network. It cannot be kept, nor sent to
/// another thread.
pub struct Rtnl<'a>(PhantomData<(&'a (), *mut ())>);

impl Rtnl<'_> {
    /// # Safety
    ///
    /// RTNL must be held for the lifetime of the result.
    unsafe fn held() -> Self {
        Rtnl(PhantomData)
    }
}

/// The qdisc while it is being configured: RTNL is held, the qdisc's lock is not.
///
/// There is one at a time, and what needs that takes it by `&mut`.
pub struct Configuring<'a, T: Qdisc> {
    context: Context<'a, T>,
}

impl<T: Qdisc> Configuring<'_, T> {
    /// The device that the qdisc is on.
    pub fn device(&self) -> Device<'_> {
        // SAFETY: a qdisc's device outlives it, and configuration runs under RTNL and, where the
        // device has one, its own lock: the kernel takes it for qdisc requests, and knet's link
        // watch does.
        unsafe {
            let dev = bindings::knet_qdisc_dev(self.context.sch.as_ptr());
            Device::from_raw(NonNull::new_unchecked(dev))
        }
    }

    /// What the kernel reads without the lock.
    pub fn shared(&self) -> &T::Shared {
        self.context.shared()
    }

    /// Is it the one that the device itself asks for packets, and nobody else? Then it is asked
    /// whenever it wants to be, whether anything is queued or not.
    pub fn is_root(&self) -> bool {
        // SAFETY: `sch` is valid for the lifetime of the context.
        unsafe { !adapter::has_parent(self.context.sch.as_ptr()) }
    }

    /// Stops the traffic and works on the qdisc. Not from [`Qdisc::new`], where there is none yet:
    /// then `work` is not run and the result is `None`.
    pub fn lock<R>(&mut self, work: impl FnOnce(&mut T, &mut Locked<'_, T>) -> R) -> Option<R> {
        // SAFETY: RTNL is held, so nobody initialises or destroys the qdisc meanwhile; the lock
        // excludes the packet path. `work` cannot get here again: this is borrowed from whoever
        // called, and there is no other one for the qdisc.
        unsafe { adapter::with_lock(self.context.sch.as_ptr(), work) }
    }

    /// Lets `listener` hear what the device receives from now on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the qdisc has a listener, `ENOMEM`.
    pub fn listen(&mut self, listener: T::Listener) -> Result {
        // SAFETY: RTNL is held, and the qdisc's device outlives it.
        unsafe { adapter::listen::<T>(self.context.sch.as_ptr(), listener) }
    }

    /// Nobody hears what the device receives any longer.
    pub fn listen_no_more(&mut self) {
        // SAFETY: RTNL is held.
        unsafe { adapter::listen_no_more::<T>(self.context.sch.as_ptr()) }
    }
}

/// One more packet of `len` bytes.
#[inline]
fn add((packets, bytes): (u32, u32), len: u32) -> (u32, u32) {
    (packets.wrapping_add(1), bytes.wrapping_add(len))
}

/// The difference of two counts of packets and bytes, modulo 2^32.
fn sub(from: (u32, u32), what: (u32, u32)) -> (u32, u32) {
    (from.0.wrapping_sub(what.0), from.1.wrapping_sub(what.1))
}

/// The qdisc's tree is locked, and RTNL held: no packet comes or goes.
pub struct Locked<'a, T: Qdisc> {
    context: Context<'a, T>,
    rtnl: Rtnl<'a>,
    lost: (u32, u32),
}

impl<'a, T: Qdisc> Locked<'a, T> {
    /// What there is to know of the qdisc from outside.
    pub fn context(&self) -> Context<'a, T> {
        self.context
    }

    /// RTNL is held.
    pub fn rtnl(&self) -> &Rtnl<'a> {
        &self.rtnl
    }

    /// A packet that was in a queue is dropped: the new limits have no room for it.
    pub fn drop_queued(&mut self, skb: Skb) {
        self.lost = add(self.lost, skb.packet_len());
        drop_queued(skb, &self.rtnl);
    }

    /// As [`Enqueuing::listener_of`], for a packet that is dropped.
    pub fn listener_of<R>(
        &mut self,
        skb: &Skb,
        work: impl FnMut(&mut T::Listener) -> Option<(R, bool)>,
    ) -> Option<R> {
        // SAFETY: as for `listener`, of any of the kind's listeners.
        unsafe { adapter::with_listener_of::<T, R>(self.context.sch.as_ptr(), skb, work) }
    }

    /// Works on the listener while it hears nothing. `None`: there is none.
    pub fn listener<R>(&mut self, work: impl FnOnce(&mut T::Listener) -> R) -> Option<R> {
        // SAFETY: the qdisc is valid and locked. `work` cannot get here again: this is borrowed.
        unsafe { adapter::with_listener::<T, R>(self.context.sch.as_ptr(), work) }
    }
}

/// The qdisc while it is emptied: RTNL is held, and no packet comes or goes.
pub struct Resetting<'a, T: Qdisc> {
    context: Context<'a, T>,
    rtnl: Rtnl<'a>,
}

impl<'a, T: Qdisc> Resetting<'a, T> {
    /// RTNL is held.
    pub fn rtnl(&self) -> &Rtnl<'a> {
        &self.rtnl
    }

    /// As [`Enqueuing::listener_of`], for a packet that is dropped.
    pub fn listener_of<R>(
        &mut self,
        skb: &Skb,
        work: impl FnMut(&mut T::Listener) -> Option<(R, bool)>,
    ) -> Option<R> {
        // SAFETY: the qdisc is valid. `work` cannot get here again: this is borrowed, and lends
        // nothing else.
        unsafe { adapter::with_listener_of::<T, R>(self.context.sch.as_ptr(), skb, work) }
    }
}

/// Drops a packet in [`Qdisc::reset`], where the kernel clears the counters itself. Packets are
/// freed when RTNL is released.
pub fn drop_queued(skb: Skb, _rtnl: &Rtnl<'_>) {
    // SAFETY: ours to free; RTNL is held, which the kernel's list of packets to free needs.
    unsafe { bindings::knet_drop_rtnl(skb.into_raw().as_ptr()) }
}
