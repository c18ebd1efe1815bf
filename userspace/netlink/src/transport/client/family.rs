// SPDX-License-Identifier: GPL-2.0
//! Finds the family: its number, and that of its group of events.

use turnstile_core::transport::uapi::{FAMILY, GROUP_EVENTS};

use super::wire::Kernel;
use super::Error;
use crate::attr::{self, attributes, Malformed};

/// Numbers of the controller, which knows the families (`linux/genetlink.h`).
pub(super) mod ctrl {
    pub(in super::super) const ID: u16 = 0x10;
    pub(in super::super) const VERSION: u8 = 2;
    pub(in super::super) const GETFAMILY: u8 = 3;
    pub(in super::super) const FAMILY_ID: u16 = 1;
    pub(in super::super) const FAMILY_NAME: u16 = 2;
    pub(in super::super) const MCAST_GROUPS: u16 = 7;
    pub(in super::super) const GROUP_NAME: u16 = 1;
    pub(in super::super) const GROUP_ID: u16 = 2;
}

/// `ENOENT` of asm-generic/errno-base.h.
const ENOENT: i32 = 2;

/// The family, and its group of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) id: u16,
    pub(super) events: Option<u32>,
}

impl Family {
    pub(super) fn find(kernel: &mut impl Kernel) -> Result<Self, Error> {
        let mut name = Vec::new();
        attr::put(
            &mut name,
            ctrl::FAMILY_NAME,
            &[FAMILY.as_bytes(), &[0]].concat(),
        );
        let asked = kernel.ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false);
        let answers = match asked {
            Err(Error::Refused { errno: ENOENT, .. }) => return Err(Error::NotLoaded),
            answers => answers?,
        };
        let mut family = Self {
            id: 0,
            events: None,
        };
        for attribute in attributes(answers.first().map_or(&[], Vec::as_slice)) {
            let attribute = attribute?;
            match attribute.number {
                ctrl::FAMILY_ID => family.id = attribute.u16("family-id")?,
                ctrl::MCAST_GROUPS => family.events = group(attribute.payload)?,
                _ => {}
            }
        }
        match family.id {
            0 => Err(Error::Protocol("a family without a number".to_owned())),
            _ => Ok(family),
        }
    }
}

/// The number of the group of events, in a list of groups.
fn group(list: &[u8]) -> Result<Option<u32>, Malformed> {
    for group in attributes(list) {
        let (mut name, mut id) = (None, None);
        for attribute in attributes(group?.payload) {
            let attribute = attribute?;
            match attribute.number {
                ctrl::GROUP_NAME => name = Some(attribute.payload),
                ctrl::GROUP_ID => id = Some(attribute.u32("group-id")?),
                _ => {}
            }
        }
        if name.is_some_and(|name| name.strip_suffix(&[0]) == Some(GROUP_EVENTS.as_bytes())) {
            return Ok(id);
        }
    }
    Ok(None)
}
