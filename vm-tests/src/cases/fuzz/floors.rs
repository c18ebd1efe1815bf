// SPDX-License-Identifier: GPL-2.0
//! What the generator has to come to, so that a run means something.

use anyhow::{ensure, Result};

use super::tally::Tally;

/// What may fail each time: the kernel refuses it, or it takes chance.
const MAY_FAIL: &[&str] = &["a class made or removed", "a module unloaded"];

/// Refuses a tally of so many rounds in which something was never done.
pub(super) fn check(tally: &Tally, rounds: u64) -> Result<()> {
    let _ = rounds;
    for kind in tally.kinds().filter(|kind| !MAY_FAIL.contains(kind)) {
        ensure!(
            tally.of(kind).done > 0,
            "{kind}: never done, the generator is too wild"
        );
    }
    Ok(())
}
