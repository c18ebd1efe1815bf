// SPDX-License-Identifier: GPL-2.0
//! Hands files to the host.
//!
//! A User-Mode Linux guest can write into a folder of the host's; there, files of any size and kind
//! go. Elsewhere text goes through the event channel, a serial port, and other files stay in the
//! guest.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{mount, MsFlags};

use crate::events::{Event, Events};

/// The folder of the host: `files` below the folder in which the kernel was started. The same words
/// in every run, wherever that is, since a run's bytes must not depend on it.
const HOST_FOLDER: &str = "/proc/self/cwd/files";
/// Where it is seen in the guest.
const HERE: &str = "/run/files";

/// The way to the host.
#[derive(Debug)]
pub struct HandOut {
    folder: Option<PathBuf>,
    events: Events,
}

impl HandOut {
    /// Finds out which way there is.
    pub fn open() -> Self {
        let folder = host_folder().is_ok().then(|| PathBuf::from(HERE));
        Self {
            folder,
            events: Events::from_env(),
        }
    }

    /// Whether files that are not text can be handed out, too.
    pub fn takes_everything(&self) -> bool {
        self.folder.is_some()
    }

    /// Hands out a file by its name, without a folder. `Ok(false)`: there is no way for such a file
    /// here.
    ///
    /// # Errors
    /// When the host's folder cannot be written to.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        if let Some(folder) = &self.folder {
            let path = folder.join(name);
            std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
            return Ok(true);
        }
        let Ok(data) = std::str::from_utf8(bytes) else {
            return Ok(false);
        };
        self.events.send(&Event::File {
            name: name.into(),
            data: data.into(),
        });
        Ok(true)
    }
}

/// Mounts the host's folder, unless it is.
fn host_folder() -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(HERE))
    {
        return Ok(());
    }
    std::fs::create_dir_all(HERE).with_context(|| format!("making {HERE}"))?;
    mount(
        Some("none"),
        Path::new(HERE),
        Some("hostfs"),
        MsFlags::empty(),
        Some(HOST_FOLDER),
    )
    .context("mounting a folder of the host")?;
    // A mount of a folder that is not there may succeed.
    std::fs::read_dir(HERE)
        .map(drop)
        .with_context(|| format!("reading {HERE}"))
}
