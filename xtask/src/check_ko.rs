// SPDX-License-Identifier: GPL-2.0
//! Looks into the built module for what would show only on a user's machine.

use std::path::Path;

use anyhow::{bail, Context, Result};

use crate::chroot::Chroot;
use crate::env::{Env, OUT};
use crate::frames::{self, Frame, Size};
use crate::kernel::KernelTree;

/// Parts of the names of Rust's panic functions, in either mangling. A module that refers to one
/// can stop the kernel.
const PANICS: &[&str] = &[
    "core9panicking",
    "core::panicking",
    "rust_begin_unwind",
    "panic_fmt",
    "panic_bounds_check",
    "panic_const",
    "unwrap_failed",
    "expect_failed",
    "slice_index_order_fail",
    "slice_start_index_len_fail",
    "slice_end_index_len_fail",
    "slice_index_fail",
    "panic_already_borrowed",
];

/// The module's symbols, defined and undefined, hold no Rust panic function.
///
/// # Errors
/// The names of those it holds.
pub(crate) fn no_panic(env: &Env, chroot: &Chroot, module: &Path) -> Result<()> {
    let symbols = tool(env, chroot, module, "llvm-nm", &["--no-sort"])?;
    if symbols.lines().count() < 10 {
        bail!("llvm-nm lists next to no symbols: this is no module");
    }
    let found = panics(&symbols);
    if found.is_empty() {
        return Ok(());
    }
    bail!(
        "it refers to Rust panic functions:\n    {}",
        found.join("\n    ")
    )
}

/// The module names the kernel release it was built for, so that the kernel takes it.
///
/// # Errors
/// What it names instead.
pub(crate) fn vermagic(env: &Env, chroot: &Chroot, tree: &KernelTree, module: &Path) -> Result<()> {
    let magic = tool(env, chroot, module, "modinfo", &["-F", "vermagic"])?;
    let release = &tree.release;
    if magic.split_whitespace().next() == Some(release.as_str()) {
        return Ok(());
    }
    bail!(
        "its vermagic is \"{}\", not that of {release}",
        magic.trim()
    )
}

/// The module says its version, which is the workspace's.
///
/// # Errors
/// What it says instead.
pub(crate) fn version(env: &Env, chroot: &Chroot, module: &Path) -> Result<()> {
    let said = tool(env, chroot, module, "modinfo", &["-F", "version"])?;
    let wanted = env!("CARGO_PKG_VERSION");
    if said.trim() == wanted {
        return Ok(());
    }
    bail!("its version is \"{}\", not {wanted}", said.trim())
}

/// Every symbol that the module takes from the kernel is one that the kernel exports.
///
/// # Errors
/// The names of those it does not.
pub(crate) fn only_exported(
    env: &Env,
    chroot: &Chroot,
    tree: &KernelTree,
    module: &Path,
) -> Result<()> {
    let undefined = tool(
        env,
        chroot,
        module,
        "llvm-nm",
        &["--undefined-only", "--format=just-symbols"],
    )?;
    let exported = std::fs::read_to_string(tree.path.join("build/Module.symvers"))
        .context("no list of the kernel's exported symbols")?;
    let unknown = unknown(&undefined, &exported);
    if unknown.is_empty() {
        return Ok(());
    }
    bail!(
        "the kernel does not export:\n    {}",
        unknown.join("\n    ")
    )
}

/// The most stack that one function may take: a sixteenth of the kernel's 16 KiB, on which
/// syscalls, drivers and interrupts lie on top of each other.
const MAX_FRAME: u64 = 1024;

/// No function of the module takes much stack.
///
/// # Errors
/// The names of those that do, and how much it is.
pub(crate) fn small_frames(env: &Env, chroot: &Chroot, module: &Path) -> Result<()> {
    let args = ["-d", "-r", "--no-show-raw-insn", "--demangle"];
    let disassembly = tool(env, chroot, module, "llvm-objdump", &args)?;
    let large = large_frames(&frames::frames(&disassembly)?);
    if large.is_empty() {
        return Ok(());
    }
    bail!(
        "more than {MAX_FRAME} bytes of stack are taken by\n    {}",
        large.join("\n    ")
    )
}

