// SPDX-License-Identifier: GPL-2.0
//! The port, qdisc kind `turnstile`, over netlink.
//!
//! | item | what is there |
//! |---|---|
//! | [`Options`] | the options of a port: words ⇄ options ⇄ netlink attributes |
//! | [`stats`] | statistics of ports and classes |
//! | [`place`] | device, parent and handle |
//! | [`wire`] | what else a port's attributes say |
//! | `client` | the async client: add, replace, change, delete, list (feature `client`) |

use turnstile_core::port::config::Config;

use crate::options::grammar::GrammarError;

#[cfg(feature = "client")]
pub mod client;
pub mod place;
pub mod stats;
pub mod wire;

#[cfg(test)]
mod tests;

/// The options of a port.
pub type Options = crate::options::Options<Config>;

/// Reads options of a port: see [`crate::options::Options::parse`].
///
/// # Errors
/// What is wrong with which word.
pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Options, GrammarError> {
    Options::parse(words)
}
