// SPDX-License-Identifier: GPL-2.0
//! Turnstile's algorithms, without a kernel, a clock or I/O.
//!
//! Everything here is a state machine that gets the time as an argument. The kernel module runs it
//! over socket buffers, tests and models over plain structs: a packet is an opaque value that can
//! say how long it is ([`queue::Packet`]).
//!
//! Where to go:
//!
//! | module | what is there |
//! |---|---|
//! | [`port`] | the switch or host port itself: start here. [`port::Port`] takes packets in and says which goes out, when |
//! | [`queue`] | the traits for packets and queues that the port's user implements |
//! | [`stats`] | the port's counters |
//! | [`shaper`] | spaces packets at a rate, without drift |
//! | [`units`] | nanoseconds and exact rates |
//! | [`header`] | the first four bytes of a Turnstile packet |
//! | [`options`] | the engine behind all options: tables, ranges, refusals |
//! | [`pfc`] | links that lose nothing: pause frames, who sends them, who obeys, and the room it takes |
//! | [`pacer`] | HULL's host pacer: a token bucket whose rate follows the traffic, for flows that met congestion |
//! | [`transport`] | messages between hosts, scheduled by tokens: wire format, feedback, policies, state machines |
//!
//! ```
//! use turnstile_core::{port::band::Band, port::config::Config, port::*, queue::*, units::Nanos};
//! # use std::collections::VecDeque;
//! # struct P(Meta);
//! # impl Packet for P {
//! #     fn meta(&self) -> Meta { self.0 }
//! #     fn set_enqueued(&mut self, now: Nanos) { self.0.enqueued = now }
//! # }
//! # struct Fifo(VecDeque<P>);
//! # impl Queue for Fifo {
//! #     const EMPTY: Self = Self(VecDeque::new());
//! #     type Packet = P;
//! #     fn push(&mut self, p: P) { self.0.push_back(p) }
//! #     fn pop(&mut self) -> Option<P> { self.0.pop_front() }
//! #     fn front(&self) -> Option<Meta> { self.0.front().map(Packet::meta) }
//! #     fn set_front_enqueued(&mut self, now: Nanos) { self.0[0].set_enqueued(now) }
//! #     fn is_empty(&self) -> bool { self.0.is_empty() }
//! # }
//! # struct Free;
//! # impl Sink<P> for Free { fn dropped(&mut self, _: P, _: Band, _: DropCause) {} }
//! # let token = || P(Meta { len: 60, wire_len: 84, segs: 1, enqueued: Nanos::ZERO });
//! // `P` implements `Packet`, `Fifo` implements `Queue`, `Free` implements `Sink`.
//! let config = Config { link: Some(1_250_000_000), ..Config::DEFAULT };
//! let resolved = config.validate(None).unwrap();
//! let now = Nanos(1_000_000);
//! let mut port = Port::<Fifo>::new(&config, &resolved, now);
//! port.enqueue(now, Band::Token(0), token(), &mut Free);
//! port.enqueue(now, Band::Token(0), token(), &mut Free);
//! let first = port.dequeue(now, &mut NoChild, &mut Free);
//! assert!(matches!(first, Dequeue::Packet(_, Band::Token(0))));
//! // The link is free again after 67.2 ns; the next token is due after 84 B at 5.1787916 % of
//! // 10 Gbit/s.
//! let second = port.dequeue(now, &mut NoChild, &mut Free);
//! assert!(matches!(second, Dequeue::Wait(Nanos(1_001_298))));
//! ```
//!
//! # Rules of this crate
//!
//! The kernel is built with overflow checks, and a panic there is a kernel BUG. No packet, user or
//! clock may be able to cause one:
//! - division only by constants or `NonZero` values, indexing only through `get` or a mask;
//! - arithmetic on values from outside is saturating, wrapping or checked, on purpose;
//! - no `u128` division and no floating point: the kernel does not link them.
//!
//! A test on the built kernel module looks for references to `core::panicking`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod header;
pub mod options;
pub mod pacer;
pub mod pfc;
pub mod port;
pub mod queue;
pub mod shaper;
pub mod stats;
pub mod transport;
pub mod units;
