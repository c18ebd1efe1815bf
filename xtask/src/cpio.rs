// SPDX-License-Identifier: GPL-2.0
//! Writes the archive format that the kernel unpacks as its first file system: cpio "newc".
//!
//! Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's source. Archives may
//! follow each other in one file, and a later file replaces an earlier one of the same name.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

/// An archive being written. All files belong to root and have no times, so that equal content
/// gives equal bytes.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// An empty archive.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a file with all folders above it. `mode`: permission bits.
    pub(crate) fn file(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.parents(name);
        self.entry(name, S_IFREG | (mode & 0o7777), data);
    }

    /// Adds a copy of the machine's file `source`, executable or not as it is.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn copy(&mut self, name: &str, source: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let read = || -> std::io::Result<(Vec<u8>, u32)> {
            let mode = std::fs::metadata(source)?.permissions().mode();
            Ok((std::fs::read(source)?, mode))
        };
        let (data, mode) = read().with_context(|| format!("cannot read {}", source.display()))?;
        self.file(name, if mode & 0o100 == 0 { 0o644 } else { 0o755 }, &data);
        Ok(())
    }

    /// Adds the files of a folder and those below it.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn copy_tree(&mut self, name: &str, source: &Path) -> Result<()> {
        self.folder(name);
        let entries = std::fs::read_dir(source)
            .with_context(|| format!("cannot read {}", source.display()))?;
        let mut paths: Vec<_> = entries
            .map(|e| e.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let base = path.file_name().unwrap_or_default().to_string_lossy();
            let inner = format!("{name}/{base}");
            if path.is_dir() {
                self.copy_tree(&inner, &path)?;
            } else {
                self.copy(&inner, &path)?;
            }
        }
        Ok(())
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, name: &str, target: &str) {
        self.parents(name);
        self.entry(name, S_IFLNK | 0o777, target.as_bytes());
    }

    /// Adds a folder with all folders above it, once.
    pub(crate) fn folder(&mut self, name: &str) {
        if self.folders.contains(name) {
            return;
        }
        self.parents(name);
        self.folders.insert(name.to_owned());
        self.entry(name, S_IFDIR | 0o755, &[]);
    }

    /// Adds a symbolic link to a folder, which then counts as one.
    pub(crate) fn folder_link(&mut self, name: &str, target: &str) {
        self.link(name, target);
        self.folders.insert(name.to_owned());
    }

    /// The archive's bytes, padded so that another may follow.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        let padded = self.bytes.len().next_multiple_of(512);
        self.bytes.resize(padded, 0);
        self.bytes
    }

    fn parents(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        let links = if mode & S_IFDIR == S_IFDIR { 2 } else { 1 };
        // No file of a guest comes near 4 GiB.
        let fields = [
            self.inode,
            mode,
            0,
            0,
            links,
            0,
            u32::try_from(data.len()).unwrap_or(u32::MAX),
            0,
            0,
            0,
            0,
            u32::try_from(name.len() + 1).unwrap_or(u32::MAX),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |i: usize| {
                let hex = std::str::from_utf8(&bytes[6 + 8 * i..14 + 8 * i]).unwrap();
                u32::from_str_radix(hex, 16).unwrap()
            };
            let (mode, size, len) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[110..110 + len - 1].to_vec()).unwrap();
            let data_at = (110 + len).next_multiple_of(4);
            let data = bytes[data_at..data_at + size].to_vec();
            if name == "TRAILER!!!" {
                return found;
            }
            found.push((name, mode, data));
            bytes = &bytes[(data_at + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn an_archive_reads_back_with_its_folders_first() {
        let mut archive = Archive::new();
        archive.file("a/b/one", 0o755, b"12345");
        archive.file("a/b/two", 0o644, b"");
        archive.folder_link("lib", "a/b");
        archive.file("lib/three", 0o600, b"x");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let list = names(&bytes);
        let only: Vec<_> = list.iter().map(|(n, m, _)| (n.as_str(), *m)).collect();
        assert_eq!(
            only,
            [
                ("a", 0o040_755),
                ("a/b", 0o040_755),
                ("a/b/one", 0o100_755),
                ("a/b/two", 0o100_644),
                ("lib", 0o120_777),
                ("lib/three", 0o100_600),
            ]
        );
        assert_eq!(list[2].2, b"12345");
        assert_eq!(list[4].2, b"a/b");
    }
}
