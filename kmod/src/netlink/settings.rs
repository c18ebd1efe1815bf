// SPDX-License-Identifier: GPL-2.0
//! What a namespace keeps for the family.

use super::Events;
use crate::Turnstile;
use kernel::prelude::*;
use knet_transport::Net;
use turnstile_core::transport::config::{Config, Resolved};

/// A namespace's configuration, and the events that wait to be told.
pub(crate) struct Settings {
    /// As it was asked for. Always valid.
    pub(super) config: Config,
    /// What it comes to.
    pub(crate) resolved: Resolved,
    pub(crate) events: Events,
}

impl Settings {
    /// Those of a namespace that nobody has configured. Sleeps.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net<Turnstile>) -> Result<Self> {
        let config = Config::DEFAULT;
        Ok(Self {
            config,
            resolved: config.validate(net.fastest()).map_err(|_| EINVAL)?,
            events: Events::new()?,
        })
    }
}
