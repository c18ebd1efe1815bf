// SPDX-License-Identifier: GPL-2.0
//! What a namespace keeps for the family of [`netlink`](crate::netlink).

use crate::events::Events;
use kernel::prelude::*;
use turnstile_core::transport::config::{Config, Resolved};

/// A namespace's configuration, and the events that wait to be told.
pub(crate) struct Settings {
    /// As it was asked for. Always valid. What it comes to, the endpoint has.
    pub(crate) config: Config,
    pub(crate) events: Events,
    /// The namespace belongs to the initial user namespace: its limits may be as high as there are
    /// any.
    pub(crate) initial: bool,
}

impl Settings {
    /// Those of a namespace that nobody has configured. Sleeps.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(initial: bool) -> Result<Self> {
        Ok(Self {
            config: Config::DEFAULT,
            events: Events::new()?,
            initial,
        })
    }

    /// What the configuration comes to, with a device of this speed.
    ///
    /// # Errors
    /// None: it is valid.
    #[inline(never)]
    pub(crate) fn resolve(&self, device: Option<u64>) -> Result<Resolved> {
        self.config.validate(device).map_err(|_| EINVAL)
    }
}
