// SPDX-License-Identifier: GPL-2.0
//! What port, pacer and transport have in common at the user's hand: words, values, printing.

pub mod dscp;
pub mod grammar;
pub mod print;
pub mod units;
