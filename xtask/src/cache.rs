// SPDX-License-Identifier: GPL-2.0
//! The folder outside the checkout where everything that takes long to make is kept.
//!
//! Each thing lies in a folder whose name holds a hash of what made it, is made under another name
//! and renamed when it is whole. So a folder that exists is complete, an interrupted run leaves
//! only a `.part` folder that the next run removes, and a changed input makes a new folder instead
//! of an outdated answer.
//!
//! ```text
//! chroot-HASH/            Debian with compilers, QEMU and tc
//! kernel-VERSION-HASH/    a kernel: image, modules, build tree
//! checkout-HASH/          what is built from one checkout: modules, programs, run folders
//! logs/                   the output of each set-up step
//! lock, in-use            lock files
//! ```

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use rustix::fs::{flock, FlockOperation};
use sha2::{Digest, Sha256};

/// The environment variable that names another cache folder.
pub(crate) const CACHE_ENV: &str = "TURNSTILE_CACHE";

/// Bytes in a gigabyte.
pub(crate) const GB: u64 = 1_000_000_000;

/// The cache folder, held open against `clean` by other runs.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    _in_use: File,
}

impl Cache {
    /// Opens the cache folder, making it if need be.
    ///
    /// # Errors
    /// It cannot be made or written to; the text names the folder and [`CACHE_ENV`].
    pub(crate) fn open() -> Result<Self> {
        let root = root_folder()?;
        let hint = || {
            format!(
                "cannot use the cache folder {}; set {CACHE_ENV} to one that can be written to",
                root.display()
            )
        };
        fs::create_dir_all(root.join("logs")).with_context(hint)?;
        let root = root.canonicalize().with_context(hint)?;
        let in_use = lock_file(&root, "in-use").with_context(hint)?;
        flock(&in_use, FlockOperation::LockShared).with_context(hint)?;
        Ok(Self {
            root,
            _in_use: in_use,
        })
    }

    /// Its path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the steps' logs go.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Waits for its turn to set up and build; other runs wait until the returned guard is dropped.
    ///
    /// # Errors
    /// The lock file cannot be used.
    pub(crate) fn lock(&self, waiting: impl FnOnce()) -> Result<SetupLock> {
        let file = lock_file(&self.root, "lock")?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            waiting();
            flock(&file, FlockOperation::LockExclusive).context("cannot lock the cache folder")?;
        }
        Ok(SetupLock { _file: file })
    }

    /// The folder `NAME-KEY`, made by `make` unless it is there already. `make` fills an empty
    /// folder given to it.
    ///
    /// # Errors
    /// Those of `make`, and of the file system; nothing half-made is left under the final name.
    pub(crate) fn folder(
        &self,
        name: &str,
        key: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let done = self.path_of(name, key);
        if done.exists() {
            return Ok(done);
        }
        let part = self.root.join(format!("{name}-{key}.part"));
        if part.exists() {
            remove_tree(&part)?;
        }
        fs::create_dir(&part).with_context(|| format!("cannot make {}", part.display()))?;
        make(&part)?;
        fs::rename(&part, &done).with_context(|| format!("cannot rename {}", part.display()))?;
        Ok(done)
    }

    /// Says in time that the disk will be full.
    ///
    /// # Errors
    /// There are fewer than `wanted` bytes free; the text names the folder and [`CACHE_ENV`].
    pub(crate) fn check_space(&self, wanted: u64) -> Result<()> {
        let disk = rustix::fs::statvfs(&self.root).context("cannot ask for the free space")?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < wanted {
            bail!(
                "{} GB free in {}, {} GB needed; set {CACHE_ENV} to a folder with more",
                free / GB,
                self.root.display(),
                wanted / GB
            );
        }
        Ok(())
    }

    /// Where the folder `NAME-KEY` is, or will be.
    pub(crate) fn path_of(&self, name: &str, key: &str) -> PathBuf {
        self.root.join(format!("{name}-{key}"))
    }

    /// What is built from the checkout at `src`. The path is part of the name, because cargo and
    /// make compare times of files and would take another checkout's older file for built.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn checkout(&self, src: &Path) -> Result<PathBuf> {
        let key = key([src.as_os_str().as_encoded_bytes()]);
        let path = self.root.join(format!("checkout-{key}"));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}

/// Held while something in the cache is being made.
#[derive(Debug)]
pub(crate) struct SetupLock {
    _file: File,
}

