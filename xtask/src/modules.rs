// SPDX-License-Identifier: GPL-2.0
//! Compiles the kernel modules with the kernel's own build system.

use std::path::PathBuf;

use anyhow::{bail, Result};

use crate::chroot::Chroot;
use crate::env::{Env, OUT, SRC};
use crate::kernel::{KernelTree, IN_CHROOT};

/// The modules' names: the port and the transport.
pub(crate) const MODULES: [&str; 2] = ["sch_turnstile", "turnstile"];

/// A folder of the checkout that Kbuild makes modules from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// Ours.
    Product,
    /// Those with one planted fault each.
    Faults,
    /// The one that measures.
    Bench,
}

impl Folder {
    /// Below the checkout.
    fn path(self) -> &'static str {
        match self {
            Self::Product => "",
            Self::Faults => "/beds/faults",
            Self::Bench => "/knet/bench",
        }
    }

    /// In names of folders and logs.
    fn name(self) -> &'static str {
        match self {
            Self::Product => "modules",
            Self::Faults => "faults",
            Self::Bench => "bench",
        }
    }
}

/// Compiles the modules for a kernel; returns their files, in the order of [`MODULES`].
///
/// # Errors
/// The compilers' messages, and where the rest of them is.
pub(crate) fn build(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<Vec<PathBuf>> {
    let out = compile(env, chroot, tree, Folder::Product, false)?;
    let modules: Vec<PathBuf> = MODULES
        .iter()
        .map(|name| out.join(format!("{name}.ko")))
        .collect();
    for module in &modules {
        if !module.exists() {
            bail!("the build made no {}", module.display());
        }
    }
    Ok(modules)
}

/// Compiles the modules that each commit a fault; returns their files, by name.
///
/// # Errors
/// As [`build`].
pub(crate) fn faults(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<Vec<PathBuf>> {
    let out = compile(env, chroot, tree, Folder::Faults, false)?;
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(&out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "ko") {
            modules.push(path);
        }
    }
    modules.sort();
    if modules.is_empty() {
        bail!("the build made no module in {}", out.display());
    }
    Ok(modules)
}

/// Compiles the module that measures what a qdisc costs; returns its file.
///
/// # Errors
/// As [`build`].
pub(crate) fn bench(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<PathBuf> {
    let module = compile(env, chroot, tree, Folder::Bench, false)?.join("knet_bench.ko");
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
    for folder in [Folder::Product, Folder::Faults] {
        compile(env, chroot, tree, folder, true)?;
    }
    Ok(())
}

fn compile(
    env: &Env,
    chroot: &Chroot,
    tree: &KernelTree,
    folder: Folder,
    clippy: bool,
) -> Result<PathBuf> {
    let release = &tree.release;
    let with = if clippy {
        format!("clippy-{}", folder.name())
    } else {
        folder.name().to_owned()
    };
    let what = match (folder, clippy) {
        (Folder::Product, false) => "modules",
        (Folder::Product, true) => "clippy over the modules",
        (Folder::Faults, false) => "modules with planted faults",
        (Folder::Faults, true) => "clippy over the modules with planted faults",
        (Folder::Bench, _) => "measuring module",
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
        &format!("{with}-{release}"),
        &format!("{what} for {release}"),
    )?;
    let mut args = vec![
        "-C".to_owned(),
        format!("{IN_CHROOT}/build"),
        format!("M={SRC}{}", folder.path()),
        format!("MO={OUT}"),
    ];
    args.extend(tree.make_args());
    if clippy {
        args.push("CLIPPY=1".into());
    }
    args.push("modules".into());
    let mut make = tree.bind(env.enter(chroot, &out)).command("make", &args);
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
