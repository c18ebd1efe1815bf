// SPDX-License-Identifier: GPL-2.0
//! Finds the family: its number, and that of its group of events.

use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::router::synchronous::NlRouter;
use neli::utils::Groups;

use super::Error;

/// `ENOENT` of asm-generic/errno-base.h.
const ENOENT: i32 = 2;

/// The family, and its group of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) id: u16,
    pub(super) events: Option<u32>,
}

impl Family {
    pub(super) fn find(name: &str, group: &str) -> Result<Self, Error> {
        let (router, _) = NlRouter::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(|error| Error::Protocol(error.to_string()))?;
        let id = router
            .resolve_genl_family(name)
            .map_err(|error| match error {
                RouterError::Nlmsgerr(refusal) if refusal.error().abs() == ENOENT => {
                    Error::NotLoaded
                }
                error => Error::protocol(error),
            })?;
        let events = router.resolve_nl_mcast_group(name, group).ok();
        Ok(Self { id, events })
    }
}
