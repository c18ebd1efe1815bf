// SPDX-License-Identifier: GPL-2.0
//! The transport: messages between hosts, scheduled by tokens that the receiver gives and the sender answers with data.
//!
//! Nothing here does I/O or reads a clock: packets and times come in, packets and deadlines come out.
//!
//! | module | what is there |
//! |---|---|
//! | [`wire`] | the packets: reading what anybody may have sent, and writing |

pub mod wire;
