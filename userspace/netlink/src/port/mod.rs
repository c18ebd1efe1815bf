// SPDX-License-Identifier: GPL-2.0
//! The port, qdisc kind `turnstile`, over netlink.

#[cfg(feature = "client")]
pub mod client;
pub mod options;
pub mod place;
pub mod stats;
pub mod table;
pub mod wire;

#[cfg(test)]
mod testing;
