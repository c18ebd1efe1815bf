// SPDX-License-Identifier: GPL-2.0
//! Which message is given tokens first, and with which priority.

mod priority;

pub use priority::PriorityFunction;
