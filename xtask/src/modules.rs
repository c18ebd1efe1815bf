// SPDX-License-Identifier: GPL-2.0
//! Compiles the kernel modules with the kernel's own build system.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use crate::chroot::Chroot;
use crate::env::{Env, OUT, SRC};
use crate::kernel::{KernelTree, IN_CHROOT};

/// The modules' names: the port and the transport.
pub(crate) const MODULES: [&str; 2] = ["sch_turnstile", "turnstile"];
/// Modules of the same build that only tests load: the example of knet's documentation, and one
/// that does its worst in safe code.
const EXAMPLES: [&str; 2] = ["knet_fifo", "knet_hostile"];
/// Modules that must not compile, each with what the compiler has to say of it.
const UNSOUND: &str = "beds/faults/unsound";

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
    made(&out, &MODULES)
}

/// The modules that [`build`] has made beside ours, for tests.
///
/// # Errors
/// One is missing.
pub(crate) fn examples(env: &Env, tree: &KernelTree) -> Result<Vec<PathBuf>> {
    made(
        &env.built(&out_name(Folder::Product.name(), tree))?,
        &EXAMPLES,
    )
}

fn made(out: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let modules: Vec<PathBuf> = names
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

/// Gives each of the modules that must not compile to the compiler, as [`build`] has called it for
/// the example; what came of it, by name.
///
/// # Errors
/// The compiler cannot be called.
pub(crate) fn unsound(
    env: &Env,
    chroot: &Chroot,
    tree: &KernelTree,
) -> Result<Vec<(String, Result<()>)>> {
    /// Without the outputs and the name of the example, or of the transport for what is above that,
    /// and with the lint that forbids unsafe code.
    const COMPILE: &str = r#"
cd /out
made=knet/examples/.fifo.o.cmd
case $1 in transport_*) made=kmod/.turnstile_main.o.cmd ;; esac
command=$(sed -n 's/^savedcmd_[^ ]* := //p' $made |
    sed 's/ --out-dir .*//; s/--crate-name [a-z]*//')
export RUSTC_BOOTSTRAP=1
eval "$command --crate-name $1 --emit=metadata=/tmp/$1.rmeta -Amissing_docs -Funsafe_code $2"
"#;
    let out = env.built(&out_name(Folder::Product.name(), tree))?;
    let mut results = Vec::new();
    for entry in std::fs::read_dir(env.src.join(UNSOUND))? {
        let path = entry?.path();
        if path.extension().is_none_or(|ext| ext != "rs") {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let source = format!("{SRC}/{UNSOUND}/{name}.rs");
        let mut command = tree
            .bind(env.enter(chroot, &out))
            .script(COMPILE, [name.as_str(), &source]);
        let compiled = command.output().context("cannot call the compiler")?;
        let said = String::from_utf8_lossy(&compiled.stderr);
        let text = std::fs::read_to_string(&path)?;
        results.push((name, refused(&text, compiled.status.success(), &said)));
    }
    results.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(results)
}

/// Whether the compiler did with a module of this `text` what that says.
fn refused(text: &str, compiled: bool, said: &str) -> Result<()> {
    let wanted = text.lines().find_map(|line| {
        let line = line.strip_prefix("//! ")?;
        match line.strip_prefix("Refused: ") {
            Some(why) => Some(Some(why)),
            None => (line == "Compiles").then_some(None),
        }
    });
    match wanted {
        None => bail!("its head does not say what the compiler should say"),
        Some(None) if compiled => Ok(()),
        Some(Some(why)) if !compiled && said.contains(why) => Ok(()),
        Some(Some(_)) if compiled => bail!("it compiles"),
        Some(_) => bail!("the compiler says:\n{}", said.trim()),
    }
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

/// The name of the folder that a build goes to.
fn out_name(what: &str, tree: &KernelTree) -> String {
    format!("{what}-{}-{}", tree.release, tree.key())
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
    // The tree's key is in the name: make does not notice another compiler or other headers by
    // itself.
    let name = out_name(&with, tree);
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
    if folder == Folder::Product {
        args.push("KNET_EXAMPLES=1".into());
    }
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
    use super::{is_warning, refused};

    #[test]
    fn a_module_is_refused_for_the_reason_that_it_gives() {
        let text = "// head\n//! Refused: error[E0499]: cannot borrow\n";
        assert!(refused(text, false, "x\nerror[E0499]: cannot borrow `a`").is_ok());
        assert!(refused(text, false, "error[E0433]: no crate").is_err());
        assert!(refused(text, true, "").is_err());
        assert!(refused("//! Compiles\n", true, "").is_ok());
        assert!(refused("//! Compiles\n", false, "error").is_err());
        assert!(refused("", false, "error").is_err());
    }

    #[test]
    fn warnings_of_all_compilers_are_seen() {
        assert!(is_warning("warning: unused variable: `x`"));
        assert!(is_warning(
            "/src/knet/qdisc/c/helpers.c:3:1: warning: unused"
        ));
        assert!(is_warning("vmlinux.o: warning: objtool: falls through"));
        assert!(!is_warning("  RUSTC [M] qdisc/sch_turnstile_main.o"));
        assert!(!is_warning("#warnings: 0"));
    }
}
