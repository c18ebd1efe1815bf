// SPDX-License-Identifier: GPL-2.0
//! Reads what the host wants of this boot.

use std::path::Path;

use anyhow::{Context, Result};
use turnstile_test_protocol::run::RunConfig;

/// Reads `path`. A missing file means the defaults: a shell.
///
/// # Errors
/// When the file is there but cannot be read, or is not such an object.
pub fn load(path: &Path) -> Result<RunConfig> {
    if !path.exists() {
        return Ok(RunConfig::default());
    }
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a run configuration", path.display()))
}
