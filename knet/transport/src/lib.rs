// SPDX-License-Identifier: GPL-2.0
//! Safe Rust over the kernel's sockets, for a message transport in UDP.
//!
//! # How to write a transport
//!
//! 1. Make a type for what a network namespace keeps and implement [`Transport`]. All of a namespace's state, that of its
//!    sockets too, is one value behind one lock: [`Net::lock`]. It comes to be with the namespace's first socket.
//! 2. While the state is locked, packets to send are put into the [`Outbox`]; they leave when the lock is
//!    released, which also sets the timer to [`Transport::next_timer`].
//! 3. A socket is a [`Sock`]; it carries a number, its [`handle`](Sock::handle), by which the state knows it. A
//!    [`SockRef`] keeps it, and with it the module and the namespace.
//! 4. [`Registration::new`] in the module's `init` makes `socket(2)` work.
//! 5. What a namespace shows and lets be changed is a generic netlink [`Family`]; [`FamilyRegistration::new`] makes it known.
//!
//! # Why all kernel-side `unsafe` is here
//!
//! The module on top says `forbid(unsafe_code)`: what it can get wrong is its own logic. What looks into the kernel's structures is
//! C, because most of it is macros and inline functions; Rust sees only types of `c/knet_transport.h`.

mod bindings;
mod buffer;
#[path = "../../src/extack.rs"]
mod extack;
mod genl;
mod message;
mod net;
mod registration;
// What a request of generic netlink is answered with.
#[path = "../../src/message.rs"]
mod reply;
mod sock;
mod transport;

#[path = "../../src/attr.rs"]
pub mod attr;

pub use buffer::{release, Parts, Segments, Skb, Writer, Written};
pub use extack::Extack;
pub use genl::{Command, Dump, Family, FamilyRegistration, Run};
pub use message::{Message, ReceiveFlags, Report, SendOptions, SockAddress};
pub use net::{now, random, wall_clock, Departure, Locked, Net, Outbox};
pub use registration::Registration;
pub use reply::Message as Reply;
pub use sock::{Busy, Sock, SockRef, Timeout, View};
pub use transport::{Arrival, Path, Queue, Ready, Transport};
