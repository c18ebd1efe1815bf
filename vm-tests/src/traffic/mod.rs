// SPDX-License-Identifier: GPL-2.0
//! Traffic: paced sources of Turnstile packets, sinks that count and time them, hand-made frames,
//! TCP.
//!
//! Every UDP packet of a source carries, after Turnstile's own four bytes, a stamp by which a sink
//! tells streams, losses, order and latency.

pub mod frame;
pub mod messages;
mod packet;
mod raw;
mod sink;
mod source;
mod tap;
mod tcp;

pub use packet::{
    stamp_of, wire_length, Packet, Stamp, MIN_PAYLOAD, MPU, MTU_PAYLOAD, OVERHEAD, STAMP_LEN,
};
pub use raw::{Captured, RawSocket, VirtioNetHeader};
pub use sink::{Received, Sink};
pub use source::{Flow, Sent, Source};
pub use tap::{Tap, Tapped};
pub use tcp::bulk;
