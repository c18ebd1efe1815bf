// SPDX-License-Identifier: GPL-2.0
//! Suspending the machine for a while.
//!
//! The kernel's own test of it (`pm_test`) does all that suspend to RAM does but the last step:
//! programs and devices stop, and so do the clocks. Then it waits, and goes on.

use std::fs::{read_to_string, write};

use anyhow::{Context, Result};

const STATE: &str = "/sys/power/state";
const TEST: &str = "/sys/power/pm_test";
const DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";
/// Suspend to RAM, and not to idle, where the clocks may go on.
const DEEP: &str = "/sys/power/mem_sleep";

/// Whether it can be done here.
pub fn is_possible() -> bool {
    let has = |path: &str, word: &str| read_to_string(path).is_ok_and(|text| text.contains(word));
    has(TEST, "core") && has(STATE, "mem") && has(DEEP, "deep")
}

/// Suspends the machine for so many seconds.
pub fn suspend(seconds: u32) -> Result<()> {
    let set = |path: &str, value: &str| write(path, value).with_context(|| path.to_owned());
    set(DELAY, &seconds.to_string())?;
    set(DEEP, "deep")?;
    set(TEST, "core")?;
    let done = set(STATE, "mem");
    set(TEST, "none")?;
    done
}
