// SPDX-License-Identifier: GPL-2.0
//! What a qdisc gets on the fast path ([`Arriving`], [`Leaving`]) and on the slow one, where
//! children, filters and drops come in ([`Enqueuing`], [`Dequeuing`]).

use super::{
    adapter::{
        child, count_at_parents, dequeue_slow, enqueue_slow, give_away, has_parent, is_on_device,
        this, told, with_listener, with_listener_of,
    },
    add, counters, sub, Classified, Context, DropReason, Qdisc,
};
use crate::{
    bindings,
    skb::{Skb, SkbQueue},
};
use core::{marker::PhantomData, ptr, ptr::NonNull, sync::atomic::Ordering};

/// A packet that arrives.
pub struct Arriving<'a, T: Qdisc> {
    pub(super) context: Context<'a, T>,
    pub(super) to_free: *mut *mut bindings::sk_buff,
}

/// An arriving packet has been dealt with, and accounted for. It cannot be kept: a qdisc is `Send`.
#[must_use]
pub struct Enqueued(pub(super) i32, PhantomData<*mut ()>);

impl Enqueued {
    #[inline]
    fn new(verdict: i32) -> Self {
        Enqueued(verdict, PhantomData)
    }
}

impl<'a, T: Qdisc> Arriving<'a, T> {
    /// The qdisc, and what there is to know of it from outside.
    #[inline]
    pub fn qdisc(&mut self) -> (&mut T, Context<'a, T>) {
        // SAFETY: as for `Enqueuing::qdisc`. The borrow is over when this is used up.
        (unsafe { this(self.context.sch.as_ptr()) }, self.context)
    }

    /// Works on the listener while it hears nothing. `None`: there is none.
    #[inline]
    pub fn listener<R>(&mut self, work: impl FnOnce(&mut T::Listener) -> R) -> Option<R> {
        // SAFETY: as for `Enqueuing::listener`.
        unsafe { with_listener::<T, R>(self.context.sch.as_ptr(), work) }
    }

    /// The packet, of `len` bytes ([`Skb::packet_len`]), was put into a queue as it is, and nothing
    /// else happened.
    #[inline]
    pub fn queued(self, len: u32) -> Enqueued {
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe { counters::enqueued(self.context.sch.as_ptr(), 1, len) };
        Enqueued::new(bindings::NET_XMIT_SUCCESS as i32)
    }

    /// Anything else: goes on with [`Qdisc::enqueue_slow`].
    #[inline]
    pub fn slow(self, skb: Skb, known: T::EnqueueHint) -> Enqueued {
        // SAFETY: the kernel called us for a live qdisc with the root lock held; `to_free` is its
        // list.
        Enqueued::new(unsafe {
            enqueue_slow::<T>(skb, known, self.context.sch.as_ptr(), self.to_free)
        })
    }
}

/// The next packet is asked for.
pub struct Leaving<'a, T: Qdisc> {
    pub(super) context: Context<'a, T>,
}

/// A dequeue is done, and accounted for. It cannot be kept: a qdisc is `Send`.
#[must_use]
pub struct Dequeued(pub(super) *mut bindings::sk_buff);

impl<'a, T: Qdisc> Leaving<'a, T> {
    /// What there is to know of the qdisc from outside.
    #[inline]
    pub fn context(&self) -> Context<'a, T> {
        self.context
    }

    /// The qdisc.
    #[inline]
    pub fn qdisc(&mut self) -> &mut T {
        // SAFETY: as for `Enqueuing::qdisc`. The borrow is over when this is used up.
        unsafe { this(self.context.sch.as_ptr()) }
    }

    /// This packet goes, of `len` bytes ([`Skb::packet_len`]), and nothing else happened. If it is
    /// no packet of the qdisc's device, it is dropped.
    #[inline]
    pub fn with(self, skb: Skb, len: u32) -> Dequeued {
        let sch = self.context.sch.as_ptr();
        // SAFETY: the qdisc is valid and its root lock held; nothing of it is borrowed any more.
        Dequeued(unsafe { give_away::<T>(sch, skb, len) })
    }

    /// There is nothing to give.
    #[inline]
    pub fn empty(self) -> Dequeued {
        Dequeued(ptr::null_mut())
    }

    /// Anything else: goes on with [`Qdisc::dequeue_slow`].
    #[inline]
    pub fn slow(self, known: T::DequeueHint) -> Dequeued {
        // SAFETY: the kernel called us for a live qdisc with the root lock held.
        Dequeued(unsafe { dequeue_slow::<T>(self.context.sch.as_ptr(), known) })
    }
}

