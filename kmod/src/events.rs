// SPDX-License-Identifier: GPL-2.0
//! Events that wait to be told.
//!
//! They are noted while the namespace's state is locked, and made messages of afterwards, in a
//! work item: what a listener costs is not paid by packets. When they come faster than they
//! are told, some are lost, and the next one says how many.

use kernel::prelude::*;
use knet_transport::Outbox;
use turnstile_core::transport::{host::Event, ring::Ring};

/// How many can wait.
const ROOM: usize = 256;

/// Events that nobody was told yet.
pub(crate) struct Events(Ring<KVVec<Event>>);

impl Events {
    /// None. Sleeps.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let room = KVVec::from_elem(Event::Configured, ROOM, GFP_KERNEL_ACCOUNT)?;
        Ok(Self(Ring::new(room)))
    }

    /// Notes an event, if anybody listens.
    pub(crate) fn note(&mut self, outbox: &Outbox, event: &Event) {
        if outbox.is_heard() {
            self.0.push(*event);
            outbox.tell();
        }
    }

    /// The oldest one, and how many were lost before it.
    pub(crate) fn take(&mut self) -> Option<(Event, u64)> {
        Some((self.0.pop()?, self.0.take_lost()))
    }

    /// So many could not be told.
    pub(crate) fn lose(&mut self, events: u64) {
        self.0.lose(events);
    }
}
