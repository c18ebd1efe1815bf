// SPDX-License-Identifier: GPL-2.0
//! `out/KERNEL-RELEASE`: what was built, as a machine that runs that kernel wants it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::remove_tree;
use crate::chroot::Chroot;
use crate::env::{Env, OUT, SRC};
use crate::guest_build::GuestPrograms;

/// Copies everything to its place when it is run on the machine that is to have it.
const INSTALL: &str = include_str!("../install.sh");

/// The pages and completions that the `turnstile` command makes itself.
const DOCUMENTS: &str = "
for page in turnstile tc-turnstile tc-turnstile_pacer; do \"$1\"/turnstile man $page > \
                                                            \"$2\"/$page.8; done
for shell in bash zsh fish; do \"$1\"/turnstile completions $shell > \"$2\"/turnstile.$shell; done
";

/// Lays out a folder for `release`, in place of one from before; returns it.
///
/// # Errors
/// A file cannot be written, or the `turnstile` command does not run.
pub(crate) fn export(
    env: &Env,
    chroot: &Chroot,
    release: &str,
    modules: &[PathBuf],
    programs: &GuestPrograms,
) -> Result<PathBuf> {
    let out = env.src.join("out").join(release);
    if out.exists() {
        remove_tree(&out)?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for module in modules {
        copy(module, &out.join(module.file_name().unwrap_or_default()))?;
    }
    copy(&programs.path("turnstile"), &out.join("turnstile"))?;
    copy(
        &programs.path("libq_turnstile.so"),
        &out.join("q_turnstile.so"),
    )?;
    let script = out.join("install.sh");
    fs::write(&script, INSTALL).with_context(|| format!("cannot write {}", script.display()))?;
    let mut step = env.ui.step("documents", "man pages and completions")?;
    let entry = chroot.enter().bind(programs.dir(), SRC).bind_rw(&out, OUT);
    step.run(&mut entry.script(DOCUMENTS, [SRC, OUT]))?;
    step.done();
    Ok(out)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}
