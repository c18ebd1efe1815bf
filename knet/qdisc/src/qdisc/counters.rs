// SPDX-License-Identifier: GPL-2.0
//! A qdisc's `qlen`, `backlog` and sent counters on the packet path, without a call into C for
//! each.

use crate::bindings;

/// Adds to a counter that is changed under the lock and read without it:
/// `WRITE_ONCE(*counter, *counter + n)`.
///
/// # Safety
///
/// `counter` must be valid, and nobody else may write to it meanwhile.
#[inline]
unsafe fn add(counter: *mut u32, n: u32) {
    // SAFETY: promised by the caller.
    unsafe { counter.write_volatile((*counter).wrapping_add(n)) }
}

/// C: `u64_stats_add`. On 64 bits there is no sequence counter to keep.
///
/// # Safety
///
/// As for [`add`].
#[inline]
unsafe fn add64(counter: *mut bindings::u64_stats_t, n: u32) {
    const { assert!(usize::BITS == 64 && size_of::<bindings::u64_stats_t>() == size_of::<u64>()) };
    let counter: *mut u64 = counter.cast();
    // SAFETY: promised by the caller.
    unsafe { counter.write_volatile((*counter).wrapping_add(n.into())) }
}

/// Packets are in the queue that were not. C: `qdisc_qlen_inc`, `qstats_backlog_add`.
///
/// # Safety
///
/// The qdisc must be valid and its root lock held.
#[inline]
pub(super) unsafe fn enqueued(sch: *mut bindings::Qdisc, packets: u32, bytes: u32) {
    // SAFETY: promised by the caller.
    unsafe {
        add(&raw mut (*sch).q.qlen, packets);
        add(&raw mut (*sch).qstats.backlog, bytes);
    }
}

/// Packets are no more in the queue. C: `qdisc_qlen_dec`, `qstats_backlog_sub`.
///
/// # Safety
///
/// As for [`enqueued`].
#[inline]
pub(super) unsafe fn removed(sch: *mut bindings::Qdisc, packets: u32, bytes: u32) {
    // SAFETY: promised by the caller.
    unsafe { enqueued(sch, packets.wrapping_neg(), bytes.wrapping_neg()) }
}

/// A packet leaves that stands for `segments`. C: `qdisc_bstats_update`.
///
/// # Safety
///
/// As for [`enqueued`].
#[inline]
pub(super) unsafe fn sent(sch: *mut bindings::Qdisc, segments: u32, bytes: u32) {
    // SAFETY: promised by the caller.
    unsafe {
        add64(&raw mut (*sch).bstats.bytes, bytes);
        add64(&raw mut (*sch).bstats.packets, segments);
    }
}
