// SPDX-License-Identifier: GPL-2.0
//! Packets in and out, and what becomes of the counters.

use super::{account_lost, context, report_lost, this};
use crate::{
    bindings,
    qdisc::{counters, Arriving, Dequeuing, Enqueued, Enqueuing, Qdisc},
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
            sch: NonNull::new_unchecked(sch),
            to_free,
            _lock: PhantomData,
        };
        this::<T>(sch).enqueue(skb, arriving, context(sch)).0
    }
}

impl Arriving<'_> {
    /// The packet, of `len` bytes ([`Skb::packet_len`]), was put into a queue as it is, and nothing else happened.
    #[inline]
    pub fn queued(self, len: u32) -> Enqueued {
        let sch = self.sch.as_ptr();
        // SAFETY: the qdisc is valid and its root lock held.
        unsafe { counters::enqueued(sch, 1, len) };
        Enqueued(bindings::NET_XMIT_SUCCESS as i32)
    }

    /// Anything else: `work` deals with the packet and says what it did to the [`Enqueuing`] it gets.
    #[inline(never)]
    pub fn otherwise(self, skb: Skb, work: impl FnOnce(Skb, &mut Enqueuing<'_>)) -> Enqueued {
        let sch = self.sch.as_ptr();
        let len = skb.packet_len();
        let mut on = Enqueuing {
            sch: self.sch,
            to_free: self.to_free,
            queued: (0, 0),
            counted: (0, 0),
            lost: (0, 0),
            refused: 0,
            verdict: bindings::NET_XMIT_DROP as i32,
            _lock: PhantomData,
        };
        work(skb, &mut on);

        // SAFETY: the qdisc is valid and its root lock held. The parents hear of drops while the qdisc's own `&mut self`
        // lives, which is nothing that they look at.
        unsafe {
            let (packets, bytes) = on.uncounted();
            counters::enqueued(sch, packets, bytes);
            let (packets, bytes) = on.queued;
            if on.refused != 0 {
                bindings::knet_count_drops(sch, on.refused);
            }
            account_lost(sch, on.lost);
            report_lost(sch, on.lost);
            if packets == 0 {
                return Enqueued(on.verdict);
            }
            if packets != 1 || bytes != len {
                // The parents will count one packet of `len` bytes; correct that.
                bindings::qdisc_tree_reduce_backlog(
                    sch,
                    1i32.wrapping_sub(packets as i32),
                    (len as i32).wrapping_sub(bytes as i32),
                );
            }
        }
        Enqueued(bindings::NET_XMIT_SUCCESS as i32)
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc with the root lock held; the caller owns the result.
pub(super) unsafe extern "C" fn dequeue<T: Qdisc>(
    sch: *mut bindings::Qdisc,
) -> *mut bindings::sk_buff {
    // SAFETY: as the kernel calls us. It asks an empty qdisc after each packet that it has taken from one.
    unsafe {
        if this::<T>(sch).is_empty() {
            return ptr::null_mut();
        }
        dequeue_one::<T>(sch, false)
    }
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
    // SAFETY: as the kernel calls us.
    unsafe {
        let peeked = bindings::knet_peeked(sch);
        if !peeked.is_null() {
            return peeked;
        }
        dequeue_one::<T>(sch, true)
    }
}

/// # Safety
///
/// As for [`dequeue`], or with `peek` as for [`peek`] when nothing is peeked at yet.
#[inline(never)]
unsafe fn dequeue_one<T: Qdisc>(sch: *mut bindings::Qdisc, peek: bool) -> *mut bindings::sk_buff {
    // SAFETY: the kernel holds the root lock; the qdisc is live, or it could not be reached.
    unsafe {
        let mut on = Dequeuing {
            sch: NonNull::new_unchecked(sch),
            lost: (0, 0),
            more: peek,
            peek,
            _lock: PhantomData,
        };
        let skb = match this::<T>(sch).dequeue(&mut on, context(sch)) {
            Some(skb) => {
                counters::removed(sch, 1, skb.packet_len());
                counters::sent(sch, skb.pkt_segs(), skb.packet_len());
                skb.into_raw().as_ptr()
            }
            None => ptr::null_mut(),
        };
        if on.more {
            after_dequeue(skb, &on);
        }
        skb
    }
}

/// # Safety
///
/// `skb` and `on` are what [`dequeue_one`] came to, whose rules apply.
#[cold]
#[inline(never)]
unsafe fn after_dequeue(skb: *mut bindings::sk_buff, on: &Dequeuing<'_>) {
    let sch = on.sch.as_ptr();
    // SAFETY: promised by the caller. `gso_skb` is free for a peeked packet since only parents peek.
    unsafe {
        account_lost(sch, on.lost);
        if on.peek && !skb.is_null() {
            bindings::knet_stash_peeked(sch, skb);
        }
        report_lost(sch, on.lost);
    }
}
