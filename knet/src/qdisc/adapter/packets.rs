// SPDX-License-Identifier: GPL-2.0
//! Packets in and out, and what becomes of the counters.

use super::{account_lost, context, count_at_parents, private, report_lost};
use crate::{
    bindings,
    qdisc::{counters, sub, Arrivals, Arriving, Departures, Dequeuing, Enqueuing, Leaving, Qdisc},
    skb::Skb,
};
use core::{marker::PhantomData, ptr, ptr::NonNull};

/// # Safety
///
/// The kernel gives a packet away, with the root lock held, to a live qdisc; `to_free` is a valid list.
pub(super) unsafe extern "C" fn enqueue<T: Qdisc>(
    skb: *mut bindings::sk_buff,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> i32 {
    // SAFETY: the kernel gives us the packet and holds the root lock; the qdisc is live, or it could not be reached.
    unsafe {
        let skb = Skb::from_raw(NonNull::new_unchecked(skb));
        let arriving = Arriving {
            context: context::<T>(sch),
            to_free,
        };
        T::enqueue(skb, arriving).0
    }
}

/// # Safety
///
/// As for [`enqueue`].
#[inline(never)]
pub(in crate::qdisc) unsafe fn enqueue_unusual<T: Qdisc>(
    skb: Skb,
    known: T::Arrival,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> i32 {
    let len = skb.packet_len();
    let mut on = Enqueuing {
        // SAFETY: the caller's qdisc.
        context: unsafe { context::<T>(sch) },
        report: Arrivals {
            // SAFETY: no qdisc is at address 0.
            sch: unsafe { NonNull::new_unchecked(sch) },
            to_free,
            queued: (0, 0),
            counted: (0, 0),
            ahead: (0, 0),
            lost: (0, 0),
            refused: 0,
            verdict: bindings::NET_XMIT_DROP as i32,
            _lock: PhantomData,
        },
    };
    T::enqueue_unusual(skb, known, &mut on);

    let on = &on.report;
    // SAFETY: the qdisc is valid and its root lock held.
    unsafe {
        let (packets, bytes) = on.uncounted();
        counters::enqueued(sch, packets, bytes);
        // As the parents will count it on their way back, and nothing else happened.
        if on.queued == (1, len) && (on.refused | on.lost.0 | on.ahead.0) == 0 && (*sch).q.qlen != 0
        {
            return bindings::NET_XMIT_SUCCESS as i32;
        }
        account_for(on, sch, len)
    }
}

/// Has everybody know what became of a packet of `len` bytes and of those that went for it; the verdict. What was queued is in the qdisc's
/// own counters already.
///
/// # Safety
///
/// As for [`enqueue`].
#[inline(never)]
unsafe fn account_for(on: &Arrivals<'_>, sch: *mut bindings::Qdisc, len: u32) -> i32 {
    // SAFETY: the qdisc is valid and its root lock held.
    unsafe {
        if on.refused != 0 {
            bindings::knet_count_drops(sch, on.refused);
        }
        account_lost(sch, on.lost);
        let empty = (*sch).q.qlen == 0;
        let taken = on.queued.0 != 0 && !empty;
        // What the parents do not count yet of what was queued. They do while they hear of drops: one that is empty for a moment
        // tells its own parent, which gives up the class, and asks no more for the packet that is on its way in.
        let mut uncounted = sub(on.queued, on.ahead);
        if on.lost.0 != 0 || empty {
            count_at_parents(sch, uncounted);
            uncounted = (0, 0);
            report_lost(sch, on.lost);
        }
        if taken {
            // On their way back the parents will count one packet of `len` bytes.
            uncounted = sub(uncounted, (1, len));
        }
        count_at_parents(sch, uncounted);
        if !taken {
            return on.verdict;
        }
    }
    bindings::NET_XMIT_SUCCESS as i32
}

/// # Safety
///
/// Called by the kernel for a live qdisc with the root lock held; the caller owns the result.
pub(super) unsafe extern "C" fn dequeue<T: Qdisc>(
    sch: *mut bindings::Qdisc,
) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us.
    let context = unsafe { context::<T>(sch) };
    T::dequeue(Leaving { context }).0
}

/// As `qdisc_peek_dequeued`, but the peeked packet is back in the counters before the parents hear of drops: to them
/// the qdisc is not empty.
///
/// # Safety
///
/// Called by a parent for a live qdisc with the root lock held; the packet stays the qdisc's.
pub(super) unsafe extern "C" fn peek<T: Qdisc>(
    sch: *mut bindings::Qdisc,
) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us. `gso_skb` is free for a peeked packet since only parents peek.
    unsafe {
        let peeked = bindings::knet_peeked(sch);
        if !peeked.is_null() {
            return peeked;
        }
        let peeking = &raw mut (*private::<T>(sch)).peeking;
        *peeking = true;
        let context = context::<T>(sch);
        let skb = T::dequeue(Leaving { context }).0;
        // Otherwise `dequeue_unusual` has put it back.
        if peeking.replace(false) && !skb.is_null() {
            bindings::knet_stash_peeked(sch, skb);
        }
        skb
    }
}