/// The way in of a packet that is not just queued.
///
/// The qdisc is borrowed from it, and so is not while a child or a filter runs.
pub struct Enqueuing<'a, T: Qdisc> {
    pub(super) context: Context<'a, T>,
    pub(super) report: EnqueueReport<'a>,
}

impl<'a, T: Qdisc> Enqueuing<'a, T> {
    /// The qdisc, and where to report what happens to packets.
    #[inline]
    pub fn qdisc(&mut self) -> (&mut T, &mut EnqueueReport<'a>) {
        // SAFETY: knet makes one of these for each packet that enters or leaves, from a live qdisc
        // under its root lock, when nothing of it is borrowed; of two, the outer one is inside
        // `classify`, `give` or `take`, mutably borrowed, until the inner one is gone.
        (unsafe { this(self.context.sch.as_ptr()) }, &mut self.report)
    }

    /// What there is to know of the qdisc from outside.
    #[inline]
    pub fn context(&self) -> Context<'a, T> {
        self.context
    }

    /// Where to report what happens to packets.
    #[inline]
    pub fn report(&mut self) -> &mut EnqueueReport<'a> {
        &mut self.report
    }

    /// Works on the listener while it hears nothing. `None`: there is none.
    #[inline]
    pub fn listener<R>(&mut self, work: impl FnOnce(&mut T::Listener) -> R) -> Option<R> {
        // SAFETY: the qdisc is live and its root lock held. `work` cannot get here again: this is
        // borrowed, and there is no other one on this processor but while a child or a filter runs.
        unsafe { with_listener::<T, R>(self.context.sch.as_ptr(), work) }
    }

    /// Works on the listener of the qdisc of this kind, in this namespace, that sends by the device
    /// which the packet came in by. `work` says what it has come to, and whether that qdisc has
    /// packets to give that it had not before; or nothing, and then on another one that sends by
    /// the device, if there is one. `None`: there is no such listener, or the packet did not come
    /// in.
    pub fn listener_of<R>(
        &mut self,
        skb: &Skb,
        work: impl FnMut(&mut T::Listener) -> Option<(R, bool)>,
    ) -> Option<R> {
        // SAFETY: as for `Enqueuing::listener`: of any of the kind's listeners.
        unsafe { with_listener_of::<T, R>(self.context.sch.as_ptr(), skb, work) }
    }

    /// How much others have told of what came in by the qdisc's device. `take` says how much of it
    /// is done with.
    pub fn told(&mut self, take: impl FnOnce(&mut T, u32) -> u32) {
        // SAFETY: the qdisc is live.
        let Some(told) = (unsafe { told::<T>(self.context.sch.as_ptr()) }) else {
            return;
        };
        // All of it, since qdiscs of several queues may be told of the same.
        let all = u32::try_from(told.swap(0, Ordering::Relaxed)).unwrap_or(0);
        if all != 0 {
            let taken = take(self.qdisc().0, all).min(all);
            let left = all.wrapping_sub(taken);
            if left != 0 {
                told.fetch_add(left as i32, Ordering::Relaxed);
            }
        }
    }

    /// Is it a packet of the qdisc's device? Of another one, nothing is known of what `skb->dev`
    /// points to.
    #[inline]
    fn is_on_device(&self, skb: &Skb) -> bool {
        // SAFETY: the qdisc is valid.
        unsafe { is_on_device::<T>(self.context.sch.as_ptr(), skb) }
    }

    /// Splits a GSO super-packet into the wire packets it stands for, each with its own length.
    ///
    /// # Errors
    ///
    /// A packet that cannot be split, or is none of the qdisc's device, comes back as it was.
    pub fn split(&mut self, skb: Skb) -> Result<SkbQueue, Skb> {
        if !self.is_on_device(&skb) {
            return Err(skb);
        }
        // SAFETY: the qdisc's device outlives it, and the packet is on it.
        unsafe { skb.split() }
    }

    /// Cuts a GSO super-packet into shorter ones of `segments` wire packets each, the last one of
    /// what is left. What can be cut, [`Skb::segment_len`] says.
    ///
    /// # Errors
    ///
    /// A packet that cannot be cut, or is none of the qdisc's device, comes back as it was. It may
    /// be split all the same.
    pub fn cut(&mut self, skb: Skb, segments: u32) -> Result<SkbQueue, Skb> {
        if !self.is_on_device(&skb) {
            return Err(skb);
        }
        // SAFETY: the qdisc's device outlives it, and the packet is on it.
        unsafe { skb.cut(segments) }
    }

    /// Runs the qdisc's filters over the packet. One of another device is to be dropped.
    pub fn classify(&mut self, skb: &mut Skb) -> Classified {
        if !self.is_on_device(skb) {
            return Classified::Shot;
        }
        let mut result = bindings::tcf_result::default();
        // SAFETY: the filter list is set up before the first packet comes; enqueue runs in an
        // RCU-bh section. C reads the head as RCU wants it. The packet's device is the qdisc's.
        let action = unsafe {
            let list = &raw mut (*self.context.private()).filters.list;
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

    /// Hands a packet to the child in this place. `false`: the child dropped it, or another one in
    /// its place. If there is none, or the packet is none of the qdisc's device, it is refused.
    #[inline]
    pub fn give(&mut self, skb: Skb, place: usize) -> bool {
        let len = skb.packet_len();
        let on_device = self.is_on_device(&skb);
        // SAFETY: the qdisc is live and its root lock held.
        let child = unsafe { child::<T>(self.context.sch.as_ptr(), place) };
        let report = &mut self.report;
        let Some(child) = child.filter(|_| on_device) else {
            report.refuse(skb, DropReason::Generic);
            return false;
        };
        let child = child.as_ptr();
        // SAFETY: valid for as long as we hold the root lock, since children are exchanged under
        // it. The child takes the packet in every case.
        let Some(enqueue) = (unsafe { (*child).enqueue }) else {
            // No qdisc comes without; the packet is dropped as any other.
            report.refuse(skb, DropReason::Generic);
            return false;
        };
        // SAFETY: as above.
        let may_tell = unsafe { has_parent(self.context.sch.as_ptr()) && (*child).q.qlen != 0 };
        // SAFETY: as above; the root lock is held and `to_free` valid. Nothing of the qdisc is
        // borrowed, should the child enter it.
        report.offer(len, may_tell, |to_free| unsafe {
            enqueue(skb.into_raw().as_ptr(), child, to_free)
        })
    }
}

/// Where it is reported what happens to packets while one comes in.
pub struct EnqueueReport<'a> {
    pub(super) sch: NonNull<bindings::Qdisc>,
    pub(super) to_free: *mut *mut bindings::sk_buff,
    /// Newly queued: packets and bytes.
    pub(super) queued: (u32, u32),
    /// Of these, how many the qdisc's counters have already.
    pub(super) counted: (u32, u32),
    /// What the parents' counters have already of all that arrives: packets and bytes.
    pub(super) ahead: (u32, u32),
    /// Queued before, dropped now: packets and bytes.
    pub(super) lost: (u32, u32),
    pub(super) refused: u32,
    pub(super) verdict: i32,
    pub(super) _lock: PhantomData<&'a ()>,
}

