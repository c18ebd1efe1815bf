// SPDX-License-Identifier: GPL-2.0
//! Events, for whoever listens to the group: messages are made of what
//! [`Events`](crate::events::Events) has noted.

use super::info;
use crate::errno::of_failure;
use crate::state::Turnstile;
use kernel::prelude::*;
use knet_transport::{News, Reply};
use turnstile_core::{
    transport::host::{Event, Limit},
    transport::uapi::{self as uapi, command, config, message as attr},
};

/// Tells what was noted.
pub(super) fn tell(net: &mut News<'_, Turnstile>) {
    loop {
        let Some((event, lost)) = net
            .lock()
            .and_then(|mut state| state.settings.events.take())
        else {
            return;
        };
        if net
            .multicast(command::EVENT, |message| write(&event, lost, message))
            .is_err()
        {
            if let Some(mut state) = net.lock() {
                // This one, and those that it would have told of.
                state.settings.events.lose(lost.saturating_add(1));
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
