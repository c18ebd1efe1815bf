// SPDX-License-Identifier: GPL-2.0
//! Compiles what runs in the guest: the user's programs and the tests.

use std::path::{Path, PathBuf};

use anyhow::{bail, Result};

use crate::chroot::Chroot;
use crate::env::Env;

/// The programs of the guest.
#[derive(Clone, Debug)]
pub(crate) struct GuestPrograms {
    dir: PathBuf,
}

impl GuestPrograms {
    /// The compiled file of each, and its place in the guest.
    pub(crate) const FILES: &'static [(&'static str, &'static str)] = &[
        ("init", "init"),
        ("vm-tests", "usr/bin/vm-tests"),
        ("turnstile", "usr/bin/turnstile"),
        // tc looks for plugins in the library folder that it was compiled with.
        (
            "libq_turnstile.so",
            "usr/lib/x86_64-linux-gnu/tc/q_turnstile.so",
        ),
        // One file has all kinds; tc looks for a file of each name.
        (
            "libq_turnstile.so",
            "usr/lib/x86_64-linux-gnu/tc/q_turnstile_mq.so",
        ),
        (
            "libq_turnstile.so",
            "usr/lib/x86_64-linux-gnu/tc/q_turnstile_pacer.so",
        ),
        ("examples/hello", "usr/share/turnstile/examples/hello"),
        ("examples/pieces", "usr/share/turnstile/examples/pieces"),
        (
            "examples/async_echo",
            "usr/share/turnstile/examples/async_echo",
        ),
    ];

    /// The folder they are in.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a compiled file is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Compiles all of them in the chroot, against its C library, which is the guest's.
///
/// # Errors
/// The compiler's messages, and where the rest of them is.
pub(crate) fn build(env: &Env, chroot: &Chroot) -> Result<GuestPrograms> {
    let out = env.built(&format!("guest-{}", chroot.key()))?;
    let mut step = env.ui.step("guest-programs", "programs of the guest")?;
    step.run(&mut env.cargo(
        chroot,
        &out,
        &[
            "build",
            "--profile",
            "guest",
            "--locked",
            "--workspace",
            "--exclude",
            "xtask",
            "--lib",
            "--bins",
            "--examples",
            "--features",
            "turnstile-socket/tokio",
        ],
    )?)?;
    let dir = out.join("guest");
    for (file, _) in GuestPrograms::FILES {
        if !dir.join(file).exists() {
            bail!("the build made no {}", dir.join(file).display());
        }
    }
    step.done();
    Ok(GuestPrograms { dir })
}
