// SPDX-License-Identifier: GPL-2.0
//! Copies of the checkout to put faults into.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What lies in the checkout and no test needs, at its root; and what a copy has of its own.
const LEFT_OUT: &[&str] = &["target", "out", ".git", "mutants.out"];

/// Makes `copy` the same as the checkout, whatever became of it. A file that is the same already
/// keeps its time, so that what was compiled from it stays.
pub(super) fn refresh(checkout: &Path, copy: &Path) -> Result<PathBuf> {
    same(checkout, copy, true)
        .with_context(|| format!("copying the checkout to {}", copy.display()))?;
    Ok(copy.to_owned())
}

fn same(from: &Path, to: &Path, is_root: bool) -> Result<()> {
    fs::create_dir_all(to)?;
    let is_left_out =
        |name: &std::ffi::OsStr| is_root && LEFT_OUT.iter().any(|left_out| name == *left_out);
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if is_left_out(&entry.file_name()) || from.join(entry.file_name()).exists() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let (old, new) = (entry.path(), to.join(&name));
        if is_left_out(&name) {
            continue;
        }
        if kind.is_dir() {
            same(&old, &new, false)?;
        } else if kind.is_file() {
            let bytes = fs::read(&old)?;
            if fs::read(&new).ok().as_ref() != Some(&bytes) {
                fs::write(&new, bytes)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_becomes_what_the_checkout_is_and_keeps_what_it_compiled() {
        let root = std::env::temp_dir().join(format!("xtask-copy-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        let put = |folder: &Path, name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(&from, "a/one.rs", "one");
        put(&from, "a/two.rs", "two");
        put(&from, "target/x", "not this");
        refresh(&from, &to).unwrap();
        assert!(!to.join("target").exists());
        let time = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = time("a/one.rs");
        // A fault that was left, a file that went, and something compiled.
        put(&to, "a/two.rs", "a fault");
        put(&to, "b/gone.rs", "gone");
        put(&to, "target/y", "compiled");
        refresh(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/two.rs")).unwrap(), "two");
        assert!(!to.join("b").exists() && to.join("target/y").exists());
        assert_eq!(time("a/one.rs"), before);
        fs::remove_dir_all(root).unwrap();
    }
}
