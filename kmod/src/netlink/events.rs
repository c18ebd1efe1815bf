// SPDX-License-Identifier: GPL-2.0
//! Events, for whoever listens to the group.
//!
//! They are noted while the namespace's state is locked, and made messages of afterwards, in a
//! work item: what a listener costs is not paid by packets. When they come faster than they
//! are told, some are lost, and the next one says how many.

use super::info;
use crate::errno::of_failure;
use crate::Turnstile;
use kernel::prelude::*;
use knet_transport::{News, Outbox, Reply};
use turnstile_core::{
    transport::{
        host::{Event, Limit},
        ring::Ring,
    },
    transport::uapi::{self as uapi, command, config, message as attr},
};

/// How many can wait.
const ROOM: usize = 256;

/// Events that nobody was told yet.
pub(crate) struct Events(Ring<KVVec<Event>>);

impl Events {
    pub(super) fn new() -> Result<Self> {
        let room = KVVec::from_elem(Event::Configured, ROOM, GFP_KERNEL)?;
        Ok(Self(Ring::new(room)))
    }

    /// Notes an event, if anybody listens.
    pub(crate) fn note(&mut self, outbox: &Outbox, event: &Event) {
        if outbox.is_heard() {
            self.0.push(*event);
            outbox.tell();
        }
    }
}

/// Tells what was noted.
pub(super) fn tell(net: &mut News<'_, Turnstile>) {
    loop {
        let Some((event, lost)) = net.lock().and_then(|mut state| {
            let ring = &mut state.settings.events.0;
            Some((ring.pop()?, ring.take_lost()))
        }) else {
            return;
        };
        if net
            .multicast(command::EVENT, |message| write(&event, lost, message))
            .is_err()
        {
            if let Some(mut state) = net.lock() {
                // This one, and those that it would have told of.
                state.settings.events.0.lose(lost.saturating_add(1));
            }
        }
    }
}

fn write(event: &Event, lost: u64, message: &mut Reply) -> Result {
    let kind = match event {
        Event::Opened(_) => uapi::EVENT_OPENED,
        Event::Delivered(_) => uapi::EVENT_DELIVERED,
        Event::Failed(..) => uapi::EVENT_FAILED,
        Event::Configured => uapi::EVENT_CONFIGURED,
        Event::Limited(_) => uapi::EVENT_LIMITED,
    };
    message.u32(attr::EVENT, kind)?;
    if lost != 0 {
        message.u64(attr::LOST, lost, attr::PAD)?;
    }
    match event {
        Event::Opened(info) | Event::Delivered(info) => info::write(info, message),
        Event::Failed(info, why) => {
            message.u32(attr::ERROR, of_failure(*why))?;
            info::write(info, message)
        }
        Event::Configured => Ok(()),
        Event::Limited(limit) => message.u32(attr::LIMIT, option(*limit).into()),
    }
}

/// The attribute of the configuration that sets the limit; 0: memory, which none does.
fn option(limit: Limit) -> u16 {
    match limit {
        Limit::Incoming => config::MAX_INCOMING,
        Limit::Outgoing => config::MAX_OUTGOING,
        Limit::PerPeer => config::MAX_PER_PEER,
        Limit::HalfOpen => config::MAX_HALF_OPEN,
        Limit::Remembered => config::MAX_REMEMBERED,
        Limit::Memory => 0,
    }
}