/// Removes the whole cache folder. Returns its path and whether there was one.
///
/// # Errors
/// Another run is using it, something is still mounted in it, or it cannot be removed.
pub(crate) fn remove_all() -> Result<(PathBuf, bool)> {
    let root = root_folder()?;
    if !root.exists() {
        return Ok((root, false));
    }
    let in_use = lock_file(&root, "in-use")?;
    if flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another xtask is using {}", root.display());
    }
    remove_tree(&root)?;
    Ok((root, true))
}

/// Removes a folder and all in it, unless something is mounted there: a chroot may have the
/// machine's own files bound into it, which must never be removed with it.
///
/// # Errors
/// A mount, or the file system's errors.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mount) = mount_below(&mounts, path) {
        bail!("not removing {}: {mount} is mounted there", path.display());
    }
    fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// The first mount point at or below `path`, of a `mountinfo` text.
fn mount_below(mountinfo: &str, path: &Path) -> Option<String> {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| point.replace("\\040", " "))
        .find(|point| Path::new(point).starts_with(path))
}

/// The first 12 hex digits of the SHA-256 of the parts, each with its length so that no two lists
/// share a hash.
pub(crate) fn key<I, P>(parts: I) -> String
where
    I: IntoIterator<Item = P>,
    P: AsRef<[u8]>,
{
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut hex = String::new();
    for byte in hash.finalize().iter().take(6) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Writes a file so that a reader sees the old content or the new, never a part.
///
/// # Errors
/// The file system's.
pub(crate) fn write_whole(path: &Path, data: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, data)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn root_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    pick_root(
        set(CACHE_ENV).as_deref(),
        set("XDG_CACHE_HOME").as_deref(),
        set("HOME").as_deref(),
    )
    .ok_or_else(|| anyhow!("neither HOME nor XDG_CACHE_HOME is set; set {CACHE_ENV} to a folder"))
}

fn pick_root(own: Option<&OsStr>, xdg: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    // The XDG specification: a path that is not absolute is to be ignored.
    let absolute = |p: &OsStr| Some(PathBuf::from(p)).filter(|p| p.is_absolute());
    own.map(PathBuf::from)
        .or_else(|| xdg.and_then(absolute).map(|p| p.join("turnstile")))
        .or_else(|| home.map(|p| Path::new(p).join(".cache/turnstile")))
}

fn lock_file(root: &Path, name: &str) -> Result<File> {
    let path = root.join(name);
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_lists_apart() {
        assert_eq!(key(["a", "b"]), key(["a", "b"]));
        assert_ne!(key(["a", "b"]), key(["ab"]));
        assert_ne!(key(["ab", ""]), key(["", "ab"]));
        assert_eq!(key(["x"]).len(), 12);
    }

    #[test]
    fn the_cache_is_outside_the_checkout() {
        let os = |s: &'static str| Some(OsStr::new(s));
        assert_eq!(pick_root(os("/c"), os("/x"), os("/h")), Some("/c".into()));
        assert_eq!(
            pick_root(None, os("/x"), os("/h")),
            Some("/x/turnstile".into())
        );
        assert_eq!(
            pick_root(None, os("relative"), os("/h")),
            Some("/h/.cache/turnstile".into())
        );
        assert_eq!(pick_root(None, None, None), None);
    }

    #[test]
    fn mounts_are_found_by_whole_path_components() {
        let text =
            "36 35 98:0 / /cache/a\\040b/proc rw - proc proc rw\n37 35 98:0 / /other rw - x x rw\n";
        assert_eq!(
            mount_below(text, Path::new("/cache/a b")).as_deref(),
            Some("/cache/a b/proc")
        );
        assert_eq!(mount_below(text, Path::new("/cache/a")), None);
    }

    #[test]
    fn a_failed_step_leaves_nothing_under_the_final_name() {
        let root = std::env::temp_dir().join(format!("xtask-cache-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let cache = Cache {
            _in_use: lock_file(&root, "in-use").unwrap(),
            root: root.clone(),
        };
        let failed = cache.folder("thing", "1", |part| {
            fs::write(part.join("half"), "x")?;
            bail!("interrupted")
        });
        assert!(failed.is_err());
        assert!(!cache.path_of("thing", "1").exists());
        let made = cache
            .folder("thing", "1", |part| Ok(fs::write(part.join("whole"), "x")?))
            .unwrap();
        assert!(made.join("whole").exists() && !made.join("half").exists());
        // What is there is not made again.
        cache.folder("thing", "1", |_| bail!("made twice")).unwrap();
        fs::remove_dir_all(&root).unwrap();
    }
}