/// Those that take too much, the largest first.
fn large_frames(frames: &[Frame]) -> Vec<String> {
    let mut large: Vec<(u64, String)> = frames
        .iter()
        .filter_map(|frame| {
            let function = &frame.function;
            match &frame.size {
                Size::Bytes(bytes) if *bytes <= MAX_FRAME => None,
                Size::Bytes(bytes) => Some((*bytes, format!("{bytes} bytes: {function}"))),
                Size::Unbounded(why) => Some((u64::MAX, format!("no bound ({why}): {function}"))),
            }
        })
        .collect();
    large.sort_by(|a, b| b.cmp(a));
    large.into_iter().map(|(_, line)| line).collect()
}

/// No line of `qdisc/`, `kmod/` and knet's examples uses the word `unsafe`, and their roots forbid
/// it.
///
/// # Errors
/// The lines.
pub(crate) fn crates_are_safe(env: &Env) -> Result<()> {
    is_safe(env, "qdisc")?;
    is_safe(env, "knet/examples")?;
    is_safe(env, "kmod")
}

fn is_safe(env: &Env, name: &str) -> Result<()> {
    let mut found = Vec::new();
    let mut forbids = false;
    let mut folders = vec![env.src.join(name)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path)?;
                forbids |= text.contains("#![forbid(unsafe_code)]");
                let shown = path
                    .strip_prefix(&env.src)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                found.extend(unsafe_lines(&text).map(|n| format!("{shown}:{n}")));
            }
        }
    }
    if !forbids {
        bail!("{name}/ does not say #![forbid(unsafe_code)]");
    }
    if !found.is_empty() {
        bail!("unsafe code in {name}/: {}", found.join(", "));
    }
    Ok(())
}

fn tool(env: &Env, chroot: &Chroot, module: &Path, program: &str, args: &[&str]) -> Result<String> {
    let folder = module.parent().context("the module has no folder")?;
    let name = module.file_name().unwrap_or_default().to_string_lossy();
    let file = format!("{OUT}/{name}");
    let args: Vec<&str> = args.iter().copied().chain([file.as_str()]).collect();
    let out = env.enter(chroot, folder).command(program, args).output()?;
    if !out.status.success() {
        bail!(
            "{program} failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn panics(symbols: &str) -> Vec<&str> {
    symbols
        .lines()
        .map(str::trim)
        .filter(|line| PANICS.iter().any(|part| line.contains(part)))
        .collect()
}

fn unknown<'a>(undefined: &'a str, symvers: &str) -> Vec<&'a str> {
    let exported: std::collections::HashSet<&str> = symvers
        .lines()
        .filter_map(|line| line.split('\t').nth(1))
        .collect();
    undefined
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !exported.contains(name))
        .collect()
}

/// Numbers of the lines that use `unsafe` as a word outside a comment.
fn unsafe_lines(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.lines().enumerate().filter_map(|(i, line)| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == "unsafe")
            .then_some(i + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_functions_are_found_in_both_manglings() {
        let nm = "                 U _RNvNtCs3_4core9panicking18panic_bounds_check\n\
                  \x20                U _ZN4core9panicking5panic17h1E\n\
                  \x20                U _RNvNtCs3_4core6option13unwrap_failed\n\
                  0000000000000010 T rust_begin_unwind\n\
                  \x20                U register_qdisc\n\
                  0000000000000020 t panic_on_oops_reader\n";
        assert_eq!(panics(nm).len(), 4);
        assert!(panics("  U kfree_skb\n  U _printk\n").is_empty());
    }

    #[test]
    fn symbols_that_the_kernel_lacks_are_named() {
        let symvers = "0x00000000\tregister_qdisc\tvmlinux\tEXPORT_SYMBOL\t\n\
                       0x0\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n";
        assert_eq!(
            unknown("register_qdisc\nnot_there\n\n", symvers),
            ["not_there"]
        );
    }

    #[test]
    fn large_frames_are_named_with_their_size() {
        let frame = |function: &str, size| Frame {
            function: function.into(),
            size,
        };
        let frames = [
            frame("a", Size::Bytes(1024)),
            frame("b", Size::Bytes(1032)),
            frame("c", Size::Unbounded("subq %rax, %rsp".into())),
            frame("d", Size::Bytes(8152)),
        ];
        assert_eq!(
            large_frames(&frames),
            [
                "no bound (subq %rax, %rsp): c",
                "8152 bytes: d",
                "1032 bytes: b",
            ]
        );
    }

    #[test]
    fn unsafe_counts_as_a_word_of_code_only() {
        let text = "#![forbid(unsafe_code)]\n// unsafe here\nlet not_unsafe = 1;\nunsafe { x() }\n";
        assert_eq!(unsafe_lines(text).collect::<Vec<_>>(), [4]);
    }
}