impl EnqueueReport<'_> {
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
        self.free_classified(skb);
    }

    /// The arriving packet is dropped because a filter's action says so.
    pub fn shot(&mut self, skb: Skb) {
        self.refused = self.refused.wrapping_add(1);
        self.verdict =
            (bindings::NET_XMIT_SUCCESS | bindings::net_xmit_qdisc_t___NET_XMIT_BYPASS) as i32;
        self.free_classified(skb);
    }

    /// The classifier may have left a reason with the packet.
    fn free_classified(&mut self, skb: Skb) {
        // SAFETY: as in `free`.
        unsafe { bindings::knet_drop_classified(skb.into_raw().as_ptr(), self.to_free) }
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
    /// The packet is counted before the child gets it. A full child drops another packet instead
    /// and takes that off our and our parents' counters at once: without the new one they would be
    /// 0 for a moment, and a parent such as hfsc would hear that a child of its is empty and never
    /// ask it again. `may_tell`: we have parents, and the child has something to drop.
    #[inline]
    fn offer(
        &mut self,
        len: u32,
        may_tell: bool,
        enqueue: impl FnOnce(*mut *mut bindings::sk_buff) -> i32,
    ) -> bool {
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe {
            counters::enqueued(self.sch.as_ptr(), 1, len);
            if may_tell {
                count_at_parents(self.sch.as_ptr(), (1, len));
                self.ahead = add(self.ahead, len);
            }
        }
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
        sub(self.queued, self.counted)
    }
}

