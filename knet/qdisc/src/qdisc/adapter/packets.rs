// SPDX-License-Identifier: GPL-2.0
//! Packets in and out, and what becomes of the counters.

use super::{account_lost, context, count_at_parents, private, report_lost, this};
use crate::{
    bindings,
    qdisc::{
        counters, sub, Arriving, DequeueReport, Dequeuing, DropReason, EnqueueReport, Enqueuing,
        Leaving, Qdisc,
    },
    skb::Skb,
};
use core::{marker::PhantomData, ptr, ptr::NonNull};

/// # Safety
///
/// The kernel gives a packet away, with the root lock held, to a live qdisc; `to_free` is a valid
/// list.
pub(super) unsafe extern "C" fn enqueue<T: Qdisc>(
    skb: *mut bindings::sk_buff,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> i32 {
    // SAFETY: the kernel gives us the packet and holds the root lock; the qdisc is live, or it
    // could not be reached.
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
pub(in crate::qdisc) unsafe fn enqueue_slow<T: Qdisc>(
    skb: Skb,
    known: T::EnqueueHint,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> i32 {
    let len = skb.packet_len();
    let mut on = Enqueuing {
        // SAFETY: the caller's qdisc.
        context: unsafe { context::<T>(sch) },
        report: EnqueueReport {
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
    T::enqueue_slow(skb, known, &mut on);

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

/// Has everybody know what became of a packet of `len` bytes and of those that went for it; the
/// verdict. What was queued is in the qdisc's own counters already.
///
/// # Safety
///
/// As for [`enqueue`].
#[inline(never)]
unsafe fn account_for(on: &EnqueueReport<'_>, sch: *mut bindings::Qdisc, len: u32) -> i32 {
    // SAFETY: the qdisc is valid and its root lock held.
    unsafe {
        if on.refused != 0 {
            bindings::knet_count_drops(sch, on.refused);
        }
        account_lost(sch, on.lost);
        let empty = (*sch).q.qlen == 0;
        let taken = on.queued.0 != 0 && !empty;
        // What the parents do not count yet of what was queued. They do while they hear of drops:
        // one that is empty for a moment tells its own parent, which gives up the class, and asks
        // no more for the packet that is on its way in.
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

/// As `qdisc_peek_dequeued`, but for two things.
///
/// The packet is not kept in `gso_skb`: from there a parent takes it without asking us, though it
/// may have grown too old since. Most parents peek again in the dequeue in which they take a packet
/// (tbf, drr, ets, qfq), but hfsc does not, nor do prio and red, through which a parent of theirs
/// may have peeked. It is kept where we alone find it, and until it is gone, `sch->dequeue` is
/// another function. So the usual dequeue has nothing to ask.
///
/// And it is back in the counters before the parents hear of drops: to them the qdisc is not empty.
///
/// # Safety
///
/// Called by a parent for a live qdisc with the root lock held; the packet stays the qdisc's.
pub(super) unsafe extern "C" fn peek<T: Qdisc>(
    sch: *mut bindings::Qdisc,
) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us.
    unsafe {
        let area = private::<T>(sch);
        let mut lost = (0, 0);
        if let Some(held) = (*area).peeked {
            if !this::<T>(sch).peeked_expired() {
                return held.as_ptr();
            }
            lost = drop_peeked::<T>(sch);
        }
        (*area).peeking = true;
        let context = context::<T>(sch);
        let skb = T::peek(Leaving { context }).0;
        // Otherwise `dequeue_slow` has put it back, and has not counted it as sent.
        if (&raw mut (*area).peeking).replace(false) {
            hold::<T>(sch, skb, true);
        }
        lose::<T>(sch, lost, !skb.is_null());
        skb
    }
}

/// What `dequeue` is while a packet is held that a parent has looked at: that packet goes first.
///
/// Nothing goes in the place of one that is too old: parents such as tbf have paid for a packet of
/// its length. They can deal with getting nothing, but not all come back by themselves.
///
/// # Safety
///
/// As for [`dequeue`].
unsafe extern "C" fn dequeue_peeked<T: Qdisc>(sch: *mut bindings::Qdisc) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us. There is a packet, or `dequeue` would be called.
    unsafe {
        if this::<T>(sch).peeked_expired() {
            let lost = drop_peeked::<T>(sch);
            lose::<T>(sch, lost, false);
            // Even if nothing is left here: there may be other classes, whose turn it is now.
            context::<T>(sch).wake_at(crate::time::now());
            return ptr::null_mut();
        }
        let counted = (*private::<T>(sch)).peeked_counted;
        let Some(skb) = release::<T>(sch) else {
            return ptr::null_mut();
        };
        this::<T>(sch).peeked_left();
        let len = skb.packet_len();
        if counted {
            counters::removed(sch, 1, len);
            return skb.into_raw().as_ptr();
        }
        give_away::<T>(sch, skb, len)
    }
}

/// Keeps a packet, if it is one, for who asked for it in advance: it is still part of the queue.
/// `counted`: as sent.
///
/// # Safety
///
/// As for [`peek`].
#[inline(never)]
unsafe fn hold<T: Qdisc>(sch: *mut bindings::Qdisc, skb: *mut bindings::sk_buff, counted: bool) {
    let Some(held) = NonNull::new(skb) else {
        return;
    };
    // SAFETY: promised by the caller. The packet is ours as yet.
    unsafe {
        // Whoever peeked inside of this peek got another one. No parent of the kernel's does that.
        let inner = drop_peeked::<T>(sch);
        let skb = Skb::from_raw(held);
        counters::enqueued(sch, 1, skb.packet_len());
        (*private::<T>(sch)).peeked = Some(skb.into_raw());
        (*private::<T>(sch)).peeked_counted = counted;
        (*sch).dequeue = Some(dequeue_peeked::<T>);
        lose::<T>(sch, inner, true);
    }
}

/// Gives the packet that is held, if there is one.
///
/// # Safety
///
/// The qdisc must be valid, and its root lock held or nobody else able to reach it.
unsafe fn release<T: Qdisc>(sch: *mut bindings::Qdisc) -> Option<Skb> {
    // SAFETY: promised by the caller. What is held is ours.
    unsafe {
        let held = (*private::<T>(sch)).peeked.take()?;
        (*sch).dequeue = Some(dequeue::<T>);
        Some(Skb::from_raw(held))
    }
}

/// Drops the packet that is held, since it is too old. Gives what is to be accounted for.
///
/// # Safety
///
/// As for [`peek`].
#[inline(never)]
unsafe fn drop_peeked<T: Qdisc>(sch: *mut bindings::Qdisc) -> (u32, u32) {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(skb) = release::<T>(sch) else {
            return (0, 0);
        };
        let lost = (1, skb.packet_len());
        bindings::knet_drop_dequeue(sch, skb.into_raw().as_ptr(), DropReason::Congested.code());
        lost
    }
}

/// Drops the packet that is held, in a reset.
///
/// # Safety
///
/// As for [`release`]; RTNL must be held.
pub(super) unsafe fn reset_peeked<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(skb) = release::<T>(sch) {
            bindings::knet_drop_rtnl(skb.into_raw().as_ptr());
        }
    }
}

/// Is it a packet of the qdisc's device? Only addresses are compared: another packet's device may
/// be gone.
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

/// A packet, of `len` bytes, that was to leave is none of the qdisc's device: who takes it would
/// look at that.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held, and nothing of it or its parents borrowed.
#[cold]
#[inline(never)]
unsafe fn drop_foreign<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    skb: Skb,
    len: u32,
) -> *mut bindings::sk_buff {
    drop(skb);
    // SAFETY: promised by the caller.
    unsafe { lose::<T>(sch, (1, len), false) };
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
            return drop_foreign::<T>(sch, skb, len);
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
pub(in crate::qdisc) unsafe fn dequeue_slow<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    known: T::DequeueHint,
) -> *mut bindings::sk_buff {
    // SAFETY: the kernel holds the root lock; the qdisc is live, or it could not be reached.
    unsafe {
        let peeking = (&raw mut (*private::<T>(sch)).peeking).replace(false);
        let mut on = Dequeuing {
            context: context::<T>(sch),
            peeking,
            report: DequeueReport {
                sch: NonNull::new_unchecked(sch),
                lost: (0, 0),
                _lock: PhantomData,
            },
        };
        let taken = T::dequeue_slow(known, &mut on);
        let lost = on.report.lost;
        if peeking {
            return peeked::<T>(sch, taken, lost);
        }
        let skb = match taken {
            Some(skb) => {
                let len = skb.packet_len();
                give_away::<T>(sch, skb, len)
            }
            None => ptr::null_mut(),
        };
        if lost.0 != 0 {
            lose::<T>(sch, lost, !skb.is_null());
        }
        skb
    }
}

/// What a peek comes to that took the long way.
///
/// # Safety
///
/// As for [`dequeue`].
#[cold]
#[inline(never)]
unsafe fn peeked<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    taken: Option<Skb>,
    lost: (u32, u32),
) -> *mut bindings::sk_buff {
    // SAFETY: promised by the caller.
    unsafe {
        let skb = match taken {
            // It will count as sent when it leaves.
            Some(skb) if is_on_device::<T>(sch, &skb) => {
                counters::removed(sch, 1, skb.packet_len());
                skb.into_raw().as_ptr()
            }
            Some(skb) => {
                this::<T>(sch).peeked_left();
                let len = skb.packet_len();
                give_away::<T>(sch, skb, len)
            }
            None => ptr::null_mut(),
        };
        hold::<T>(sch, skb, false);
        lose::<T>(sch, lost, !skb.is_null());
        skb
    }
}

/// Accounts for packets that were dropped while a parent asked for one, and was `given` one or not.
///
/// A qdisc that gives nothing and is empty now must not say so in the middle of its parents'
/// dequeue: htb would take the class out of the tree that it is walking, and go round for ever; and
/// drr, ets and hfsc, which got nothing, would not come back for their other classes. So the
/// packets stay in all counters until a moment later, when nobody is asking: then the parents are
/// told, and the device is scheduled once more.
///
/// # Safety
///
/// The qdisc's root lock must be held, and nothing of it or its parents borrowed.
#[inline(never)]
unsafe fn lose<T: Qdisc>(sch: *mut bindings::Qdisc, lost: (u32, u32), given: bool) {
    if lost.0 == 0 {
        return;
    }
    // SAFETY: promised by the caller. The timer was set up by `init`.
    unsafe {
        if given || (*sch).q.qlen != lost.0 || !bindings::knet_has_parent(sch) {
            account_lost(sch, lost);
            report_lost(sch, lost);
            return;
        }
        let area = private::<T>(sch);
        let (packets, bytes) = (*area).owed;
        (*area).owed = (packets.wrapping_add(lost.0), bytes.wrapping_add(lost.1));
        bindings::knet_settling_start(&raw mut (*area).settling);
    }
}

/// Takes what was dropped before off the counters: nobody is asking for a packet now.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held, outside of any dequeue, and nothing of it or its
/// parents borrowed.
pub(super) unsafe extern "C" fn settle<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: promised by the caller.
    unsafe {
        let owed = (&raw mut (*private::<T>(sch)).owed).replace((0, 0));
        if owed.0 != 0 {
            account_lost(sch, owed);
            report_lost(sch, owed);
        }
    }
}
