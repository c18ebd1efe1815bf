// SPDX-License-Identifier: GPL-2.0
//! The counters.

use crate::state::Turnstile;
use kernel::prelude::*;
use knet_transport::{Control, Reply};
use turnstile_core::{transport::stats::Counter, transport::uapi::stat};

/// `stats-get`: a number for each counter, 0 for all of them in a namespace that nobody has used.
pub(super) fn get(net: &mut Control<'_, Turnstile>, message: &mut Reply) -> Result {
    let state = net.lock();
    let stats = state.as_deref().map(|state| state.endpoint.stats());
    Counter::ALL.iter().try_for_each(|&counter| {
        let number = stat::FIRST.saturating_add(counter as u16);
        message.u64(
            number,
            stats.map_or(0, |stats| stats.get(counter)),
            stat::PAD,
        )
    })
}
