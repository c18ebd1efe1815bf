// SPDX-License-Identifier: GPL-2.0
//! The Turnstile port and transport over netlink.
//!
//! What `tc` (through its plugin), the `turnstile` command and the tests have in common:
//!
//! | module | what is there |
//! |---|---|
//! | [`options`] | options of every kind: words ⇄ options ⇄ attributes, printing, help |
//! | [`port`] | the port: its [`Options`], statistics, place, client |
//! | [`pacer`] | the same for the host pacer |
//! | `transport` | the same for the transport, over generic netlink (feature `client`) |
//! | [`attr`] | netlink attributes as bytes |
//! | `message`, `error` | messages of rtnetlink, and why the kernel refused (feature `client`) |
//! | `json` | JSON (feature `client`) |
//!
//! ```
//! let words = ["link", "2.5gbit", "tokens", "5%", "order", "data-first"];
//! let options = turnstile_netlink::parse(&words)?;
//! assert_eq!(options.to_string(), "link 2500mbit tokens 5% order data-first");
//! assert_eq!(turnstile_netlink::Options::decode(&options.encode())?, options);
//!
//! let error = turnstile_netlink::parse(&["priorities", "9"]).unwrap_err();
//! assert_eq!(error.to_string(), "priorities: \"9\" is not in 1..8");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod attr;
#[cfg(feature = "client")]
pub mod error;
#[cfg(feature = "client")]
pub mod json;
#[cfg(feature = "client")]
pub mod message;
pub mod options;
pub mod pacer;
pub mod port;
#[cfg(test)]
mod syzlang;
#[cfg(feature = "client")]
pub mod transport;

pub use options::grammar::GrammarError;
pub use options::{dscp, grammar, print, units};
#[cfg(feature = "client")]
pub use port::client;
pub use port::{parse, place, stats, wire, Options};
