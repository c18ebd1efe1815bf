// SPDX-License-Identifier: GPL-2.0
//! Safe Rust over the kernel's packet scheduler.
//!
//! # How to write a qdisc
//!
//! 1. Make a type for what a qdisc keeps per instance: queues ([`SkbQueue`]), a [`Child`] if it is classful, its
//!    options. Implement [`Qdisc`] for it; `#[vtable]` is needed on the `impl`.
//! 2. [`Qdisc::new`] and [`Qdisc::change`] read the options: [`attr::parse`] with a table of [`attr::Rule`]s checks
//!    form, you check ranges, and [`Extack::refuse`] says what is wrong. Change nothing until everything is checked;
//!    then take the lock with [`Configuring::lock`].
//! 3. [`Qdisc::enqueue`] gets an owned [`Skb`] and an [`Arriving`], which lends it the qdisc. Keep the packet and say [`Arriving::queued`]. If it
//!    is not that simple, say [`Arriving::unusual`]: [`Qdisc::enqueue_unusual`] gets it with an [`Enqueuing`], which lends the qdisc and an
//!    [`Arrivals`] to report to. Queue and say [`Arrivals::queued`], hand the packet to [`Arrivals::refuse`], or pass it to a child with
//!    [`Enqueuing::give`]. To make room, [`Arrivals::drop_queued`] an older one. A packet that is simply let go of is freed, but nobody learns why.
//! 4. [`Qdisc::dequeue`] gives the next packet away, [`Qdisc::dequeue_unusual`] does so where a child is asked or packets are dropped.
//!    When the next one is not due yet, return `None` there and ask for a wake-up with [`Context::wake_at`].
//! 5. Classes: [`Qdisc::find_class`] and [`Qdisc::next_class`] say which minor numbers exist, from [`Qdisc::Shared`];
//!    [`Qdisc::child`] is where a class keeps its child. Grafting, purging and the parents' counters are knet's.
//! 6. [`Registration::new`] in the module's `init` makes `tc qdisc add … KIND` work.
//!
//! The counters (`qlen`, `backlog`, `drops`, and those of all parents) are where qdiscs go wrong. Here an
//! implementation never touches them: knet works them out from what was reported, in the one order that
//! all parents can live with.
//!
//! | type | C |
//! |---|---|
//! | [`Skb`] | `struct sk_buff *`, owned |
//! | [`SkbQueue`] | a list linked by `skb->next` |
//! | [`Qdisc`], [`Registration`] | `struct Qdisc_ops`, `struct Qdisc_class_ops`, `register_qdisc` |
//! | [`Context`] | `struct Qdisc *` on the packet path |
//! | [`Configuring`] | `struct Qdisc *` under RTNL |
//! | [`Child`] | `struct Qdisc *` in a class |
//! | [`Device`] | `struct net_device *` |
//! | [`Extack`] | `struct netlink_ext_ack *` |
//! | [`attr`] | `struct nlattr`, `struct nla_policy` |
//! | [`Message`], [`Stats`] | a dump's `struct sk_buff *`, `struct gnet_dump *` |
//! | [`Tap`] | `struct packet_type` of a device, with a `spinlock_t` |
//! | [`now`], [`random`] | `ktime_get_ns`, `get_random_u64` |
//!
//! # Why all kernel-side `unsafe` is here
//!
//! The modules on top say `forbid(unsafe_code)`: what they can get wrong is their own logic. Here each block names
//! what it relies on, and `layout.rs` proves that the structures are those of the kernel built for.

mod bindings;
mod child;
mod device;
mod dump;
mod extack;
mod layout;
mod message;
mod qdisc;
mod skb;
mod tap;
mod time;

pub mod attr;

pub use child::Child;
pub use device::Device;
pub use dump::{ClassStats, Stats};
pub use extack::Extack;
pub use message::Message;
pub use qdisc::{
    drop_queued, eopnotsupp, Arrivals, Arriving, Changing, Classified, Configuring, Context,
    Departures, Dequeued, Dequeuing, DropReason, Enqueued, Enqueuing, Leaving, Qdisc, Registration,
    USUAL_FIELDS,
};
pub use skb::{HeaderBuffer, Headers, Skb, SkbQueue, PRIVATE_LEN};
pub use tap::{Heard, Listener, Tap};
pub use time::{now, random};
