// SPDX-License-Identifier: GPL-2.0
//! The generic netlink family.

use anyhow::Result;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::uapi::{command, FAMILY, GROUP_EVENTS};

use crate::raw_netlink::{Generic, GenericRequest};
use crate::rng::Rng;

use super::hand::Hand;
use super::settings;

/// `NLM_F_DUMP`.
const DUMP: u16 = 0x300;

/// A thread's sockets to it.
pub(super) struct Family {
    family: Generic,
    /// Hears the events, and seldom reads them.
    listener: Generic,
}

impl Family {
    /// In the calling thread's namespace.
    pub(super) fn open() -> Result<Self> {
        let mut listener = Generic::open_here(FAMILY)?;
        listener.listen(GROUP_EVENTS)?;
        Ok(Self {
            family: Generic::open_here(FAMILY)?,
            listener,
        })
    }
}

/// Makes a request.
pub(super) fn call(hand: &mut Hand<'_>) {
    match hand.rng.index(12) {
        0 | 1 => set(hand),
        2 => {
            let usual = settings::usual::<Config>();
            request(hand, "the usual options", command::TRANSPORT_SET, 0, &usual);
        }
        3 => {
            let get = *hand.rng.pick(&[command::TRANSPORT_GET, command::STATS_GET]);
            request(hand, "a read", get, 0, &[]);
        }
        4..8 => {
            let dumps = [command::MESSAGE_GET, command::PEER_GET, command::LINK_GET];
            let which = *hand.rng.pick(&dumps);
            request(hand, "a dump", which, DUMP, &[]);
        }
        8 => listen(hand),
        _ => anything(hand),
    }
}

/// Some options; and those they were before follow soon, so that messages still come.
fn set(hand: &mut Hand<'_>) {
    let attributes = settings::right::<Config>(&mut hand.rng);
    let set = command::TRANSPORT_SET;
    request(hand, "options that are allowed", set, 0, &attributes);
    if hand.rng.one_in(2) {
        let usual = settings::usual::<Config>();
        request(hand, "the usual options", set, 0, &usual);
    }
}

fn request(hand: &mut Hand<'_>, what: &'static str, command: u8, flags: u16, attributes: &[u8]) {
    hand.about_to(format!("generic {command} {flags:#x} {attributes:x?}"));
    let mut request = GenericRequest::new(command, attributes);
    request.flags |= flags;
    let answer = hand.family.family.request(&request);
    let done = answer.is_ok_and(|(_, answer)| answer.errno == 0);
    hand.tally.count(what, done);
}

/// Reads some of the events.
fn listen(hand: &mut Hand<'_>) {
    hand.about_to("events".into());
    let wait = std::time::Duration::from_millis(1);
    let events = hand.family.listener.events(wait).unwrap_or_default();
    hand.tally.count("events", !events.is_empty());
}

/// Any command with any flags and attributes.
fn anything(hand: &mut Hand<'_>) {
    let rng = &mut hand.rng;
    let attributes = if rng.one_in(4) {
        Vec::new()
    } else {
        settings::wrong::<Config>(rng)
    };
    let mut request = GenericRequest::new(rng.range(0..=9) as u8, &attributes);
    request.flags |= odd_flags(rng);
    if rng.one_in(20) {
        request.version = rng.range(0..=255) as u8;
    }
    if rng.one_in(20) {
        request.reserved = 1;
    }
    hand.about_to(format!("generic {request:x?}"));
    let answer = hand.family.family.request(&request);
    let done = answer.is_ok_and(|(_, answer)| answer.errno == 0);
    hand.tally.count("a request of any kind", done);
}

fn odd_flags(rng: &mut Rng) -> u16 {
    match rng.index(4) {
        0 => DUMP,
        1 => rng.range(0..=0xffff) as u16,
        _ => 0,
    }
}