/// A packet's way out where there is more to do than to hand it over.
///
/// The qdisc is borrowed from it, and so is not while a child runs.
pub struct Dequeuing<'a, T: Qdisc> {
    pub(super) context: Context<'a, T>,
    pub(super) peeking: bool,
    pub(super) report: DequeueReport<'a, T>,
}

impl<'a, T: Qdisc> Dequeuing<'a, T> {
    /// The qdisc, and where to report packets that are dropped instead of sent.
    #[inline]
    pub fn qdisc(&mut self) -> (&mut T, &mut DequeueReport<'a, T>) {
        // SAFETY: as for `Enqueuing::qdisc`.
        (unsafe { this(self.context.sch.as_ptr()) }, &mut self.report)
    }

    /// What there is to know of the qdisc from outside.
    #[inline]
    pub fn context(&self) -> Context<'a, T> {
        self.context
    }

    /// Does a parent but look at what is given now? See [`Qdisc::peek`].
    #[inline]
    pub fn is_peek(&self) -> bool {
        self.peeking
    }

    /// Works on the listener while it hears nothing. `None`: there is none.
    #[inline]
    pub fn listener<R>(&mut self, work: impl FnOnce(&mut T::Listener) -> R) -> Option<R> {
        // SAFETY: as for `Enqueuing::listener`.
        unsafe { with_listener::<T, R>(self.context.sch.as_ptr(), work) }
    }

    /// Makes a packet that was never queued: this Ethernet frame, with the device's own address as
    /// its source. It is to be given away now, and is in no counter then. `None`: there is no
    /// memory, the frame is none, or a parent but looks.
    pub fn originate(&mut self, frame: &[u8]) -> Option<Skb> {
        let len = u32::try_from(frame.len()).ok()?;
        if self.peeking {
            return None;
        }
        // SAFETY: the qdisc is live and its root lock held; its device outlives it. The frame has
        // as many bytes. What C gives is ours, on no list.
        unsafe {
            let dev = (*self.context.private()).dev;
            let skb = NonNull::new(bindings::knet_skb_frame(dev, frame.as_ptr(), len))?;
            // To the qdisc layer it is a packet of no length, which is taken off again when it
            // leaves.
            counters::enqueued(self.context.sch.as_ptr(), 1, 0);
            Some(Skb::from_raw(skb))
        }
    }

    /// Takes the packet that the child in this place would send next.
    #[inline]
    pub fn take(&mut self, place: usize) -> Option<Skb> {
        // SAFETY: the qdisc is live and its root lock held. The child is valid as long, since
        // children are exchanged under it. Nobody peeks at our children, so there is no peeked
        // packet to care for, and what `dequeue` returns is ours.
        unsafe {
            let child = child::<T>(self.context.sch.as_ptr(), place)?.as_ptr();
            let dequeue = (*child).dequeue?;
            NonNull::new(dequeue(child)).map(|skb| Skb::from_raw(skb))
        }
    }
}

/// Where packets are reported that are dropped instead of sent.
pub struct DequeueReport<'a, T: Qdisc> {
    pub(super) sch: NonNull<bindings::Qdisc>,
    pub(super) lost: (u32, u32),
    pub(super) _lock: PhantomData<&'a T>,
}

impl<T: Qdisc> DequeueReport<'_, T> {
    /// As [`Enqueuing::listener_of`], for a packet that leaves or is dropped.
    pub fn listener_of<R>(
        &mut self,
        skb: &Skb,
        work: impl FnMut(&mut T::Listener) -> Option<(R, bool)>,
    ) -> Option<R> {
        // SAFETY: knet makes this for a live qdisc of the kind that `T` implements, under its root
        // lock. `work` cannot work on another listener: whoever lends one is borrowed.
        unsafe { with_listener_of::<T, R>(self.sch.as_ptr(), skb, work) }
    }

    /// A packet that was in a queue is dropped.
    pub fn drop_queued(&mut self, skb: Skb, reason: DropReason) {
        self.lost = add(self.lost, skb.packet_len());
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe {
            bindings::knet_drop_dequeue(self.sch.as_ptr(), skb.into_raw().as_ptr(), reason.code())
        }
    }
}
