// SPDX-License-Identifier: GPL-2.0
//! Compiles the kernel modules with the kernel's own build system.

use std::path::PathBuf;

use anyhow::{bail, Result};

use crate::chroot::Chroot;
use crate::env::{Env, OUT, SRC};
use crate::kernel::{make_args, KernelTree, IN_CHROOT};

/// The module's name.
pub(crate) const MODULE: &str = "sch_turnstile";

/// Compiles the modules for a kernel; returns the module's file.
///
/// # Errors
/// The compilers' messages, and where the rest of them is.
pub(crate) fn build(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<PathBuf> {
    let out = compile(env, chroot, tree, false)?;
    let module = out.join(format!("{MODULE}.ko"));
    if !module.exists() {
        bail!("the build made no {}", module.display());
    }
    Ok(module)
}

/// Compiles the modules with clippy; a warning is an error.
///
/// # Errors
/// The warnings.
pub(crate) fn clippy(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<()> {
    compile(env, chroot, tree, true).map(drop)
}

fn compile(env: &Env, chroot: &Chroot, tree: &KernelTree, clippy: bool) -> Result<PathBuf> {
    let release = tree.kernel.release();
    let with = if clippy { "clippy" } else { "modules" };
    let what = if clippy {
        "clippy over the modules"
    } else {
        "modules"
    };
    // The tree's key is in the name: make does not notice another compiler or other headers by itself.
    let name = format!("{with}-{release}-{}", tree.key());
    if clippy {
        // Warnings of what is not compiled again would not be printed again.
        let old = env.built.join(&name);
        if old.exists() {
            crate::cache::remove_tree(&old)?;
        }
    }
    let out = env.built(&name)?;
    let mut step = env.ui.step(
        &format!("{with}-{}", tree.kernel.version),
        &format!("{what} for {release}"),
    )?;
    let mut args = vec![
        "-C".to_owned(),
        format!("{IN_CHROOT}/build"),
        format!("M={SRC}"),
        format!("MO={OUT}"),
    ];
    args.extend(make_args(&release));
    if clippy {
        args.push("CLIPPY=1".into());
    }
    args.push("modules".into());
    let mut make = env
        .enter(chroot, &out)
        .bind(&tree.path, IN_CHROOT)
        .command("make", &args);
    step.run(&mut make)?;
    if clippy {
        let log = std::fs::read_to_string(step.log_path())?;
        let warnings: Vec<&str> = log.lines().filter(|l| is_warning(l)).collect();
        if !warnings.is_empty() {
            bail!(
                "clippy warns about the modules:\n    {}\n  whole log: {}",
                warnings.join("\n    "),
                step.log_path().display()
            );
        }
    }
    step.done();
    Ok(out)
}

/// A line that begins a compiler's warning.
fn is_warning(line: &str) -> bool {
    line.starts_with("warning:") || line.starts_with("warning[") || line.contains(": warning: ")
}

#[cfg(test)]
mod tests {
    use super::is_warning;

    #[test]
    fn warnings_of_all_compilers_are_seen() {
        assert!(is_warning("warning: unused variable: `x`"));
        assert!(is_warning("/src/knet/c/helpers.c:3:1: warning: unused"));
        assert!(is_warning("vmlinux.o: warning: objtool: falls through"));
        assert!(!is_warning("  RUSTC [M] qdisc/sch_turnstile_main.o"));
        assert!(!is_warning("#warnings: 0"));
    }
}
