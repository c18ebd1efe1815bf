// SPDX-License-Identifier: GPL-2.0
//! Safe Rust over the kernel's packet scheduler.
//!
//! # How to write a qdisc
//!
//! `knet/examples/fifo.rs` is a whole one, in a hundred lines of safe code; the tests build and
//! load it.
//!
//! 1. Make a type for what a qdisc keeps per instance: queues ([`SkbQueue`]), its options.
//!    Implement [`Qdisc`] for it; `#[vtable]` is needed on the `impl`.
//! 2. [`Qdisc::new`] and [`Qdisc::change`] read the options: [`attr::parse`] with an
//!    [`attr::Policy`] checks form and ranges, and [`Extack::refuse`] says what else is wrong.
//!    `new` gives what makes the qdisc in its place (`try_init!`). In `change`, alter nothing until
//!    everything is checked; then take the lock with [`Configuring::lock`].
//! 3. [`Qdisc::enqueue`] gets an owned [`Skb`] and an [`Arriving`], which lends it the qdisc. Keep
//!    the packet and say [`Arriving::queued`]. If it is not that simple, say [`Arriving::slow`]:
//!    [`Qdisc::enqueue_slow`] gets it with an [`Enqueuing`], which lends the qdisc and an
//!    [`EnqueueReport`] to report to. Queue and say [`EnqueueReport::queued`], hand the packet to
//!    [`EnqueueReport::refuse`], or pass it to a child with [`Enqueuing::give`]. To make room,
//!    [`EnqueueReport::drop_queued`] an older one. A packet that is simply let go of is freed, but
//!    nobody learns why.
//! 4. [`Qdisc::dequeue`] gives the next packet away, [`Qdisc::dequeue_slow`] does so where a
//!    child is asked or packets are dropped. When the next one is not due yet, return `None` there
//!    and ask for a wake-up with [`Context::wake_at`].
//! 5. Classes: [`Qdisc::find_class`] and [`Qdisc::next_class`] say which minor numbers exist, from
//!    [`Qdisc::Shared`]; [`Qdisc::child_place`] numbers the children that classes may have.
//!    Grafting, emptying and letting go of children, and the parents' counters, are knet's.
//! 6. A device with several transmit queues has one lock for all only with a qdisc at its root. A
//!    [`Group`] is a root with a qdisc for each queue; what these share is in a [`Lock`], and
//!    [`Context::wake_queue`] has another one asked for packets.
//! 7. A `static` [`Kind`] is the qdisc's kind. [`Kind::register`] in the module's `init` makes
//!    `tc qdisc add … KIND` work.
//!
//! The counters (`qlen`, `backlog`, `drops`, and those of all parents) are where qdiscs go wrong.
//! Here an implementation never touches them: knet works them out from what was reported, in the
//! one order that all parents can live with.
//!
//! | type | C |
//! |---|---|
//! | [`Skb`] | `struct sk_buff *`, owned |
//! | [`SkbQueue`] | a list linked by `skb->next` |
//! | [`Qdisc`], [`Kind`] | `struct Qdisc_ops`, `struct Qdisc_class_ops` |
//! | [`Registration`] | `register_qdisc` |
//! | [`Context`] | `struct Qdisc *` |
//! | [`Configuring`] | `struct Qdisc *` under RTNL |
//! | [`Locked`] | `struct Qdisc *` under RTNL and `sch_tree_lock` |
//! | [`Resetting`] | `struct Qdisc *` that is emptied |
//! | [`Group`], [`GroupKind`], [`Queues`] | `struct mq_sched` |
//! | [`Lock`] | `spinlock_t`, taken by `spin_lock_bh` |
//! | [`Rtnl`] | `ASSERT_RTNL()` |
//! | [`Child`] | `struct Qdisc *` in a class |
//! | [`Device`], [`Medium`] | `struct net_device *`, its `type` |
//! | [`Extack`] | `struct netlink_ext_ack *` |
//! | [`attr`] | `struct nlattr`, `struct nla_policy` |
//! | [`Message`], [`Stats`] | a dump's `struct sk_buff *`, `struct gnet_dump *` |
//! | [`Listener`], [`Heard`] | `struct packet_type` of a device, with a `spinlock_t`; its packets |
//! | [`now`], [`random`] | `ktime_get_ns`, `get_random_u64` |
//!
//! # What safe code cannot do
//!
//! The modules on top say `forbid(unsafe_code)`: what they can get wrong is their own logic. Here
//! each block of unsafe code names what it relies on, `layout.rs` proves that the structures are
//! those of the kernel built for, and the types keep the rest:
//!
//! | what would go wrong | what keeps it from being written, or from doing harm |
//! |---|---|
//! | a kind is unregistered while qdiscs of it live | its tables are a `static`, and each qdisc keeps the module |
//! | it is never unregistered, the value being forgotten | the kernel's last call into the module does it |
//! | a module goes whose `init` fails, with a qdisc | no qdisc is made before `init` has succeeded |
//! | what needs RTNL is called without | [`Rtnl`] and [`Locked`] are knet's to make, and cannot be kept or sent |
//! | a child is dropped, or emptied, on the packet path | children are knet's; a [`Child`] only looks |
//! | two `&mut` to a qdisc: a lock in a lock, a child or a filter that enters its parent | all of these borrow what lends the qdisc |
//! | two `&mut` to a listener | as above |
//! | another qdisc's listener is worked on when that is gone, or of another type | it is found by RCU among those of the same kind, and dropped a grace period after it was |
//! | a qdisc is told of a packet when it is gone | what is added to is no part of it, leaves the list first, and is freed a grace period later |
//! | a packet outlives its device | [`Skb`] does not follow `skb->dev`; knet compares it with the qdisc's device before anybody does |
//! | what is freed with a packet that is let go of comes back to the qdisc | it is freed by a softirq, without a lock |
//! | a listener is called when its qdisc or device is gone | it is knet's, stopped with the qdisc, and dropped a grace period later |
//! | a queue's qdisc is woken when it is gone | it is found by RCU in its queue, which forgets it a grace period before |
//! | what queues share is gone before them | [`Lock`] counts its handles |
//! | a qdisc that is large, or aligned to more than the kernel gives | [`Kind::new`] does not compile |
//! | a qdisc that is moved although it must not be | it is `Unpin` |
//!
//! `beds/faults/unsound/` has what must not compile, `beds/faults/hostile.rs` what compiles and
//! must do no harm. What remains possible: to sleep or to wait where one must not, to stop the
//! kernel by a panic, and to report what is not so; then counters are wrong, and packets wait for
//! nothing. And one thing that a type should forbid: to keep a packet in a global place until its
//! network namespace is gone, not only its device. A packet of a device that needs routes
//! (`IFF_XMIT_DST_RELEASE` is off) refers to one of the namespace's.

mod bindings;
mod child;
mod device;
mod dump;
mod group;
mod layout;
mod lock;
mod qdisc;
mod skb;
mod tally;
mod tap;
mod time;

pub use child::{Child, MAX_CHILDREN};
pub use device::{Device, Medium};
pub use dump::{ClassStats, Stats};
pub use group::{Group, GroupKind, Queues};
pub use knet_common::{attr, Extack, Message};
pub use lock::Lock;
pub use qdisc::{
    drop_queued, eopnotsupp, Arriving, Classified, Configuring, Context, DequeueReport, Dequeued,
    Dequeuing, DropReason, EnqueueReport, Enqueued, Enqueuing, Kind, Leaving, Locked, Qdisc,
    Registration, Resetting, Rtnl, FAST_PATH_FIELDS,
};
pub use skb::{HeaderBuffer, Headers, Skb, SkbQueue, PRIVATE_LEN};
pub use tally::Tally;
pub use tap::{Heard, LastWord, Listener};
pub use time::{now, random};
