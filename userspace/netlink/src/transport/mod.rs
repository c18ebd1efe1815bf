// SPDX-License-Identifier: GPL-2.0
//! The transport over generic netlink: configuration, messages under way, peers, counters, events.
//!
//! `docs/netlink/turnstile.yaml` describes the family for other programs.
//!
//! | module | what is there |
//! |---|---|
//! | [`Settings`] | the options of a transport: words ⇄ options ⇄ attributes |
//! | [`record`] | messages, peers and events as structs |
//! | [`show`] | these as text and as JSON |
//! | [`client`] | asking the kernel |
//! | [`sockets`] | the transport's sockets, by sock_diag |
//!
//! ```
//! use turnstile_netlink::transport::Settings;
//!
//! let settings = Settings::parse(&["policy", "top", "token-expiry", "20us"])?;
//! assert_eq!(settings.to_string(), "policy top token-expiry 20us");
//! let error = Settings::parse(&["priorities", "9"]).unwrap_err();
//! assert_eq!(error.to_string(), "priorities: \"9\" is not in 1..8 or auto");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
pub mod record;
pub mod show;
pub mod sockets;

#[cfg(test)]
mod spec;
#[cfg(test)]
mod tests;

pub use client::{Client, Error, Events};
pub use record::{Direction, Event, EventKind, Link, Message, Peer};

/// The options of a transport.
pub type Settings = crate::options::Options<turnstile_core::transport::config::Config>;
