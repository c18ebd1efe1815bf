// SPDX-License-Identifier: GPL-2.0
//! The host pacer, qdisc kind `turnstile_pacer`, over netlink.
//!
//! | item | what is there |
//! |---|---|
//! | [`Options`] | the options of a pacer: words ⇄ options ⇄ netlink attributes |
//! | [`Stats`] | what a pacer counts |
//! | `client` | the async client (feature `client`) |
//!
//! ```
//! use turnstile_netlink::pacer::Options;
//!
//! let options = Options::parse(&["interval", "7.2us", "beta", "375", "associate", "12.5%"])?;
//! assert_eq!(options.to_string(), "interval 7200ns beta 375 associate 12.5%");
//! assert_eq!(Options::decode(&options.encode())?, options);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use turnstile_core::pacer::config::Config;

#[cfg(feature = "client")]
pub mod client;
mod stats;

#[cfg(test)]
mod tests;

pub use crate::options::print::print_options;
pub use stats::{print_stats, Stats};

/// The options of a pacer.
pub type Options = crate::options::Options<Config>;
