// SPDX-License-Identifier: GPL-2.0
//! The transport in a model network: hosts with the real endpoint, switches with the real port, links that lose, reorder and repeat.
//!
//! Time is virtual and everything is seeded: a run is the same each time.

mod crossing;
mod host;
mod network;
mod sharing;

use host::{address, Io, Message, Registry};
use network::{Link, Network, Node};
