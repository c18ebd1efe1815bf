// SPDX-License-Identifier: GPL-2.0
//! The Turnstile port and transport over netlink.
//!
//! What `tc` (through its plugin), the `turnstile` command and the tests have in common:
//!
//! | module | what is there |
//! |---|---|
//! | [`grammar`] | words as a user types them → [`Options`] |
//! | [`mod@print`] | [`Options`] and statistics → text that can be typed back, or JSON |
//! | [`table`] | the one table of options behind grammar, help texts and man pages |
//! | [`wire`] | [`Options`] ⇄ netlink attributes |
//! | [`stats`] | statistics of ports and classes |
//! | [`pacer`] | all of this for the host pacer |
//! | [`units`], [`dscp`] | single values as words |
//! | [`place`] | device, parent and handle |
//! | [`attr`] | netlink attributes as bytes |
//! | `client` | the async client: add, replace, change, delete, list (feature `client`) |
//! | `message`, `error` | messages of rtnetlink, and why the kernel refused (feature `client`) |
//! | `json` | JSON (feature `client`) |
//! | `transport` | the same for the transport, over generic netlink (feature `client`) |
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
#[cfg(feature = "client")]
pub mod transport;

pub use grammar::{parse, GrammarError};
pub use options::{dscp, grammar, print, units};
#[cfg(feature = "client")]
pub use port::client;
pub use port::options::{Link, Options, Phantom};
pub use port::{place, stats, table, wire};
