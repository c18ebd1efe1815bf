// SPDX-License-Identifier: GPL-2.0
//! The file systems that programs expect.

use std::path::Path;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, MsFlags};

/// Type, place, options, and whether the guest cannot do without.
const MOUNTS: &[(&str, &str, &str, bool)] = &[
    ("proc", "/proc", "", true),
    ("sysfs", "/sys", "", true),
    ("devtmpfs", "/dev", "", true),
    ("tmpfs", "/run", "mode=0755", true),
    ("tmpfs", "/tmp", "mode=1777", true),
    ("devpts", "/dev/pts", "", false),
    ("debugfs", "/sys/kernel/debug", "", false),
    ("tracefs", "/sys/kernel/tracing", "", false),
    ("bpf", "/sys/fs/bpf", "", false),
];

/// Mounts all of them.
///
/// # Errors
/// When one that is needed cannot be mounted.
pub(super) fn mount_all() -> Result<()> {
    for &(kind, place, options, needed) in MOUNTS {
        let made = std::fs::create_dir_all(place);
        let options = (!options.is_empty()).then_some(options);
        match mount(
            Some(kind),
            Path::new(place),
            Some(kind),
            MsFlags::empty(),
            options,
        ) {
            // The kernel itself mounts devtmpfs when it is configured to.
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(error) if needed => {
                made.with_context(|| format!("making {place}"))?;
                return Err(error).with_context(|| format!("mounting {kind} on {place}"));
            }
            Err(_) => {}
        }
    }
    std::fs::create_dir_all("/run/netns").context("making /run/netns")?;
    std::fs::create_dir_all("/root").context("making /root")
}