/// Is it a packet of the qdisc's device? Only addresses are compared: another packet's device may be gone.
///
/// # Safety
///
/// The qdisc must be valid.
#[inline(always)]
pub(in crate::qdisc) unsafe fn is_on_device<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    skb: &Skb,
) -> bool {
    // SAFETY: set before the first packet comes.
    skb.dev() == unsafe { (*private::<T>(sch)).dev }
}

/// A packet, of `len` bytes, that was to leave is none of the qdisc's device: who takes it would look at that.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held, and nothing of it or its parents borrowed.
#[cold]
#[inline(never)]
unsafe fn drop_foreign(sch: *mut bindings::Qdisc, skb: Skb, len: u32) -> *mut bindings::sk_buff {
    drop(skb);
    // SAFETY: promised by the caller.
    unsafe {
        account_lost(sch, (1, len));
        report_lost(sch, (1, len));
    }
    ptr::null_mut()
}

/// The packet, of `len` bytes, leaves the qdisc.
///
/// # Safety
///
/// As for [`drop_foreign`].
#[inline(always)]
pub(in crate::qdisc) unsafe fn give_away<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    skb: Skb,
    len: u32,
) -> *mut bindings::sk_buff {
    // SAFETY: promised by the caller.
    unsafe {
        if !is_on_device::<T>(sch, &skb) {
            return drop_foreign(sch, skb, len);
        }
        counters::removed(sch, 1, len);
        counters::sent(sch, skb.pkt_segs(), len);
    }
    skb.into_raw().as_ptr()
}

/// If this is a peek, puts the packet back into the counters before the parents hear of drops.
///
/// # Safety
///
/// As for [`dequeue`].
#[inline(never)]
pub(in crate::qdisc) unsafe fn dequeue_unusual<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    known: T::Departure,
) -> *mut bindings::sk_buff {
    // SAFETY: the kernel holds the root lock; the qdisc is live, or it could not be reached. `gso_skb` is free for a peeked packet
    // since only parents peek.
    unsafe {
        let mut on = Dequeuing {
            context: context::<T>(sch),
            report: Departures {
                sch: NonNull::new_unchecked(sch),
                lost: (0, 0),
                _lock: PhantomData,
            },
        };
        let skb = match T::dequeue_unusual(known, &mut on) {
            Some(skb) => {
                let len = skb.packet_len();
                give_away::<T>(sch, skb, len)
            }
            None => ptr::null_mut(),
        };
        account_lost(sch, on.report.lost);
        let peeking = (&raw mut (*private::<T>(sch)).peeking).replace(false);
        if peeking && !skb.is_null() {
            bindings::knet_stash_peeked(sch, skb);
        }
        if on.report.lost.0 != 0 {
            report_lost(sch, on.report.lost);
        }
        skb
    }
}
