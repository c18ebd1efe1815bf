// SPDX-License-Identifier: GPL-2.0
//! Ranges that several options have, or that are used beside the tables.

use super::{Range, Unit};

/// 1 kbit/s to 800 Gbit/s.
pub const LINK: Range = Range::new(125, 100_000_000_000, Unit::Rate);
/// What tokens may take of the link. A rate must come to such a share, too.
pub const TOKENS: Range = Range::new(100_000, 500_000_000, Unit::Share);
/// What signals may take of the link before others.
pub const SIGNALS: Range = Range::new(100_000, 1_000_000_000, Unit::Share);
/// At what a phantom queue may drain, of the link. A rate must come to such a share, too.
pub const DRAIN: Range = Range::new(10_000_000, 1_000_000_000, Unit::Share);
/// Number of token priorities.
pub const PRIORITIES: Range = Range::new(1, 8, Unit::Count(""));
/// What a queue that is counted in bytes may hold.
pub const QUEUE: Range = Range::new(1600, 1 << 30, Unit::Size);
/// What a packet takes on the wire beside what the kernel counts.
pub const OVERHEAD: Range = Range::new(0, 256, Unit::Bytes);
/// The least that a packet takes on the wire.
pub const MPU: Range = Range::new(0, 256, Unit::Bytes);
/// A code point.
pub const DSCP: Range = Range::new(0, 63, Unit::Code);
