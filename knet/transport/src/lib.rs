// SPDX-License-Identifier: GPL-2.0
//! Safe Rust over the kernel's sockets, for a message transport in UDP.
//!
//! # How to write a transport
//!
//! 1. Make a type for what a network namespace keeps and implement [`Transport`]. All of a
//!    namespace's state, that of its sockets too, is one value behind one lock: [`Net::lock`]. It
//!    comes to be with the namespace's first socket.
//! 2. While the state is locked, packets to send are put into the [`Outbox`]; they leave when the
//!    lock is released, which also sets the timer to [`Transport::next_timer`].
//! 3. A socket is a [`Sock`]; it carries a number, its [`handle`](Sock::handle), by which the state
//!    knows it. A [`SockRef`] keeps it, and with it the module and the namespace.
//! 4. A [`Registration`] in the module's own value makes `socket(2)` work, as long as there is the
//!    module.
//! 5. What a namespace shows and lets be changed is a generic netlink [`Family`]; a
//!    [`FamilyRegistration`], which has a [`Registration`] in it, makes it known.
//! 6. Who lists sockets (sock_diag(7)) is given them by [`Transport::sock_next`]; who may ends one
//!    by [`Transport::sock_abort`].
//!
//! # What safe code cannot do
//!
//! | it would be | why it cannot be |
//! |---|---|
//! | two `&mut` to one state, by a lock in a lock | a [`Locked`] or [`Looking`] borrows the call's one [`Net`] |
//! | sleeping with the lock, or a call that takes it again | what sleeps wants the [`Net`], too. Who forgets a [`Locked`] (`mem::forget`) has the lock for good, as with the kernel's own guards: that hangs, and is not prevented |
//! | a [`Net`] after its call, or in another thread | its lifetime; it is not `Send` |
//! | RTNL inside a socket's lock | devices are asked by [`Control`] and [`Opening`], which sockets' calls do not have |
//! | the kernel's tables without their module, or with another transport's types | a [`Registration`] is in the module's own data and cannot be moved; there is one |
//! | a call before `init` has succeeded, which may still fail | C has callers wait |
//! | releasing a socket's lock while the kernel binds it | only a [`Caller`] waits |
//! | a packet's first bytes after the packet | they borrow the [`Arrival`] |
//! | reading what only `recvmsg` may write, and the other way round | [`Sending`] and [`Receiving`] |
//! | freeing what is being written or sent | there is one [`Written`] for each [`Writer`]; C keeps what is not written yet |
//! | sending memory that nobody has written | C looks at what was written |
//! | an answer mixed up with an event, and written into after it was sent | only a [`News`] has events, and no answers |
//!
//! `beds/faults/unsound/transport_*.rs` try those that the compiler refuses.
//!
//! # Why all kernel-side `unsafe` is here
//!
//! The module on top says `forbid(unsafe_code)`: what it can get wrong is its own logic. What looks
//! into the kernel's structures is C, because most of it is macros and inline functions; Rust sees
//! only types of `c/knet_transport.h`.

mod bindings;
mod buffer;
mod genl;
mod message;
mod net;
mod registration;
mod seal;
mod sock;
mod transport;

pub use buffer::{Parts, Segments, Skb, Writer, Written};
pub use genl::{Command, Control, Dump, Family, FamilyRegistration, News, Opening, Run};
// A message of generic netlink that answers is a reply: the transport has messages of its own.
pub use knet_common::{attr, Extack, Message as Reply};
pub use message::{ReceiveFlags, Receiving, Report, SendOptions, Sending, SockAddress, Wish};
pub use net::{now, random, times, Departure, Device, Locked, Looking, Net, Outbox};
pub use registration::Registration;
pub use seal::{hmac, key, Seal, KEY, LABEL};
pub use sock::{Caller, LockedSock, Sock, SockRef, Tie, Timeout, View};
pub use transport::{
    Ancillary, Arrival, Came, Listed, Numbers, Origin, Path, Payload, Queues, Ready, Refused,
    ReportNumbers, SockName, SockQueue, Train, Transport, Unreachable, Verdict, Whole,
};
