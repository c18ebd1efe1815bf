// SPDX-License-Identifier: GPL-2.0
//! What a process may have.

use anyhow::{Context, Result};
use nix::sys::resource::{setrlimit, Resource};

/// Lets this process have so many open files.
///
/// # Errors
/// It may not have so many.
pub fn more_files(count: u64) -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, count, count)
        .with_context(|| format!("asking for {count} open files"))
}
